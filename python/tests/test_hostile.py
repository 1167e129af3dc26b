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


def test_pickles_make_no_objects(run: Any) -> None:
    # What stands for memory, a stream or an event is not pickled; an old pickle that names the
    # class makes no object without memory. A device is its ordinal.
    p = run(
        """
import copy, pickle, handoff
from handoff import Array, StridedMemoryView, StreamView
things = [Array.zeros(3), StridedMemoryView.from_dlpack(Array.zeros(3)), StreamView(1)]
try:
    device = handoff.Device(0)
except handoff.NoDriverError:
    pass
else:
    stream = device.create_stream()
    things += [stream, stream.record(), device.allocate(64, stream=stream)]
    assert pickle.loads(pickle.dumps(device)) is device
for x in things:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        try:
            data = pickle.dumps(x, protocol)
        except TypeError:
            continue
        assert protocol < 2, x      # only what the oldest protocols write for any object
        try:
            made = pickle.loads(data)
        except TypeError as e:
            assert "not safe" in str(e)
        else:
            raise AssertionError(made)
    for make in (copy.copy, lambda x: object.__new__(type(x))):
        try:
            made = make(x)
        except TypeError:
            continue
        raise AssertionError(made)
print("end")
"""
    )
    assert p.stdout == "end\n", p.stdout + p.stderr


# Values of all kinds, whole and broken; a seed tells them all.
CALLS = """
import gc, random, sys, time
import handoff
from handoff import _core
seed = int(sys.argv[1]); r = random.Random(seed)
A, V = handoff.Array, handoff.StridedMemoryView
try: device = handoff.Device(0)
except handoff.NoDriverError: device = None
streams = []
def stream():
    if device is None: return None
    if not streams or streams[0].is_closed or r.random() < 0.05: streams[:] = [device.create_stream()]
    return streams[0]
class Number:
    def __index__(self): return r.choice([0, -1, 1 << 70])
class Raises:
    def __index__(self): raise ZeroDivisionError
    def __getattr__(self, name): raise ZeroDivisionError(name)
memory = bytearray(4096)
edges = [3, 7, 255, 256, 4095, 4096, 1 << 31, 1 << 32, 1 << 62, 1 << 63, -1 << 63, (1 << 64) - 1, 1 << 64, -1 << 70]
texts = ["float32", "int8", "<i4", "float4_e2m1fn", "\\ud800", "cpu", "x" * 300, "device", "pinned", "managed"]
def value():
    s = stream()
    return r.choice([
        lambda: None, lambda: True, lambda: 0, lambda: 1, lambda: 2, lambda: -1, lambda: r.choice(edges), lambda: "",
        lambda: r.choice(texts), lambda: b"abc", lambda: memory, lambda: memoryview(memory)[::-2], lambda: [],
        lambda: {}, lambda: (r.randrange(-1, 5), r.randrange(-1, 9)), Number, Raises, lambda: 1.5,
        lambda: tuple(r.choice([0, 1, 2, 3, -1, 1 << 40]) for _ in range(r.randrange(6))),
        lambda: A.zeros(r.choice([(), 3, (2, 3), (0, 4), (2, 1, 3)]), r.choice(["float32", "bool", "complex64"])),
        lambda: V.from_dlpack(A.zeros((3, 4), "int32")), lambda: s, lambda: handoff.StreamView(r.choice([0, 1, 2])),
        lambda: s.record() if s is not None else None,
        lambda: slice(r.choice([None, 0, -1, 5, 1 << 70]), r.choice([None, 2, -7]), r.choice([None, 1, -1, 2, 0])),
        lambda: device.allocate(r.choice([0, 1, 64, 1000]), stream=s) if device is not None else None,
    ])()
special = ["__dlpack__", "__getitem__", "__setitem__", "__len__", "__iter__", "__repr__", "__eq__", "__hash__",
           "__dlpack_device__", "__cuda_stream__", "__array_interface__", "__sub__"]
# Private functions are called by handoff alone, with keys and handles of its own.
functions = [getattr(handoff, n) for n in handoff.__all__ if callable(getattr(handoff, n)) and n != "use_stream"]
functions = [f for f in functions if not (isinstance(f, type) and issubclass(f, BaseException))]
words = ["stream", "copy", "dl_device", "max_version", "dtype", "shape", "stream_ptr", "layout", "device", "itemsize",
         "strides", "size", "fill_value", "kind"]
n = fine = 0
end = time.monotonic() + 2
while time.monotonic() < end or n < 1000:
    n += 1
    args = [value() for _ in range(r.randrange(5))]
    kwargs = {r.choice(words): value()} if r.random() < 0.3 else {}
    try:
        if r.random() < 0.4:
            f = r.choice(functions)
        else:
            o = value()
            if not type(o).__module__.startswith("handoff"): continue
            names = [x for x in dir(type(o)) if not x.startswith("_") or x in special]
            f = getattr(o, r.choice(names))
        f(*args, **kwargs) if callable(f) else None
        fine += 1
    except SystemError as e:  # the interpreter's word for a broken extension
        print(seed, f, args, kwargs, e); raise
    except Exception: pass
    if n % 500 == 0: gc.collect()
assert fine > 100, fine
f = o = args = kwargs = None
gc.collect()
assert _core._stats()["live_exports"] == 0
print("end")
"""


@pytest.mark.parametrize("driver", ["none", "soft"])
@pytest.mark.parametrize("seed", [1, 2])
def test_calls_with_anything(run: Any, monkeypatch: Any, driver: str, seed: int) -> None:
    # Thousands of calls of everything public, with arguments of all kinds.
    # A GPU's driver reads where an invented stream handle points: never with that one.
    monkeypatch.setenv("HANDOFF_DRIVER", driver)
    p = run(f"import sys\nsys.argv = ['', '{seed}']\n" + CALLS)
    assert p.stdout == "end\n", p.stdout + p.stderr
