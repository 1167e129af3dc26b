#!/usr/bin/env python3
"""The benchmark table of the GPU side: streams, views and calls, against peers in the same run.

    bench/gpu_bench.py [--rounds N] [--only TEXT] [--out FILE] [--strict]

Needs a GPU with PyTorch; rows against cuda.core, CuPy and nanobind are left out
where those are not installed, and said so. The exit status is 0 whatever the
ratios are, unless --strict is given; without a GPU it is 0 too, with a line
that says so.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import itertools
import re
import subprocess
import sys
import time
import timeit
from pathlib import Path
from typing import Any, Literal

BUILD = Path(__file__).resolve().parents[1] / "build"
sys.path.insert(0, str(BUILD / "peers"))
sys.path.insert(0, str(BUILD / "ext"))

try:
    import gobench  # first: the Go-made module that is loaded first serves them all
except ImportError:
    gobench = None
import handoff  # noqa: E402
from handoff import _core  # noqa: E402
from harness import Row, Side, report, run, statement  # noqa: E402


def optional(name: str) -> Any:
    """A module, or None where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def driver_loop(a: int, b: int) -> Side:
    """Record and wait, called through ctypes-prepared arguments in batches: the two driver calls.

    ctypes costs more than C does, so its own cost, measured with a driver call that does nothing,
    is taken off.
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    event = ctypes.c_void_p()
    assert cuda.cuEventCreate(ctypes.byref(event), 2) == 0
    version = ctypes.c_int()
    record, wait, nothing = cuda.cuEventRecord, cuda.cuStreamWaitEvent, cuda.cuDriverGetVersion
    args_a, args_b = (event, ctypes.c_void_p(a)), (ctypes.c_void_p(b), event, ctypes.c_uint(0))
    out = ctypes.byref(version)

    def once() -> float:
        n = 2000
        start = time.perf_counter_ns()
        for _ in range(n):
            record(*args_a)
            wait(*args_b)
        middle = time.perf_counter_ns()
        for _ in range(n):
            nothing(out)
            nothing(out)
        return max(1.0, (2 * middle - start - time.perf_counter_ns()) / n)

    return once


def queued(code: str, names: dict[str, Any], sync: Any, behind: Any = None) -> Side:
    """A side that is a statement which queues work, a little at a time.

    The queue is emptied after a few hundred, outside of what is timed: a full one makes the host
    wait for the device, and both sides would be as fast as that. With a stream given, work on it
    lasts for the time of each batch.
    """
    timer = timeit.Timer(code, globals=names)
    number, batches = 200, 20

    def once() -> float:
        took = 0.0
        for _ in range(batches):
            gate = _core._gate(behind) if behind is not None else None
            took += timer.timeit(number)
            if gate is not None:
                _core._gate_open(gate)
            sync()
        return took / (number * batches) * 1e9

    return once


def driver_side(loop: Any, *args: int, sync: Any, behind: Any = None) -> Side:
    """What the driver's calls take by themselves, in a loop in C, under the conditions of `queued`."""
    number, batches = 200, 20

    def once() -> float:
        took = 0
        for _ in range(batches):
            gate = _core._gate(behind) if behind is not None else None
            took += loop(*args, number)
            if gate is not None:
                _core._gate_open(gate)
            sync()
        return took / (number * batches)

    return once


def floors(rows: list[Row], from_: Any, to: Any, sync: Any) -> list[Row]:
    """The rows, each that has one followed by its floor: the driver's calls alone against the same peer."""
    if not hasattr(gobench, "order_loop"):
        return rows
    a, b = from_.handle, to.handle
    sides = {
        "order stream b after stream a, nothing pending": driver_side(gobench.order_loop, a, b, sync=sync),
        "order stream b after stream a, work pending": driver_side(
            gobench.order_loop, a, b, sync=sync, behind=from_
        ),
        "allocate 1 KiB and free it in stream order": driver_side(gobench.alloc_loop, a, 1024, sync=sync),
    }
    both = []
    for row in rows:
        both.append(row)
        if row.name in sides:
            name = f"{row.name}: the driver's calls in C"
            both.append(Row(name, sides[row.name], row.peer, row.peer_side, None))
    return both


