"""WordPiece, on a vocabulary small enough to do it by hand."""

import numpy as np
import pytest

from helpers.toys.bert.tokens import WordPiece

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] the un unaff ##aff ##able ##s cafe , . don ' t 東 cat".split()


@pytest.fixture
def tokenizer() -> WordPiece:
    return WordPiece(VOCABULARY)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("the cats", ["the", "cat", "##s"]),
        ("unaffable", ["unaff", "##able"]),
        ("The CAT", ["the", "cat"]),
        ("Café, the.", ["cafe", ",", "the", "."]),
        ("don't", ["don", "'", "t"]),
        ("the\tcat\nthe", ["the", "cat", "the"]),
        ("dog", ["[UNK]"]),
        ("the\u200bcat", ["[UNK]"]),
        ("cat" * 40, ["[UNK]"]),
        ("", []),
    ],
)
def test_a_text_becomes_the_longest_pieces(tokenizer: WordPiece, text: str, pieces: list[str]) -> None:
    assert tokenizer.tokens(text) == pieces


def test_what_is_too_long_is_cut_and_still_ends_with_sep(tokenizer: WordPiece) -> None:
    ids = tokenizer.encode("the cat " * 50, most=10)
    assert len(ids) == 10 and tokenizer.pieces[ids[0]] == "[CLS]" and tokenizer.pieces[ids[-1]] == "[SEP]"


def test_a_batch_is_padded_to_its_longest_or_to_the_length_asked_for(tokenizer: WordPiece) -> None:
    ids, mask, types = tokenizer.batch(["the", "the cats"])
    np.testing.assert_array_equal(ids, [[2, 4, 3, 0, 0], [2, 4, 17, 9, 3]])
    np.testing.assert_array_equal(mask, [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    assert not types.any() and {array.dtype for array in (ids, mask, types)} == {np.dtype(np.int32)}
    longer = tokenizer.batch([[2, 4, 3], "the cats"], length=8)
    np.testing.assert_array_equal(longer[0][:, :5], ids)
    assert longer[1].shape == (2, 8) and longer[1].sum() == mask.sum()
