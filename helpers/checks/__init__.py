"""The visible checks: points, the probes that they ask, and the cards that they show."""
