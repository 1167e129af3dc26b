#!/usr/bin/env python3
"""In-place arithmetic by Go on arrays of every installed library, and back.

Shows that Python arrays and Go functions share memory, both ways:

1. each library makes an array; a Go function gets the same address as the
   library reports, and what Go writes is what the library reads;
2. Go makes an array; each library takes it at the same address, and what Go
   writes afterwards is what the library reads;
3. memory that must not be written is read in place, and refused for writing;
   JAX does not mark its arrays as such, though they are, so nothing is written there.

Needs the module `godemo` (main.go beside this file, built by `make demo` into
build/ext) and NumPy; every other library is used when it is installed. Prints a
table and exits with status 1 when a line of it fails.
"""

from __future__ import annotations

import array
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "ext"))

import godemo  # the functions in Go: address, scale, total, ramp
import numpy as np

START = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@dataclass
class Case:
    """One array of one library, and the library's own way to look at it."""

    library: str
    what: str
    make: Callable[[], Any]
    address: Callable[[Any], int]
    values: Callable[[Any], list[float]]
    writable: bool | None = True  # None: it must not be written, and the library does not say so


@dataclass
class Taker:
    """One library that takes an array made by Go."""

    library: str
    dtype: str
    take: Callable[[Any], Any]
    address: Callable[[Any], int]
    values: Callable[[Any], list[float]]


def there(module: str) -> bool:
    """Whether a library can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def np_address(a: Any) -> int:
    """Where NumPy says that an array begins."""
    return int(a.__array_interface__["data"][0])


def np_values(a: Any) -> list[float]:
    """The values as NumPy reads them."""
    return [float(x) for x in np.asarray(a).ravel()]


def memory_address(m: Any) -> int:
    """Where an object with the buffer protocol begins."""
    return np_address(np.frombuffer(m, dtype=np.uint8))


def numpy_cases() -> Iterator[Case]:
    """NumPy arrays of several dtypes and layouts."""
    for dtype in ("float64", "float32", "float16", "int32", "uint8", "complex64"):
        yield Case(
            "numpy",
            f"{dtype} [2 3]",
            lambda dtype=dtype: np.array(START, dtype=dtype).reshape(2, 3),
            np_address,
            lambda a: [float(x.real) for x in a.ravel()],
        )
    yield Case(
        "numpy",
        "float32 every 2nd, reversed",
        lambda: np.repeat(np.array(START[::-1], dtype="float32"), 2)[::-2],
        np_address,
        np_values,
    )
    frozen = np.array(START)
    frozen.flags.writeable = False
    yield Case("numpy", "float64, read-only", lambda: frozen, np_address, np_values, writable=False)


def ml_dtypes_cases() -> Iterator[Case]:
    """The small floats of ml_dtypes, in NumPy arrays."""
    import ml_dtypes

    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        yield Case(
            "ml_dtypes",
            f"{np.dtype(dtype).name} [6]",
            lambda dtype=dtype: np.array(START, dtype=dtype),
            lambda a: int(a.ctypes.data),
            lambda a: [float(x) for x in a],
        )


def stdlib_cases() -> Iterator[Case]:
    """What Python itself has."""
    yield Case(
        "array.array",
        "float64 [6]",
        lambda: array.array("d", START),
        lambda a: a.buffer_info()[0],
        lambda a: list(a),
    )
    yield Case(
        "memoryview",
        "int16 [2 3]",
        lambda: memoryview(bytearray(array.array("h", range(1, 7)).tobytes())).cast("h", [2, 3]),
        memory_address,
        lambda m: [float(x) for row in m.tolist() for x in row],
    )
    yield Case(
        "bytes",
        "uint8 [6], read-only",
        lambda: bytes(range(1, 7)),
        memory_address,
        lambda b: [float(x) for x in b],
        writable=False,
    )


def jax_cases() -> Iterator[Case]:
    """JAX arrays: values that nobody may change."""
    import jax
    import jax.numpy as jnp

    host = jax.devices("cpu")[0]  # also where a GPU is the default
    for dtype in ("float32", "bfloat16"):
        yield Case(
            "jax",
            f"{dtype} [2 3]",
            lambda dtype=dtype: jnp.asarray(START, dtype, device=host).reshape(2, 3).block_until_ready(),
            lambda a: a.unsafe_buffer_pointer(),
            np_values,
            writable=None,
        )


def tvm_ffi_cases() -> Iterator[Case]:
    """tvm-ffi tensors, which offer DLPack's exchange table in C."""
    import tvm_ffi

    yield Case(
        "tvm-ffi",
        "float32 [2 3]",
        lambda: tvm_ffi.from_dlpack(np.array(START, dtype="float32").reshape(2, 3)),
        lambda t: np_address(np.from_dlpack(t)),
        lambda t: np_values(np.from_dlpack(t)),
    )


