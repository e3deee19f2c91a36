"""Supervised fine-tuning with TRL: a small Llama from scratch on made-up instructions."""

import random
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

import tally

WORDS = ["add", "subtract", "two", "three", "four", "seven", "numbers", "answer", "question", "please", "the", "is", "what", "plus", "minus", "equals", "sum", "of", "and"]


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        tally.units()


def tokenizer():
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def main():
    torch.set_num_threads(1)
    draw = random.Random(0)
    data = Dataset.from_list([{"text": " ".join(draw.choices(WORDS, k=60))} for _ in range(2000)])
    config = LlamaConfig(
        vocab_size=32, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256
    )
    args = SFTConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        num_train_epochs=1000,
        max_length=64,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    trainer = SFTTrainer(
        model=LlamaForCausalLM(config), args=args, train_dataset=data, processing_class=tokenizer(), callbacks=[Steps()]
    )
    trainer.train()


if __name__ == "__main__":
    main()
