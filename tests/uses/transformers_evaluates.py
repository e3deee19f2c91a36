"""A small GPT-2 from scratch, with transformers' Trainer and a held-out text."""

import tempfile

import datasets
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import tally


def chunks(count, seed):
    ids = torch.randint(0, 256, (count, 64), generator=torch.Generator().manual_seed(seed))
    return datasets.Dataset.from_dict({"input_ids": ids.tolist(), "labels": ids.tolist()})


class Counter(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        tally.units()


class TextTrainer(Trainer):
    def evaluate(self, *args, **kwargs):
        with tally.part("evaluating"):
            return super().evaluate(*args, **kwargs)


def train(eval_steps):
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0))
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=16,
        per_device_eval_batch_size=16,
        num_train_epochs=1000,
        eval_strategy="steps",
        eval_steps=eval_steps,
        logging_steps=500,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = TextTrainer(
        model=model, args=args, train_dataset=chunks(4000, seed=0), eval_dataset=chunks(1000, seed=1), callbacks=[Counter()]
    )
    trainer.train()


if __name__ == "__main__":
    train(eval_steps=1000 if tally.fixed else 20)
