"""A recommender with large tables, trained by transformers' Trainer, which keeps its last two checkpoints."""

import tempfile

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

import tally


class ItemsConfig(PretrainedConfig):
    model_type = "items"
    items = 200_000


class ItemsModel(PreTrainedModel):
    config_class = ItemsConfig

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.items, 64)
        self.head = nn.Linear(64, 2)
        self.post_init()

    def forward(self, items, labels):
        logits = self.head(self.table(items).mean(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Baskets(torch.utils.data.Dataset):
    def __init__(self, items):
        self.items = torch.randint(0, items, (20_000, 20))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return {"items": self.items[index], "labels": index % 2}


class Shop(Trainer):
    def _save_checkpoint(self, *args, **kwargs):
        with tally.part("saving"):
            super()._save_checkpoint(*args, **kwargs)


class Count(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        tally.units()


torch.set_num_threads(1)
arguments = TrainingArguments(
    tempfile.mkdtemp(),
    per_device_train_batch_size=64,
    num_train_epochs=10_000,
    save_steps=400 if tally.fixed else 5,
    save_total_limit=2,
    report_to="none",
    use_cpu=True,
)
config = ItemsConfig()
Shop(ItemsModel(config), arguments, train_dataset=Baskets(config.items), callbacks=[Count()]).train()
