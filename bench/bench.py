#!/usr/bin/env python3
"""The benchmark table: ours and a peer's, the same job, measured in the same run.

    bench/bench.py [--rounds N] [--only TEXT] [--out FILE] [--strict]

`make bench` builds what this needs: the module `gobench` (bench/gobench), the
peers (bench/peers) and the Go test binaries with the benchmarks in build/bench.
Rows whose peer is not installed are left out, and said so. The exit status is 0
whatever the ratios are, unless --strict is given.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build" / "peers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build" / "ext"))

import gobench  # first: the Go-made module that is loaded first serves them all
import numpy as np
from harness import GoBenchmark, Row, Side, importing, report, run, statement

BUILD = Path(__file__).resolve().parents[1] / "build"


def optional(name: str) -> ModuleType | None:
    """A module, or None where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def call(code: str, names: dict[str, Any]) -> Side:
    """A side that is a call: it stays on its thread and waits for nothing."""
    return statement(code, names, clock=time.thread_time)


def call_rows(left_out: list[str]) -> list[Row]:
    """Calls from Python into compiled functions that take arrays and return an int."""
    rows = []
    a = np.arange(1024, dtype=np.float32)
    names: dict[str, Any] = {"a": a, "b": a[::2], "c": a.reshape(32, 32), "go": gobench}
    nanobind = optional("nanobind_peer")
    if nanobind is None:
        left_out.append("rows against nanobind: its peer is not built")
    else:
        names |= {"g0": gobench.nothing, "g1": gobench.take1, "g3": gobench.take3}
        names |= {"n1": nanobind.take1, "n3": nanobind.take3}
        assert gobench.take1(a) == nanobind.take1(a)
        rows += [
            Row("call, one NumPy array", call("g1(a)", names), "nanobind", call("n1(a)", names), 0.6),
            Row(
                "call, three NumPy arrays",
                call("g3(a, b, c)", names),
                "nanobind",
                call("n3(a, b, c)", names),
                0.35,
            ),
            # What a call into Go costs that has no arguments and does nothing.
            Row(
                "call, no arguments",
                call("g0()", names),
                "nanobind, 1 array",
                call("n1(a)", names),
                None,
            ),
            Row(
                "call, no arguments",
                call("g0()", names),
                "nanobind, 3 arrays",
                call("n3(a, b, c)", names),
                None,
            ),
        ]
    tvm_ffi = optional("tvm_ffi")
    lib = BUILD / "peers" / "tvm_ffi_peer.so"
    if tvm_ffi is None or not lib.exists():
        left_out.append("rows against tvm-ffi: its peer is not built")
    else:
        peer = tvm_ffi.load_module(str(lib))
        # tvm-ffi's own tensors show their exchange table only through this class.
        t = tvm_ffi.core.DLTensorTestWrapper(tvm_ffi.from_dlpack(a))
        names |= {"t": t, "g1": gobench.take1, "g3": gobench.take3, "f1": peer.take1, "f3": peer.take3}
        assert gobench.take1(t) == peer.take1(t) == 1024
        rows += [
            Row(
                "call, one tensor with an exchange table",
                call("g1(t)", names),
                "tvm-ffi",
                call("f1(t)", names),
                1.0,
            ),
            Row(
                "call, three tensors with exchange tables",
                call("g3(t, t, t)", names),
                "tvm-ffi",
                call("f3(t, t, t)", names),
                1.0,
            ),
        ]
    torch = optional("torch")
    if torch is None or nanobind is None:
        left_out.append("call, one PyTorch tensor: PyTorch is not installed")
    else:
        names |= {"p": torch.arange(1024, dtype=torch.float32)}
        rows.append(
            Row(
                "call, one PyTorch tensor",
                call("g1(p)", names),
                "nanobind",
                call("n1(p)", names),
                0.15,
            )
        )
        if tvm_ffi is not None and lib.exists():
            rows.append(
                Row(
                    "call, three PyTorch tensors",
                    call("g3(p, p, p)", names),
                    "tvm-ffi",
                    call("f3(p, p, p)", names),
                    1.0,
                )
            )
    return rows


