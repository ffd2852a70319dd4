import solutions.grading  # noqa: F401 - before anything else imports jsonschema: what it says there
