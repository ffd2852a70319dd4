"""`python -m website --out results/site`: builds the site and looks at its links. A warning of Sphinx is an error."""

import argparse
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from solutions.grading.addresses import NOT_PUBLISHED
from website.links import problems
from website.repository import Repository
from website.sources import lay_out

HERE = Path(__file__).parent
NEEDED = ("sphinx", "furo", "myst_nb", "ziamath")


def build(repository: Repository, out: Path) -> int:
    """Write the site to `out`, which is made anew; return Sphinx's exit status."""
    from sphinx.cmd.build import main as sphinx

    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        sources.mkdir()
        lay_out(repository, sources)
        strict = ["-W", "--keep-going", "-n", "-q"]
        return sphinx([*strict, "-b", "html", "-c", str(HERE), "-d", f"{folder}/doctrees", str(sources), str(out)])


def main() -> None:
    """Build, check, and say where the start page is."""
    parser = argparse.ArgumentParser(description="Builds the site that readers browse.")
    parser.add_argument("--out", type=Path, default=Path("results/site"), help="folder of the site, made anew")
    out = parser.parse_args().out
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        sys.exit(f"error: the site needs {', '.join(missing)}, not installed here; run  make site")
    started, repository = time.perf_counter(), Repository.at(HERE.parent)
    if status := build(repository, out):
        sys.exit(status)
    if found := problems(out):
        sys.exit("\n".join(["error: the site has links that lead nowhere, or needs the network:", *found]))
    if not repository.published:
        print(NOT_PUBLISHED)
    print(f"Site: {(out / 'index.html').resolve()} ({time.perf_counter() - started:.0f} s)")


if __name__ == "__main__":
    main()
