#!/usr/bin/env python3
"""A data loader in Go that JAX, NumPy and PyTorch train on without a copy.

Go reads a file of packed pictures, unpacks the records of a batch on several
goroutines into memory that it allocates, and hands the batch out as two arrays.
Python takes them by DLPack: each library sees the memory that Go wrote. The GIL
is free while Go decodes, so that the next batch is made during the current step.

Needs the module `goloader` (main.go beside this file, built by `make` into
build/ext) and NumPy; JAX and PyTorch are used when they are installed.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "ext"))

import goloader
import numpy as np

RECORDS, BATCH = 1000, 128


class Batches:
    """Iterates over (images, labels) of a record file, one batch decoded ahead."""

    def __init__(self, path: Path, batch: int, workers: int = 4) -> None:
        self.handle = goloader.open(str(path), workers)
        self.batch = batch

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        with ThreadPoolExecutor(max_workers=1) as ahead:
            coming = ahead.submit(goloader.next_batch, self.handle, self.batch)
            while True:
                images, labels = coming.result()
                if len(memoryview(labels)) == 0:
                    return
                coming = ahead.submit(goloader.next_batch, self.handle, self.batch)
                yield images, labels

    def close(self) -> None:
        """Gives the file's contents back."""
        goloader.close(self.handle)


def check_numpy(images: Any, labels: Any, first: int) -> tuple[int, int]:
    """Takes a batch with NumPy; returns its size and where it is."""
    x, y = np.from_dlpack(images), np.from_dlpack(labels)
    n = len(y)
    want = (np.arange(28 * 28) + np.arange(first, first + n)[:, None]) % 256
    np.testing.assert_allclose(x.reshape(n, -1) * 255, want, atol=1e-3)
    np.testing.assert_array_equal(y, np.arange(first, first + n) % 10)
    return n, int(x.ctypes.data)


def main() -> int:
    """Writes a record file, reads it back in batches, checks every value."""
    others = [name for name in ("jax", "torch") if importlib.util.find_spec(name)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pictures.rec"
        goloader.write(str(path), RECORDS)
        batches = Batches(path, BATCH)
        seen = 0
        for images, labels in batches:
            n, where = check_numpy(images, labels, seen)
            if "jax" in others:
                import jax.dlpack

                a = jax.dlpack.from_dlpack(images)
                assert a.unsafe_buffer_pointer() == where, "JAX made a copy"
                assert a.shape == (n, 28, 28)
            if "torch" in others:
                import torch

                t = torch.from_dlpack(images)
                assert t.data_ptr() == where, "PyTorch made a copy"
            seen += n
        batches.close()
    assert seen == RECORDS, f"{seen} of {RECORDS} records seen"
    print(f"loader: {seen} records in batches of {BATCH}, no copy in {', '.join(['numpy', *others])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
