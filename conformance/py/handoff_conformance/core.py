"""Checks, verdicts, and how one check is run on one target."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import abi


class Skip(Exception):  # noqa: N818
    """The check does not apply to the target; the text says why."""


@dataclass
class Check:
    """One check: what it is called, the rules it decides, and which side of an exchange it looks at."""

    name: str
    rules: tuple[str, ...]
    side: str  # "producer", "consumer", "exchange", "cai", "array interface", "buffer", "stream", "conversion"
    run: Callable[[Any, Verdict], None]

    @property
    def text(self) -> str:
        return (self.run.__doc__ or "").strip().split("\n")[0]


CHECKS: dict[str, Check] = {}


def check(side: str, *rules: str) -> Callable[[Callable[[Any, Verdict], None]], Callable[[Any, Verdict], None]]:
    """Registers a function as the check of some rules."""

    def register(run: Callable[[Any, Verdict], None]) -> Callable[[Any, Verdict], None]:
        name = run.__name__
        if name in CHECKS:
            raise ValueError(f"two checks are called {name}")
        CHECKS[name] = Check(name, rules, side, run)
        return run

    return register


@dataclass
class Verdict:
    """What one check found: per rule, what is broken; rules that the check did not get to decide."""

    broken: dict[str, list[str]] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tell: Callable[[str, str], None] | None = None
    found: Callable[[str, str], None] | None = None

    def input(self, text: str, rule: str = "") -> None:
        """Says what the target is given next, and which rule is at stake should the process end."""
        if text not in self.inputs:
            self.inputs.append(text)
        if self.tell is not None:
            self.tell(text, rule)

    def expect(self, ok: bool, rule: str, what: str) -> bool:
        """The rule is broken unless ok."""
        if not ok:
            at = f" [{self.inputs[-1]}]" if self.inputs else ""
            self.broken.setdefault(rule, []).append(what + at)
            if self.found is not None:
                self.found(rule, what + at)
        return bool(ok)

    def skip(self, rule: str, why: str) -> None:
        """The check cannot decide the rule on this target."""
        self.undecided.setdefault(rule, why)

    def note(self, text: str) -> None:
        """Something worth reading that breaks no rule, such as which of two allowed ways was taken."""
        self.notes.append(text)


def run(
    c: Check,
    target: Any,
    tell: Callable[[str, str], None] | None = None,
    found: Callable[[str, str], None] | None = None,
) -> dict[str, Any]:
    """Runs a check and returns its record: status per rule, what was given, what happened.

    tell is called with each input before it is given, found with each rule that is broken, for whoever has to
    explain a crash.
    """
    v = Verdict(tell=tell, found=found)
    start = time.monotonic()
    record: dict[str, Any] = {"check": c.name, "side": c.side, "text": c.text}
    error = ""
    try:
        c.run(target, v)
    except Skip as e:
        record["skip"] = str(e)
    except Exception as e:  # noqa: BLE001  whatever the target raises where nothing may be raised
        error = f"{type(e).__name__}: {e}"
        record["trace"] = traceback.format_exc(limit=-4)
    gc.collect()
    rules: dict[str, dict[str, str]] = {}
    for r in c.rules:
        if r in v.broken:
            rules[r] = {"status": "broken", "what": "; ".join(v.broken[r][:4])}
        elif error:
            rules[r] = {"status": "error", "what": error}
        elif "skip" in record:
            rules[r] = {"status": "skipped", "what": record["skip"]}
        elif r in v.undecided:
            rules[r] = {"status": "skipped", "what": v.undecided[r]}
        else:
            rules[r] = {"status": "kept"}
    record.update(rules=rules, inputs=v.inputs[:12], notes=v.notes[:8], seconds=round(time.monotonic() - start, 4))
    return record


def brief(e: BaseException) -> str:
    """An exception in a few words."""
    text = str(e).split("\n")[0]
    return f"{type(e).__name__}: {text[:120]}"


def attempt(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """The result and None, or None and the exception without its frames."""
    try:
        return f(*args, **kwargs), None
    except Exception as e:  # noqa: BLE001
        e.__traceback__ = None
        e.__context__ = None
        return None, e


PATIENCE = 1.0  # seconds to wait for a library that releases late


def settle(done: Callable[[], bool], seconds: float | None = None) -> bool:
    """Collects garbage until done, as some libraries release late and on other threads."""
    end = time.monotonic() + (PATIENCE if seconds is None else seconds)
    while not done():
        gc.collect()
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


@dataclass
class Look:
    """What an array says of itself, in one vocabulary."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    dtype: tuple[int, int, int]
    readonly: bool | None
    device: tuple[int, int] = (1, 0)

    def __str__(self) -> str:
        """What is the same on every run."""
        where = "" if tuple(self.device) == (1, 0) else f" on {tuple(self.device)}"
        return f"as {tuple(self.dtype)} {tuple(self.shape)} strides {tuple(self.strides)}{where}"

    def values(self) -> list[Any]:
        return abi.read(self.address, self.shape, self.strides, self.dtype)


_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def look(obj: Any) -> Look:
    """Reads an array through what it exports: DLPack, else the array interface."""
    if hasattr(type(obj), "__dlpack__"):
        cap, err = attempt(obj.__dlpack__, max_version=(1, 3))
        if err is not None:
            cap, err = attempt(obj.__dlpack__)
        if err is None:
            e = abi.Export(cap)
            ro = bool(e.flags & abi.READ_ONLY) if e.versioned else None
            got = Look(e.data, e.shape, e.strides, e.dtype, ro, e.device)
            del e, cap
            return got
    ai = getattr(obj, "__array_interface__", None)
    if ai is not None:
        kind, size = ai["typestr"][1], int(ai["typestr"][2:])
        steps = ai.get("strides")
        shape = tuple(ai["shape"])
        strides = tuple(s // size for s in steps) if steps else abi.row_major(shape)
        return Look(ai["data"][0], shape, strides, (_KINDS.get(kind, 3), size * 8, 1), ai["data"][1])
    raise Skip(f"cannot look into a {type(obj).__name__}")
