#!/usr/bin/env python3
"""A kernel of Go on tensors of PyTorch and arrays of CuPy, on their streams.

Needs the module `gosaxpy` (main.go beside this file, built by `make` into
build/ext), and a GPU with PyTorch or CuPy. Without those it shows what is
refused.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "ext"))

import gosaxpy
import numpy as np


def with_torch(torch: Any) -> None:
    """Works on a stream of PyTorch, between its own operations."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.arange(1000, dtype=torch.float32, device="cuda")
        y = torch.ones_like(x)
        gosaxpy.saxpy(y, x, 2.0, stream.cuda_stream)
        total = (y * 2).sum()  # queued behind the kernel
    want = 2 * (1000 + 999 * 1000)
    assert total.item() == want, total
    print(f"saxpy: torch, {total.item():.0f}")


def with_cupy(cp: Any) -> None:
    """Records a graph over CuPy arrays, and replays it."""
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        x = cp.arange(1000, dtype=cp.float32)
        y = cp.zeros_like(x)
        graph = gosaxpy.record(y, x, 1.0, 10, stream.ptr)
        for _ in range(5):
            gosaxpy.replay(graph, stream.ptr)
        gosaxpy.forget(graph)  # destroyed when its launches are done
        assert bool((y == 50 * x).all())
    print("saxpy: cupy, 5 replays of 10 launches")


def gpu_library(name: str) -> Any:
    """Returns a library that can use a GPU here, or None."""
    if importlib.util.find_spec(name) is None:
        return None
    module = importlib.import_module(name)
    try:
        usable = module.cuda.is_available()
    except Exception:  # a CuPy without a driver
        return None
    return module if usable else None


def main() -> int:
    """Uses what there is."""
    for name, use in (("torch", with_torch), ("cupy", with_cupy)):
        library = gpu_library(name)
        if library is None:
            print(f"no {name} with a GPU here")
        else:
            use(library)
    host = np.ones(3, np.float32)
    try:
        gosaxpy.saxpy(host, host, 1.0, 1)
    except Exception as err:
        print(f"refused: {err}")
    else:
        raise AssertionError("host memory was taken for the device's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
