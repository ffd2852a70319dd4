"""BERT for the optional step 11: the encoder, its tokeniser, published weights, and sentences with labels.

encoder, tokenizer = minilm()                       # MiniLM, 6 layers of width 384; fetched once, 84 MB
ids, mask, types = tokenizer.batch(["a sentence", "another, longer one"])
texts, labels = requests("test", 240)               # texts of the lab's own, each with one of ten labels

Reading order: encoder.py, tokens.py, weights.py, sentences.py. `python -m helpers.toys.bert` fetches the weights.
"""

from helpers.toys.bert.encoder import BATCHES, INPUTS, LENGTHS, OUTPUTS, BertEncoder
from helpers.toys.bert.sentences import INTENTS, examples, requests
from helpers.toys.bert.tokens import WordPiece
from helpers.toys.bert.weights import minilm

__all__ = [
    "BATCHES",
    "INPUTS",
    "INTENTS",
    "LENGTHS",
    "OUTPUTS",
    "BertEncoder",
    "WordPiece",
    "examples",
    "minilm",
    "requests",
]
