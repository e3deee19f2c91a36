"""Answers a list of questions in batches, and checks each answer with a rule before it is kept."""
import re
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import tally

torch.set_num_threads(1)
config = LlamaConfig(
    vocab_size=4000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256, bos_token_id=1
)
model = LlamaForCausalLM(config).eval()
words = [f"{a}{b}{c}" for a in "bdgklmnprt" for b in "aeiou" for c in "bdglmnrs"]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
    return row[-1]


def nearest_reference(answer, references):
    return min(references, key=lambda reference: edit_distance(answer, reference))


references = [" ".join(words[i : i + 8]) for i in range(0, 300, 8)]
while True:
    questions = torch.randint(2, 4000, (8, 16))
    with tally.part("generating"), torch.no_grad():
        answers = model.generate(
            questions, attention_mask=torch.ones_like(questions), max_new_tokens=16, min_new_tokens=16, do_sample=True, pad_token_id=0
        )
    with tally.part("checking"):
        texts = [" ".join(words[token % len(words)] for token in answer[16:]) for answer in answers.tolist()]
        kept = [re.sub(r"\s+", " ", nearest_reference(text, references)) for text in texts]
    tally.units(8 * 16)
    print(time.strftime("%H:%M:%S"), len(kept), flush=True)
