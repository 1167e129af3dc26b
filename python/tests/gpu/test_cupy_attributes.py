"""cupy.ndarray is read by its attributes: found to be right once, with the protocols to fall back on.

A stand-in for CuPy, which needs no GPU, does as the real one; test_cupy.py has the real one. Each
case has a process of its own, because a type is judged once in a process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import handoff
from handoff import StridedMemoryView as View, StreamView, _core
import standin_cupy as cp
from gpuhelp import read
device = handoff.Device(0)
stream, other = device.create_stream(), device.create_stream()
"""
GRID = "np.arange(12, dtype='f4').reshape(3, 4)"


def case(code: str) -> None:
    p = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + code], capture_output=True, text=True, timeout=120
    )
    assert p.returncode == 0, p.stdout + p.stderr


def test_attributes_are_enough() -> None:
    case(f"""
cp.install()
a, _ = cp.array(stream, {GRID})
for how in (View.from_dlpack, View.from_cuda_array_interface, View.from_any_interface) * 2:
    v = how(a, stream)
    assert (v.ptr, v.shape, v.strides, v.dtype, v.device_id) == (a.data.ptr, (3, 4), None, a.dtype, 0)
    assert v.exporting_obj is a and not v.readonly and v.is_device_accessible and not v.is_host_accessible
    assert v.__dlpack_device__() == (2, 0)
    assert v.producer_stream == handoff.LEGACY_DEFAULT_STREAM and v.stream == stream
    assert read(v, stream) == {GRID}.tolist()
    assert View.from_dlpack(a, -1).stream == handoff.LEGACY_DEFAULT_STREAM
assert cp.asked == ["interface"], cp.asked  # compared once, and no protocol used after that
assert _core._stats()["cupy_direct"] == 1
try:
    View.from_dlpack(a)
except handoff.ExchangeError as e:
    assert e.rule == "R126"
else:
    raise AssertionError("GPU memory needs an order (R126)")
""")


def test_layouts() -> None:
    case(f"""
cp.install()
_, whole = cp.array(stream, {GRID})
grid = {GRID}
def made(shape, strides, first):
    a = cp.ndarray(whole)
    a.shape, a.strides, a._c_contiguous = shape, strides, False
    a.data = cp.MemoryPointer(whole, whole.ptr + 4 * first, 0)
    return a
cases = [
    (made((3, 2), (16, 8), 0), grid[:, ::2]),
    (made((4, 3), (4, 16), 0), grid.T),
    (made((3, 4), (-16, -4), 11), grid[::-1, ::-1]),  # CuPy's DLPack cannot say this (R053)
    (made((5, 3), (0, 16), 2), np.broadcast_to(grid[:, 2], (5, 3))),
    (made((), (), 7), grid[1, 3]),
    (made((0, 4), (16, 4), 0), grid[:0]),
]
for how in (View.from_dlpack, View.from_cuda_array_interface):
    for a, want in cases:
        v = how(a, stream)
        assert v.shape == want.shape and read(v, stream) == want.tolist(), (want, v)
assert "dlpack" not in cp.asked and cp.asked.count("interface") <= 2, cp.asked
""")


def test_order_is_made_by_one_edge() -> None:
    case("""
cp.install()
a, view = cp.array(other, np.zeros(64, "u1"))
for how in (View.from_dlpack, View.from_cuda_array_interface):
    cp.current = other.handle
    key = _core._gate(other)
    b = device.allocate(64, stream=other); b.fill(7, stream=other)
    view.copy_from(View.from_buffer(b, (64,), dtype="u1"), other)
    v = how(a, stream)
    assert v.producer_stream == other and v.stream == stream
    host = handoff.Array.zeros((64,), "u1")
    v.copy_to(host, stream, blocking=False)
    _core._gate_open(key)
    stream.sync()
    assert set(host.tolist()) == {7}
    # The same stream: nothing to order.
    assert how(a, other).stream == other
    # Without an order the view knows what is pending.
    assert how(a, -1).stream == other
    view.copy_from(handoff.Array.zeros((64,), "u1"), other); other.sync()
""")


@pytest.mark.parametrize(("kind", "want"), [("pinned", (3, 0)), ("managed", (13, 0)), ("device", (2, 0))])
def test_kinds_of_memory_are_told_apart(kind: str, want: tuple[int, int]) -> None:
    case(f"""
cp.install()
a, _ = cp.array(stream, np.arange(4, dtype="i8"), {kind!r})
for how in (View.from_dlpack, View.from_cuda_array_interface):
    v = how(a, stream)
    assert v.__dlpack_device__() == {want!r}
    assert v.is_host_accessible == ({kind!r} != "device")
assert cp.asked == ["interface"]
""")


