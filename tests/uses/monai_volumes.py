"""Segments organs in volumes with MONAI: a cached data set, random transforms, and its threaded loader."""

import numpy as np
import torch
from monai.data import CacheDataset, ThreadDataLoader
from monai.networks.nets import UNet
from monai.transforms import Compose, EnsureTyped, MapTransform, RandFlipd, Randomizable, ScaleIntensityd

import tally


class RandNoiseField(Randomizable, MapTransform):
    """Multiplies a volume by a smooth field, as the coil of a scanner does."""

    def __init__(self, keys, coefficients=40):
        super().__init__(keys)
        self.coefficients = coefficients

    def randomize(self):
        self.waves = self.R.uniform(0.5, 4, (self.coefficients, 4))

    def __call__(self, data):
        self.randomize()
        for key in self.keys:
            volume = data[key]
            axes = np.meshgrid(*(np.linspace(0, 3, size) for size in volume.shape[1:]), indexing="ij")
            field = np.ones(volume.shape[1:])
            for x, y, z, phase in self.waves:
                field += 0.01 * np.sin(x * axes[0] + y * axes[1] + z * axes[2] + phase)
            data[key] = volume * torch.from_numpy(field.astype(np.float32))
        return data


def main():
    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    items = []
    for _ in range(16):
        volume = draw.random((1, 48, 48, 48)).astype(np.float32)
        items.append({"image": volume, "label": (volume > 0.5).astype(np.float32)})
    transforms = Compose(
        [ScaleIntensityd("image"), EnsureTyped(["image", "label"]), RandNoiseField(["image"]), RandFlipd(["image", "label"], prob=0.5)]
    )
    data = CacheDataset(items, transforms, cache_rate=1.0, progress=False)
    loader = ThreadDataLoader(data, batch_size=2, shuffle=True, num_workers=0, buffer_size=2)
    net = torch.nn.Sequential(torch.nn.AvgPool3d(4), UNet(spatial_dims=3, in_channels=1, out_channels=1, channels=(4, 8), strides=(2,)), torch.nn.Upsample(scale_factor=4))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    while True:
        batches = iter(loader)
        while True:
            with tally.part("waiting"):
                batch = next(batches, None)
            if batch is None:
                break
            optimizer.zero_grad()
            loss = (net(batch["image"]) - batch["label"]).square().mean()
            loss.backward()
            optimizer.step()
            tally.units()


if __name__ == "__main__":
    main()
