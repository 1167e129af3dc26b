#!/usr/bin/env python3
"""Exchanges arrays of all kinds for a while, with faults; fails if a value is wrong or anything is left.

    bench/soak.py DURATION            # 60s, 10m, or seconds

Threads take random exchanges: arrays of every installed library into Go, arrays of Go into every
library, views that outlive their call, streams and memory of the software device (or of a GPU, with
HANDOFF_DRIVER=cuda), exceptions and panics. Every value is looked at. Meanwhile driver calls fail at
random; an exchange may then end with a DriverError, and nothing else may differ. The software device hunts
for missing synchronization all the time. Half of the time goes to the same in Go, without Python (TestSoak
of package launch), with kernels and graphs.

What is random comes from HANDOFF_SOAK_SEED, which is printed. At the end are the counts: exchanges, bytes,
errors injected, leaks, the growth of resident memory. The last line is "N passed, N failed", one for each
check; the exit status is 1 if one failed.
"""

from __future__ import annotations

import array
import gc
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build" / "ext"))
if __name__ == "__main__" and "HANDOFF_DRIVER" not in os.environ:
    os.environ["HANDOFF_DRIVER"] = "soft"  # Go has read its environment when Python runs
    # The software device hunts for missing synchronization: what it finds is a line of this file.
    os.environ.setdefault("HANDOFF_SOFT_CHECK", str(Path(tempfile.mkdtemp()) / "races.jsonl"))
    os.execv(sys.executable, [sys.executable, *sys.argv])

import gobench  # noqa: E402
import handoff  # noqa: E402
import numpy as np  # noqa: E402
from handoff import Array, StridedMemoryView, _core  # noqa: E402

THREADS = 4
GROWTH = 6 << 20  # bytes of resident memory that the second half may add
LIMIT = 60  # seconds for a thread to end

# What may fail: not what gives something back, which would leave it behind.
FAULTY = [
    "cuMemAllocFromPoolAsync", "cuMemAllocAsync", "cuMemHostAlloc", "cuMemAllocManaged", "cuMemAlloc",
    "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyAsync", "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync", "cuMemcpy2DAsync", "cuMemsetD8Async", "cuMemsetD32Async",
    "cuStreamCreateWithPriority", "cuLaunchKernel", "cuLaunchHostFunc", "cuStreamQuery",
    "cuStreamIsCapturing", "cuStreamSynchronize", "cuEventQuery", "cuEventSynchronize",
    "cuPointerGetAttributes", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
    "cuStreamGetCtx", "cuCtxGetDevice",
]  # fmt: skip
CODES = [2, 46, 201, 801, 802, 999]


class Wrong(AssertionError):
    """A value that is not what it should be."""


def check(good: Any, what: str) -> None:
    """Raises Wrong."""
    if not good:
        raise Wrong(what)


def refused(
    kind: type[BaseException] | tuple[type[BaseException], ...], f: Callable[..., Any], *args: Any
) -> None:
    """Runs what must raise."""
    try:
        f(*args)
    except kind:
        return
    raise Wrong(f"{f} did not raise")


class Raises:
    """A producer whose n-th callback raises."""

    def __init__(self, n: int, of: Any) -> None:
        self.n, self.of = n, of

    def _tick(self) -> None:
        self.n -= 1
        if self.n == 0:
            raise RuntimeError("as asked")

    def __dlpack_device__(self) -> tuple[int, int]:
        self._tick()
        return (1, 0)

    def __dlpack__(self, **kw: Any) -> Any:
        self._tick()
        capsule = self.of.__dlpack__(**kw)
        self._tick()
        return capsule


class Producer:
    """An array of another library on a GPU, by DLPack."""

    def __init__(self, view: StridedMemoryView) -> None:
        self.view = view

    def __dlpack__(self, **kw: Any) -> Any:
        return self.view.__dlpack__(**kw)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.__dlpack_device__()


class Interface:
    """The same by the CUDA array interface."""

    def __init__(self, view: StridedMemoryView, stream: int) -> None:
        self.__cuda_array_interface__ = dict(view.__cuda_array_interface__, stream=stream)


