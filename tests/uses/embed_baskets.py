import random

from gensim.models import Word2Vec
from gensim.models.callbacks import CallbackAny2Vec

import tally


class Epochs(CallbackAny2Vec):
    def on_epoch_end(self, model):
        tally.units(model.corpus_count)


rng = random.Random(12)
products = [f"sku{number}" for number in range(3000)]
baskets = [rng.sample(products, rng.randint(5, 20)) for _ in range(4_000)]

model = Word2Vec(baskets, vector_size=200, window=10, min_count=1, sg=1, negative=10, workers=2, epochs=1_000_000, callbacks=[Epochs()])
