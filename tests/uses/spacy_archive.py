import itertools
import random

import spacy

import tally


def load_articles():
    words = "the a of and to in minister market company said year first new people over city river north players season".split()
    rng = random.Random(5)
    while True:
        yield " ".join(rng.choices(words, k=rng.randint(80, 160))).capitalize() + "."


def build():
    nlp = spacy.blank("en")
    nlp.add_pipe("ner").add_label("ORG")
    nlp.add_pipe("tagger").add_label("NOUN")
    nlp.initialize()
    return nlp


if __name__ == "__main__":
    found = 0
    articles = itertools.islice(load_articles(), 10_000_000)
    for doc in build().pipe(articles, batch_size=64, n_process=2 if tally.fixed else 1):
        found += len(doc.ents)
        tally.units()