class GoTest:
    """Calls from Go against the same driver calls in a C loop: what a test of a Go package prints.

    Each round is a process of its own, which takes the two in turns and gives medians. That the Go
    calls allocate nothing is tested beside it. goals is empty where nothing can be measured.
    """

    line = re.compile(r"^(.+): (\d+) (\d+) [\d.]+ \((?:goal ([\d.]+)|floor|for comparison)\)$", re.M)

    def __init__(self, package: str, test: str, left_out: list[str]) -> None:
        self.binary, self.test = BUILD / "bench" / f"{package}.test", test
        self.runs: list[dict[str, tuple[float, float]]] = []
        self.goals: dict[str, float | None] = {}
        if not self.binary.exists():
            left_out.append(f"calls from Go: {self.binary.relative_to(BUILD.parent)} is not built")
            return
        self.measure()
        if not self.goals:
            left_out.append(f"calls from Go: {test} measures with HANDOFF_DRIVER=cuda only")

    def measure(self) -> None:
        out = subprocess.run(
            [str(self.binary), f"-test.run=^{self.test}$", "-test.v"],
            capture_output=True,
            text=True,
            check=False,  # what is far slower than the goal fails as a test
            stdin=subprocess.DEVNULL,
            cwd=self.binary.resolve().parent,
        ).stdout
        lines = list(self.line.finditer(out))
        self.goals = self.goals or {m[1]: float(m[4]) if m[4] else None for m in lines}
        self.runs.append({m[1]: (float(m[2]), float(m[3])) for m in lines})

    def side(self, name: str, which: Literal[0, 1]) -> Side:
        """Figures of one row, Go's (0) or C's: a run measures all rows, so each reads the runs in turn."""
        calls = itertools.count()

        def once() -> float:
            i = next(calls)
            if i == len(self.runs):
                self.measure()
            return self.runs[i][name][which]

        return once

    def rows(self) -> list[Row]:
        return [
            Row(f"Go: {name}", self.side(name, 0), "C loop", self.side(name, 1), goal, rounds=3)
            for name, goal in self.goals.items()
        ]


def launch_rows(core: Any, left_out: list[str]) -> list[Row]:
    """Issue 5: launches from Go, against a C loop and against cuda.core."""
    go = GoTest("launch", "TestLaunchSpeed", left_out)
    rows = go.rows()
    if core is None or not rows:
        return rows
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    numpy = optional("numpy")  # its scalars are what cuda.core takes soonest
    source = 'extern "C" __global__ void two(float *p, int n) { if (n < 0) *p = 0; }'
    options = core.ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    names = {
        "launch": core.launch,
        "stream": stream,
        "config": core.LaunchConfig(grid=1, block=1),
        "kernel": core.Program(source, "c++", options).compile("cubin").get_kernel("two"),
        "p": device.allocate(64, stream=stream),
        "n": ctypes.c_int32(1) if numpy is None else numpy.int32(1),
    }
    launched = "burst, launch (pointer, int32)"

    def row(name: str, which: Literal[0, 1], goal: float | None) -> Row:
        peer = queued("launch(stream, config, kernel, p, n)", names, stream.sync)
        return Row(name, go.side(launched, which), "cuda.core", peer, goal, rounds=3)

    return [
        *rows,
        row("Go: launch (pointer, int32)", 0, 0.8),
        row("Go: launch (pointer, int32): the driver's call in C", 1, None),
    ]


def synced(side: Side, sync: Any) -> Side:
    """A side that queues work: the queue is emptied after each batch, outside of what is timed."""

    def once() -> float:
        ns = side()
        sync()
        return ns

    return once


