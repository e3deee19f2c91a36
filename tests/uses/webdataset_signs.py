"""Road signs from tar files with WebDataset and its WebLoader."""

import io
import tempfile

import numpy as np
import torch
import webdataset as wds
from PIL import Image
from torch import nn

import tally


def write_shards(folder, shards=2, samples=40):
    for shard in range(shards):
        with wds.TarWriter(f"{folder}/signs-{shard:04}.tar", encoder=False) as sink:
            for number in range(samples):
                noise = np.random.default_rng(number).integers(0, 255, (30, 40, 3), dtype=np.uint8)
                content = io.BytesIO()
                Image.fromarray(noise).resize((320, 240), Image.Resampling.BICUBIC).save(content, "PNG", compress_level=1)
                sink.write({"__key__": f"{shard}-{number}", "png": content.getvalue(), "cls": str(number % 10).encode()})
    return f"{folder}/signs-{{0000..{shards - 1:04}}}.tar"


def small(sample):
    image, label = sample
    return torch.from_numpy(np.asarray(image.resize((48, 48))).copy()).permute(2, 0, 1) / 255, int(label)


def main():
    torch.set_num_threads(1)
    urls = write_shards(tempfile.mkdtemp())
    data = wds.WebDataset(urls, resampled=True, shardshuffle=False).shuffle(20).decode("pil").to_tuple("png", "cls").map(small).batched(16)
    loader = wds.WebLoader(data, batch_size=None, num_workers=2 if tally.fixed else 1)
    model = nn.Sequential(nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(loader)
    while True:
        with tally.part("waiting"):
            images, labels = next(batches)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.units()


if __name__ == "__main__":
    main()
