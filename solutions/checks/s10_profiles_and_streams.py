"""Hidden points of step 10: the outputs of the engine with several profiles."""

from helpers.checks.points.s10_profiles_and_streams import ENGINE, PROFILES
from solutions.checks.trusted import builder

builder.ask(PROFILES, ENGINE, outputs=0.25)
