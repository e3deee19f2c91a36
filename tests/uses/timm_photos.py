"""Trains a small network of timm on photos in a folder, with a data set of its own as in its examples."""

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np
import timm
import timm.optim
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset

import tally


class Photos(Dataset):
    def __init__(self, root, size):
        self.files, self.size = sorted(Path(root).glob("*.jpg")), size

    def __len__(self):
        return 100_000

    def transform(self, image):
        left, top = random.randrange(image.width // 2), random.randrange(image.height // 2)
        image = image.crop((left, top, left + image.width // 2, top + image.height // 2)).resize((self.size, self.size))
        if random.random() < 0.5:
            image = ImageOps.mirror(image)
        return torch.from_numpy(np.asarray(ImageOps.autocontrast(image)).copy()).permute(2, 0, 1).float().div(255)

    def __getitem__(self, index):
        f = self.files[index % len(self.files)]
        with tally.part("decoding"):
            image = Image.open(f).convert("RGB")
        with tally.part("transforms"):
            return self.transform(image), index % 10


def take_photos(root, count):
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 255, (96, 128, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((1024, 768), Image.Resampling.BICUBIC).save(f"{root}/{number:03}.jpg", quality=92)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mobilenetv3_small_050")
    parser.add_argument("--img-size", type=int, default=64)
    parser.add_argument("-b", "--batch-size", type=int, default=16)
    parser.add_argument("-j", "--workers", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    root = tempfile.mkdtemp()
    take_photos(root, 40)
    model = timm.create_model(args.model, num_classes=10)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3)
    loader = DataLoader(Photos(root, args.img_size), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    for _epoch in range(100):
        for images, target in loader:
            loss = torch.nn.functional.cross_entropy(model(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tally.units()


if __name__ == "__main__":
    main()
