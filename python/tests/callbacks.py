"""Objects whose callbacks raise when asked to: for walks over every point where a callback is called."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from capsules import Managed

import handoff
from handoff import _core


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
