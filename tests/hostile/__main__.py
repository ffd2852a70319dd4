"""`python -m tests.hostile`: every attack with its guard off, where it must reach its goal, and with all guards on.

`make hostile` runs it. Classes are graded one after the other, each in a throw-away namespace.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

os.environ["TRT_LAB_ENGINE"] = "cpu"  # read where the grader is imported

from helpers.tools.files import write_json
from tests.hostile.attack import GROUPS, Attack
from tests.hostile.attacks import ATTACKS
from tests.hostile.course import make_template
from tests.hostile.judged import controls, guarded
from tests.hostile.ways_out import A_FEW, led_out
from trtcpu.errors import EngineError, LabError

SANDBOXES = ("bubblewrap", "landlock")
USERS = ("ordinary", "root")


def main(
    only: Annotated[str, typer.Option(help="One group of attacks, or one attack.")] = "",
    sandbox: Annotated[str, typer.Option(help="bubblewrap, landlock, both, or none: the controls only.")] = "both",
    user: Annotated[str, typer.Option(help="ordinary, root or both.")] = "both",
    quick: Annotated[
        bool, typer.Option("--quick", help="The first attack of each group, as an ordinary user.")
    ] = False,
    skip_controls: Annotated[bool, typer.Option("--skip-controls", help="With all guards on only.")] = False,
    out: Annotated[Path, typer.Option(help="Where the results go.")] = Path("results/hostile.json"),
) -> None:
    """Run the attacks; exit 1 where one reached its goal, or a control did not."""
    try:
        chosen = [attack for attack in ATTACKS.values() if only in ("", attack.group, attack.name)]
        if quick:
            user, chosen = "ordinary", [next(one for one in chosen if one.group == name) for name in GROUPS]
        if not chosen:
            raise EngineError(f"no attack or group {only!r}; the groups are {', '.join(GROUPS)}")
        with tempfile.TemporaryDirectory(prefix="hostile-", dir="/var/tmp") as folder:  # /tmp is another one inside
            make_template(Path(folder))
            ways = None if only else A_FEW if quick else []
            sys.exit(_run(Path(folder), chosen, ways, sandbox, user, skip_controls, out))
    except LabError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)


def _run(
    folder: Path,
    chosen: list[Attack],
    ways: list[str] | None,
    sandbox: str,
    user: str,
    skip_controls: bool,
    out: Path,
) -> int:
    started, dead, results = time.monotonic(), [], {}
    for verdict in [] if skip_controls else controls(folder, chosen):
        _say("guard off", verdict.attack, "reaches its goal" if verdict.reached else "DOES NOT REACH ITS GOAL")
        dead += [] if verdict.reached else [verdict.attack.name]
    for kind in {"both": SANDBOXES, "none": ()}.get(sandbox, (sandbox,)):
        for who in USERS if user == "both" else (user,):
            results[f"{kind}, {who}"] = _held(folder, chosen, ways, kind, who)
    minutes = round((time.monotonic() - started) / 60, 1)
    write_json(out, {"attacks": len(chosen), "dead": dead, "minutes": minutes, "sandboxes": results})
    named = f" ({', '.join(dead)})" if dead else ""
    print(f"{len(chosen)} attacks, {len(dead)} dead{named}, {minutes} min → {out}")
    for name, result in results.items():
        print(f"{name}: {len(result['failed'])} failed · ways out {result['ways out']}")
    return 1 if dead or any(result["failed"] or result["ways out"] for result in results.values()) else 0


def _held(folder: Path, chosen: list[Attack], ways: list[str] | None, kind: str, user: str) -> dict[str, Any]:
    """Return what did not hold with all guards on, in a sandbox of this kind."""
    failed = {}
    for verdict in guarded(folder, chosen, kind, ordinary=user == "ordinary"):
        _say(f"{kind}, {user}", verdict.attack, "; ".join(verdict.faults) or "held")
        failed |= {verdict.attack.name: verdict.faults} if verdict.faults else {}
    led = {} if ways is None else led_out(kind, ways, user)
    for name, what in led.items():
        print(f"{kind}, {user} · way out · {name} · {what}", flush=True)
    return {"failed": failed, "ways out": sorted(led)}


def _say(where: str, attack: Attack, what: str) -> None:
    print(f"{where} · {attack.group} · {attack.name} · {what}", flush=True)


if __name__ == "__main__":
    typer.run(main)
