"""The last step before a stranger's command: gives up rights that it still has, then becomes the command.

    python -I -S inside KIND SPECIFICATION COMMAND …

The specification is JSON, of Landlock: environment, reads, writes, devices and names. Imports nothing outside this
folder, since a sandbox has no solutions/.
"""

import json
import os
import sys
from typing import Any

import landlock
import minder
import seccomp


def confine(asked: dict[str, Any]) -> None:
    """Restrict this process to the files that were asked for, and from other processes."""
    # Its own entry of /proc and nobody else's. Open, so that the kernel does not forget which one has the rule.
    os.set_inheritable(os.open(f"/proc/{os.getpid()}", os.O_PATH), True)
    landlock.restrict(asked["reads"], asked["writes"], asked["devices"], f"/proc/{os.getpid()}", asked["names"])
    seccomp.install(alone=False, own_signals=landlock.version() < landlock.SCOPED)


def main() -> None:
    """Restrict this process, then run the command in its place."""
    kind, asked, argv = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
    if kind == "bubblewrap":
        seccomp.install(alone=True, own_signals=False)

    def become() -> None:
        if kind == "landlock":
            confine(asked)
        os.execvpe(argv[0], argv, asked.get("environment", os.environ))

    minder.mind(become)


main()
