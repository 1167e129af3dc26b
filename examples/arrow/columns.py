#!/usr/bin/env python3
"""Columns of an Arrow record batch of Go, as NumPy arrays.

Go holds a record batch (apache/arrow-go), as a database driver or a Parquet
reader returns it, and hands its columns out. NumPy sees the column's own memory,
read-only as Arrow demands, for as long as it keeps the array.

Needs the module `goarrow` (main.go beside this file, a Go module of its own,
built by `make` into build/ext) and NumPy.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "ext"))

import goarrow
import numpy as np


def main() -> int:
    """Takes three columns and computes with them."""
    rows = 1000
    batch = goarrow.prices(rows)
    day, price, volume = (np.asarray(goarrow.column(batch, name)) for name in ("day", "price", "volume"))
    assert (day.dtype, price.dtype, volume.dtype) == (np.int32, np.float64, np.int64)
    for name, a in (("day", day), ("price", price), ("volume", volume)):
        assert goarrow.address(batch, name) == a.ctypes.data, f"column {name} was copied"
        assert not a.flags.writeable, f"column {name} can be written"
    turnover = float(price @ volume)
    want = sum((100 + i / 4) * 1000 * i for i in range(rows))
    assert abs(turnover - want) < 1e-6 * want

    # The arrays keep the batch alive after Python has given it back.
    goarrow.release(batch)
    gc.collect()
    np.testing.assert_array_equal(price, 100 + day / 4)

    try:
        goarrow.column(batch, "price")
    except Exception as err:
        assert "no batch" in str(err), err
    else:
        raise AssertionError("a released batch was found")
    print(f"arrow: {rows} rows, turnover {turnover:.2f}, no copy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
