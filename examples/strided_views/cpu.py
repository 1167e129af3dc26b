"""A function over host memory of any library, whose work is done by C.

The decorator turns the argument into something that can be viewed; the C function (qsort of the C
library) gets the address, the number of elements and their size. Needs NumPy.
"""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import numpy as np
from handoff import args_viewable_as_strided_memory

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double))
qsort = ctypes.CDLL(None).qsort
qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, COMPARE]
qsort.restype = None


@args_viewable_as_strided_memory((0,))
def sort(numbers: Any) -> None:
    """Sort float64 in place."""
    view = numbers.view(-1)  # -1: nothing to order, because the host has it already
    if view.device_id != -1 or view.is_device_accessible:
        raise ValueError("not host memory")
    if view.dtype != np.float64 or view.strides is not None or view.readonly:
        raise ValueError("not a writable, dense array of float64")
    qsort(view.ptr, view.size, view.itemsize, COMPARE(lambda a, b: (a[0] > b[0]) - (a[0] < b[0])))


def main() -> None:
    """Sort arrays of two libraries."""
    of_numpy = np.array([3.0, 1.0, 2.0])
    sort(of_numpy)
    of_python = array("d", [5.0, 4.0, 6.0])
    sort(of_python)  # a buffer; no DLPack
    print("sorted:", of_numpy.tolist(), of_python.tolist())
    try:
        sort(np.zeros((4, 4))[:, 1])
    except ValueError as e:
        print("refused:", e)


if __name__ == "__main__":
    main()
