"""Stands in for trtlab where the fixture course loads what students made."""
