"""The site that readers browse: executed solutions, hand-out and docs as static pages. `make site` builds it.

sources.py lays out what the pages are made from, notebook.py takes out what is the grader's, conf.py is Sphinx's,
repository.py knows which files are pages and where the others can be read, links.py looks at what was built.
"""