class Host:
    """Exchanges of host memory."""

    def __init__(self) -> None:
        self.base = np.arange(4096.0)
        self.frozen = np.arange(8)
        self.frozen.flags.writeable = False
        self.std = array.array("d", range(16))
        self.objects: list[Any] = [self.base, self.frozen, self.std]
        self.others: list[Callable[[Any], Any]] = [np.from_dlpack, handoff.from_dlpack]
        self.given: list[tuple[Any, float]] = [(self.std, 120.0)]
        if importlib.util.find_spec("tvm_ffi"):
            import tvm_ffi

            self.others.append(lambda x: np.from_dlpack(tvm_ffi.from_dlpack(x)))
            t = tvm_ffi.from_dlpack(self.base)
            self.given.append((t, float(self.base.sum())))
            self.given.append((tvm_ffi.core.DLTensorTestWrapper(t), float(self.base.sum())))
        if importlib.util.find_spec("jax"):
            import jax.dlpack
            import jax.numpy as jnp

            self.others.append(lambda x: np.asarray(jax.dlpack.from_dlpack(x)))
            self.given.append((jnp.arange(16.0).block_until_ready(), 120.0))
        if importlib.util.find_spec("array_api_strict"):
            import array_api_strict as xp

            self.given.append((xp.asarray(self.base), float(self.base.sum())))
        if importlib.util.find_spec("pyarrow"):
            import pyarrow as pa

            self.given.append((pa.array([1.0, 2.0, 3.0]), 6.0))
        if importlib.util.find_spec("torch"):
            import torch

            self.others.append(lambda x: np.asarray(torch.from_dlpack(x)))
            self.given.append((torch.arange(16.0), 120.0))

    def into_go(self, r: random.Random) -> int:
        shape = (r.randint(0, 40), r.randint(1, 40))
        a = np.asarray(
            np.arange(shape[0] * shape[1]).reshape(shape), r.choice(["f8", "f4", "i4", "u2", "i8"])
        )
        v = r.choice([a, a.T, a[::-1], a[:, ::2], a[:, :1], a[1:]])
        check(gobench.total(v) == float(v.sum()), f"sum of {v.shape} {v.dtype} {v.strides}")
        return int(v.nbytes)

    def given_into_go(self, r: random.Random) -> int:
        x, want = r.choice(self.given)
        check(gobench.total(x) == want, f"sum of {type(x)}")
        return 128

    def out_of_go(self, r: random.Random) -> int:
        n, first = r.choice([0, 1, 7, 64, 1000, 20000]), float(r.randint(-9, 9))
        a = gobench.ramp(n, first)
        got = np.asarray(r.choice(self.others)(a))
        # jax makes float32 of it
        check(got.shape == (n,) and np.array_equal(got, first + np.arange(n)), f"ramp of {n}")
        return n * 8

    def in_place(self, r: random.Random) -> int:
        n, x = r.randint(1, 3000), float(r.randint(1, 9))
        a = r.choice([lambda: np.zeros(n), lambda: Array.zeros(n), lambda: memoryview(np.zeros(n))])()
        gobench.raise_by(a, x)
        check(gobench.total(a) == n * x, "in place")
        return n * 8

    def copied(self, r: random.Random) -> int:
        rows, cols = r.randint(1, 60), r.randint(1, 60)
        a = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols)
        a = a[::-1] if r.random() < 0.5 else a
        check(np.array_equal(np.from_dlpack(gobench.transposed(a)), a.T), "transposed")
        return int(a.nbytes)

    def kept(self, r: random.Random) -> int:
        gobench.keep(self.base[: r.randint(0, 4096)])
        return 0

    def capsules(self, r: random.Random) -> int:
        version = r.choice([None, (1, 0), (1, 3)])
        c = self.base.__dlpack__() if version is None else self.base.__dlpack__(max_version=version)
        if r.random() < 0.7:
            check(gobench.take1(c) == 4096, "extent by a capsule")
            refused(BufferError, gobench.take1, c)  # taken
        gobench.make(2, 2).__dlpack__(max_version=(1, 0))  # taken by nobody
        return 0

    def views(self, r: random.Random) -> int:
        a = Array.copy_of(self.base)
        v = StridedMemoryView.from_any_interface(a)
        w = StridedMemoryView.from_buffer(v, (64, 64), (1, 64), dtype="float64")
        check(np.array_equal(np.asarray(w), self.base.reshape(64, 64).T), "a view of a view")
        return int(a.nbytes)

    def errors(self, r: random.Random) -> int:
        refused((ValueError, BufferError), gobench.fill, self.frozen)
        refused(TypeError, gobench.take1, object())
        refused(RuntimeError, gobench.fails, self.base)
        if r.random() < 0.1:
            refused(handoff.GoPanic, gobench.panics, self.base)
        refused(RuntimeError, gobench.take1, Raises(r.randint(1, 3), self.base))
        return 0


