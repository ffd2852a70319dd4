"""docs/models.md holds the table that `make models` makes of these models and stages, each with its refusals."""

from pathlib import Path

from tests.tools.model_table import END, ENTRIES, PAGE, STAGES, START, page, stage


def test_the_page_has_a_row_for_every_model_and_a_column_for_every_stage() -> None:
    made = PAGE.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    rows = [line.strip("| ").split(" | ") for line in made.splitlines() if line.startswith("| ")]
    assert rows[0] == ["model", *STAGES]
    assert [row[0] for row in rows[1:]] == [entry.name for entry in ENTRIES]
    refused = sum(cell == "refused" for row in rows for cell in row)
    assert refused == sum(line.startswith("- ") for line in made.splitlines())


def test_a_refusal_stands_below_the_table_in_its_own_words() -> None:
    found = {stage: "✓" for stage in STAGES} | {"INT8": "operator Foo is not supported"}
    made = page({"mine": found})
    assert "| mine | ✓ | ✓ | refused | ✓ | ✓ | ✓ | ✓ |" in made
    assert made.endswith("- mine, INT8: operator Foo is not supported")


def test_a_stage_is_a_tick_or_the_words_of_its_refusal(tmp_path: Path) -> None:
    mlp, missing = ENTRIES[3], tmp_path / "missing.onnx"
    assert stage("export", *mlp.export, "--out", tmp_path / "m.onnx") == "✓"
    assert "missing.onnx" in stage("build", "--onnx", missing, "--engine", tmp_path / "m.engine")
