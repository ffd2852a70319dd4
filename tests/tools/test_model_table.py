"""docs/models.md holds the list that `make models` makes of these models and stages, each with its refusals."""

import re
from pathlib import Path

from tests.tools.model_table import END, ENTRIES, PAGE, STAGES, START, page, stage


def test_the_page_has_every_model_and_every_stage_or_the_refusal() -> None:
    made = PAGE.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    through, _, refused = " ".join(made.split("\n- ")[0].split()).partition(" through ")[2].partition(" on ")
    assert through == ", ".join(STAGES)
    listed = refused.rpartition(": ")[2].removesuffix(".").split("; ")
    missing = {line.rpartition(", ")[0] for line in re.findall(r"^- (.+?): ", made, re.M)}
    assert sorted([*listed, *missing]) == sorted(entry.name for entry in ENTRIES)


def test_a_refusal_stands_below_the_list_in_its_own_words() -> None:
    found = {stage: "✓" for stage in STAGES}
    made = page({"whole": found, "mine": found | {"INT8": "operator Foo is not supported"}})
    assert made.endswith(": whole.\n\n- mine, INT8: operator Foo is not supported")


def test_a_stage_is_a_tick_or_the_words_of_its_refusal(tmp_path: Path) -> None:
    mlp, missing = ENTRIES[3], tmp_path / "missing.onnx"
    assert stage("export", *mlp.export, "--out", tmp_path / "m.onnx") == "✓"
    assert "missing.onnx" in stage("build", "--onnx", missing, "--engine", tmp_path / "m.engine")
