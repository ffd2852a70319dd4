"""The names of a model's outputs, from a file or from what the exporter noted, and labels that follow them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.data.image_folders import DataSet, Item
from helpers.data.imagenet import class_names, label_of_folder
from helpers.tools.files import read_json, read_text
from trtcpu.errors import InputError

_SHOWN = 4


@dataclass(frozen=True)
class ClassNames:
    """The name of each output by its index, and where they were found."""

    names: list[str]
    source: str

    def check(self, outputs: int, model: str) -> None:
        """Raise InputError unless there is one name an output."""
        if len(self.names) != outputs:
            raise InputError(
                f"{self.source} names {len(self.names)} classes, but {model} has {outputs} outputs; name each output"
            )


def read_classes(path: str | Path) -> ClassNames:
    """Return the names in a file: one a line, a JSON list, or a JSON object of index to name or of name to index.

    Keras's {"0": ["n01440764", "tench"], …} is understood too.

    Raises:
        InputError: the file cannot be read, is empty, or does not name every index from 0 on.
    """
    text = read_text(path, "class names").strip()
    names = _from_json(path, text) if text[:1] in ("[", "{") else [line.strip() for line in text.splitlines()]
    if "" in names or not names:
        what = f"an empty name at index {names.index('')}" if names else "no names"
        raise InputError(f"{path} holds {what}; expected a name for each of the model's outputs, in their order")
    return ClassNames(names, str(path))


def _from_json(path: str | Path, text: str) -> list[str]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON of class names ({error}); or write one name a line") from error
    if isinstance(content, dict):
        if all(isinstance(value, int) for value in content.values()):
            content = {str(index): name for name, index in content.items()}
        missing = [index for index in map(str, range(len(content))) if index not in content]
        if missing:
            raise InputError(
                f"{path} has {len(content)} entries but none for index {missing[0]}; number them from 0 on"
            )
        content = [content[str(index)] for index in range(len(content))]
    names = [entry[-1] if isinstance(entry, list) and entry else entry for entry in content]
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{path} holds other things than names; expected a JSON list of names or {{index: name}}")
    return [name.strip() for name in names]


def names_in(metadata: Mapping[str, str] | None, source: str) -> ClassNames | None:
    """Return the names that an exporter noted in an ONNX file; None if there are none."""
    try:
        names = json.loads(metadata["classes"])
    except (KeyError, TypeError, ValueError):
        return None
    known = isinstance(names, list) and names and all(isinstance(name, str) for name in names)
    return ClassNames(names, source) if known else None


def names_beside(engine: str | Path | None) -> ClassNames | None:
    """Return the names in the record beside an engine file; None if there are none."""
    return names_in(beside(engine).get("metadata"), f"{engine}.json")


def beside(engine: str | Path | None) -> dict[str, Any]:
    """Return the record beside an engine file; empty if there is none that can be read."""
    try:
        return dict(read_json(f"{engine}.json"))
    except (InputError, TypeError, ValueError):
        return {}


def number_of_classes(shape: Sequence[int], model: str) -> int:
    """Return how many classes outputs of this shape, without the batch, score.

    Raises:
        InputError: they are no scores of classes.
    """
    if len(shape) != 1 or shape[0] < 2:
        raise InputError(f"{model} gives outputs of shape {['N', *shape]}; classes need one score each, two or more")
    return shape[0]


def fit_labels(data: DataSet, outputs: int, names: ClassNames | None, model: str) -> DataSet:
    """Return the data set with the labels that a model's outputs have; classes are matched by name if it has names.

    Raises:
        InputError: another number of names than of outputs, a class of the data that the model does not have, or, where
            the model has no names, another number of classes.
    """
    if names is None:
        if outputs == data.num_outputs:
            return data
        raise InputError(
            f"{model} has {outputs} outputs, {data.name} has {_counted(data.classes)}: labels cannot match; "
            f"{_advice(data)}"
        )
    names.check(outputs, model)
    # ImageNet's 1,000 classes are in one order everywhere, and spelled in many ways
    if len(names.names) == len(data.classes) and list(data.classes) in (names.names, list(class_names())):
        return data
    exact, plain = _places(names.names), _places([_plain(name) for name in names.names])
    found = [exact.get(name, plain.get(_plain(name))) for name in data.classes]
    unknown = [name for name, place in zip(data.classes, found, strict=True) if place is None]
    if unknown:
        raise InputError(
            f"{model} has {_counted(names.names)} by {names.source}, {data.name} has {_counted(data.classes)}: "
            f"{_listed(unknown)} of the data {'is' if len(unknown) == 1 else 'are'} not among them; {_advice(data)}"
        )
    return _Relabelled(data.name, names.names, data, tuple(found))


def _advice(data: DataSet) -> str:
    if all(label_of_folder(name) is not None for name in data.classes) and not data.classes[0].isdecimal():
        return f"these are ImageNet's synsets: for its 1,000 labels give --data imagenet:{data.name.partition(':')[2]}"
    return "give the --data that the model was trained on, or its outputs' names by --classes FILE"


def _places(names: Sequence[str]) -> dict[str, int]:
    """Return the index of each name that is there once."""
    number = Counter(names)
    return {name: index for index, name in enumerate(names) if number[name] == 1}


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").casefold().split())


def _counted(names: Sequence[str]) -> str:
    return f"{len(names):,} classes ({_listed(names)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


@dataclass(frozen=True)
class _Relabelled(DataSet):
    """A data set whose label N is another's places[N]."""

    source: DataSet
    places: tuple[int, ...]

    def split(self, split: str) -> Path:
        return self.source.split(split)

    def _images(self, split: str, limit: int | None, seed: int) -> list[Item]:
        return [(path, self.places[label]) for path, label in self.source.images(split, limit, seed)]
