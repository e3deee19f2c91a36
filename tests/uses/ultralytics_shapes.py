"""Detects shapes with Ultralytics YOLO, from its own model file and a folder of large pictures."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import yaml
from PIL import Image, ImageDraw
from ultralytics import YOLO

import tally


def draw_pictures(folder, count, size=960):
    draw = np.random.default_rng(0)
    for number in range(count):
        noise = Image.fromarray(draw.integers(0, 255, (size // 8, size // 8, 3), dtype=np.uint8))
        picture = noise.resize((size, size), Image.Resampling.BICUBIC)
        x, y = draw.uniform(0.2, 0.8, 2)
        box = [(x - 0.1) * size, (y - 0.1) * size, (x + 0.1) * size, (y + 0.1) * size]
        ImageDraw.Draw(picture).ellipse(box, fill="red")
        for kind in ("images", "labels"):
            (folder / kind).mkdir(exist_ok=True)
        for copy in range(12):
            picture.save(folder / "images" / f"{number}_{copy}.jpg", quality=90)
            (folder / "labels" / f"{number}_{copy}.txt").write_text(f"0 {x} {y} 0.2 0.2\n")


def model_file(folder):
    layers = {
        "nc": 1,
        "backbone": [[-1, 1, "Conv", [8, 3, 4]], [-1, 1, "Conv", [16, 3, 2]], [-1, 1, "Conv", [16, 3, 2]]],
        "head": [[[2], 1, "Detect", ["nc"]]],
    }
    (folder / "shapes.yaml").write_text(yaml.dump(layers))
    return folder / "shapes.yaml"


class Times:
    def begin(self, trainer):
        self.computing = tally.part("computing")
        self.computing.__enter__()

    def end(self, trainer):
        self.computing.__exit__(None, None, None)
        tally.units()


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp())
    draw_pictures(folder, 10)
    (folder / "data.yaml").write_text(yaml.dump({"path": str(folder), "train": "images", "val": "images", "names": ["shape"]}))
    model, times = YOLO(model_file(folder)), Times()
    model.add_callback("on_train_batch_start", times.begin)
    model.add_callback("on_train_batch_end", times.end)
    model.train(
        data=str(folder / "data.yaml"), epochs=1000, imgsz=96, batch=8, workers=2 if tally.fixed else 0, device="cpu", val=False,
        plots=False, save=False, project=str(folder), amp=False, optimizer="SGD", patience=0,
    )
