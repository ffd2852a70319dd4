"""Step 1 has no hidden points: the grader asks the visible ones on a fresh classifier, model and images."""
