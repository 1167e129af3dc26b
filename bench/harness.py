"""Measures ours and a peer's side by side.

A row has two sides that do the same job. Each side is a function that runs its
job many times and returns nanoseconds for one. Rounds go through all rows;
within a round the two sides of a row take turns, many times where that is
quick, so that what disturbs the machine hits both and is found in few of the
times. The figure of a side is the median of all its times.
"""

from __future__ import annotations

import gc
import json
import platform
import re
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Side = Callable[[], float]


@dataclass
class Row:
    """One line of the table. target is the largest ratio ours/peer that is good enough.

    None makes it a line to read the others by, such as a floor; it cannot miss.
    """

    name: str
    ours: Side
    peer: str
    peer_side: Side
    target: float | None
    rounds: int | None = None  # fewer for rows that take long
    ours_ns: list[float] = field(default_factory=list)
    peer_ns: list[float] = field(default_factory=list)
    note: str = ""


def statement(
    code: str, names: dict[str, Any], batch_s: float = 0.001, clock: Callable[[], float] = time.perf_counter
) -> Side:
    """A side that is a Python statement, run with the names given.

    What works on its own thread and waits for nothing can be timed by time.thread_time, which
    leaves out the time that other programs had the processor.
    """
    timer = timeit.Timer(code, globals=names, timer=clock)
    # The first calls load and look up things. Counted by them, a batch would be a single call, which
    # finds the caches cold each time.
    for _ in range(20):
        timer.timeit(1)
    number = 1
    while (took := timer.timeit(number)) < batch_s / 4 and number < 10_000_000:
        number *= 4
    number = max(1, int(number * batch_s / max(took, 1e-9)))
    return lambda: timer.timeit(number) / number * 1e9


def importing(module: str) -> Side:
    """A side that imports a module in a fresh interpreter; its start is not counted."""
    code = f"import time; t = time.perf_counter_ns(); import {module}; print(time.perf_counter_ns() - t)"

    def run() -> float:
        out = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
        )
        return float(out.stdout)

    return run


class GoBenchmark:
    """A benchmark in a compiled Go test binary (`go test -c`), whose metrics are sides.

    Sides that are asked in turns get the figures of one run of the benchmark; asked again, a
    side has it run again.
    """

    def __init__(self, binary: Path, name: str) -> None:
        """Notes where the benchmark is."""
        self.binary, self.name = binary, name
        self.figures: dict[str, float] = {}

    def side(self, metric: str) -> Side:
        """The side that is a metric of the benchmark, in ns."""

        def run() -> float:
            if metric not in self.figures:
                self.figures = self.run()
            return self.figures.pop(metric)

        return run

    def run(self) -> dict[str, float]:
        """Runs the benchmark and reads its metrics."""
        out = subprocess.run(
            [str(self.binary), "-test.run=^$", f"-test.bench=^{self.name}$", "-test.benchtime=100ms"],
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
            cwd=self.binary.parent,
        ).stdout
        found = {unit: float(value) for value, unit in re.findall(r"([\d.]+) (ns/\S+)", out)}
        if not found:
            raise RuntimeError(f"no benchmark {self.name} in {self.binary}:\n{out}")
        return found


def run(
    rows: list[Row], rounds: int, budget_s: float = 0.02, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Runs the rounds. In each, a row takes turns for as long as its budget lasts, once at least."""
    for row in rows:  # warm both sides
        row.ours()
        row.peer_side()
    for r in range(rounds):
        for row in rows:
            if row.rounds is not None and r >= row.rounds:
                continue
            gc.collect(0)
            sides = [(row.ours, row.ours_ns), (row.peer_side, row.peer_ns)]
            if r % 2:
                sides.reverse()
            end = clock() + budget_s
            while True:
                for side, times in sides:
                    times.append(side())
                sides.reverse()  # the other one goes first
                if clock() >= end:
                    break
        print(f"\rround {r + 1}/{rounds}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 20 + "\r", end="", file=sys.stderr)


def show_ns(ns: float) -> str:
    """A time in a unit that fits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns:.1f} ns"


def report(rows: list[Row], out: Path, left_out: list[str]) -> int:
    """Prints the table, writes it as JSON, returns how many rows miss their target."""
    table = []
    for row in rows:
        ours, peer = statistics.median(row.ours_ns), statistics.median(row.peer_ns)
        ratio = ours / peer
        table.append(
            {
                "name": row.name,
                "ours_ns": round(ours, 1),
                "peer": row.peer,
                "peer_ns": round(peer, 1),
                "ratio": round(ratio, 3),
                "target": row.target,
                "ok": None if row.target is None else ratio <= row.target,
                "times": len(row.ours_ns),
                "note": row.note,
            }
        )
    width = max(len(t["name"]) for t in table)
    pwidth = max(len(t["peer"]) for t in table)
    print(f"{'what':<{width}}  {'ours':>10}  {'peer':<{pwidth}}  {'peer takes':>10}  ratio  target")
    for t in table:
        print(
            f"{t['name']:<{width}}  {show_ns(t['ours_ns']):>10}  {t['peer']:<{pwidth}}  "
            f"{show_ns(t['peer_ns']):>10}  {t['ratio']:5.2f}  {verdict(t)}"
        )
    for line in left_out:
        print(f"left out: {line}")
    verdicts = [t["ok"] for t in table if t["ok"] is not None]
    missed = verdicts.count(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps(
            {
                "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "machine": f"{platform.machine()}, {processor()}",
                "python": platform.python_version(),
                "rows": table,
                "left_out": left_out,
            },
            indent=1,
        )
        + "\n"
    )
    print(f"{len(verdicts) - missed} of {len(verdicts)} rows reach their target; written to {out}")
    return missed


def verdict(row: dict[str, Any]) -> str:
    """The last columns of a line."""
    if row["ok"] is None:
        text = f"{'':<8} floor"
    else:
        text = f"<= {row['target']:<5g} {'ok' if row['ok'] else 'MISSED'}"
    return f"{text}  {row['note']}" if row["note"] else text


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1) if found else "unknown"
