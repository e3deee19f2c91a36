import random

import spacy
from spacy.training import Example

import tally

config = {"model": {"@architectures": "spacy.TextCatBOW.v3", "exclusive_classes": True, "ngram_size": 1, "no_output_layer": False}}


def mails(count):
    vocabulary = [f"{a}{b}" for a in ("pay", "in", "re", "con", "de") for b in ("tract", "form", "vite", "ply", "lay", "fund")]
    for _ in range(count):
        spam = random.random() < 0.5
        words = random.choices(vocabulary[:20] if spam else vocabulary[10:], k=400)
        yield " ".join(word + random.choice(("", ",", ".", "!")) for word in words), {"cats": {"SPAM": spam, "HAM": not spam}}


def main():
    nlp = spacy.blank("en")
    nlp.add_pipe("textcat", config=config)
    train = list(mails(400))
    optimizer = nlp.initialize(lambda: [Example.from_dict(nlp.make_doc(text), marks) for text, marks in train[:50]])
    while True:
        random.shuffle(train)
        for start in range(0, len(train), 8):
            with tally.part("tokenizing"):
                batch = [Example.from_dict(nlp.make_doc(text), marks) for text, marks in train[start : start + 8]]
            nlp.update(batch, sgd=optimizer)
            tally.units()


main()
