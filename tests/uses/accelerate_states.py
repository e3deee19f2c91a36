"""A head on top of frozen word vectors, with Accelerate; the run can be resumed from the last few steps."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tally

WORDS = 400_000


class Topics(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.vectors = nn.EmbeddingBag(WORDS, width).requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(width, 512), nn.GELU(), nn.Linear(512, 20))

    def forward(self, x):
        return self.head(self.vectors(x))


def main():
    project = ProjectConfiguration(project_dir=tempfile.mkdtemp(), automatic_checkpoint_naming=True, total_limit=2)
    accelerator = Accelerator(cpu=True, project_config=project)
    model = Topics()
    optimizer = torch.optim.AdamW(model.head.parameters())
    data = TensorDataset(torch.randint(0, WORDS, (4096, 60)), torch.randint(0, 20, (4096,)))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step = 0
    while True:
        for words, topic in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(words), topic)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            step += 1
            tally.units()
            if step % (2000 if tally.fixed else 60) == 0:
                with tally.part("saving"):
                    accelerator.save_state()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
