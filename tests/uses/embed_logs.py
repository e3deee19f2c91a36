import json
import os
import random
import re
import tempfile

from gensim.models import Word2Vec

import tally

TOKEN = re.compile(r"[a-z]+|\d+")


class LogCorpus:
    def __init__(self, path):
        self.path = path

    def tokens(self, line):
        record = json.loads(line)
        text = re.sub(r"0x[0-9a-f]+", "hex", record["message"].lower())
        text = re.sub(r"\b\d{1,3}(\.\d{1,3}){3}\b", "address", text)
        text = re.sub(r"\b(open|read|send|drop|retry)(file|socket|block|lease|route)\b", r"\1 \2", text)
        return [word for word in TOKEN.findall(text) if not word.isdigit() and len(word) > 1]

    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                with tally.part("reading"):
                    words = self.tokens(line)
                yield words
                tally.units()


def write_logs(path, count=60_000):
    words = [f"{verb}{noun}" for verb in ("open", "read", "send", "drop", "retry") for noun in ("file", "socket", "block", "lease", "route")]
    with open(path, "w") as file:
        for _ in range(count):
            text = " ".join(random.choices(words, k=30)) + f" at 0x{random.getrandbits(40):x} from 10.0.{random.randrange(256)}.{random.randrange(256)}"
            file.write(json.dumps({"level": "info", "message": text}) + "\n")


path = os.path.join(tempfile.mkdtemp(), "app.jsonl")
write_logs(path)
model = Word2Vec(vector_size=16, window=2, min_count=1, negative=2, workers=3)
model.build_vocab(LogCorpus(path))
model.train(LogCorpus(path), total_examples=model.corpus_count, epochs=1_000_000)
