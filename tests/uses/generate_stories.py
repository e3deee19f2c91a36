import torch
from transformers import GPT2Config, GPT2LMHeadModel

import tally


class Streamer:
    """Shows tokens as they come."""

    def put(self, tokens):
        tally.units()

    def end(self):
        print(".", end="", flush=True)


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=8000, n_positions=512, n_embd=384, n_layer=6, n_head=6, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).eval()
    while True:
        prompt = torch.randint(1, 8000, (1, 24))
        model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=400, min_new_tokens=400, do_sample=True, pad_token_id=0, streamer=Streamer()
        )


main()
