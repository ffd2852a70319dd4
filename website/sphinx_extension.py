"""Three things that Sphinx does not do by itself: mathematics as drawings, which need no script and no font of the
reader's, links to files of the repository that are no pages, and texts that the search reads without a server."""

import json
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator
from ziamath import Latex

from website.repository import Repository

_SIZE = 20.0  # points; only ratios to it are written


class LinksToTheRepository(SphinxPostTransform):
    """A link to a file or folder that is no page leads to the repository; one to nothing is left for MyST to report."""

    default_priority = 5  # before MyST resolves its links

    def run(self, **kwargs: object) -> None:
        repository: Repository = self.config.repository
        for link in list(self.document.findall(pending_xref)):
            if link["reftype"] != "myst" or link["refdomain"] is not None:
                continue
            page = str(self.env.doc2path(link["refdoc"], base=False))
            path = repository.linked(page, link["reftarget"])
            if path is not None:
                link.replace_self(nodes.reference("", "", *link.children, refuri=repository.address(path)))


def formula(tex: str, inline: bool) -> str:
    """Return LaTeX drawn as SVG in the text's colour, as large as the text around it and on its baseline."""
    drawn = Latex(tex, size=_SIZE, color="currentColor", inline=inline)
    svg = drawn.svgxml()
    width, height = (float(svg.attrib.pop(name)) / _SIZE for name in ("width", "height"))
    place = f"width:{width:.3f}em;height:{height:.3f}em;vertical-align:{drawn.getyofst() / _SIZE:.3f}em"
    svg.attrib |= {"role": "img", "aria-label": tex, "style": place}
    return ElementTree.tostring(svg, encoding="unicode")


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(formula(node.astext(), inline=True))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{formula(node.astext(), inline=False)}</div>\n')
    raise nodes.SkipNode


def _keep_text(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Write a page's content as a script, for the snippets of search.js; the name of a fold is what it shows."""
    if doctree is not None:
        context["body"] = context["body"].replace(' aria-label="Toggle hidden content"', "")
        script = Path(app.outdir) / "_texts" / f"{page}.js"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"pageText = {json.dumps('<div role=main>' + context['body'] + '</div>')};\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's hook."""
    app.add_config_value("repository", None, "html", types=[Repository])
    app.add_html_math_renderer("drawn", (_inline, None), (_block, None))
    app.add_post_transform(LinksToTheRepository)
    app.connect("html-page-context", _keep_text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
