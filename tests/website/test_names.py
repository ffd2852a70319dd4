"""The page of TensorRT's names has what the notebooks' code uses, and no name that is something else."""

from pathlib import Path

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from website.names import page

ROOT = Path(__file__).resolve().parents[2]
CODE = """\
%matplotlib inline
class Reader(trt.IInt8EntropyCalibrator2):
    def get_batch(self, names):
        return [cuda.mem_alloc(images.nbytes)]
config.set_flag(trt.BuilderFlag.INT8)
shape = context.get_tensor_shape(engine.name)
"""


def test_a_name_is_listed_once_with_its_class_and_all_steps_that_use_it() -> None:
    first, second = (new_notebook(cells=[new_code_cell(code)]) for code in (CODE, "builder.create_network(1)"))
    second.cells += [new_code_cell("config.set_flag(flag)"), new_markdown_cell("config.add_optimization_profile")]
    lines = page(ROOT, {"solutions/04_a/04_a.ipynb": first, "solutions/10_b/10_b.ipynb": second}).splitlines()
    four, ten = "[4](solutions/04_a/04_a.ipynb)", "[10](solutions/10_b/10_b.ipynb)"
    assert [line for line in lines if line.startswith("- ")] == [
        f"- `trt.BuilderFlag`: {four}",
        f"- `trt.BuilderFlag.INT8`: {four}",
        f"- `trt.IInt8EntropyCalibrator2`: {four}",
        f"- `create_network` of Builder: {ten}",
        f"- `get_batch` of IInt8Calibrator: {four}",
        f"- `get_tensor_shape` of ICudaEngine, IExecutionContext: {four}",
        f"- `set_flag` of IBuilderConfig, OnnxParser: {four}, {ten}",
        f"- `cuda.mem_alloc`: {four}",
    ]
