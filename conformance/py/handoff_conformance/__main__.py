"""The child process: runs checks, or cells of the matrix, and prints one JSON object per line.

    python -m handoff_conformance list
    python -m handoff_conformance run TARGET [--only R001,R002] [--after CHECK]
    python -m handoff_conformance cell PRODUCER CONSUMER [--after N] [--cell N]
    python -m handoff_conformance serve

Before each check a line {"start": NAME} is printed, so that whoever reads knows which check ended the
process. --after skips the checks up to a name: that is how a run goes on after a crash.

`serve` forks a child for each request, one JSON object per line on standard input: {"args": [...],
"stderr": FILE} runs one of the commands above, and {"exit": STATUS} follows its lines. {"enter": TARGET}
forks a server that has imported the library of a target and takes the requests from then on, until
{"leave": true}: children of it need not import again. Nothing but the import happens before the fork.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

from . import core, targets
from .checks import CHECKS

# Libraries may print, from C too: the protocol has a descriptor to itself.
_out = 1


def say(**record: Any) -> None:
    data = (json.dumps(record, default=str) + "\n").encode()
    while data:
        data = data[os.write(_out, data) :]


def run(name: str, only: set[str], after: str) -> int:
    try:
        t = targets.find(name)
    except targets.Missing as e:
        say(missing=str(e))
        return 3
    say(target=t.name, version=t.version, why=t.why, python=sys.version.split()[0])
    # Each check collects garbage several times: what the libraries made at import need not be looked at.
    gc.collect()
    gc.freeze()
    skipping = bool(after)
    for c in CHECKS.values():
        if skipping:
            skipping = c.name != after
            continue
        if only and not only & set(c.rules):
            continue
        say(start=c.name, rules=c.rules)
        record = core.run(
            c, t, lambda text, rule: say(at=text, rule=rule), lambda rule, what: say(broke=rule, what=what)
        )
        lost = t.machine.lost() if hasattr(t.machine, "lost") else ""
        if lost:  # nothing behind this check could be decided here: it ends the process like a crash
            sys.stderr.write(f"Lost: {lost}\n")
            return 86
        if only:
            record["rules"] = {r: s for r, s in record["rules"].items() if r in only}
        say(done=record)
    say(end=True)
    return 0


def command(args: list[str]) -> int:
    p = argparse.ArgumentParser(prog="handoff_conformance")
    p.add_argument("what", choices=["list", "run", "cell", "serve"])
    p.add_argument("names", nargs="*")
    p.add_argument("--only", default="")
    p.add_argument("--after", default="")
    p.add_argument("--cell", type=int, default=-1)
    a = p.parse_args(args)
    if a.what == "list":
        for c in CHECKS.values():
            say(check=c.name, side=c.side, rules=c.rules, text=c.text)
        return 0
    if a.what == "serve":
        serve()
    if a.what == "cell":
        from . import matrix

        return matrix.run(a.names[0], a.names[1], say, int(a.after or 0), a.cell)
    return run(a.names[0], set(filter(None, a.only.split(","))), a.after)


def _request() -> dict[str, Any]:
    """The next line of standard input, and no byte more: another process may read on."""
    line = b""
    while not line.endswith(b"\n"):
        c = os.read(0, 1)
        if not c:
            os._exit(0)
        line += c
    request: dict[str, Any] = json.loads(line)
    return request


def serve() -> None:
    while True:
        q = _request()
        if "leave" in q:
            os._exit(0)
        pid = os.fork()
        if pid:
            _, status = os.waitpid(pid, 0)
            say(exit=os.waitstatus_to_exitcode(status), of="enter" if "enter" in q else "args")
        elif "enter" in q:
            say(pid=os.getpid())
            error = targets.preload(q["enter"])
            gc.collect()
            gc.freeze()
            say(entered=q["enter"], error=error)
        else:
            say(pid=os.getpid())
            if q.get("stderr"):
                os.dup2(os.open(q["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            status = 1
            with contextlib.suppress(BaseException):
                try:
                    status = command(q["args"])
                except BaseException as e:
                    sys.stderr.write(f"{type(e).__name__}: {e}\n")
                    raise
            os._exit(status)


def main() -> int:
    global _out
    _out = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    faulthandler.enable()
    return command(sys.argv[1:])


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    status = main()
    # Tensors that a library did not release would call into an interpreter that is gone.
    os._exit(status)
