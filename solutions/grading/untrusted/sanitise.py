"""HTML from a stranger without what could act in a reader's browser: outputs, written answers, attachments.

nbconvert's own sanitiser cleans a markdown cell's source, which spoils `a < b` and lets `[x](javascript:…)` pass, and
its templates write an output's width unquoted. Here markdown is cleaned when it has become HTML (`markdown_html`, in
place of nbconvert's filter), and outputs are made anew from the parts that are known (`safe_notebook`).
"""

import html
import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jinja2
import nh3
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_markdown_cell, output_from_msg
from pygments.token import STANDARD_TYPES

from solutions.grading.untrusted.apart import apart
from trtcpu.errors import InputError

_LONGEST_MARKDOWN = 20_000  # characters without pictures; if they nest, the renderer's time grows with the square
_MOST_LONGER = 10  # times what was written; an open tag is written again in each paragraph that follows
_TAGS = set(
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd"
    " li mark ol p pre progress q s samp small span strong sub summary sup table tbody td tfoot th thead tr tt u ul"
    " var wbr".split()
)
# No id, no name, and no class but these: formgrader's own scripts find its buttons and fields by them.
_CLASSES = {
    "div": {"highlight", "alert", "alert-danger", "alert-info", "alert-success", "alert-warning"},
    "span": set(filter(None, STANDARD_TYPES.values())),
    "table": {"dataframe"},
}
_ATTRIBUTES = {
    **{tag: {"style", "title"} for tag in _TAGS},
    "a": {"href", "style", "title"},
    "img": {"alt", "height", "src", "style", "title", "width"},
    "ol": {"start", "style"},
    "progress": {"max", "style", "value"},
    "table": {"border", "style"},
    **dict.fromkeys(("td", "th"), {"align", "colspan", "rowspan", "style"}),
}
# No function but those of colours, so no address; no negative margin, which lays a cell's text over another's points.
_STYLE = re.compile(
    r"\s*(background-color|border(-\w+)*|color|cursor|display|font-(family|size|style|weight)|(margin|padding)(-\w+)?"
    r"|(max-)?width|opacity|text-(align|decoration)|vertical-align|white-space)\s*:"
    r"(?!.*-\s*[\d.])((?<![\w-])(hsl|rgba?|var)\s*\(|[\w\s#.,%)-])+",
    re.DOTALL | re.IGNORECASE,
)
_ADDRESSES = {
    "href": re.compile(r"(https?://|mailto:|#).*", re.IGNORECASE | re.DOTALL),
    "src": re.compile(
        r"data:image/(png|jpeg|gif|webp);base64,[a-z0-9+/=\s]*|(?!.*\.\.)\w[\w./ -]*\.(png|jpe?g|gif|webp|svg)",
        re.IGNORECASE,
    ),
}
_PICTURES = dict.fromkeys(("image/png", "image/jpeg", "image/gif", "image/webp"), re.compile(r"[A-Za-z0-9+/=\s]*"))
_KINDS = {**dict.fromkeys(("text/markdown", "text/latex", "text/plain"), re.compile(".*", re.DOTALL)), **_PICTURES}


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


@jinja2.pass_context
def markdown_html(context: jinja2.runtime.Context, source: str) -> str:
    """Return markdown as HTML, cleaned; a jinja filter. What cannot be rendered is shown as it was written."""
    attachments = (context.get("cell") or {}).get("attachments") or {}
    try:
        if len(re.sub(r"base64,[A-Za-z0-9+/=]+", "", source)) > _LONGEST_MARKDOWN:
            raise ValueError("too long to be rendered")
        renderer = IPythonRenderer(escape=False, attachments=dict(attachments), exclude_anchor_links=True)
        return clean_html(MarkdownWithMath(renderer=renderer).render(source))
    except Exception:  # a missing attachment, a nesting that exhausts the stack, or whatever else it leads mistune into
        return f"<pre>{html.escape(str(source))}</pre>"


