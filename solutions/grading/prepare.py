"""`python -m solutions.grading.prepare STEP FOLDER`: prepares a step's artifacts; prints one JSON line.

It holds the `notes`, and the `environment` that the reference offers to the step's kernel.
"""

import json
import sys

from solutions.checks.trusted.reference import offered_environment
from solutions.checks.trusted.workspace import prepare

if __name__ == "__main__":
    notes = prepare(sys.argv[1], sys.argv[2])
    print(json.dumps({"notes": notes, "environment": offered_environment([sys.argv[1]])}))
