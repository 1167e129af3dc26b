"""The child process: runs checks, or cells of the matrix, and prints one JSON object per line.

    python -m handoff_conformance list
    python -m handoff_conformance run TARGET [--only R001,R002] [--after CHECK]
    python -m handoff_conformance cell PRODUCER CONSUMER [--after N]

Before each check a line {"start": NAME} is printed, so that whoever reads knows which check ended the
process. --after skips the checks up to a name: that is how a run goes on after a crash.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any

from . import core, targets
from .checks import CHECKS


def say(**record: Any) -> None:
    sys.__stdout__.write(json.dumps(record, default=str) + "\n")
    sys.__stdout__.flush()


def run(name: str, only: set[str], after: str) -> int:
    try:
        t = targets.find(name)
    except targets.Missing as e:
        say(missing=str(e))
        return 3
    say(target=t.name, version=t.version, why=t.why, python=sys.version.split()[0])
    skipping = bool(after)
    for c in CHECKS.values():
        if skipping:
            skipping = c.name != after
            continue
        if only and not only & set(c.rules):
            continue
        say(start=c.name, rules=c.rules)
        record = core.run(c, t, lambda text, rule: say(at=text, rule=rule))
        if only:
            record["rules"] = {r: s for r, s in record["rules"].items() if r in only}
        say(done=record)
    say(end=True)
    return 0


def main() -> int:
    p = argparse.ArgumentParser(prog="handoff_conformance")
    p.add_argument("what", choices=["list", "run", "cell"])
    p.add_argument("names", nargs="*")
    p.add_argument("--only", default="")
    p.add_argument("--after", default="")
    a = p.parse_args()
    # Libraries may print; the protocol has standard output to itself.
    sys.stdout = sys.stderr
    faulthandler.enable()
    if a.what == "list":
        for c in CHECKS.values():
            say(check=c.name, side=c.side, rules=c.rules, text=c.text)
        return 0
    if a.what == "cell":
        from . import matrix

        return matrix.run(a.names[0], a.names[1], say, int(a.after or 0))
    return run(a.names[0], set(filter(None, a.only.split(","))), a.after)


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    status = main()
    sys.__stdout__.flush()
    # Tensors that a library did not release would call into an interpreter that is gone.
    os._exit(status)