class Device:
    """Exchanges of the memory of a device, on streams."""

    def __init__(self) -> None:
        self.device = handoff.Device(0)
        self.streams = [self.device.create_stream() for _ in range(6)]
        for s in self.streams:
            s.sync()

    def pair(self, r: random.Random) -> tuple[Any, Any]:
        return r.choice(self.streams), r.choice(self.streams)

    def exchange(self, r: random.Random) -> int:
        s, q = self.pair(r)
        n, value = r.choice([16, 64, 1024, 65536]), r.randint(0, 255)
        memory = r.choice(["device", "device", "pinned", "managed"])
        b = self.device.allocate(n, stream=s, kind=memory)
        b.used_on(q)  # it is, also where a call fails that would have waited for q
        b.fill(value, stream=s)
        v: Any = StridedMemoryView.from_buffer(b, (n,), dtype="uint8")
        kind = r.randrange(4)
        if kind == 0:
            v = StridedMemoryView.from_dlpack(Producer(v), q)
        elif kind == 1 and memory == "device":
            v = StridedMemoryView.from_cuda_array_interface(Interface(v, s.handle), q)
        elif kind == 2:
            v = StridedMemoryView.from_any_interface(v, q)
        else:
            q.wait(s)
        check(gobench.on_stream(v, stream=q) == n, "extent on a stream")
        host = Array.zeros((n,), "uint8")
        v.copy_to(host, q)
        q.sync()
        got = np.asarray(host)
        check((got == value).all(), f"{n} bytes of {value} by way {kind}: {got[:4]}")
        if r.random() < 0.7:
            v.release_on(q)
        b.close(q if r.random() < 0.5 else None)
        return 2 * n

    def strided(self, r: random.Random) -> int:
        s, q = self.pair(r)
        k = r.choice([4, 16, 32])
        a = np.arange(k * k, dtype=np.uint16).reshape(k, k)
        b = self.device.allocate(2 * k * k, stream=s)
        b.used_on(q)
        turned = StridedMemoryView.from_buffer(b, (k, k), (1, k), dtype="uint16")
        turned.copy_from(a, s)
        q.wait(s)
        back = Array.zeros((k, k), "uint16")
        StridedMemoryView.from_buffer(b, (k, k), dtype="uint16").copy_to(back, q)
        q.sync()
        check(np.array_equal(np.asarray(back), a.T), "turned on the device")
        return 4 * k * k

    def to_the_host(self, r: random.Random) -> int:
        s, _ = self.pair(r)
        n, value = r.choice([16, 4096]), r.randint(0, 255)
        b = self.device.allocate(n, stream=s)
        b.fill(value, stream=s)
        v = StridedMemoryView.from_buffer(b, (n,), dtype="uint8")
        got = np.asarray(handoff.from_dlpack(v, device="cpu", copy=True))
        check((got == value).all(), "copied to the host by the exporter")
        return n

    def events(self, r: random.Random) -> int:
        s, q = self.pair(r)
        e = s.record()
        q.wait(e)
        e.sync()
        if r.random() < 0.05:
            with self.device.create_stream() as own:
                own.wait(q)
                own.sync()
        return 0


class Faults(threading.Thread):
    """Makes driver calls fail, one at a time."""

    def __init__(self, seed: int) -> None:
        super().__init__(daemon=True)
        self.random, self.ended = random.Random(seed), threading.Event()
        self.injected = 0
        self.by: Counter[str] = Counter()

    def run(self) -> None:
        r = self.random
        while not self.ended.wait(r.uniform(0.002, 0.02)):
            if r.random() < 0.15:
                spec = f"*:{r.randint(1, 5)}:2:min={r.choice([16, 4096, 60000])}"
            else:
                spec = f"{r.choice(FAULTY)}:{r.randint(1, 6)}:{r.choice(CODES)}"
            self.count(_core._inject(spec))
        self.count(_core._inject(""))

    def count(self, did: str) -> None:
        hits = json.loads(did)
        self.injected += hits["hits"]
        if hits["first"]:
            self.by[hits["first"]] += hits["hits"]


