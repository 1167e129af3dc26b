"""Producers that lie, and objects that change while they are read: found by fuzzing internal/cfuzz."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from capsules import Managed

import handoff
from handoff import Array, StridedMemoryView


class Capsule:
    """A producer of one capsule."""

    def __init__(self, managed: Managed) -> None:
        self.managed = managed

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.managed.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_B088_packed_elements_are_not_counted_as_whole_bytes() -> None:
    # Eight elements of 4 bits are 4 bytes, and no layout over them reaches further.
    memory = (ctypes.c_uint8 * 64)()
    m = Managed(shape=(8,), strides=(1,), dtype=(1, 4, 1), data=ctypes.addressof(memory))
    v = StridedMemoryView.from_dlpack(Capsule(m))
    assert v.nbytes == 4
    assert StridedMemoryView.from_buffer(v, (4,), dtype="uint8").size == 4
    with pytest.raises(ValueError, match="Expected at least 5 bytes, got 4"):
        StridedMemoryView.from_buffer(v, (5,), dtype="uint8")
    with pytest.raises(ValueError, match="Expected at least 8 bytes, got 4"):
        StridedMemoryView.from_buffer(v, (8,), dtype="uint8")


def test_R034_layouts_of_packed_elements_that_fill_the_address_space() -> None:
    # 2^62 elements of 9 bits fit in 64 bits; the same number of two bytes does not.
    m = Managed(shape=(1 << 62,), strides=(1,), dtype=(1, 1, 9), data=256)
    v = StridedMemoryView.from_dlpack(Capsule(m))
    assert v.view(((1 << 62,), (1,))).size == 1 << 62
    with pytest.raises(ValueError, match="reaches elements"):
        v.view(((2, 1 << 61), (1 << 62, 1)))


class Eats(str):
    """A key of the same hash as another; comparing it empties a dict."""

    target: Any = None

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        if Eats.target is not None:
            target, Eats.target = Eats.target, None
            target.clear()
        return False


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version", "strides", "mask", "descr", "stream"])
def test_dicts_that_are_emptied_by_a_look_up(name: str, key: str) -> None:
    # What was found before the look-up that empties the dict stays alive until the end.
    class Producer:
        pass

    interface: dict[Any, Any] = {
        "shape": (int("3"),),
        "typestr": "".join(["|V", "70000"]),
        "data": (int("4096"), False),
        "strides": None,
        "version": 3,
    }
    had = interface.pop(key, None)
    interface[Eats(key)] = None
    interface[key] = had
    Eats.target = interface
    p = Producer()
    setattr(p, name, interface)
    del interface
    with pytest.raises((BufferError, ValueError, TypeError)):
        StridedMemoryView.from_any_interface(p, -1)
    Eats.target = None


@pytest.mark.parametrize("address", [8, 16, 4088, 4097, 4098, 4100, -8, -4096, 1 << 63, (1 << 64) - 8])
@pytest.mark.parametrize("name", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
def test_R086_an_int_that_is_no_address_is_no_table(name: str, address: int) -> None:
    # The address of a table may be an int: one at which no struct can be is not read.
    class Producer(bytearray):
        pass

    setattr(Producer, name, address)
    assert StridedMemoryView.from_any_interface(Producer(8)).shape == (8,)
    assert handoff._core._inspect(Producer(4))[1] == (4,)


def test_R054_strides_that_nobody_steps_along_do_not_overflow() -> None:
    m = Managed(shape=(1, 0), strides=((1 << 63) - 1, -(1 << 63)), dtype=(2, 64, 1), data=256)
    v = StridedMemoryView.from_dlpack(Capsule(m))
    assert v.__array_interface__["shape"] == (1, 0)
    assert memoryview(v).nbytes == 0
    assert Array.copy_of(v).shape == (1, 0)
