"""Step 5 has no hidden points: the grader asks those of the visible check, on fresh networks and images."""
