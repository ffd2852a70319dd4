"""Claims of step 1: its points, on a fresh classifier, a fresh ONNX model and fresh images."""

from functools import partial

from helpers.checks.points import s01_export
from helpers.checks.points.case import Case
from solutions.checks.core.claim import Earned, award, claim, shared

EXPORT, SIMPLIFY, FILES = "export_model", "simplify_model", "export_files"

award("export.file", 0.5, s01_export.file, cell=EXPORT)
award("export.names", 0.25, s01_export.names, cell=EXPORT)
award("export.batch", 0.5, s01_export.batch_axis, cell=EXPORT)


@claim("export.outputs", cell=EXPORT, points=1, title=s01_export.outputs.title)
def outputs(case: Case) -> Earned:
    return shared([partial(s01_export.outputs_at, case, batch) for batch in s01_export.BATCHES])


award("export.inference", 0.5, s01_export.inference, cell=EXPORT)
award("export.opset", 0.25, s01_export.opset, cell=EXPORT)
award("export.folded", 0.25, s01_export.folded, cell=EXPORT)

award("simplify.same", 0.5, s01_export.same, cell=SIMPLIFY)
award("simplify.smaller", 0.25, s01_export.smaller, cell=SIMPLIFY)
award("simplify.refuses", 0.5, s01_export.refuses, cell=SIMPLIFY)

award("export.deliverables", 0.5, s01_export.deliverables, cell=FILES)
