"""Measures ours and a peer's side by side.

A row has two sides that do the same job. Each side is a function that runs its
job many times and returns nanoseconds for one. Rounds go through all rows, and
within a row the two sides take turns at going first, so that a slow minute of
the machine hits both; the figure of a side is the median of its rounds.
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
    """One line of the table. target is the largest ratio ours/peer that is good enough."""

    name: str
    ours: Side
    peer: str
    peer_side: Side
    target: float
    rounds: int | None = None  # fewer for rows that take long
    ours_ns: list[float] = field(default_factory=list)
    peer_ns: list[float] = field(default_factory=list)
    note: str = ""


def statement(code: str, names: dict[str, Any], batch_s: float = 0.01) -> Side:
    """A side that is a Python statement, run with the names given."""
    timer = timeit.Timer(code, globals=names)
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


def go_benchmark(binary: Path, name: str, metric: str) -> Side:
    """A side that is a metric of a benchmark in a compiled Go test binary (`go test -c`)."""

    def run() -> float:
        out = subprocess.run(
            [str(binary), "-test.run=^$", f"-test.bench=^{name}$", "-test.benchtime=100ms", "-test.benchmem"],
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
            cwd=binary.parent,
        ).stdout
        found = re.search(rf"([\d.]+) {re.escape(metric)}\s", out)
        if not found:
            raise RuntimeError(f"no benchmark {name} with {metric} in {binary}:\n{out}")
        return float(found.group(1))

    return run


def run(rows: list[Row], rounds: int) -> None:
    """Runs the rounds."""
    for row in rows:  # warm both sides
        row.ours()
        row.peer_side()
    for r in range(rounds):
        for row in rows:
            if row.rounds is not None and r >= row.rounds:
                continue
            gc.collect(0)
            sides = [(row.ours, row.ours_ns), (row.peer_side, row.peer_ns)]
            for side, times in sides if r % 2 == 0 else reversed(sides):
                times.append(side())
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
                "ok": ratio <= row.target,
                "rounds": len(row.ours_ns),
                "note": row.note,
            }
        )
    width = max(len(t["name"]) for t in table)
    pwidth = max(len(t["peer"]) for t in table)
    print(f"{'what':<{width}}  {'ours':>10}  {'peer':<{pwidth}}  {'peer takes':>10}  ratio  target")
    for t in table:
        print(
            f"{t['name']:<{width}}  {show_ns(t['ours_ns']):>10}  {t['peer']:<{pwidth}}  "
            f"{show_ns(t['peer_ns']):>10}  {t['ratio']:5.2f}  <= {t['target']:<5g} "
            f"{'ok' if t['ok'] else 'MISSED'}{'  ' + t['note'] if t['note'] else ''}"
        )
    for line in left_out:
        print(f"left out: {line}")
    missed = sum(not t["ok"] for t in table)
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
    print(f"{len(table) - missed} of {len(table)} rows reach their target; written to {out}")
    return missed


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1) if found else "unknown"
