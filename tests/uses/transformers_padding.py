"""Masked language model of log lines; they are cut and masked while a batch is put together."""

import random
import re
import tempfile
import zlib

import torch
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments

import tally

torch.set_num_threads(1)
LENGTH, MASK = 32, 3
PIECE = re.compile(r"[a-z]+|\d|[^a-z\d\s]")


class Lines(torch.utils.data.Dataset):
    def __init__(self):
        draw = random.Random(3)
        words = ["error", "warning", "failed", "connection", "timeout", "user", "login", "disk-full", "retry:", "/var/log/app.py", "worker"]
        self.lines = [" ".join(f"{draw.choice(words)}[{draw.randrange(9999)}]" for _ in range(500)) for _ in range(400)]

    def __len__(self):
        return 500_000

    def __getitem__(self, index):
        return self.lines[index % len(self.lines)]


def mask_whole_words(lines):
    """Cuts lines into pieces and masks 15% of the words with all of their pieces."""
    rows, labels = [], []
    for line in lines:
        row, label = [], []
        for word in line.split():
            chosen = random.random() < 0.15
            for piece in PIECE.findall(word):
                number = 5 + zlib.crc32(piece.encode()) % 500
                row.append(MASK if chosen else number)
                label.append(number if chosen else -100)
        rows.append((row + [0] * LENGTH)[:LENGTH])
        labels.append((label + [-100] * LENGTH)[:LENGTH])
    return {"input_ids": torch.tensor(rows), "labels": torch.tensor(labels)}


class Clock(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.waiting = tally.part("waiting")
        self.waiting.__enter__()

    def on_step_begin(self, args, state, control, **kwargs):
        self.waiting.__exit__(None, None, None)

    def on_step_end(self, args, state, control, **kwargs):
        tally.units()
        self.on_train_begin(args, state, control)


config = BertConfig(vocab_size=512, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
args = TrainingArguments(
    tempfile.mkdtemp(), per_device_train_batch_size=32, num_train_epochs=100, save_strategy="no", report_to=[], use_cpu=True,
    dataloader_num_workers=1, dataloader_persistent_workers=True, remove_unused_columns=False,
)
Trainer(BertForMaskedLM(config), args, data_collator=mask_whole_words, train_dataset=Lines(), callbacks=[Clock()]).train()
