"""Counts blobs with Ultralytics YOLO on the CPU; small pictures, a model from its parts."""

import os
import tempfile

import cv2
import numpy as np
import yaml
from ultralytics import YOLO

import tally


def prepare(root):
    os.makedirs(f"{root}/images")
    os.makedirs(f"{root}/labels")
    draw = np.random.default_rng(1)
    for number in range(48):
        image = draw.integers(0, 80, (64, 64, 3), dtype=np.uint8)
        x, y = (int(value) for value in draw.integers(12, 52, 2))
        cv2.circle(image, (x, y), 8, (255, 255, 255), -1)
        cv2.imwrite(f"{root}/images/{number}.png", image)
        with open(f"{root}/labels/{number}.txt", "w") as file:
            file.write(f"0 {x / 64} {y / 64} 0.25 0.25\n")
    backbone = [
        [-1, 1, "Conv", [32, 3, 2]],
        [-1, 1, "Conv", [64, 3, 2]],
        [-1, 3, "C2f", [64, True]],
        [-1, 1, "Conv", [128, 3, 2]],
        [-1, 3, "C2f", [128, True]],
        [-1, 1, "Conv", [128, 3, 2]],
    ]
    with open(f"{root}/blobs.yaml", "w") as file:
        yaml.dump({"nc": 1, "backbone": backbone, "head": [[[2, 4, 5], 1, "Detect", ["nc"]]]}, file)
    with open(f"{root}/data.yaml", "w") as file:
        yaml.dump({"path": root, "train": "images", "val": "images", "names": {0: "blob"}}, file)
    return f"{root}/blobs.yaml", f"{root}/data.yaml"


def enter(trainer):
    trainer.part = tally.part("computing")
    trainer.part.__enter__()


def leave(trainer):
    trainer.part.__exit__(None, None, None)
    tally.units()


root = tempfile.mkdtemp()
model_file, data = prepare(root)
model = YOLO(model_file, task="detect")
model.add_callback("on_train_batch_start", enter)
model.add_callback("on_train_batch_end", leave)
settings = {"imgsz": 64, "batch": 16, "workers": 0, "cache": "ram", "mosaic": 0.0, "augment": False}
model.train(data=data, epochs=2000, device="cpu", val=False, save=False, plots=False, project=root, **settings)
