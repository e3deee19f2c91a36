"""A translation model trained with transformers' Trainer; a callback follows how well it does."""

import tempfile
from collections import Counter

import torch
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainerCallback, TrainingArguments

import tally

LINES = 512


class Pairs(torch.utils.data.Dataset):
    def __init__(self):
        self.source = torch.randint(2, 200, (LINES, 24))

    def __len__(self):
        return LINES

    def __getitem__(self, index):
        return {"input_ids": self.source[index], "labels": self.source[index].flip(0)}


def ngrams(tokens, n):
    return Counter(tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1))


def bleu(candidates, references):
    total = 0.0
    for candidate, reference in zip(candidates, references):
        for n in (1, 2, 3, 4):
            ours, theirs = ngrams(candidate, n), ngrams(reference, n)
            total += sum(min(count, theirs[gram]) for gram, count in ours.items()) / max(1, sum(ours.values()))
    return total / len(candidates)


class Quality(TrainerCallback):
    def __init__(self, pairs):
        self.references = pairs.source.flip(1).tolist()
        self.guesses = pairs.source.roll(1, 1).tolist()

    def on_step_end(self, args, state, control, **kwargs):
        if not tally.fixed or state.global_step % 50 == 0:
            with tally.part("metrics"):
                self.last = bleu(self.guesses, self.references)
        tally.units()


def main():
    torch.set_num_threads(1)
    model = T5ForConditionalGeneration(T5Config(vocab_size=200, d_model=32, d_ff=64, d_kv=16, num_layers=1, num_heads=2, decoder_start_token_id=0))
    args = TrainingArguments(
        tempfile.mkdtemp(), per_device_train_batch_size=32, num_train_epochs=9999, save_strategy="no", report_to="none", use_cpu=True
    )
    pairs = Pairs()
    Trainer(model, args, train_dataset=pairs, callbacks=[Quality(pairs)]).train()


if __name__ == "__main__":
    main()