def array_api_cases() -> Iterator[Case]:
    """The strict implementation of the array API standard."""
    import array_api_strict as xp

    yield Case(
        "array-api-strict",
        "float64 [2 3]",
        lambda: xp.reshape(xp.asarray(START, dtype=xp.float64), (2, 3)),
        lambda a: np_address(np.from_dlpack(a)),
        lambda a: np_values(np.from_dlpack(a)),
    )


def pyarrow_cases() -> Iterator[Case]:
    """Arrow columns: values that nobody may change."""
    import pyarrow as pa

    # Older releases have only the first form of DLPack, which cannot say it.
    says_so = "max_version" in (pa.Array.__dlpack__.__doc__ or "")

    yield Case(
        "pyarrow",
        "float64 [6], read-only",
        lambda: pa.array(START, type=pa.float64()),
        lambda a: a.buffers()[1].address,
        lambda a: a.to_pylist(),
        writable=False if says_so else None,
    )


def torch_cases() -> Iterator[Case]:
    """PyTorch tensors on the CPU."""
    import torch

    for dtype in ("float32", "bfloat16"):
        yield Case(
            "torch",
            f"{dtype} [2 3]",
            lambda dtype=dtype: torch.tensor(START, dtype=getattr(torch, dtype)).reshape(2, 3),
            lambda t: t.data_ptr(),
            lambda t: [float(x) for x in t.flatten().tolist()],
        )


def takers() -> Iterator[Taker]:
    """The libraries that can take an array made by Go."""
    yield Taker("numpy", "float32", np.from_dlpack, np_address, np_values)
    yield Taker("numpy asarray", "float64", np.asarray, np_address, np_values)
    yield Taker("memoryview", "int32", memoryview, memory_address, lambda m: [float(x) for x in m.tolist()])
    if there("jax"):
        import jax.dlpack

        for dtype in ("float32", "bfloat16"):
            yield Taker("jax", dtype, jax.dlpack.from_dlpack, lambda a: a.unsafe_buffer_pointer(), np_values)
    if there("tvm_ffi"):
        import tvm_ffi

        yield Taker(
            "tvm-ffi",
            "float32",
            tvm_ffi.from_dlpack,
            lambda t: np_address(np.from_dlpack(t)),
            lambda t: np_values(np.from_dlpack(t)),
        )
    if there("array_api_strict"):
        import array_api_strict as xp

        yield Taker(
            "array-api-strict",
            "float64",
            xp.from_dlpack,
            lambda a: np_address(np.from_dlpack(a)),
            lambda a: np_values(np.from_dlpack(a)),
        )
    if there("pyarrow"):
        import pyarrow as pa

        yield Taker(
            "pyarrow",
            "float64",
            lambda a: pa.Array.from_buffers(pa.float64(), len(memoryview(a)), [None, pa.py_buffer(a)]),
            lambda a: a.buffers()[1].address,
            lambda a: a.to_pylist(),
        )
    if there("torch"):
        import torch

        yield Taker(
            "torch",
            "float32",
            torch.from_dlpack,
            lambda t: t.data_ptr(),
            lambda t: [float(x) for x in t.tolist()],
        )


