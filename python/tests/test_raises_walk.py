"""A Python callback raises: at each point where one is called, one after the other, for each entry point.

Every callback of the objects here passes a trap, which raises when it is passed for the n-th time. The
walk goes on, n = 1 and so on, until the operation never meets the trap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from callbacks import (
    ERRORS,
    Both,
    CudaInterface,
    CudaStream,
    CupyStream,
    Dlpack,
    Index,
    Interface,
    Layout,
    Number,
    OldDlpack,
    Sequence,
    TorchStream,
    Trap,
    Truth,
    once,
    walked,
)

import handoff
from handoff import Array, StreamView, StridedMemoryView, _core


def host() -> Array:
    return Array.zeros((2, 3), "float32")


OPERATIONS: dict[str, Callable[[Trap], Any]] = {
    "from_dlpack": lambda t: handoff.from_dlpack(Dlpack(t)),
    "from_dlpack, device and copy": lambda t: handoff.from_dlpack(Dlpack(t), device="cpu", copy=True),
    "from_dlpack, device of numbers": lambda t: handoff.from_dlpack(Dlpack(t), device=(Index(t, 1), Index(t, 0))),  # type: ignore[arg-type]
    "from_dlpack, an old producer": lambda t: handoff.from_dlpack(OldDlpack(t)),
    "StridedMemoryView.from_dlpack": lambda t: StridedMemoryView.from_dlpack(Dlpack(t)),
    "StridedMemoryView.from_dlpack, old": lambda t: StridedMemoryView.from_dlpack(OldDlpack(t)),
    "StridedMemoryView.from_any_interface": lambda t: StridedMemoryView.from_any_interface(Dlpack(t)),
    "StridedMemoryView.from_any_interface, two": lambda t: StridedMemoryView.from_any_interface(Both(t)),
    "StridedMemoryView.from_any_interface, array": lambda t: StridedMemoryView.from_any_interface(Interface(t)),
    "StridedMemoryView.from_array_interface": lambda t: StridedMemoryView.from_array_interface(Interface(t)),
    "StridedMemoryView.from_cuda_array_interface": lambda t: StridedMemoryView.from_cuda_array_interface(
        CudaInterface(t), -1
    ),
    "StridedMemoryView.from_buffer": lambda t: StridedMemoryView.from_buffer(
        host(),
        Sequence(t, 3, 2),
        Sequence(t, 2, 1),
        itemsize=4,
        is_readonly=Truth(t, True),  # type: ignore[arg-type]
    ),
    "StridedMemoryView.from_buffer of a producer": lambda t: StridedMemoryView.from_buffer(
        Dlpack(t), Index(t, 6), dtype="float32"
    ),
    "StridedMemoryView.view": lambda t: StridedMemoryView.from_dlpack(host()).view(Layout(t)),
    "StridedMemoryView.view of a pair": lambda t: StridedMemoryView.from_dlpack(host()).view(
        (Sequence(t, 3, 2), None)  # type: ignore[arg-type]
    ),
    "StridedMemoryView.copy_from": lambda t: StridedMemoryView.from_dlpack(host()).copy_from(Dlpack(t)),
    "StridedMemoryView.copy_to": lambda t: StridedMemoryView.from_dlpack(host()).copy_to(Dlpack(t)),
    "StridedMemoryView.__dlpack__": lambda t: StridedMemoryView.from_dlpack(host()).__dlpack__(
        max_version=(Index(t, 1), Index(t, 3)),  # type: ignore[arg-type]
        dl_device=(Index(t, 1), Index(t, 0)),  # type: ignore[arg-type]
    ),
    "Array.empty": lambda t: Array.empty(Sequence(t, 2, 3), "float32"),  # type: ignore[arg-type]
    "Array.zeros": lambda t: Array.zeros(Index(t, 3)),
    "Array.full": lambda t: Array.full((2,), Number(t, 2.5)),  # type: ignore[arg-type]
    "Array.copy_of": lambda t: Array.copy_of(Dlpack(t)),
    "Array.copy_of, array interface": lambda t: Array.copy_of(Interface(t)),
    "Array.__getitem__": lambda t: host()[Index(t, 1), slice(Index(t, 0), Index(t, 2), Index(t, 1))],
    "Array.__setitem__": lambda t: host().__setitem__((Index(t, 1), Index(t, 1)), Number(t, 7.0)),  # type: ignore[arg-type]
    "Array.__setitem__ of a producer": lambda t: host().__setitem__(..., Dlpack(t)),
    "StreamView": lambda t: StreamView(CudaStream(t)),
    "StreamView of torch": lambda t: StreamView(TorchStream(t)),
    "StreamView of cupy": lambda t: StreamView(CupyStream(t)),
    "StreamView of a number": lambda t: StreamView(Index(t, 4096)),
    "_inspect": lambda t: _core._inspect(Dlpack(t), 0),
    "_inspect of an array interface": lambda t: _core._inspect(Interface(t), 0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_B254_a_callback_raises(name: str) -> None:
    do = OPERATIONS[name]
    walked["operations"] += 1
    for kind in ERRORS:
        n = 1
        while once(name, do, n, kind):
            n += 1
            assert n < 100, "it never ends"
        assert n > 1, "there is no callback at all"


def test_the_walk_was_one() -> None:
    """After the others."""
    if not walked["operations"]:
        pytest.skip("the walk was not selected")
    print(f"callback walk: {walked['operations']} operations, {walked['raised']} callbacks raised")
    assert walked["operations"] == len(OPERATIONS)
    assert walked["raised"] > 5 * 100
