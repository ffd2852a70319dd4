"""Two things that Sphinx does not do by itself: mathematics as MathML, which browsers draw without a script, and links
to files of the repository that are no pages."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

from website.repository import Repository

__all__ = ["setup"]


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


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's hook."""
    app.add_config_value("repository", None, "html", types=[Repository])
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_post_transform(LinksToTheRepository)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
