"""What an engine answers: classes, accuracy, drift."""
