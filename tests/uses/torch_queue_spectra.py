"""Spectra of signals in plain torch; a thread computes the next batch while the model trains on this one."""

import threading
from queue import Queue

import numpy as np
import torch
from torch import nn

import tally

torch.set_num_threads(1)
signals = np.random.default_rng(0).normal(size=(90, 1 << 16))


def produce(out):
    while True:
        power = np.abs(np.fft.rfft(signals)) ** 2
        out.put(torch.from_numpy(np.log1p(power[:, :8192]).astype(np.float32)))


batches = Queue(maxsize=8)
threading.Thread(target=produce, args=(batches,), daemon=True).start()

model = nn.Sequential(nn.Linear(8192, 192), nn.ReLU(), nn.Linear(192, 32))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
while True:
    with tally.part("waiting"):
        spectra = batches.get()
    for noise in (0.0, 0.1):
        loss = model(spectra + noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.units()
