"""Arrays of a GPU as arguments: ordered on the call's stream. Runs on the software device."""

from __future__ import annotations

from typing import Any

PROLOGUE = """
import testmod, handoff
from handoff import _core
device = handoff.Device(0)
a, b = device.create_stream(), device.create_stream()
buffer = device.allocate(64, stream=a)
def view():
    return handoff.StridedMemoryView.from_buffer(buffer, (16,), dtype="float32")
"""


def test_arrays_are_ordered_on_the_stream(run: Any) -> None:
    run(
        PROLOGUE
        + """
key = _core._gate(a)
v = view()
handle, ordinal, where = testmod.on_stream(v, stream=b)
assert (handle, ordinal, where) == (b.handle, 0, "cuda:0"), (handle, ordinal, where)
assert not b.is_done, "b waits for the producer"
_core._gate_open(key)
b.sync()
key = _core._gate(a)
testmod.on_stream(view(), stream=a)  # the same stream: nothing to order
testmod.on_stream(view(), view(), view(), stream=handoff.StreamView(a))
assert b.is_done
testmod.on_stream(view(), view(), stream=b.handle)
assert not b.is_done
_core._gate_open(key)
b.sync()
""",
        HANDOFF_DRIVER="soft",
    )


def test_arrays_by_the_protocols(run: Any) -> None:
    run(
        PROLOGUE
        + """
class Producer:
    def __dlpack__(self, **kw):
        self.kw = kw
        return view().__dlpack__(**kw)
    def __dlpack_device__(self):
        return (2, 0)
key = _core._gate(a)
p = Producer()
testmod.on_stream(p, stream=b)
assert p.kw["stream"] == b.handle, "the producer is told the stream, and orders the data on it"
assert not b.is_done
_core._gate_open(key)
b.sync()
class Interface:
    @property
    def __cuda_array_interface__(self):
        return view().__cuda_array_interface__
key = _core._gate(a)
testmod.on_stream(Interface(), stream=b)
assert not b.is_done, "the interface names the stream"
_core._gate_open(key)
b.sync()
""",
        HANDOFF_DRIVER="soft",
    )


def test_the_way_back(run: Any) -> None:
    run(
        PROLOGUE
        + """
c = device.create_stream()
class Interface:
    @property
    def __cuda_array_interface__(self):
        return view().__cuda_array_interface__ | {"stream": c.handle}
class Producer:
    def __dlpack__(self, **kw):
        return view().__dlpack__(**kw)
    def __dlpack_device__(self):
        return (2, 0)
def failing(*args, **kw):
    try:
        testmod.there_and_back(*args, fail=True, **kw)
    except handoff.GoError as e:
        assert "half-way" in str(e), e
    else:
        raise SystemExit("it does not fail")
for call in (testmod.there_and_back, failing):
    for s in (a, b, c):
        s.sync()
    key = _core._gate(b)
    call(view(), view(), Interface(), stream=b)
    assert not a.is_done and not c.is_done, "both producers wait for what is queued on b"
    _core._gate_open(key)
    for s in (a, b, c):
        s.sync()
    # Nothing to wait for on the producer's own stream, without a known producer, on the host, and without a stream.
    key = _core._gate(b)
    call(Producer(), handoff.Array.zeros(3), stream=b)
    assert a.is_done
    _core._gate_open(key)
    b.sync()
    key = _core._gate(a)
    call(view(), stream=a)
    assert b.is_done and c.is_done
    _core._gate_open(key)
    a.sync()
    call(handoff.Array.zeros(3))
# Without the way back nothing waits.
key = _core._gate(b)
testmod.on_stream(view(), stream=b)
assert a.is_done
_core._gate_open(key)
b.sync()
""",
        HANDOFF_DRIVER="soft",
    )


def test_the_stream_must_be_said(run: Any) -> None:
    run(
        PROLOGUE
        + """
for given in ({}, {"stream": None}):
    try:
        testmod.on_stream(view(), **given)
    except TypeError as e:
        assert "stream" in str(e) and "R126" in str(e), e
    else:
        raise SystemExit("not refused")
for bad, error in ((object(), TypeError), ("x", TypeError), (True, TypeError), (-1, OverflowError), (3, ValueError)):
    try:
        testmod.on_stream(view(), stream=bad)
    except error as e:
        pass
    else:
        raise SystemExit(f"{bad!r} not refused")
b.close()
try:
    testmod.on_stream(view(), stream=b)
except handoff.ClosedError:
    pass
else:
    raise SystemExit("closed stream not refused")
""",
        HANDOFF_DRIVER="soft",
    )


def test_host_arrays_need_none(run: Any) -> None:
    run(
        """
import testmod, handoff
x = handoff.Array.zeros(3)
assert testmod.on_stream(x) == (0, -2, "cpu:0")
try:
    testmod.on_stream(x, stream=4096)
except handoff.NoDriverError:
    pass
else:
    raise SystemExit("there is no driver")
""",
        HANDOFF_DRIVER="none",
    )
