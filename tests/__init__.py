import solutions.grading  # noqa: F401 - it has to come before jsonschema, as it says itself
