import random
import re

from datasets import Dataset

import tally

SPLIT = re.compile(r"'s|'t|\w+|[^\w\s]")


def pairs(word):
    return {(word[at], word[at + 1]) for at in range(len(word) - 1)}


def encode_word(word, ranks):
    word = tuple(word)
    while len(word) > 1:
        best = min(pairs(word), key=lambda pair: ranks.get(pair, 1e9))
        if best not in ranks:
            break
        merged, at = [], 0
        while at < len(word):
            both = at + 1 < len(word) and (word[at], word[at + 1]) == best
            merged.append(word[at] + word[at + 1] if both else word[at])
            at += 2 if both else 1
        word = tuple(merged)
    return word


def tokenize(example):
    tokens = [token for word in SPLIT.findall(example["text"].lower()) for token in encode_word(word, RANKS)]
    tally.units()
    return {"tokens": tokens, "length": len(tokens)}


LETTERS = "etaoinshrdlu"
RANKS = {(a, b): rank for rank, (a, b) in enumerate((a, b) for a in LETTERS for b in LETTERS)}

if __name__ == "__main__":
    draw = random.Random(0)
    words = ["".join(draw.choices(LETTERS, k=draw.randint(3, 9))) for _ in range(2000)]
    texts = Dataset.from_dict({"text": [" ".join(draw.choices(words, k=100)) for _ in range(20_000)]})
    for version in range(1000):
        texts.map(tokenize, num_proc=2 if tally.fixed else None, load_from_cache_file=False, new_fingerprint=f"v{version}")