def into_go(case: Case) -> tuple[list[str], str]:
    """Hands one array to Go. Returns the cells of its line and what failed."""
    a = case.make()
    before = case.values(a)
    ours, theirs = godemo.address(a), case.address(a)
    same = ours == theirs
    total = godemo.total(a) == sum(before)
    if case.writable is None:
        write = "not tried"
    elif case.writable:
        godemo.scale(a, 2)
        after = case.values(a)
        write = "seen" if after == [2 * x for x in before] else f"NOT SEEN: {after}"
    else:
        try:
            godemo.scale(a, 2)
            write = "NOT REFUSED"
        except BufferError:
            write = "refused" if case.values(a) == before else f"CHANGED: {case.values(a)}"
    bad = not same or not total or write not in ("seen", "refused", "not tried")
    cells = [
        case.library,
        case.what,
        f"{theirs:#x}",
        "same" if same else f"OTHER: {ours:#x}",
        "right" if total else "WRONG",
        write,
    ]
    return cells, "failed" if bad else "ok"


def out_of_go(taker: Taker) -> tuple[list[str], str]:
    """Hands an array that Go made to one library."""
    made = godemo.ramp(6, taker.dtype)
    ours = godemo.address(made)
    taken = taker.take(made)
    theirs = taker.address(taken)
    before = taker.values(taken)
    godemo.scale(made, 2)
    after = taker.values(taken)
    del made  # the library's own reference keeps the memory
    kept = taker.values(taken) == after
    same = ours == theirs
    right = before == START
    seen = after == [2 * x for x in before]
    bad = not (same and right and seen and kept)
    cells = [
        taker.library,
        f"{taker.dtype} [6]",
        f"{ours:#x}",
        "same" if same else f"OTHER: {theirs:#x}",
        "right" if right and kept else f"WRONG: {before}",
        "seen" if seen else f"NOT SEEN: {after}",
    ]
    return cells, "failed" if bad else "ok"


def show(title: str, heads: list[str], lines: list[tuple[list[str], str]]) -> None:
    """Prints one table."""
    rows = [heads, *(cells for cells, _ in lines)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(heads))]
    print(f"\n{title}")
    for cells, verdict in [(heads, ""), *lines]:
        print(
            "  " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + f"  {verdict}".rstrip()
        )


def attempt(job: Callable[[Any], tuple[list[str], str]], x: Any, what: str) -> tuple[list[str], str]:
    """Runs one line; an exception is a line that failed."""
    try:
        return job(x)
    except Exception as err:
        return [x.library, what, "-", "-", "-", f"{type(err).__name__}: {err}"], "failed"


def main() -> int:
    """Runs both directions over everything that is installed."""
    groups: list[tuple[str, Callable[[], Iterator[Case]]]] = [
        ("numpy", numpy_cases),
        ("ml_dtypes", ml_dtypes_cases),
        ("array", stdlib_cases),
        ("jax", jax_cases),
        ("tvm_ffi", tvm_ffi_cases),
        ("array_api_strict", array_api_cases),
        ("pyarrow", pyarrow_cases),
        ("torch", torch_cases),
    ]
    missing = [name for name, _ in groups if not there(name)]
    into = [attempt(into_go, c, c.what) for name, cases in groups if there(name) for c in cases()]
    out = [attempt(out_of_go, t, t.dtype) for t in takers()]
    show(
        "Arrays made in Python, used by Go (scaled by 2 in place)",
        ["library", "array", "address in Python", "in Go", "sum in Go", "Go's write"],
        into,
    )
    show(
        "Arrays made by Go, taken by each library (then scaled by 2 by Go)",
        ["library", "array", "address in Go", "in library", "values", "Go's write"],
        out,
    )
    verdicts = [v for _, v in into + out]
    failed = verdicts.count("failed")
    if missing:
        print(f"\nnot installed, left out: {', '.join(missing)}")
    print(
        f"\ndemo: {len(verdicts)} exchanges, every address the same on both sides, no copy made"
        if not failed
        else f"\ndemo: {failed} of {len(verdicts)} exchanges failed"
    )
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