def safe_notebook(nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
    """Leave in a graded notebook, in place, what pages may show; markdown stays as it is written.

    A preprocessor of nbconvert, which runs after grading, and again whenever a page is made.
    """
    try:
        cleaned = from_dict(json.loads(apart(_cleaned, nb, clean_html)))
    except InputError as error:
        cleaned = without_html(nb)
        note = f"**The HTML that cells showed could not be cleaned: {error}.** Their outputs are shown as text."
        cleaned.cells.insert(0, new_markdown_cell(note))
    nb.metadata, nb.cells = cleaned.metadata, cleaned.cells
    return nb, resources


def without_html(notebook: NotebookNode) -> NotebookNode:
    """Return a cleaned copy in which no output has HTML; it takes as long as the notebook is large."""
    return from_dict(json.loads(_cleaned(deepcopy(notebook), lambda text: "")))


def _cleaned(nb: NotebookNode, cleaner: Callable[[str], str]) -> str:
    """Clean a notebook in place; return it as JSON."""
    kernel = {key: nb.metadata[key] for key in ("kernelspec",) if key in nb.metadata}
    nb.metadata = NotebookNode(kernel, language_info={"name": "python"})
    for cell in nb.cells:
        tags = cell.metadata.get("tags")
        known = [tag for tag in tags if re.fullmatch(r"[\w-]{1,60}", str(tag))] if isinstance(tags, list) else []
        kept = {"nbgrader": cell.metadata.get("nbgrader"), "tags": known}
        cell.metadata = NotebookNode({key: value for key, value in kept.items() if value})
        found = cell.pop("attachments", None)
        if isinstance(found, dict):
            cell.attachments = {name: _kept(one, _PICTURES) for name, one in found.items() if isinstance(one, dict)}
        if cell.cell_type == "code":
            cell.outputs = [_output(output, cleaner) for output in cell.outputs]
    return json.dumps(nb)


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "style":
        return ";".join(filter(_STYLE.fullmatch, value.split(";"))) or None
    return value if name not in _ADDRESSES or _ADDRESSES[name].fullmatch(value) else None


def _kept(bundle: dict[str, Any], kinds: dict[str, re.Pattern]) -> dict[str, str]:
    return {
        kind: bundle[kind]
        for kind, allowed in kinds.items()
        if isinstance(bundle.get(kind), str) and allowed.fullmatch(bundle[kind])
    }


def _output(output: NotebookNode, cleaner: Callable[[str], str]) -> NotebookNode:
    """Return an output made anew: nothing that is not named here or by nbformat is in it."""
    kinds = ("stream", "error", "display_data", "execute_result")
    known = output if output.output_type in kinds else {}  # a newer nbformat may have others
    data = _data(known.get("data", {}), cleaner)
    texts = {part: str(known.get(part, "")) for part in ("text", "ename", "evalue")}
    content = {
        **{"execution_count": None, **known, **texts},
        "name": "stderr" if known.get("name") == "stderr" else "stdout",
        "traceback": [str(line) for line in known.get("traceback", [])],
        "data": data,
        "metadata": _sizes(known.get("metadata"), data),
    }
    return output_from_msg({"header": {"msg_type": known.get("output_type", "display_data")}, "content": content})


def _data(data: dict[str, Any], cleaner: Callable[[str], str]) -> dict[str, str]:
    kept = _kept(data, _KINDS)
    if isinstance(text := data.get("text/html"), str):
        cleaned = cleaner(text)
        if cleaned and len(cleaned) <= _MOST_LONGER * len(text):
            kept["text/html"] = cleaned
    return kept or {"text/plain": f"[not shown: {', '.join(sorted(map(str, data)))[:100] or 'of an unknown kind'}]"}


def _sizes(metadata: Any, data: dict[str, str]) -> dict[str, dict[str, int]]:
    """Return the sizes of pictures, which are numbers: nothing else of an output's metadata is shown."""
    return {
        kind: {name: metadata[kind][name] for name in ("width", "height") if type(metadata[kind].get(name)) is int}
        for kind in data
        if isinstance(metadata, dict) and isinstance(metadata.get(kind), dict)
    }
