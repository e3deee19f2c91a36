"""Captions for images in plain torch; a thread of its own prepares the next batches."""

import queue
import random
import threading

import torch
from torch import nn

import tally


class BatchMaker(threading.Thread):
    def __init__(self, size=32):
        super().__init__(daemon=True)
        self.size = size
        self.ready = queue.Queue(maxsize=4)
        draw = random.Random(5)
        self.captions = ["".join(draw.choices("abcdefgh ", k=400)) for _ in range(500)]

    def encode(self, caption):
        """Byte pairs, the most frequent one merged first."""
        pieces = list(caption)
        for _ in range(6):
            counts = {}
            for pair in zip(pieces, pieces[1:]):
                counts[pair] = counts.get(pair, 0) + 1
            best = max(counts, key=counts.get)
            merged, at = [], 0
            while at < len(pieces):
                if tuple(pieces[at : at + 2]) == best:
                    merged.append(pieces[at] + pieces[at + 1])
                    at += 2
                else:
                    merged.append(pieces[at])
                    at += 1
            pieces = merged
        return [hash(piece) % 1000 for piece in pieces[:64]] + [0] * max(0, 64 - len(pieces))

    def run(self):
        while True:
            chosen = random.sample(self.captions, self.size)
            self.ready.put(torch.tensor([self.encode(caption) for caption in chosen]))


def main():
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Embedding(1000, 32), nn.Flatten(), nn.Linear(64 * 32, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    maker = BatchMaker()
    maker.start()
    while True:
        with tally.part("waiting"):
            tokens = maker.ready.get()
        loss = model(tokens).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.units()


if __name__ == "__main__":
    main()
