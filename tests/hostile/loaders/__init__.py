"""Stands in for solutions/pipeline where the fixture course loads what students made."""