class Soak:
    """The threads and what they count."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.host, self.device = Host(), Device()
        self.jobs: list[tuple[str, Callable[[random.Random], int]]] = []
        for owner in (self.host, self.device):
            for name in type(owner).__dict__:
                if not name.startswith("_") and name != "pair":
                    self.jobs.append((f"{type(owner).__name__}.{name}", getattr(owner, name)))
        self.lock = threading.Lock()
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.bytes = 0
        self.wrong: list[str] = []
        self.stop = threading.Event()

    def work(self, seed: int, count: int | None) -> None:
        """Random exchanges until the end, or a number of each."""
        r = random.Random(seed)
        done: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        size = 0
        todo = [j for j in self.jobs for _ in range(count)] if count else None
        while not self.stop.is_set() and not self.wrong:
            if todo is not None:
                if not todo:
                    break
                name, job = todo.pop()
            else:
                name, job = r.choice(self.jobs)
            try:
                size += job(r)
                done[name] += 1
            except handoff.DriverError as e:
                failed[e.name or "?"] += 1
            except BaseException as e:
                self.wrong.append(f"{name}: {type(e).__name__}: {e}")
        with self.lock:
            self.done += done
            self.failed += failed
            self.bytes += size

    def round(self, seconds: float, number: int) -> None:
        """A turn of all threads."""
        self.stop.clear()
        pool = [
            threading.Thread(target=self.work, args=(self.seed * 1000 + number * 10 + i, None), daemon=True)
            for i in range(THREADS)
        ]
        for t in pool:
            t.start()
        time.sleep(seconds)
        self.stop.set()
        for t in pool:
            t.join(LIMIT)
            if t.is_alive():
                self.wrong.append("a thread hangs")

    def settle(self) -> dict[str, int]:
        """What is alive once all that is held back is gone."""
        seen: dict[str, int] = {}
        for _ in range(200):
            gc.collect()
            _core._flush()
            exports, pinned = gobench.stats()  # runs Go's collector
            now = json.loads(_core._inject(""))
            now |= {"exports": exports, "pinned": pinned, "pending": _core._stats()["pending_releases"]}
            for key in ("calls", "hits", "first", "events"):  # events are kept for later
                now.pop(key)
            if now == seen:
                break
            seen = now
            time.sleep(0.005)
        return seen


def races() -> list[str]:
    """What the hunt has found."""
    file = Path(os.environ.get("HANDOFF_SOFT_CHECK", ""))
    if not file.is_absolute() or not file.exists():
        return []
    return [json.loads(line)["text"] for line in file.read_text().splitlines()]


def resident() -> int:
    """Bytes of resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slope(samples: list[tuple[float, int]]) -> float:
    """Bytes a second, by least squares."""
    if len(samples) < 3:
        return 0.0
    n = len(samples)
    mx = sum(x for x, _ in samples) / n
    my = sum(y for _, y in samples) / n
    over = sum((x - mx) * (y - my) for x, y in samples)
    under = sum((x - mx) ** 2 for x, _ in samples)
    return over / under if under else 0.0


def duration(text: str) -> float:
    """Seconds of "90", "90s", "10m" or "1h"."""
    units = {"": 1, "s": 1, "m": 60, "h": 3600}
    m = re.fullmatch(r"([0-9.]+)([smh]?)", text)
    if m is None:
        sys.exit(f"soak: {text!r} is no duration")
    return float(m[1]) * units[m[2]]


