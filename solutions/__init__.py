"""The executed notebooks, the hidden checks, grading and the sandbox. Students get none of it."""
