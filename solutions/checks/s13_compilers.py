"""Step 13 has no hidden points: grading repeats the visible ones on new times, networks and figures."""
