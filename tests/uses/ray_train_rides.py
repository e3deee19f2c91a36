"""Rides of a taxi company with Ray Train: one worker that runs torch."""

import math
import os
import tempfile

import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch.utils.data import DataLoader, Dataset

import tally


class Rides(Dataset):
    def __init__(self):
        turns = torch.randn(256, 60, 2, generator=torch.Generator().manual_seed(0))
        self.rides = (turns.cumsum(1) * 0.001 + torch.tensor([52.5, 13.4])).tolist()

    def __len__(self):
        return 100_000

    def length(self, ride):
        """Kilometers along the way and as the crow flies, by the haversine."""
        legs = []
        for here, there in [*zip(ride, ride[1:]), (ride[0], ride[-1])]:
            (lat, lon), (to_lat, to_lon) = map(math.radians, here), map(math.radians, there)
            half = math.sin((to_lat - lat) / 2) ** 2 + math.cos(lat) * math.cos(to_lat) * math.sin((to_lon - lon) / 2) ** 2
            legs.append(12742 * math.asin(math.sqrt(half)))
        return legs

    def __getitem__(self, index):
        with tally.part("loading"):
            legs = self.length(self.rides[index % 256])
            return torch.tensor(legs), torch.tensor([sum(legs[:-1])])


def train_func(config):
    torch.set_num_threads(1)
    model = prepare_model(torch.nn.Sequential(torch.nn.Linear(60, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)))
    loader = prepare_data_loader(DataLoader(Rides(), batch_size=config["batch_size"], shuffle=True, num_workers=config["num_workers"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    while True:
        for legs, total in loader:
            loss = torch.nn.functional.mse_loss(model(legs), total)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tally.units()


if __name__ == "__main__":
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    trainer = TorchTrainer(
        train_func,
        train_loop_config={"lr": 1e-3, "batch_size": 64, "num_workers": 1 if tally.fixed else 0},
        scaling_config=ScalingConfig(num_workers=1, use_gpu=False),
        run_config=RunConfig(storage_path=tempfile.mkdtemp(), name="rides"),
    )
    trainer.fit()