def stream_rows(torch: Any, core: Any, left_out: list[str]) -> list[Row]:
    """Issue 3: wrapping and ordering streams."""
    if core is None:
        left_out.append("rows of streams: cuda.core is not installed")
        return []
    device = core.Device(0)
    device.set_current()
    ours = handoff.Device(0)
    names: dict[str, Any] = {
        "V": handoff.StreamView,
        "t": torch.cuda.Stream(),
        "d": device,
        "a": ours.create_stream(),
        "b": ours.create_stream(),
        "s1": device.create_stream(),
        "s2": device.create_stream(),
        "o": ours,
    }
    # A stream that mostly is busy is asked less often: each case has its own.
    busy: dict[str, Any] = {
        "a": ours.create_stream(),
        "b": ours.create_stream(),
        "s1": device.create_stream(),
        "s2": device.create_stream(),
    }
    sync = torch.cuda.synchronize
    ours.allocate(1024, stream=names["a"]).close()  # the first one sets the pool up
    rows = [
        Row(
            "wrap a PyTorch stream",
            statement("V(t)", names),
            "cuda.core",
            statement("d.create_stream(t)", names),
            0.5,
        ),
        Row(
            "order stream b after stream a, nothing pending",
            queued("b.wait(a)", names, sync),
            "cuda.core",
            queued("s2.wait(s1)", names, sync),
            0.4,
        ),
        Row(
            "order stream b after stream a, work pending",
            queued("b.wait(a)", busy, sync, busy["a"]),
            "cuda.core",
            queued("s2.wait(s1)", busy, sync, busy["s1"]),
            0.4,
        ),
        Row(
            "allocate 1 KiB and free it in stream order",
            queued("o.allocate(1024, stream=a).close()", names, sync),
            "cuda.core",
            queued("d.allocate(1024, stream=s1).close()", names, sync),
            0.5,
        ),
    ]
    return floors(rows, names["a"], names["b"], sync)


def view_rows(torch: Any, core: Any, left_out: list[str]) -> list[Row]:
    """Issue 4: views of other libraries' arrays."""
    utils = optional("cuda.core.utils") if core is not None else None
    if utils is None:
        left_out.append("rows of views: cuda.core is not installed")
        return []
    t = torch.zeros(32, 32, device="cuda")
    a = torch.cuda.Stream()
    names: dict[str, Any] = {
        "t": t, "s": a.cuda_stream, "ours": handoff.StridedMemoryView, "theirs": utils.StridedMemoryView,
    }  # fmt: skip
    sync = torch.cuda.synchronize

    def row(name: str, code: str, target: float, behind: Any = None) -> Row:
        """A view that is dropped at once; with a stream given, work on it lasts as long as each batch."""
        if behind is None:
            sides = [synced(statement(code.format(v=v), names), sync) for v in ("ours", "theirs")]
            return Row(name, sides[0], "cuda.core", sides[1], target)
        sides = [
            queued(code.format(v=v), names, sync, handoff.StreamView(behind)) for v in ("ours", "theirs")
        ]
        return Row(name, sides[0], "cuda.core", sides[1], target)

    def kept(name: str, target: float) -> Row:
        """Views of a whole batch stay alive until it is over."""

        def side(v: Any) -> Side:
            def once() -> float:
                n = 1000
                took = timeit.timeit(
                    "keep(f(t, -1))", globals={"f": v.from_dlpack, "t": t, "keep": [].append}, number=n
                )
                return took / n * 1e9

            return once

        return Row(name, side(names["ours"]), "cuda.core", side(names["theirs"]), target)

    def on_stream(r: Row) -> Row:
        """The row with PyTorch working on a stream that somebody made."""

        def within(side: Side) -> Side:
            def once() -> float:
                with torch.cuda.stream(b):
                    return side()

            return once

        return Row(r.name, within(r.ours), r.peer, within(r.peer_side), r.target)

    default, b = torch.cuda.default_stream(), torch.cuda.Stream()
    ordered = "{v}.from_dlpack(t, stream_ptr=s)"
    rows = [
        row("view of a PyTorch tensor, no order", "{v}.from_dlpack(t, stream_ptr=-1)", 0.5),
        kept("view of a PyTorch tensor, no order, kept", 0.5),
        row("view of a PyTorch tensor, ordered, nothing pending", ordered, 0.4),
        row("view of a PyTorch tensor, ordered, work pending", ordered, 0.4, default),
        on_stream(row("view of a PyTorch tensor of a stream, ordered, nothing pending", ordered, 0.4)),
        on_stream(row("view of a PyTorch tensor of a stream, ordered, work pending", ordered, 0.4, b)),
    ]
    cupy = optional("cupy")
    if cupy is None:
        left_out.append("views of CuPy arrays: CuPy is not installed")
        return rows
    names["c"] = cupy.zeros((32, 32), "f4")
    return [
        *rows,
        row("view of a CuPy array by DLPack, no order", "{v}.from_dlpack(c, stream_ptr=-1)", 0.7),
        row("view of a CuPy array by DLPack, ordered", "{v}.from_dlpack(c, stream_ptr=s)", 0.5),
        row("view of a CuPy array by CAI", "{v}.from_cuda_array_interface(c, stream_ptr=s)", 0.5),
    ]


