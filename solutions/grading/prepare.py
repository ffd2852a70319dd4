"""`python -m solutions.grading.prepare STEP FOLDER`: prepares a step's artifacts, prints the notes as one JSON line."""

import json
import sys

from solutions.checks.trusted.workspace import prepare

if __name__ == "__main__":
    notes = prepare(sys.argv[1], sys.argv[2])
    print(json.dumps(notes))
