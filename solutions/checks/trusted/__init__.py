"""The grader's own means: reference artifacts, trusted runs of plans, trusted measurements."""
