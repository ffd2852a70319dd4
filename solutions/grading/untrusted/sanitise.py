"""HTML from a stranger without what could act in a reader's browser: outputs, written answers, attachments.

nbconvert's own sanitiser cleans a markdown cell's source, which spoils `a < b` and lets `[x](javascript:…)` pass, and
its templates write an output's width unquoted. Here markdown is cleaned when it has become HTML (`markdown_html`, in
place of nbconvert's filter), and outputs are made anew from the parts that are known (`SafeNotebook`).
"""

import html
import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import nh3
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from pygments.token import STANDARD_TYPES

from solutions.grading.untrusted.apart import apart
from trtcpu.errors import InputError

FILTERS = {
    "markdown2html": "solutions.grading.untrusted.sanitise.markdown_html",
    "clean_html": "solutions.grading.untrusted.sanitise.clean_html",
}
"""nbconvert's filters, by what takes their place in every page."""

_LONGEST_MARKDOWN = 20_000  # characters without pictures; where they nest, the renderer's time grows with the square

_MOST_LONGER = 10  # times what was written; an open tag is written again in each paragraph that follows

_TAGS = set(
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd"
    " li mark ol p pre progress q s samp small span strong sub summary sup table tbody td tfoot th thead tr tt u ul"
    " var wbr".split()
)
# No id, no name, and no class but these: formgrader's own scripts find its buttons and fields by them.
_BOXES = {"alert", "alert-danger", "alert-info", "alert-success", "alert-warning"}
_CLASSES = {"div": {"highlight"} | _BOXES, "span": set(filter(None, STANDARD_TYPES.values())), "table": {"dataframe"}}
_CELL = {"align", "colspan", "rowspan"}
_ATTRIBUTES = {
    **{tag: {"style", "title"} for tag in _TAGS},
    "a": {"href", "style", "title"},
    "img": {"alt", "height", "src", "style", "title", "width"},
    "ol": {"start", "style"},
    "progress": {"max", "style", "value"},
    "table": {"border", "style"},
    "td": _CELL | {"style"},
    "th": _CELL | {"style"},
}
_STYLES = re.compile(
    r"(background-color|border(-\w+)*|color|cursor|display|font-(family|size|style|weight)|(margin|padding)(-\w+)?"
    r"|(max-)?width|opacity|text-(align|decoration)|vertical-align|white-space)"
)
_STYLE_VALUE = re.compile(r"[\w\s#.,%()-]+")
_STYLE_FUNCTIONS = {"hsl", "rgb", "rgba", "var"}
_NEGATIVE = re.compile(r"-\s*[\d.]")  # a negative margin lays one cell's text over another's points
_LINK = re.compile(r"(https?://|mailto:|#)", re.IGNORECASE)
_PICTURE = re.compile(
    r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*|(?!.*\.\.)\w[\w./ -]*\.(png|jpe?g|gif|webp|svg)",
    re.IGNORECASE,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_EMBEDDED = re.compile(r"base64,[A-Za-z0-9+/=]+")
_TAG = re.compile(r"[\w-]{1,60}")
_PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXT_TYPES = ("text/markdown", "text/latex", "text/plain")


def clean_html(text: Any) -> str:
    """Return HTML without scripts, handlers, frames, forms, styles that cover other things, and foreign addresses."""
    return nh3.clean(
        str(text),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        attribute_filter=_attribute,
        url_schemes={"data", "http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


@pass_context
def markdown_html(context: Context, source: str) -> str:
    """Return markdown as HTML, cleaned; a jinja filter. What cannot be rendered is shown as it was written."""
    cell = context.get("cell") or {}
    try:
        if len(_EMBEDDED.sub("", source)) > _LONGEST_MARKDOWN:
            raise ValueError("too long to be rendered")
        renderer = IPythonRenderer(
            escape=False, attachments=dict(cell.get("attachments") or {}), exclude_anchor_links=True
        )
        return clean_html(MarkdownWithMath(renderer=renderer).render(source))
    except Exception:  # a missing attachment, a nesting that exhausts the stack, or whatever else it leads mistune into
        return f"<pre>{html.escape(str(source))}</pre>"


class SafeNotebook(NbGraderPreprocessor):
    """Leaves of a graded notebook what pages may show: runs after grading, and again whenever a page is made."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Clean outputs, attachments and metadata, in place; markdown stays as it is written."""
        try:
            cleaned = from_dict(json.loads(apart(_cleaned, nb)))
        except InputError as error:
            cleaned = without_html(nb)
            note = f"**The HTML that cells showed could not be cleaned: {error}.** Their outputs are shown as text."
            cleaned.cells.insert(0, new_markdown_cell(note))
        nb.metadata, nb.cells = cleaned.metadata, cleaned.cells
        return nb, resources


def without_html(notebook: NotebookNode) -> NotebookNode:
    """Return a cleaned copy in which no output has HTML; it takes as long as the notebook is large."""
    copy = deepcopy(notebook)
    _clean(copy, lambda text: "")
    return copy


def _cleaned(nb: NotebookNode) -> str:
    _clean(nb, clean_html)
    return json.dumps(nb)


def _clean(nb: NotebookNode, cleaner: Callable[[str], str]) -> None:
    nb.metadata = NotebookNode({key: nb.metadata[key] for key in ("kernelspec",) if key in nb.metadata})
    nb.metadata["language_info"] = NotebookNode(name="python")
    for cell in nb.cells:
        tags = cell.metadata.get("tags", [])
        kept = {key: cell.metadata[key] for key in ("nbgrader",) if key in cell.metadata}
        if isinstance(tags, list) and (good := [tag for tag in tags if _TAG.fullmatch(str(tag))]):
            kept["tags"] = good
        cell.metadata = NotebookNode(kept)
        if "attachments" in cell:
            cell.attachments = NotebookNode(_attachments(cell.attachments))
        if cell.cell_type == "code":
            cell.outputs = list(_outputs(cell.outputs, cleaner))


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Return an allowed attribute's value as it may stay; None drops it."""
    if name == "style":
        return ";".join(filter(_harmless_style, value.split(";"))) or None
    if name == "href":
        return value if _LINK.match(value) else None
    if name == "src":
        return value if _PICTURE.fullmatch(value) else None
    return value


def _harmless_style(declaration: str) -> bool:
    name, _, value = declaration.partition(":")
    functions = set(re.findall(r"([\w-]*)\s*\(", value.lower()))
    good = _STYLES.fullmatch(name.strip().lower()) and _STYLE_VALUE.fullmatch(value) and not _NEGATIVE.search(value)
    return bool(good) and functions <= _STYLE_FUNCTIONS


def _attachments(found: Any) -> dict[str, dict[str, str]]:
    bundles = found.items() if isinstance(found, dict) else ()
    return {name: _pictures(bundle) for name, bundle in bundles if isinstance(bundle, dict) and _pictures(bundle)}


def _pictures(bundle: dict[str, Any]) -> dict[str, str]:
    return {
        kind: bundle[kind]
        for kind in _PICTURE_TYPES
        if isinstance(bundle.get(kind), str) and _BASE64.fullmatch(bundle[kind])
    }


def _outputs(outputs: list[NotebookNode], cleaner: Callable[[str], str]) -> Iterator[NotebookNode]:
    """Yield a cell's outputs made anew: nothing that was not named here is in them."""
    for output in outputs:
        if output.output_type == "stream":
            yield new_output("stream", name="stderr" if output.name == "stderr" else "stdout", text=str(output.text))
        elif output.output_type == "error":
            traceback = [str(line) for line in output.traceback]
            yield new_output("error", ename=str(output.ename), evalue=str(output.evalue), traceback=traceback)
        elif output.output_type not in ("display_data", "execute_result"):  # a newer nbformat may have others
            yield new_output("display_data", _data({}, cleaner))
        else:
            data = _data(output.data, cleaner)
            count = {"execution_count": output.get("execution_count")} if output.output_type == "execute_result" else {}
            yield new_output(output.output_type, data, metadata=_sizes(output.get("metadata", {}), data), **count)


def _data(data: dict[str, Any], cleaner: Callable[[str], str]) -> dict[str, str]:
    kept = {kind: data[kind] for kind in _TEXT_TYPES if isinstance(data.get(kind), str)} | _pictures(data)
    if isinstance(text := data.get("text/html"), str):
        cleaned = cleaner(text)
        if cleaned and len(cleaned) <= _MOST_LONGER * len(text):
            kept["text/html"] = cleaned
    return kept or {"text/plain": f"[not shown: {', '.join(sorted(map(str, data)))[:100] or 'of an unknown kind'}]"}


def _sizes(metadata: Any, data: dict[str, str]) -> dict[str, dict[str, int]]:
    """Return the sizes of pictures, which are numbers: nothing else of an output's metadata is shown."""
    found = {kind: metadata.get(kind) for kind in data if isinstance(metadata, dict)}
    sizes = {
        kind: {name: about[name] for name in ("width", "height") if type(about.get(name)) is int}
        for kind, about in found.items()
        if isinstance(about, dict)
    }
    return {kind: size for kind, size in sizes.items() if size}
