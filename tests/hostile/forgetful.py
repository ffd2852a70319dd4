"""The fixture course's judge, with the guard of what its children answered off."""

import hashlib

from solutions.grading.judge.child import Memory
from tests.hostile.judge import main

__all__ = ["main"]

Memory.ask = lambda self, request: hashlib.sha256(request).hexdigest()  # whatever was asked before
