"""nbgrader's configuration of this course: `make labs`, `make grade`, formgrader and plain nbgrader all read it."""

from pathlib import Path

from helpers.tools.term import TERM
from solutions.grading.layout import StepFolders, exchange_folder, scripts_on_path
from solutions.grading.untrusted.pages import FILTERS, guard_formgrader
from solutions.grading.untrusted.timestamps import guard_timestamps

c = get_config()  # noqa: F821 - given by the loader of configuration files
scripts_on_path()
guard_formgrader()
guard_timestamps()

root = Path(__file__).resolve().parent
c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "trt-lab"
c.Exchange.root = exchange_folder(root)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "labs"
c.CourseDirectory.directory_structure = StepFolders("{nbgrader_step}/{student_id}/{assignment_id}")
# Not copied from a submission: what running it makes, and modules that would shadow the real ones.
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "__pycache__",
    "*.py",
    "*.pyc",
    "*.so",
    "*.engine",
    "*.onnx",
    "*.cache",
    "artifacts",
    "records",
    "feedback",
]

c.ClearSolutions.code_stub = {
    "python": '# YOUR CODE HERE\nraise NotImplementedError("fill in this TODO, then remove this line")'
}

# Seconds that one cell may take, with room for a slow laptop; nbgrader's own limit is 30.
c.Execute.timeout = 900
c.Execute.interrupt_on_timeout = True
c.Execute.iopub_timeout = 30

# What a submission holds is bounded before it is read, and cleaned before a page shows it.
c.Autograde.exporter_class = "solutions.grading.untrusted.limits.BoundedExporter"
c.HTMLExporter.filters = FILTERS
c.HTMLExporter.preprocessors = ["solutions.grading.untrusted.sanitise.safe_notebook"]
c.HTMLExporter.sanitize_html = True

c.Autograde.sanitize_preprocessors = [
    "solutions.grading.restore.RestoreCells",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "solutions.grading.execute.GradeExecute",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "solutions.grading.gradebook.SaveGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
    "solutions.grading.untrusted.sanitise.safe_notebook",
    "solutions.grading.feedback.marking_guide",
]

if TERM.late.percent_per_day:
    c.AssignLatePenalties.plugin_class = "solutions.grading.late.PerDay"

c.GenerateFeedback.exporter_class = "solutions.grading.feedback.FeedbackExporter"
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "solutions.grading.feedback.feedback_summary",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
