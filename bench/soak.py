#!/usr/bin/env python3
"""Exchanges arrays of all kinds for a while and fails when anything is left behind.

    bench/soak.py SECONDS

Each turn runs every kind of exchange many times: arrays of every installed
library into Go, arrays of Go into every library, views that outlive their call,
errors and panics. What is compared afterwards: the counters of exports and pins
in the process, the reference counts of the Python objects, and the growth of
resident memory over the second half of the run. The last line is "N passed,
N failed", one for each of these checks; the exit status is 1 if one failed.
"""

from __future__ import annotations

import array
import gc
import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build" / "ext"))

import gobench
import numpy as np

TURN = 2000  # exchanges of one kind in a turn
GROWTH = 4 << 20  # bytes of resident memory that the second half may add


def resident() -> int:
    """Bytes of resident memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def kinds() -> dict[str, tuple[Callable[[], Any], list[Any]]]:
    """Each kind of exchange: a function that does one, and the objects it uses."""
    a = np.arange(64, dtype=np.float32)
    b = a.reshape(8, 8)[::-1, ::2]
    std = array.array("d", range(16))
    frozen = np.arange(8)
    frozen.flags.writeable = False
    table: dict[str, tuple[Callable[[], Any], list[Any]]] = {
        "numpy": (lambda: gobench.take1(a), [a]),
        "three numpy": (lambda: gobench.take3(a, b, a), [a, b]),
        "array.array": (lambda: gobench.take1(std), [std]),
        "bytes": (lambda: gobench.take1(b"soak"), []),
        "kept past the call": (lambda: gobench.keep(a), [a]),
        "made by Go": (lambda: np.from_dlpack(gobench.make(4, 4)), []),
        "made by Go, unused": (lambda: gobench.make(4, 4), []),
        "a copy made by Go": (lambda: gobench.transposed(b), [b]),
        "refused: read-only": (lambda: raises(gobench.fill, frozen), [frozen]),
        "refused: no array": (lambda: raises(gobench.take1, object()), []),
        "an error": (lambda: raises(gobench.fails, a), [a]),
        "a panic": (lambda: raises(gobench.panics, a), [a]),
        "a capsule": (lambda: gobench.take1(a.__dlpack__()), [a]),
        "a capsule, versioned": (lambda: gobench.take1(a.__dlpack__(max_version=(1, 3))), [a]),
        "a capsule, unused": (lambda: gobench.make(2, 2).__dlpack__(max_version=(1, 0)), []),
    }
    if importlib.util.find_spec("tvm_ffi"):
        import tvm_ffi

        t = tvm_ffi.from_dlpack(a)
        table["tvm-ffi"] = (lambda: gobench.take1(t), [t])
        x = tvm_ffi.core.DLTensorTestWrapper(t)
        table["an exchange table"] = (lambda: gobench.take1(x), [x])
        table["tvm-ffi, made by Go"] = (lambda: tvm_ffi.from_dlpack(gobench.make(4, 4)), [])
    if importlib.util.find_spec("jax"):
        import jax.dlpack
        import jax.numpy as jnp

        j = jnp.arange(16.0).block_until_ready()
        table["jax"] = (lambda: gobench.take1(j), [])
        table["jax, made by Go"] = (lambda: jax.dlpack.from_dlpack(gobench.make(16, 16)), [])
    if importlib.util.find_spec("array_api_strict"):
        import array_api_strict as xp

        s = xp.asarray(a)
        table["array-api-strict"] = (lambda: gobench.take1(s), [])
    if importlib.util.find_spec("pyarrow"):
        import pyarrow as pa

        column = pa.array([1.0, 2.0, 3.0])
        table["pyarrow"] = (lambda: gobench.take1(column), [column])
    if importlib.util.find_spec("torch"):
        import torch

        p = torch.arange(16.0)
        table["torch"] = (lambda: gobench.take1(p), [])
        table["torch, made by Go"] = (lambda: torch.from_dlpack(gobench.make(4, 4)), [])
    return table


def raises(function: Callable[[Any], Any], x: Any) -> None:
    """Runs what must raise."""
    try:
        function(x)
    except Exception:
        return
    raise AssertionError(f"{function} did not raise")


def on_threads(job: Callable[[], Any], count: int, threads: int = 4) -> None:
    """Spreads a job over threads; the first exception is raised here."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(count // threads):
                job()
        except BaseException as err:
            errors.append(err)

    pool = [threading.Thread(target=work) for _ in range(threads)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    if errors:
        raise errors[0]


def slope(samples: list[tuple[float, int]]) -> float:
    """Bytes a second, by least squares."""
    n = len(samples)
    mx = sum(x for x, _ in samples) / n
    my = sum(y for _, y in samples) / n
    over = sum((x - mx) * (y - my) for x, y in samples)
    under = sum((x - mx) ** 2 for x, _ in samples)
    return over / under if under else 0.0


def settle() -> list[int]:
    """Runs both collectors until the counters stand still; returns them."""
    last: list[int] = []
    for _ in range(50):
        gc.collect()
        now = list(gobench.stats())  # runs Go's collector
        if now == last:
            break
        last = now
    return last


def main() -> int:
    """Runs the soak and the checks."""
    seconds = float(sys.argv[1].removesuffix("s")) if len(sys.argv) > 1 else 60.0
    table = kinds()
    for job, _ in table.values():  # warm up: caches, pools, threads
        for _ in range(200):
            job()
    on_threads(table["numpy"][0], 400)
    before, refs = settle(), {k: [sys.getrefcount(o) for o in objs] for k, (_, objs) in table.items()}

    samples: list[tuple[float, int]] = []
    done = dict.fromkeys(table, 0)
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        for name, (job, _) in table.items():
            turn = TURN // 20 if "panic" in name or "jax" in name else TURN
            if done[name] // turn % 5 == 4:
                on_threads(job, turn)
            else:
                for _ in range(turn):
                    job()
            done[name] += turn
        gc.collect()
        samples.append((time.monotonic() - start, resident()))

    after = settle()
    half = samples[len(samples) // 2 :]
    grown = slope(half) * (half[-1][0] - half[0][0]) if len(half) > 2 else 0.0
    changed = {
        k: (refs[k], now)
        for k, (_, objs) in table.items()
        if (now := [sys.getrefcount(o) for o in objs]) != refs[k]
    }

    for name, n in done.items():
        print(f"  {name:<24} {n:>12,}")
    print(f"  {'all':<24} {sum(done.values()):>12,} exchanges in {time.monotonic() - start:.0f} s")
    checks = [
        (f"live exports and pins: {before} before, {after} after", after == before),
        (f"reference counts changed: {changed or 'none'}", not changed),
        (
            f"resident memory: {samples[-1][1] >> 20} MiB, {grown / (1 << 20):+.2f} MiB over the second half",
            grown < GROWTH,
        ),
    ]
    for text, ok in checks:
        print(f"{'ok' if ok else 'FAILED':<7} {text}")
    failed = sum(not ok for _, ok in checks)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
