"""Sphinx's configuration. Nothing in it makes a page load anything from the network."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website.glossary import PAGE, entries  # noqa: E402
from website.repository import Repository  # noqa: E402

repository = Repository.at(ROOT)
glossary = tuple(entries((ROOT / f"{PAGE}.md").read_text()))

project = "TensorRT optimisation lab"
copyright = "the authors, Apache-2.0"
language = "en"
extensions = ["myst_nb", "website.sphinx_extension", "website.glossary"]
root_doc = "index"

nb_execution_mode = "off"  # the notebooks are shown as they were committed
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_merge_streams = True
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath", "html_image", "tasklist"]
myst_heading_anchors = 4
html_math_renderer = "drawn"

pygments_dark_style = "github-dark"

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6e63",
        "color-brand-content": "#0b6e63",
        "color-brand-visited": "#0b6e63",
    },
    "dark_css_variables": {
        "color-brand-primary": "#4fc3b0",
        "color-brand-content": "#4fc3b0",
        "color-brand-visited": "#4fc3b0",
    },
}
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_search_scorer = str(ROOT / "website" / "search.js")
html_use_index = False
