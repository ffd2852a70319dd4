"""The course around the notebooks: labs and release made from solutions/, autograding, grades and feedback."""

import sys

# jsonschema builds a grammar from it for 1.4 seconds, for formats of no schema here
sys.modules.setdefault("rfc3987_syntax", None)
