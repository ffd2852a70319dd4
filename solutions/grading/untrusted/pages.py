"""Pages that show a stranger's work: rendered in a child process, with a policy in case anything passes the sanitiser.

A feedback page runs no script at all and loads nothing. Formgrader's pages run nbgrader's own files and those inline
scripts whose digests are in the page's header: they are taken from the page as it is without the submission.
"""

import base64
import hashlib
import html
import re
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import Exporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.server_extensions.formgrader import handlers
from nbgrader.server_extensions.formgrader.base import BaseHandler
from tornado import web
from traitlets.config import Config

from solutions.grading.outcome import is_test_cell
from solutions.grading.untrusted.apart import apart
from solutions.grading.untrusted.sanitise import without_html
from trtcpu.errors import InputError

# What replaces nbconvert's filters in every page, and the filter that the feedback's template adds.
FILTERS = {
    "markdown2html": "solutions.grading.untrusted.sanitise.markdown_html",
    "clean_html": "solutions.grading.untrusted.sanitise.clean_html",
    "strict_head": "solutions.grading.untrusted.pages.strict_head",
}
_NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'"
_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
_MATHJAX = re.compile(r"<!-- Load mathjax -->.*?<!-- End of mathjax configuration -->", re.DOTALL)
# formgrade.js waits for MathJax, which would come from a foreign host, before it scrolls: this says that it is done.
_NO_MATHJAX = (
    "<script>MathJax = {Hub: {Startup: {signal: {Interest: function (f) { setTimeout(f, 0, 'End'); }}}}};</script>"
)


def strict_head(head: str) -> str:
    """Return a feedback page's head with its policy, and without what that forbids; a jinja filter."""
    policy = f"{_NOTHING_ELSE}; style-src 'unsafe-inline'; font-src data:; img-src data: 'self' file:"
    plain = re.sub(r"@font-face\s*\{[^}]*\}", "", _SCRIPT.sub("", str(head)))
    return plain.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}" />', 1)


@cache
def guard_formgrader() -> None:
    """Give formgrader's pages their policy. nbgrader has no setting for it, so nbgrader_config.py calls this."""
    plain = BaseHandler.render

    def render(self: BaseHandler, name: str, **values: Any) -> str:
        _check_names({key: value for key, value in values.items() if key != "current_config"})
        page = plain(self, name, **values)
        set_policy(self, page)
        return page

    BaseHandler.render = render
    handlers.SubmissionHandler.exporter = property(
        lambda self: SimpleNamespace(from_filename=partial(graded_page, self))
    )
    handlers.SubmissionFilesHandler.content_security_policy = (
        f"sandbox; {_NOTHING_ELSE}; frame-ancestors 'self'; style-src 'unsafe-inline'; img-src data: 'self'"
    )


def graded_page(handler: BaseHandler, filename: str, resources: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return formgrader's page of a graded notebook, as nbconvert's exporters do, and set its policy."""
    _check_names(resources)
    exporter = PageExporter(config=handler.settings["nbgrader_exporter"].config)
    empty, _ = exporter.from_notebook_node(new_notebook(), resources=dict(resources))
    set_policy(handler, _MATHJAX.sub(_NO_MATHJAX, empty, count=1))
    page, resources = exporter.from_filename(filename, resources=resources)
    return _MATHJAX.sub(_NO_MATHJAX, page, count=1), resources


def set_policy(handler: BaseHandler, page: str) -> None:
    """Set the policy of a page of formgrader.

    Args:
        handler: what answers with the page.
        page: the page with nothing of a submission in it: its inline scripts and handlers may run.
    """
    static = f"{handler.request.host}{handler.base_url}/formgrader/static/"  # a whole host would hold submitted files
    inline = [text for attributes, text in _SCRIPT.findall(page) if "src=" not in attributes]
    inline += map(html.unescape, re.findall(r'(?i)<[^<>]*\son\w+="([^"<>]*)"', _SCRIPT.sub("", page)))
    digests = sorted({base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline})
    own = "'self'" if "[" in static else static  # IPv6 fits no policy
    scripts = " ".join([own, "'unsafe-hashes'", *(f"'sha256-{digest}'" for digest in digests)])
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    )
    handler.set_header("Content-Security-Policy", policy)


def _check_names(values: dict[str, Any]) -> None:
    """Refuse names that nbgrader's templates, which escape nothing, would write into a page as something else."""
    for value in values.values():
        if isinstance(value, dict):
            _check_names(value)
        elif isinstance(value, str) and re.search(r'[<>"\\\x00-\x1f]', value):
            raise web.HTTPError(400, f"{value[:80]!r} is no name that a page can show; rename the folder in submitted/")


class PageExporter(HTMLExporter):
    """nbconvert's exporter, whose template is filled in a child process with limits."""

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        """Return the page of a notebook; one that cannot be rendered says so, and shows its graded cells as text."""
        nb, resources = Exporter.from_notebook_node(self, nb, resources, **kw)
        told = {name: value for name, value in resources.items() if not callable(value)}  # the child has its own
        config = Config({name: self.config[name] for name in self.section_names() if name in self.config})
        try:
            return apart(_page, type(self), config, nb, told), resources
        except InputError as error:
            return _page(type(self), config, _plain(nb, str(error)), told), resources


def _page(kind: type[PageExporter], config: Config, nb: NotebookNode, resources: dict[str, Any]) -> str:
    exporter = kind(config=config)
    exporter._preprocessors = []  # they have run
    return HTMLExporter.from_notebook_node(exporter, nb, resources)[0]


def _plain(notebook: NotebookNode, why: str) -> NotebookNode:
    """Return the cells that have a name, as text without markup; the course names cells, so that they are few."""
    note = f"**The notebook could not be rendered: {why}.** What follows are its tasks and checks, as plain text."
    plain = without_html(notebook)
    plain.metadata["language_info"] = NotebookNode(name="text")
    named = [
        new_code_cell(cell.source[:20_000], metadata=cell.metadata, outputs=cell.outputs if is_test_cell(cell) else [])
        for cell in plain.cells
        if "nbgrader" in cell.metadata
    ]
    plain.cells = [new_markdown_cell(note), *named]
    return plain
