import random

import spacy
from spacy.training import Example
from spacy.util import minibatch

import tally

NAMES = ["Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald"]
PLACES = ["London", "Paris", "Zurich", "Austin", "Kyoto"]


def sentences(count=800):
    for _ in range(count):
        name, place = random.choice(NAMES), random.choice(PLACES)
        text = f"{name} went to {place} by train and stayed there for two weeks before the meeting"
        start = len(name) + 9
        yield text, {"entities": [(0, len(name), "PERSON"), (start, start + len(place), "GPE")]}


nlp = spacy.blank("en")
ner = nlp.add_pipe("ner")
for label in ("PERSON", "GPE"):
    ner.add_label(label)

examples = [Example.from_dict(nlp.make_doc(text), annotations) for text, annotations in sentences()]
optimizer = nlp.initialize(lambda: examples)
for epoch in range(1_000_000):
    random.shuffle(examples)
    losses = {}
    for batch in minibatch(examples, size=16):
        nlp.update(batch, sgd=optimizer, drop=0.2, losses=losses)
        tally.units()
    print(epoch, losses, flush=True)