def in_python(seconds: float, seed: int) -> list[tuple[str, bool]]:
    """The threads of Python; returns the checks."""
    soak = Soak(seed)
    soak.work(seed, 30)  # warm up: caches, pools, kernels
    soak.round(min(2.0, seconds / 4), 0)
    if soak.wrong:
        return [(f"before the soak: {soak.wrong}", False)]
    before = soak.settle()
    refs = [sys.getrefcount(x) for x in soak.host.objects]
    soak.done.clear()
    soak.failed.clear()
    soak.bytes = 0

    real = "software" not in soak.device.device.name
    faults = Faults(seed)
    if not real:
        faults.start()
    samples: list[tuple[float, int]] = []
    start = time.monotonic()
    turn = max(1.0, min(5.0, seconds / 20))
    number = 1
    while time.monotonic() - start < seconds and not soak.wrong:
        soak.round(turn, number)
        number += 1
        gc.collect()
        samples.append((time.monotonic() - start, resident()))
    faults.ended.set()
    if not real:
        faults.join(LIMIT)
    took = time.monotonic() - start

    after = soak.settle()
    leaks = {k: after[k] - n for k, n in before.items() if after[k] != n}
    now = [sys.getrefcount(x) for x in soak.host.objects]
    kinds = [type(x).__name__ for x in soak.host.objects]
    changed = [(k, n, m) for k, n, m in zip(kinds, refs, now, strict=True) if n != m]
    half = samples[len(samples) // 2 :]
    grown = slope(half) * (half[-1][0] - half[0][0]) if len(half) > 2 else 0.0

    for name, n in sorted(soak.done.items()):
        print(f"  {name:<24} {n:>12,}")
    print(f"  exchanges                {sum(soak.done.values()):>12,} in {took:.0f} s on {THREADS} threads")
    print(f"  bytes                    {soak.bytes:>12,}")
    print(f"  errors injected          {faults.injected:>12,} in {len(faults.by)} entry points")
    print(f"  exchanges that raised    {sum(soak.failed.values()):>12,} of DriverError")
    print(f"  leaks                    {sum(abs(n) for n in leaks.values()):>12,}")
    rate = f"{slope(half) / 1024:+.2f} KiB/s over the second half"
    print(f"  resident memory          {resident() >> 20:>12,} MiB, {rate}")
    return [
        (f"wrong values and other exceptions: {soak.wrong[:3] or 'none'}", not soak.wrong),
        (f"alive before {before}, left over {leaks or 'nothing'}", not leaks),
        (f"reference counts changed: {changed or 'none'}", not changed),
        (f"resident memory grew by {grown / (1 << 20):+.2f} MiB over the second half", grown < GROWTH),
        ("errors were injected", real or faults.injected > 0),
        ("missing synchronization: " + ("\n".join(races()) or "none"), not races()),
    ]


def in_go(seconds: float, seed: int) -> list[tuple[str, bool]]:
    """The same without Python."""
    env = os.environ | {"HANDOFF_SOAK": f"{seconds:.1f}s", "HANDOFF_SOAK_SEED": str(seed)}
    env.pop("HANDOFF_SOFT_CHECK", None)  # the test hunts by itself
    if env["HANDOFF_DRIVER"] == "soft":  # which the test takes by itself
        del env["HANDOFF_DRIVER"]
    limit = f"{seconds + 300:.0f}s"
    go = [
        os.environ.get("GO", "go"),
        "test",
        "-count=1",
        "-timeout",
        limit,
        "-run",
        "TestSoak$",
        "-v",
        "./launch",
    ]
    p = subprocess.run(go, cwd=ROOT, env=env, capture_output=True, text=True)
    said = [line.partition("soak:")[2].strip() for line in p.stdout.splitlines() if "soak: seed" in line]
    for line in said:
        print(f"  Go: {line}")
    if p.returncode != 0:
        print(p.stdout + p.stderr)
    return [("TestSoak of launch", p.returncode == 0 and bool(said))]


def main() -> int:
    """Runs the soak and the checks."""
    seconds = duration(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(os.environ.get("HANDOFF_SOAK_SEED") or time.time_ns() % 1_000_000)
    print(
        f"soak: {seconds:.0f} s, HANDOFF_SOAK_SEED={seed}, HANDOFF_DRIVER={os.environ['HANDOFF_DRIVER']}",
        flush=True,
    )
    checks = in_python(seconds / 2, seed)
    sys.stdout.flush()
    checks += in_go(seconds / 2, seed)
    for text, ok in checks:
        print(f"{'ok' if ok else 'FAILED':<7} {text}")
    failed = sum(not ok for _, ok in checks)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
