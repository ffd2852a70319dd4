"""BERT's tokeniser: text to ids by WordPiece (Wu et al., 2016), for vocabularies in lower case."""

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

_LONGEST_WORD = 100  # letters; longer ones are unknown, as in BERT


class WordPiece:
    """Text to ids: [CLS], the longest pieces of the vocabulary that make up each word, [SEP].

    Args:
        vocabulary: the pieces in the order of their ids; one that continues a word begins with ##.
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.pieces = list(vocabulary)
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}

    def tokens(self, text: str) -> list[str]:
        """Return the pieces of a text, without [CLS] and [SEP]."""
        return [piece for word in _words(text) for piece in self._pieces(word)]

    def encode(self, text: str, most: int = 128) -> list[int]:
        """Return the ids of a text, [CLS] and [SEP] among them; what is beyond `most` is cut off."""
        pieces = ["[CLS]", *self.tokens(text)[: most - 2], "[SEP]"]
        return [self.ids[piece] for piece in pieces]

    def batch(self, texts: Sequence[str | Sequence[int]], length: int | None = None) -> tuple[np.ndarray, ...]:
        """Return ids, mask and types, int32 [N, `length`], padded to the longest text unless a length is given.

        A text may be ids that `encode` returned.
        """
        rows = [self.encode(text) if isinstance(text, str) else list(text) for text in texts]
        length = length or max(map(len, rows))
        ids = np.full((len(rows), length), self.ids["[PAD]"], np.int32)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)], mask[place, : len(row)] = row, 1
        return ids, mask, np.zeros_like(ids)

    def _pieces(self, word: str) -> list[str]:
        found, start = [], 0
        while start < len(word):
            marked = ["##"[: 2 * (start > 0)] + word[start:end] for end in range(len(word), start, -1)]
            piece = next((piece for piece in marked if piece in self.ids), None)
            if piece is None or len(word) > _LONGEST_WORD:
                return ["[UNK]"]
            found.append(piece)
            start += len(piece.removeprefix("##") if start else piece)
        return found


def _words(text: str) -> list[str]:
    """Return the words in lower case without accents; every punctuation mark is a word."""
    plain = unicodedata.normalize("NFD", text.lower())
    letters = (_apart(letter) for letter in plain if unicodedata.category(letter) != "Mn")
    return "".join(letters).split()


def _apart(letter: str) -> str:
    """Return a letter, a mark of punctuation between spaces, nothing for what cannot be seen."""
    kind = unicodedata.category(letter)
    if kind.startswith("P") or (letter.isascii() and letter.isprintable() and not letter.isalnum() and letter != " "):
        return f" {letter} "
    if letter.isspace():
        return " "
    return "" if kind.startswith("C") else letter
