import csv
import os
import random
import tempfile
from html.parser import HTMLParser

from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

import tally


def write_reviews(path, count=20_000):
    words = ["good", "bad", "fine", "poor", "great", "slow", "fast", "broken", "works", "again", "never", "always"]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        for number in range(count):
            writer.writerow([number, random.randint(0, 1), " ".join(f"<b>{word}</b>" for word in random.choices(words, k=60))])


class Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.words = []

    def handle_data(self, data):
        self.words.append(data.strip())


def clean(text):
    parser = Text()
    parser.feed(text)
    return " ".join(parser.words)


def rows(path):
    with open(path, newline="") as file:
        for _, label, text in csv.reader(file):
            yield int(label), clean(text)


def batches(path, size):
    labels, texts = [], []
    for label, text in rows(path):
        labels.append(label)
        texts.append(text)
        if len(labels) == size:
            yield labels, texts
            labels, texts = [], []


def main():
    path = os.path.join(tempfile.mkdtemp(), "reviews.csv")
    write_reviews(path)
    vectorizer = HashingVectorizer(n_features=2**16)
    model = SGDClassifier(loss="log_loss")
    while True:
        stream = batches(path, 500)
        while True:
            with tally.part("loading"):
                batch = next(stream, None)
            if batch is None:
                break
            labels, texts = batch
            model.partial_fit(vectorizer.transform(texts), labels, classes=[0, 1])
            tally.units()


main()
