"""Claims of step 5: its points on fresh networks and images."""

from helpers.checks.points.s05_inference import points
from solutions.checks.core.claim import award

CELL = "inference_class"

award("inference.outputs", 2.25, points.outputs, cell=CELL)
award("inference.inputs", 1, points.inputs, cell=CELL)
award("inference.copies", 1, points.copies, cell=CELL)
award("inference.independent", 0.75, points.independent, cell=CELL)
award("inference.synchronised", 1, points.synchronised, cell=CELL)
award("inference.two_instances", 0.75, points.two_instances, cell=CELL)
award("inference.shapes", 0.5, points.shapes, cell=CELL)
award("inference.batches", 0.5, points.batches, cell=CELL)
award("inference.loading", 0.25, points.loading, cell=CELL)
award("inference.interface", 0.5, points.interface, cell=CELL)
award("inference.closed", 0.5, points.closed, cell=CELL)
award("inference.memory", 0.75, points.instances, cell=CELL)
award("inference.calls", 0.25, points.one_instance, cell=CELL)