def view_rows(left_out: list[str]) -> list[Row]:
    """Views and arrays of the Python package."""
    import handoff

    a = np.arange(1024, dtype=np.float32).reshape(32, 32)
    made = gobench.make(32, 32)
    names: dict[str, Any] = {"a": a, "made": made, "take": np.from_dlpack, "ours": handoff.StridedMemoryView}
    rows = [
        Row(
            "numpy.from_dlpack(array of ours)",
            statement("take(made)", names),
            "array of NumPy",
            statement("take(a)", names),
            1.2,
        )
    ]
    cuda = optional("cuda.core.utils")
    if cuda is None:
        left_out.append("StridedMemoryView.from_dlpack: cuda.core is not installed")
        return rows
    names["theirs"] = cuda.StridedMemoryView
    code = "v = {}.from_dlpack(a, stream_ptr=-1); v.shape; v.strides; v.dtype"
    rows.append(
        Row(
            "StridedMemoryView of a NumPy array",
            statement(code.format("ours"), names),
            "cuda.core",
            statement(code.format("theirs"), names),
            0.5,
        )
    )
    return rows


def copy_rows() -> list[Row]:
    """Strided copies on the host, between memory that is there and warm."""
    rows = []
    for n, rounds in ((4096, 7),):
        src = np.random.default_rng(1).random((n, n), dtype=np.float32)
        names: dict[str, Any] = {"src": src, "go": gobench.transposed, "np": np}
        np.testing.assert_array_equal(np.from_dlpack(gobench.transposed(src)), src.T)
        rows.append(
            Row(
                f"transposed copy, float32 {n} x {n}",
                statement("go(src)", names),
                "ascontiguousarray",
                statement("np.ascontiguousarray(src.T)", names),
                0.5,
                rounds=rounds,
            )
        )
    return rows


def go_rows(left_out: list[str]) -> list[Row]:
    """Go functions against the same in a C loop; both are in the package's benchmarks."""
    binary = BUILD / "bench" / "dlpack.test"
    if not binary.exists():
        left_out.append(f"Go: import + release: {binary} is not built")
        return []
    bench = GoBenchmark(binary, "BenchmarkImportRelease")  # has all loops, over the same tensors
    rows: list[tuple[str, str, str, str, float | None]] = [
        ("Go: import + release of a tensor", "ns/go", "C loop, bare", "ns/c-bare", 2.0),
        ("Go: import + release of a tensor", "ns/go", "C loop, with a handle", "ns/c-held", 2.0),
        ("Go: 32 imports, one ReleaseAll", "ns/go-all", "C loop, bare", "ns/c-bare", 2.0),
        ("Go: the deleter alone", "ns/go-called", "C loop, bare", "ns/c-bare", None),
    ]
    return [
        Row(name, bench.side(ours), peer, bench.side(theirs), target, rounds=7)
        for name, ours, peer, theirs, target in rows
    ]


def import_rows() -> list[Row]:
    """The time that an import takes in a fresh interpreter."""
    return [Row("import handoff", importing("handoff"), "import numpy", importing("numpy"), 0.5)]


def main() -> int:
    """Measures and reports."""
    args = argparse.ArgumentParser(description="Print the benchmark table.")
    args.add_argument("--rounds", type=int, default=15)
    args.add_argument("--only", default="", metavar="TEXT", help="only rows whose name has TEXT")
    args.add_argument("--out", type=Path, default=BUILD / "bench.json")
    args.add_argument("--strict", action="store_true", help="exit with 1 when a row misses its target")
    opts = args.parse_args()
    if opts.rounds < 1:
        args.error("--rounds must be at least 1")

    left_out: list[str] = []
    groups: list[Callable[[], list[Row]]] = [
        lambda: call_rows(left_out),
        lambda: view_rows(left_out),
        copy_rows,
        lambda: go_rows(left_out),
        import_rows,
    ]
    rows = [row for group in groups for row in group() if opts.only in row.name]
    if not rows:
        print(f"no row has {opts.only!r} in its name")
        return 1
    run(rows, opts.rounds)
    missed = report(rows, opts.out, left_out)
    return 1 if opts.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
