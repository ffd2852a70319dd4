"""The texts: the same each time, balanced, and no test text says what an example says."""

import numpy as np
import pytest

from helpers.toys.bert.sentences import EXAMPLES, INTENTS, TESTS, examples, requests


def test_the_same_arguments_give_the_same_texts_and_others_give_others() -> None:
    texts, labels = requests("test", 60)
    again, same = requests("test", 60)
    assert again == texts and np.array_equal(same, labels)
    assert requests("test", 60, seed=12)[0] != texts != requests("calibration", 60)[0]


def test_each_label_has_as_many_texts_and_each_text_says_what_its_label_says() -> None:
    ways = [sentences[TESTS] for sentences in INTENTS.values()]
    texts, labels = requests("test", 200)
    assert set(np.bincount(labels)) == {20}
    assert all(any(way in text for way in ways[label]) for text, label in zip(texts, labels, strict=True))


def test_no_way_to_say_a_thing_is_both_an_example_and_a_test() -> None:
    said, labels = examples()
    assert len(said) == len(labels) == 50 and len(set(said)) == 50
    assert all(not set(sentences[EXAMPLES]) & set(sentences[TESTS]) for sentences in INTENTS.values())
    assert not any(way in text for text in requests("test", 200)[0] for way in said)


def test_another_split_is_refused() -> None:
    with pytest.raises(KeyError, match="train"):
        requests("train", 3)
