"""A Python callback raises: at each point where one is called, one after the other, for each entry point.

Every callback of the objects here passes a trap, which raises when it is passed for the n-th time. The
walk goes on, n = 1 and so on, until the operation never meets the trap.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from capsules import Managed

import handoff
from handoff import Array, StreamView, StridedMemoryView, _core


class Boom(RuntimeError):
    """What no protocol gives a meaning to."""


class Missing(AttributeError):
    """What says that a protocol is not there."""


class Older(TypeError):
    """What says that an older form of a call is wanted."""


class Trap:
    """Raises when it is passed for the n-th time."""

    def __init__(self, n: int, error: BaseException) -> None:
        self.n, self.error, self.passed = n, error, 0
        self.where = ""
        self.tensors: list[Managed] = []

    def __call__(self, where: str) -> None:
        self.passed += 1
        if self.passed == self.n:
            self.where = where
            raise self.error

    def tensor(self, **args: Any) -> Managed:
        self.tensors.append(Managed(**args))
        return self.tensors[-1]


class Index:
    def __init__(self, trap: Trap, value: int) -> None:
        self.trap, self.value = trap, value

    def __index__(self) -> int:
        self.trap("__index__")
        return self.value


class Number:
    def __init__(self, trap: Trap, value: float) -> None:
        self.trap, self.value = trap, value

    def __float__(self) -> float:
        self.trap("__float__")
        return self.value


class Truth:
    def __init__(self, trap: Trap, value: bool) -> None:
        self.trap, self.value = trap, value

    def __bool__(self) -> bool:
        self.trap("__bool__")
        return self.value


class Sequence:
    """Something like a tuple, of numbers that are asked for."""

    def __init__(self, trap: Trap, *items: int) -> None:
        self.trap, self.items = trap, [Index(trap, i) for i in items]

    def __len__(self) -> int:
        self.trap("__len__")
        return len(self.items)

    def __getitem__(self, i: int) -> Index:
        self.trap("__getitem__")
        return self.items[i]

    def __iter__(self) -> Iterator[Index]:
        self.trap("__iter__")
        return iter(self.items)


class Watched:
    """Every look at a public or protocol attribute passes the trap."""

    def __init__(self, trap: Trap) -> None:
        object.__setattr__(self, "_trap", trap)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") or name in PROTOCOLS:
            object.__getattribute__(self, "_trap")(name)
        return object.__getattribute__(self, name)


PROTOCOLS = {
    "__dlpack__", "__dlpack_device__", "__array_interface__", "__cuda_array_interface__", "__cuda_stream__",
    "__c_dlpack_exchange_api__", "__dlpack_c_exchange_api__",
}  # fmt: skip


class Dlpack(Watched):
    versioned = True

    def __dlpack_device__(self) -> tuple[int, int]:
        self._trap("__dlpack_device__()")
        return (1, 0)

    def __dlpack__(self, **kwargs: Any) -> Any:
        self._trap("__dlpack__()")
        capsule = self._trap.tensor(versioned="max_version" in kwargs and type(self).versioned).capsule()
        self._trap("__dlpack__() with its capsule made")
        return capsule


class OldDlpack(Dlpack):
    def __dlpack__(self) -> Any:  # type: ignore[override]
        self._trap("__dlpack__()")
        return self._trap.tensor(versioned=False).capsule()


class Interface(Watched):
    """NumPy's array interface, with numbers that are asked for."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self._trap("__array_interface__ itself")
        if not hasattr(type(self), "memory"):
            type(self).memory = np.arange(6.0)  # type: ignore[attr-defined]
        address = type(self).memory.ctypes.data  # type: ignore[attr-defined]
        t = self._trap
        return {
            "shape": (Index(t, 2), Index(t, 3)),
            "strides": (Index(t, 24), Index(t, 8)),
            "typestr": "<f8",
            "data": (Index(t, address), Truth(t, False)),
            "version": 3,
        }


class Both(Dlpack):
    """Two protocols: the second may serve where the first fails (B254)."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self._trap("__array_interface__ itself")
        return dict(np.zeros(6).__array_interface__)


class CudaInterface(Watched):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._trap("__cuda_array_interface__ itself")
        t = self._trap
        return {
            "shape": (Index(t, 0),),
            "strides": None,
            "typestr": "<f8",
            "data": (0, Truth(t, False)),
            "version": 2,
        }


class CudaStream(Watched):
    def __cuda_stream__(self) -> tuple[Any, Any]:
        self._trap("__cuda_stream__()")
        return (0, 4096)


class TorchStream(Watched):
    @property
    def cuda_stream(self) -> int:
        self._trap("cuda_stream itself")
        return 4096


class CupyStream(Watched):
    @property
    def ptr(self) -> int:
        self._trap("ptr itself")
        return 4096


class Layout(Watched):
    @property
    def shape(self) -> Any:
        return Sequence(self._trap, 3, 2)

    @property
    def strides(self) -> Any:
        return Sequence(self._trap, 2, 1)


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

ERRORS: tuple[type[BaseException], ...] = (Boom, KeyboardInterrupt, MemoryError, Missing, Older)


def chain(e: BaseException | None) -> Iterator[BaseException]:
    while e is not None:
        yield e
        e = e.__cause__ or e.__context__


walked = {"operations": 0, "raised": 0}


def once(name: str, do: Callable[[Trap], Any], n: int, kind: type[BaseException]) -> bool:
    """One operation with one trap; whether it was met."""
    exports = _core._stats()["live_exports"]
    trap = Trap(n, kind("on purpose"))
    refs = sys.getrefcount(trap)
    caught: BaseException | None = None
    result = None
    try:
        result = do(trap)
    except BaseException as e:
        caught = e.with_traceback(None)
    met = trap.where != ""
    where = f"{name}, {kind.__name__} in callback {n}, {trap.where}"
    if met and kind in (KeyboardInterrupt, MemoryError):
        assert caught is trap.error, f"{where}: {caught!r}"
    elif met and kind is Boom:
        assert result is not None or trap.error in chain(caught), f"{where}: {caught!r}"
    elif met:
        assert caught is None or isinstance(caught, (handoff.Error, kind, TypeError, ValueError)), (
            f"{where}: {caught!r}"
        )
    else:
        assert caught is None, f"{where}: {caught!r}"
    del result, caught
    del trap.error  # it knows where it was raised
    gc.collect(0)
    for m in trap.tensors:
        if m.deleted != 1:
            gc.collect()
        assert (m.deleted, m.wrong) == (1, 0), f"{where}: a deleter ran {m.deleted} times"
    trap.tensors.clear()
    if sys.getrefcount(trap) != refs:
        gc.collect()
    assert sys.getrefcount(trap) == refs, f"{where}: references are left"
    assert _core._stats()["live_exports"] == exports, where
    walked["raised"] += met
    return met


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_callback_raises(name: str) -> None:
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
    print(f"callback walk: {walked['operations']} operations, {walked['raised']} callbacks raised")
    assert walked["operations"] == len(OPERATIONS)
    assert walked["raised"] > 5 * 100
