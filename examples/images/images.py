#!/usr/bin/env python3
"""Pictures of Go's image package as NumPy arrays, and NumPy arrays as pictures.

1. Go draws a picture and hands its pixels out: NumPy sees an array of height ×
   width × 4 over the same memory, and what NumPy writes, Go reads.
2. NumPy hands an array to Go, which draws into it with Go's drawing functions,
   also into a part of it (a window of the array, with strides).
3. Go decodes a PNG straight into such an array, and encodes one from it.

Needs the module `goimages` (main.go beside this file, built by `make` into
build/ext) and NumPy.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "ext"))

import goimages
import numpy as np

RED, BLUE, CLEAR = (255, 0, 0, 255), (0, 0, 255, 255), (0, 0, 0, 0)


def main() -> int:
    """Runs the three parts."""
    # 1. A picture made by Go, 6 wide and 4 high.
    picture = goimages.new(6, 4)
    a = np.from_dlpack(picture)
    assert a.shape == (4, 6, 4) and a.dtype == np.uint8
    a[1, 2] = RED
    assert tuple(goimages.pixel(picture, 2, 1)) == RED, "Go does not see NumPy's write"

    # 2. Go draws into memory of NumPy: a rectangle into the whole, then into a window.
    canvas = np.zeros((8, 10, 4), dtype=np.uint8)
    goimages.fill(canvas, 1, 1, 4, 3, *BLUE)
    assert (canvas[1:3, 1:4] == BLUE).all() and (canvas[3:] == CLEAR).all()
    window = canvas[4:8, 5:10]
    goimages.fill(window, 0, 0, 2, 2, *RED)
    assert (canvas[4:6, 5:7] == RED).all() and (canvas[4:6, 7:] == CLEAR).all()

    # 3. Out as PNG and back.
    png = goimages.encode_png(canvas)
    back = np.from_dlpack(goimages.decode_png(png))
    np.testing.assert_array_equal(back, canvas)

    # What is no picture is refused, with a message that says why.
    for bad in (np.zeros((2, 2, 3), np.uint8), np.zeros((2, 2, 4), np.float32), canvas[:, ::-1]):
        try:
            goimages.fill(bad, 0, 0, 1, 1, *RED)
        except (TypeError, ValueError, BufferError, RuntimeError) as err:
            assert str(err)
        else:
            raise AssertionError(f"an array of {bad.dtype} {bad.shape} {bad.strides} was taken for a picture")
    print(
        f"images: {a.shape[1]}x{a.shape[0]} out of Go, {canvas.shape[1]}x{canvas.shape[0]} into Go, no copy"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
