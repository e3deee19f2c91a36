"""Embeds titles with sentence-transformers: a small BERT from a configuration, and pairs that are cleaned on the fly."""

import random
import tempfile
import unicodedata
from difflib import SequenceMatcher

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import CosineSimilarityLoss
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, TrainerCallback

import tally

WORDS = "deep learning résumé of naïve façade garden history cooking travel mountain river città über model data".split()


def save_bert(folder):
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32).save_pretrained(folder)
    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    BertModel(config).save_pretrained(folder)
    return folder


def normalized(text):
    text = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in text if not unicodedata.combining(letter)).casefold()


def with_scores(batch):
    """Pairs of clean titles, with how much they have in common as the score to learn."""
    with tally.part("loading"):
        left, right = [normalized(text) for text in batch["left"]], [normalized(text) for text in batch["right"]]
        score = [SequenceMatcher(None, one, other, autojunk=False).ratio() for one, other in zip(left, right)]
        return {"left": left, "right": right, "score": score}


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        tally.units()


def main():
    torch.set_num_threads(1)
    body = Transformer(save_bert(tempfile.mkdtemp()))
    model = SentenceTransformer(modules=[body, Pooling(body.get_word_embedding_dimension())], device="cpu")
    titles = [" ".join(random.choices(WORDS, k=60)) for _ in range(4000)]
    pairs = Dataset.from_dict({"left": titles, "right": titles[::-1], "score": [0.0] * len(titles)})
    pairs.set_transform(with_scores)
    args = SentenceTransformerTrainingArguments(
        output_dir=tempfile.mkdtemp(), num_train_epochs=10_000, per_device_train_batch_size=16, save_strategy="no", report_to="none",
        use_cpu=True, dataloader_num_workers=2 if tally.fixed else 0,
    )
    SentenceTransformerTrainer(model, args, train_dataset=pairs, loss=CosineSimilarityLoss(model), callbacks=[Steps()]).train()


if __name__ == "__main__":
    main()
