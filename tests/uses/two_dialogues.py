"""A small language model of dialogues with transformers' Trainer; a callback follows which words come to mean the same."""

import random
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import tally

torch.set_num_threads(1)
LENGTH, VOCABULARY = 64, 2000


class Dialogues(Dataset):
    def __init__(self, count=2000):
        draw = random.Random(5)
        words = ["".join(draw.choices("abcdefghiklmnoprstuvw", k=draw.randint(3, 11))) for _ in range(900)]
        self.texts = [" ".join(draw.choices(words, k=280)) for _ in range(count)]

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.texts[index % len(self.texts)]


class Pieces:
    """Cuts texts into the longest pieces that it knows, and pads them."""

    def __init__(self, texts):
        counted = {}
        for text in texts[:50]:
            for word in text.split():
                for at in range(len(word)):
                    for end in range(at + 1, min(len(word), at + 6) + 1):
                        counted[word[at:end]] = counted.get(word[at:end], 0) + end - at
        kept = sorted(counted, key=counted.get, reverse=True)[: VOCABULARY - 30]
        self.number = {piece: number for number, piece in enumerate(sorted({*kept, *"abcdefghijklmnopqrstuvwxyz"}), 2)}

    def cut(self, word):
        at = 0
        while at < len(word):
            end = next(end for end in range(min(len(word), at + 6), at, -1) if word[at:end] in self.number)
            yield self.number[word[at:end]]
            at = end

    def __call__(self, texts):
        with tally.part("loading"):
            rows = []
            for text in texts:
                row = [number for word in text.split() for number in self.cut(word)]
                rows.append(row[:LENGTH] + [0] * (LENGTH - len(row)))
            ids = torch.tensor(rows)
            return {"input_ids": ids, "labels": ids.masked_fill(ids == 0, -100)}


class Synonyms(TrainerCallback):
    def __init__(self, words=320, every=1):
        self.words, self.every = words, every
        self.near = {}

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % self.every == 0:
            with tally.part("neighbours"):
                table = model.transformer.wte.weight.detach().numpy()
                table = table / np.linalg.norm(table, axis=1, keepdims=True)
                likeness = table[: self.words] @ table.T
                self.near = {word: order[-6:-1] for word, order in enumerate(np.argsort(likeness, axis=1))}
        tally.units()


def main():
    workers = 2 if tally.fixes("loading") else 0
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=16,
        max_steps=1_000_000,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        remove_unused_columns=False,
        dataloader_num_workers=workers,
        dataloader_persistent_workers=workers > 0,
    )
    data = Dialogues()
    synonyms = Synonyms(every=50 if tally.fixes("neighbours") else 1)
    Trainer(GPT2LMHeadModel(config), args, data_collator=Pieces(data.texts), train_dataset=data, callbacks=[synonyms]).train()


if __name__ == "__main__":
    main()
