"""The suite can fail: each rule has a reference that breaks it, and the suite says so."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time

import pytest

from handoff_conformance import core, gpu, reference
from handoff_conformance.checks import CHECKS

RULES = sorted({r for c in CHECKS.values() for r in c.rules})
# Rules whose reference pretends to have a GPU.
GPU = {
    f"R{n:03d}"
    for n in (37, 102, *range(126, 132), 137, 138, 140, 142, 145, 146, 148, 153, *range(166, 199), *range(260, 278))
}
GPU |= {"R287", "R288"}
ROCM = {"R133", "R134"}
# Decided by no reference in good order, with the reason.
UNDECIDED = {
    "R258": "Python 3.12 and later; before, only an object that has the method of its own is looked at",
}


def run(fault: str, only: set[str]) -> dict[str, list[str]]:
    """Statuses per rule of a reference, from a child process: some faults end it."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        faulthandler.disable()  # a crash is what some are here for, and not a fault of this run
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        good = fault in ("", "gpu", "rocm")  # and need not be ended
        signal.alarm(300 if good else 20)
        gpu.PATIENCE = 10.0 if good else 0.3
        core.PATIENCE = 1.0 if good else 0.1
        out = os.fdopen(w, "w")
        t = reference.Reference(fault)
        for c in CHECKS.values():
            if only and not only & set(c.rules):
                continue
            out.write(json.dumps({"start": c.name, "rules": c.rules}) + "\n")
            out.flush()
            record = core.run(c, t)
            out.write(
                json.dumps({"done": {r: s["status"] + " " + s.get("what", "") for r, s in record["rules"].items()}})
                + "\n"
            )
            out.flush()
        out.close()
        os._exit(0)
    os.close(w)
    found: dict[str, list[str]] = {}
    open_rules: list[str] = []
    with os.fdopen(r) as lines:
        for text in lines:
            d = json.loads(text)
            if "start" in d:
                open_rules = d["rules"]
            else:
                open_rules = []
                for rule, status in d["done"].items():
                    found.setdefault(rule, []).append(status)
    end = time.monotonic() + 30
    _, code = os.waitpid(pid, 0)
    assert time.monotonic() < end
    if code:
        for rule in open_rules:
            found.setdefault(rule, []).append(f"crashed {code}")
    return found


def bad(statuses: list[str]) -> list[str]:
    return [s for s in statuses if s.startswith(("broken", "crashed", "error"))]


@pytest.mark.parametrize("mode", ["", "gpu", "rocm"])
def test_the_good_reference_keeps_every_rule(mode: str) -> None:
    found = run(mode, set())
    assert {r: bad(s) for r, s in found.items() if bad(s)} == {}


def test_every_check_runs_on_some_reference() -> None:
    decided = set()
    for mode in ("", "gpu", "rocm"):
        decided |= {r for r, s in run(mode, set()).items() if any(x.startswith("kept") for x in s)}
    assert set(RULES) - decided - set(UNDECIDED) == set()


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_reported(rule: str) -> None:
    mode = "rocm," if rule in ROCM else "gpu," if rule in GPU else ""
    found = run(mode + rule, {rule}).get(rule, [])
    assert bad(found), f"nothing was reported: {found}"
