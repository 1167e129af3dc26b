"""Programs with a limit that does not depend on what else the machine does.

A wall clock cannot tell a program that hangs from one that waits for a processor. So the limit is on what the program
itself does: it may use so many seconds of processor time, and may be idle for so many seconds.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROCESSORS = 4  # how many a program may keep busy for the whole of its time
TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
IDLE = 0.005  # of a processor: what pollers and collectors use of a program in which nothing goes on


def processor_time(pid: int) -> float | None:
    """Seconds that a process and those that it started have used, also those that have ended; None if not told."""
    total, found, waiting = 0, False, [pid]
    while waiting:
        p = waiting.pop()
        try:
            fields = Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split()
            for task in os.listdir(f"/proc/{p}/task"):
                waiting += map(int, Path(f"/proc/{p}/task/{task}/children").read_text().split())
        except (OSError, ValueError):
            continue
        total += sum(map(int, fields[11:15]))
        found = True
    return total / TICK if found else None


class Limit:
    """The limit of a process: over() says why it has been reached, or nothing."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.pid, self.seconds = pid, seconds
        self.marks = [(time.monotonic(), 0.0)]  # when, and how much processor time by then

    def over(self) -> str:
        now, used = time.monotonic(), processor_time(self.pid)
        if used is None:
            return "" if now - self.marks[0][0] < self.seconds else f"{self.seconds} s have passed"
        if used > self.seconds * PROCESSORS:
            return f"{used:.1f} s of processor time used"
        self.marks.append((now, used))
        # The latest mark that is old enough tells what went on since.
        while len(self.marks) > 1 and self.marks[1][0] <= now - self.seconds:
            del self.marks[0]
        since, before = self.marks[0]
        if now - since >= self.seconds and used - before < (now - since) * IDLE:
            return f"{used - before:.2f} s of processor time used in the last {now - since:.0f} s"
        return ""


def run(args: Sequence[str], *, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """subprocess.run with captured text, whose limit is a Limit."""
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as p:
        limit = Limit(p.pid, timeout)
        while True:
            try:
                out, err = p.communicate(timeout=1)
                return subprocess.CompletedProcess(args, p.returncode, out, err)
            except subprocess.TimeoutExpired as e:
                if why := limit.over():
                    p.kill()
                    raise AssertionError(f"the program hangs: {why}\n{e.stdout!r}\n{e.stderr!r}") from None
