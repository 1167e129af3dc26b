"""Calls the Go functions of main.go with arrays of four libraries."""

import array
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "ext"))

import gomath  # build/ext/gomath.so, written in Go
import jax
import numpy as np
import pyarrow as pa

x = np.array([1.0, 2.0, 3.0])
gomath.scale(x)  # in place
print(x)

y = array.array("d", [1, 2, 3])
gomath.scale(y, factor=10)
print(y)

sums = gomath.running(pa.array([1.0, 2.0, 3.0]))  # Arrow's memory, read by Go
print(np.from_dlpack(sums), jax.dlpack.from_dlpack(sums))  # Go's memory, twice

x.flags.writeable = False
try:
    gomath.scale(x)
except BufferError as err:
    print("refused:", err)  # read-only memory stays as it is
