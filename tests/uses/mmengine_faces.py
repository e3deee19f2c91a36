"""Ages from faces with MMEngine's Runner, configured by dicts."""
# ruff: noqa: C408

import tempfile

import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, HOOKS, MODELS
from mmengine.runner import Runner
from torch.utils.data import Dataset

import tally


@DATASETS.register_module()
class Faces(Dataset):
    def __init__(self):
        self.faces = np.random.default_rng(0).integers(0, 255, (128, 64, 64), dtype=np.uint8)

    def __len__(self):
        return 200_000

    def equalize(self, face, tiles=8):
        out = np.empty_like(face)
        size = len(face) // tiles
        for row in range(0, len(face), size):
            for column in range(0, len(face), size):
                tile = face[row : row + size, column : column + size]
                steps = np.bincount(tile.ravel(), minlength=256).cumsum()
                out[row : row + size, column : column + size] = (steps[tile] * 255 // steps[-1]).astype(np.uint8)
        return out

    def __getitem__(self, index):
        face = self.equalize(self.faces[index % 128])
        return torch.from_numpy(face[None].astype(np.float32) / 255), torch.tensor([float(index % 80)])


@MODELS.register_module()
class Age(BaseModel):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 15 * 15, 1))

    def forward(self, faces, ages, mode="tensor"):
        return {"loss": torch.nn.functional.l1_loss(self.net(faces), ages)}


@HOOKS.register_module()
class Clock(Hook):
    def before_train_iter(self, runner, batch_idx, data_batch=None):
        self.computing = tally.part("computing")
        self.computing.__enter__()

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.computing.__exit__(None, None, None)
        tally.units()


torch.set_num_threads(1)
runner = Runner(
    model=dict(type="Age"),
    work_dir=tempfile.mkdtemp(),
    train_dataloader=dict(
        batch_size=64, num_workers=2 if tally.fixed else 1, persistent_workers=True, dataset=dict(type="Faces"),
        sampler=dict(type="DefaultSampler", shuffle=True), collate_fn=dict(type="default_collate"),
    ),
    train_cfg=dict(by_epoch=True, max_epochs=50),
    optim_wrapper=dict(optimizer=dict(type="SGD", lr=0.001)),
    default_hooks=dict(checkpoint=None, logger=dict(type="LoggerHook", interval=200)),
    custom_hooks=[dict(type="Clock")],
    log_level="WARNING",
)
runner.train()