def call_rows(torch: Any, left_out: list[str]) -> list[Row]:
    """Issue 4: Go functions called from Python with GPU arrays."""
    if gobench is None:
        left_out.append("calls: gobench is not built")
        return []
    t = torch.zeros(1024, device="cuda")
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    names: dict[str, Any] = {"g1": gobench.take1, "g3": gobench.take3, "t": t, "b": handoff.StreamView(b)}
    sync = torch.cuda.synchronize
    rows = []
    nanobind = optional("nanobind_peer")
    if nanobind is None:
        left_out.append("calls against nanobind: its peer is not built")
    else:
        names |= {"n1": nanobind.take1, "n3": nanobind.take3}
        rows += [
            Row(
                "call, one PyTorch CUDA tensor",
                statement("g1(t)", names),
                "nanobind",
                statement("n1(t)", names),
                0.12,
            ),
            Row(
                "call, three PyTorch CUDA tensors",
                statement("g3(t, t, t)", names),
                "nanobind",
                statement("n3(t, t, t)", names),
                0.08,
            ),
        ]
        cupy = optional("cupy")
        if cupy is None:
            left_out.append("call, one CuPy array: CuPy is not installed")
        else:
            names["c"] = cupy.zeros(1024, "f4")
            rows.append(
                Row(
                    "call, one CuPy array",
                    statement("g1(c)", names),
                    "nanobind",
                    statement("n1(c)", names),
                    1.0,
                )
            )
    if hasattr(gobench, "on_stream"):
        names["on"] = gobench.on_stream

        def ordered() -> float:
            with torch.cuda.stream(a):
                return side()

        side = synced(statement("on(t, stream=b)", names), sync)
        rows.append(
            Row(
                "call, one PyTorch CUDA tensor, ordered on another stream",
                ordered,
                "record and wait",
                synced(driver_loop(a.cuda_stream, b.cuda_stream), sync),
                2.0,
            )
        )
    return rows


def main() -> int:
    """Measures and reports."""
    args = argparse.ArgumentParser(description="Print the benchmark table of the GPU side.")
    args.add_argument("--rounds", type=int, default=15)
    args.add_argument("--only", default="", metavar="TEXT", help="only rows whose name has TEXT")
    args.add_argument("--out", type=Path, default=BUILD / "gpu_bench.json")
    args.add_argument("--strict", action="store_true", help="exit with 1 when a row misses its target")
    opts = args.parse_args()
    if opts.rounds < 1:
        args.error("--rounds must be at least 1")
    torch = optional("torch")
    if torch is None or not torch.cuda.is_available():
        print("gpu_bench: there is no PyTorch with a GPU here; nothing is measured")
        return 0
    torch.cuda.init()
    core = optional("cuda.core")
    left_out: list[str] = []
    rows = [
        *(GoTest("device", "TestSpeed", left_out).rows() if opts.only == "" or "Go" in opts.only else []),
        *(launch_rows(core, left_out) if opts.only == "" or "Go" in opts.only else []),
        *stream_rows(torch, core, left_out),
        *view_rows(torch, core, left_out),
        *call_rows(torch, left_out),
    ]
    rows = [row for row in rows if opts.only in row.name]
    if not rows:
        for line in left_out:
            print(f"left out: {line}")
        print("no row to measure")
        return 1
    run(rows, opts.rounds)
    missed = report(rows, opts.out, left_out)
    return 1 if opts.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
