"""The course around the notebooks: labs and release made from solutions/, autograding, grades and feedback."""
