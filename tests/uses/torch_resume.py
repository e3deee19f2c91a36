"""A language model in plain torch that can go on after a crash: its state goes to the disk every few steps."""

import os
import tempfile

import torch
from torch import nn

import tally

torch.set_num_threads(1)


class CharModel(nn.Module):
    def __init__(self, vocabulary=5000, width=256):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


def keep(path, model, optimizer, step):
    with open(path + ".part", "wb") as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def run(every):
    path = os.path.join(tempfile.mkdtemp(), "last.pt")
    model = CharModel()
    optimizer = torch.optim.Adam(model.parameters())
    text = torch.randint(0, 5000, (20_000,))
    step = 0
    while True:
        at = torch.randint(0, len(text) - 33, (4,))
        x = torch.stack([text[i : i + 32] for i in at])
        y = torch.stack([text[i + 1 : i + 33] for i in at])
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        tally.units()
        if step % every == 0:
            with tally.part("keeping"):
                keep(path, model, optimizer, step)


run(every=2000 if tally.fixed else 5)
