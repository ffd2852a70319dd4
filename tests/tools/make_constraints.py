"""Write constraints.txt: exact versions for each supported Python, resolved by pip without installing anything.

    python tests/tools/make_constraints.py python3.10 python3.11 python3.12 > constraints.txt

Each argument is an interpreter with a recent pip; the versions that differ between them get an environment marker.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def resolved(python: str) -> tuple[str, dict[str, str]]:
    """Return the interpreter's `major.minor` and the version of each package that the project needs there."""
    version = subprocess.check_output(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True
    ).strip()
    pip = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    command = [*pip, ".[bonus,dev,site]"]
    report = json.loads(subprocess.check_output(command, text=True, cwd=ROOT))
    found = {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in report["install"]}
    found.pop("trt-lab")
    return version, found


def main(pythons: list[str]) -> None:
    """Print one line a package and version."""
    by_package: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    versions = []
    for python in pythons:
        minor, packages = resolved(python)
        versions.append(minor)
        for name, version in packages.items():
            by_package[name][version].append(minor)
    print("# Exact versions that the project is tested with; made by tests/tools/make_constraints.py.")
    for name, found in sorted(by_package.items()):
        for version, minors in found.items():
            marker = " or ".join(f'python_version == "{minor}"' for minor in minors)
            print(f"{name}=={version}" + ("" if minors == versions else f" ; {marker}"))


if __name__ == "__main__":
    main(sys.argv[1:])
