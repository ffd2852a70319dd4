"""`python -m tests.hostile.forgetful`: the fixture course's judge, with the guard of what its children answered off."""

import hashlib

from solutions.grading.judge.memory import Memory
from tests.hostile import judge

Memory.ask = lambda self, request: hashlib.sha256(request).hexdigest()  # whatever was asked before

if __name__ == "__main__":
    judge.main()
