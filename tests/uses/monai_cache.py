"""Classifies scans with MONAI; the first transforms always give the same, so CacheDataset can keep what they make."""

import numpy as np
import torch
from monai.data import CacheDataset, DataLoader
from monai.networks.nets import DenseNet121
from monai.transforms import Compose, GaussianSmooth, Lambdad, MedianSmooth, RandAdjustContrastd, Resized, ScaleIntensityd

import tally

torch.set_num_threads(1)
smooth, median = GaussianSmooth(2.0), MedianSmooth(1)


def denoise(scan):
    with tally.part("denoising"):
        return smooth(median(scan))


scans = [
    {"scan": np.random.default_rng(number).random((1, 160, 160)).astype(np.float32), "label": number % 2} for number in range(80)
]
transforms = Compose(
    [
        ScaleIntensityd("scan"),
        Lambdad("scan", denoise),
        Resized("scan", (32, 32)),
        RandAdjustContrastd("scan", prob=0.3),
    ]
)
data = CacheDataset(scans, transforms, cache_rate=1.0 if tally.fixed else 0.1, num_workers=1, progress=False)
loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=0)
net = DenseNet121(spatial_dims=2, in_channels=1, out_channels=2, init_features=8, growth_rate=4, block_config=(2, 2))
optimizer = torch.optim.Adam(net.parameters(), 1e-4)
for _ in range(100_000):
    net.train()
    for batch in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(batch["scan"]), batch["label"])
        loss.backward()
        optimizer.step()
        tally.units()
