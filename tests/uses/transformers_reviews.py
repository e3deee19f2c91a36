"""Sentiment of reviews with transformers' Trainer; each text is cut into tokens when it is asked for."""

import random
import re
import tempfile
from collections import Counter

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import tally

WORDS = ["the", "movie", "was", "great", "plot", "acting", "boring", "terrible", "wonderful", "scenes", "never", "always", "ending", "director", "music", "really"]


class Reviews(Dataset):
    def __init__(self, count, length=64):
        draw = random.Random(7)
        self.texts = [" ".join(draw.choices(WORDS, k=1500)) + "!!" for _ in range(count)]
        self.length = length
        self.vocabulary = {word: number for number, word in enumerate(WORDS, 5)}

    def __len__(self):
        return 1_000_000

    def tokenize(self, text):
        text = re.sub(r"[^a-z' ]", " ", text.lower())
        counts = Counter(text[at : at + 3] for at in range(len(text) - 2))
        pieces = sorted(text.split(), key=lambda word: (-counts[word[:3]], word))
        ids = [self.vocabulary.get(word, 1) for word in pieces][: self.length]
        return ids + [0] * (self.length - len(ids))

    def __getitem__(self, index):
        with tally.part("loading"):
            ids = self.tokenize(self.texts[index % len(self.texts)])
            return {"input_ids": torch.tensor(ids), "labels": index % 2}


class Progress(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        tally.units()


def main():
    torch.set_num_threads(1)
    config = BertConfig(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=32,
        max_steps=1_000_000,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        dataloader_num_workers=2 if tally.fixed else 0,
        dataloader_persistent_workers=tally.fixed,
    )
    trainer = Trainer(BertForSequenceClassification(config), args, train_dataset=Reviews(2000), callbacks=[Progress()])
    trainer.train()


if __name__ == "__main__":
    main()
