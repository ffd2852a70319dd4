"""What only the grader has: reference artifacts, trusted runs of plans, trusted measurements."""
