"""Content-Security-Policy of the pages that show a stranger's work: should anything pass the sanitiser, it cannot act.

A feedback page runs no script at all and loads nothing. Formgrader's pages run nbgrader's own files and those inline
scripts whose digests are in the page's header: they are taken from the page as it is without the submission.
"""

import base64
import hashlib
import html
import re
from typing import Any

from nbformat.v4 import new_notebook
from nbgrader.server_extensions.formgrader import handlers
from nbgrader.server_extensions.formgrader.base import BaseHandler
from tornado import web

from solutions.grading.untrusted.rendering import PageExporter

_NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'"
FEEDBACK_POLICY = f"{_NOTHING_ELSE}; style-src 'unsafe-inline'; font-src data:; img-src data: 'self' file:"
_FILES_POLICY = f"sandbox; {_NOTHING_ELSE}; frame-ancestors 'self'; style-src 'unsafe-inline'; img-src data: 'self'"

_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
_HANDLER = re.compile(r"""<[^<>]*\son\w+="([^"<>]*)\"""", re.IGNORECASE)
_FONTS = re.compile(r"@font-face\s*\{[^}]*\}")
_MATHJAX = re.compile(r"<!-- Load mathjax -->.*?<!-- End of mathjax configuration -->", re.DOTALL)
# formgrade.js waits for MathJax, which would come from a foreign host, before it scrolls: this says that it is done.
_NO_MATHJAX = (
    "<script>MathJax = {Hub: {Startup: {signal: {Interest: function (f) { setTimeout(f, 0, 'End'); }}}}};</script>"
)
_SPECIAL = re.compile(r'[<>"\\\x00-\x1f]')


def strict_head(head: str) -> str:
    """Return a feedback page's head with its policy, and without what that forbids; a jinja filter."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{FEEDBACK_POLICY}" />'
    return _FONTS.sub("", _SCRIPT.sub("", str(head))).replace("<head>", f"<head>\n{policy}", 1)


def formgrader_policy(page: str, static: str) -> str:
    """Return the policy of a page of formgrader.

    Args:
        page: the page with nothing of a submission in it: its inline scripts and handlers may run.
        static: the address of nbgrader's own scripts, which ends with a slash; a whole host would hold submitted files.
    """
    inline = [text for attributes, text in _SCRIPT.findall(page) if "src=" not in attributes]
    inline += [html.unescape(text) for text in _HANDLER.findall(_SCRIPT.sub("", page))]
    digests = sorted({base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline})
    scripts = " ".join([static, "'unsafe-hashes'", *(f"'sha256-{digest}'" for digest in digests)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    )


def guard_formgrader() -> None:
    """Give formgrader's pages their policy. nbgrader has no setting for it, so nbgrader_config.py calls this."""
    if getattr(BaseHandler.render, "guarded", False):
        return
    plain = BaseHandler.render

    def render(self: BaseHandler, name: str, **values: Any) -> str:
        _check_names({key: value for key, value in values.items() if key != "current_config"})
        page = plain(self, name, **values)
        _set_policy(self, page)
        return page

    render.guarded = True
    BaseHandler.render = render
    handlers.SubmissionHandler.exporter = property(_Guarded)
    handlers.SubmissionFilesHandler.content_security_policy = _FILES_POLICY


class _Guarded:
    """The exporter of one page with a submission: it sets the page's policy too."""

    def __init__(self, handler: BaseHandler) -> None:
        self._handler, self._exporter = handler, PageExporter(config=handler.settings["nbgrader_exporter"].config)

    def from_filename(self, filename: str, resources: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the page of a graded notebook, as nbconvert's exporters do."""
        _check_names(resources)
        empty, _ = self._exporter.from_notebook_node(new_notebook(), resources=dict(resources))
        _set_policy(self._handler, _MATHJAX.sub(_NO_MATHJAX, empty, count=1))
        page, resources = self._exporter.from_filename(filename, resources=resources)
        return _MATHJAX.sub(_NO_MATHJAX, page, count=1), resources


def _set_policy(handler: BaseHandler, page: str) -> None:
    host = handler.request.host
    static = f"{host}{handler.base_url}/formgrader/static/" if "[" not in host else "'self'"  # IPv6 fits no policy
    handler.set_header("Content-Security-Policy", formgrader_policy(page, static))


def _check_names(values: dict[str, Any]) -> None:
    """Refuse names that nbgrader's templates, which escape nothing, would write into a page as something else."""
    for value in values.values():
        if isinstance(value, dict):
            _check_names(value)
        elif isinstance(value, str) and _SPECIAL.search(value):
            raise web.HTTPError(400, f"{value[:80]!r} is no name that a page can show; rename the folder in submitted/")