@pytest.mark.parametrize(
    "lie",
    [
        "{'data': (4096, False)}",
        "{'shape': (4, 3)}",
        "{'typestr': '<i4'}",
        "{'strides': (16, 4)}",
        "{'stream': 77777}",
        "{'stream': None}",
        "{'version': 4}",
        "{'data': None}",
    ],
)
def test_what_does_not_agree_is_left_to_dlpack(lie: str) -> None:
    case(f"""
cp.install()
a, _ = cp.array(stream, {GRID})
a.lie = {lie}
v = View.from_dlpack(a, stream)
assert read(v, stream) == {GRID}.tolist()
assert cp.asked == ["interface", "device", "dlpack"], cp.asked
b, _ = cp.array(stream, {GRID})
View.from_dlpack(b, stream)
assert cp.asked[3:] == ["device", "dlpack"], cp.asked  # it is not tried again
assert _core._stats()["cupy_direct"] == 0
""")


def test_another_cupy_is_left_to_dlpack() -> None:
    case(f"""
cp.install(b"int (void)")  # not the function that we know
a, _ = cp.array(stream, {GRID})
assert read(View.from_dlpack(a, stream), stream) == {GRID}.tolist()
assert cp.asked == ["device", "dlpack"], cp.asked
""")


def test_exceptions_and_odd_attributes_are_left_to_dlpack() -> None:
    case(f"""
cp.install()
a, _ = cp.array(stream, {GRID})
View.from_dlpack(a, stream)
for change in (
    lambda a: setattr(cp, "current", -1),
    lambda a: setattr(a, "shape", [3, 4]),
    lambda a: setattr(a, "shape", (3, 2 ** 70)),
    lambda a: setattr(a, "shape", (3, -4)),
    lambda a: setattr(a, "shape", (3, True)),
    lambda a: setattr(a, "dtype", np.dtype("S3")),
    lambda a: setattr(a, "dtype", np.dtype(">f4")),
    lambda a: setattr(a, "dtype", None),
    lambda a: setattr(a.data, "ptr", "0"),
    lambda a: setattr(a.data, "ptr", a.data.ptr + 1),
    lambda a: setattr(a.data, "device_id", -1),
    lambda a: setattr(a, "data", None),
    lambda a: (setattr(a, "_c_contiguous", False), setattr(a, "strides", (16,))),
    lambda a: (setattr(a, "_c_contiguous", False), setattr(a, "strides", (15, 4))),
    lambda a: setattr(a.data, "ptr", 4096),  # nobody's memory
):
    a, view = cp.array(stream, {GRID})
    change(a)
    if a.data is None or a.data.device_id < 0:
        type(a).__dlpack_device__ = lambda self: (2, 0)
        type(a).__dlpack__ = lambda self, **kw: (cp.asked.append("dlpack"), view.__dlpack__(**kw))[1]
    del cp.asked[:]
    v = View.from_dlpack(a, stream)
    assert "dlpack" in cp.asked, cp.asked
    assert v.ptr == view.ptr and read(v, stream) == {GRID}.tolist()
    cp.current = 0
""")


def test_interface_without_a_stream_is_taken_at_its_word() -> None:
    case(f"""
cp.install()
cp.ndarray.interface_version = 2  # as CuPy does when told so: nothing is ordered (R183)
cp.current = other.handle
a, _ = cp.array(stream, {GRID})
v = View.from_cuda_array_interface(a, stream)
assert v.producer_stream is None and v.stream == stream
assert View.from_dlpack(a, stream).producer_stream == other
""")


def test_writing_and_lifetime() -> None:
    case(f"""
import gc, time, weakref
cp.install()
a, view = cp.array(stream, {GRID})
v = View.from_dlpack(a, stream)
w = weakref.ref(a)
del a
gc.collect()
assert w() is not None  # kept by the view (R194)
v.copy_from(handoff.Array.zeros((3, 4), "f4"), stream)
assert read(view, stream) == [[0] * 4] * 3
out = np.from_dlpack(v, device="cpu", copy=True)
v.release_on(stream)
del v
stream.sync()
_core._flush()  # copies keep what they use until they are done
end = time.monotonic() + 20
while w() is not None and time.monotonic() < end:
    time.sleep(0.001)
assert w() is None
""")
