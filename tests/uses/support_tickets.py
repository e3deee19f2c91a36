import random

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline

import tally


def load_tickets(count=600):
    rng = random.Random(1)
    stems = ["".join(rng.choices("abcdefghijklmnoprstu", k=rng.randint(4, 9))) for _ in range(900)]
    topics = [rng.sample(stems, 200) for _ in range(4)]
    labels = [rng.randrange(4) for _ in range(count)]
    return [" ".join(rng.choices(topics[label] + stems, k=90)) for label in labels], labels


class TimedTfidf(TfidfVectorizer):
    def fit_transform(self, texts, y=None):
        with tally.part("vectorizing"):
            return super().fit_transform(texts, y)

    def transform(self, texts):
        with tally.part("vectorizing"):
            return super().transform(texts)


tickets, topics = load_tickets()
for alpha in (0.01, 0.03, 0.1, 0.3, 1, 3) * 1000:
    steps = [("tfidf", TimedTfidf(analyzer="char_wb", ngram_range=(2, 4), max_features=3000)), ("clf", MultinomialNB(alpha=alpha))]
    scores = cross_val_score(Pipeline(steps), tickets, topics, cv=4)
    tally.units(4)
    print(alpha, scores.mean(), flush=True)
