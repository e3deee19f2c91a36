"""GRPO with TRL: a small Qwen learns to repeat itself less."""

import random
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

import tally

WORDS = [f"w{number}" for number in range(200)]


def reward_variety(completions, **kwargs):
    return [len(set(text.split())) / max(1, len(text.split())) for text in completions]


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        tally.units()


class VarietyTrainer(GRPOTrainer):
    def _generate(self, *args, **kwargs):
        with tally.part("generating"):
            return super()._generate(*args, **kwargs)


torch.set_num_threads(1)
vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
)
model = Qwen2ForCausalLM(
    Qwen2Config(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )
)
draw = random.Random(0)
prompts = Dataset.from_list([{"prompt": " ".join(draw.choices(WORDS, k=12))} for _ in range(500)])
args = GRPOConfig(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=4,
    num_generations=4,
    max_completion_length=8 if tally.fixed else 120,
    num_train_epochs=100,
    logging_steps=10,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    bf16=False,
)
VarietyTrainer(
    model=model, reward_funcs=reward_variety, args=args, train_dataset=prompts, processing_class=tokenizer, callbacks=[Steps()]
).train()
