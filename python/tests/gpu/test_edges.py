"""How many event edges are made: one where something is pending, none where nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from gpuhelp import read, real_gpu

import handoff
from handoff import Device, StridedMemoryView, _core

pytestmark = pytest.mark.skipif(real_gpu(), reason="counts calls of the software device")


@contextmanager
def calls_of(api: str) -> Iterator[Callable[[], bool]]:
    """Whether the entry point was called in the block; it does nothing then."""
    _core._inject(f"{api}:1:0")
    seen: list[bool] = []

    def was_called() -> bool:
        seen.append(bool(json.loads(_core._inject(""))["first"]))
        return seen[0]

    try:
        yield was_called
    finally:
        _core._inject("")


ASK, NEVER, MEASURE = 1, 2, 3


@pytest.fixture(autouse=True)
def asks() -> Iterator[None]:
    _core._asking(ASK)
    yield
    _core._asking(ASK)


@pytest.fixture
def view(device: Device, stream: Any) -> Iterator[StridedMemoryView]:
    b = device.allocate(64, stream=stream)
    b.fill(3, stream=stream)
    yield StridedMemoryView.from_buffer(b, (64,), dtype="uint8")
    stream.sync()


def test_none_when_nothing_is_pending(view: StridedMemoryView, stream: Any, other: Any) -> None:
    for _ in range(40):  # also after a time when something was
        stream.sync()
        StridedMemoryView.from_dlpack(view, other)
    with calls_of("cuEventRecord") as called:
        v = StridedMemoryView.from_dlpack(view, other)
        assert not called()
    assert v.stream == other
    assert read(v, other) == [3] * 64


def test_counting_counts(view: StridedMemoryView, stream: Any, other: Any, gate: Any) -> None:
    with gate(stream), calls_of("cuEventRecord") as called:
        with suppress(handoff.DriverError):  # the call that is seen fails
            StridedMemoryView.from_dlpack(view, other)
        assert called()


def test_one_when_something_is(view: StridedMemoryView, stream: Any, other: Any, gate: Any, device: Device) -> None:
    for _ in range(40):  # busy every time, so that the stream is seldom asked
        with gate(stream) as opened:
            handoff.Buffer.fill(view.exporting_obj, 7, stream=stream)
            v = StridedMemoryView.from_dlpack(view, other)
            host = handoff.Array.zeros((64,), "uint8")
            v.copy_to(host, other, blocking=False)
            assert not other.is_done
            opened()
            other.sync()
            assert set(host.tolist()) == {7}
            handoff.Buffer.fill(view.exporting_obj, 3, stream=stream)
            stream.sync()


def test_wait_makes_none_when_nothing_is_pending(stream: Any, other: Any) -> None:
    for s in (stream, handoff.StreamView(stream)):
        other.wait(s)  # from now on it is known where s is
        stream.sync()
        other.wait(s)
        other.sync()
        with calls_of("cuEventRecord") as called:
            other.wait(s)
            assert not called()


def test_wait_makes_one_when_something_is(stream: Any, other: Any, gate: Any) -> None:
    other.wait(stream)
    stream.sync()
    for _ in range(40):  # busy every time, so that the stream is seldom asked
        with gate(stream) as opened:
            with calls_of("cuEventRecord") as called:
                with suppress(handoff.DriverError):  # the call that is seen fails
                    other.wait(stream)
                assert called()
            other.wait(stream)
            assert not other.is_done
            opened()
        other.sync()


def test_nothing_is_asked_where_that_is_dear(view: StridedMemoryView, stream: Any, other: Any) -> None:
    other.wait(stream)
    _core._asking(NEVER)
    for order in (lambda: other.wait(stream), lambda: StridedMemoryView.from_dlpack(view, other)):
        stream.sync()
        with calls_of("cuStreamQuery") as asked:
            order()
            assert not asked()
        with calls_of("cuEventRecord") as recorded:
            with suppress(handoff.DriverError):  # the call that is seen fails
                order()
            assert recorded()
    assert read(StridedMemoryView.from_dlpack(view, other), other) == [3] * 64


@pytest.mark.parametrize("how", ["wait", "view"])
def test_the_question_is_measured_once(view: StridedMemoryView, stream: Any, other: Any, gate: Any, how: str) -> None:
    other.wait(stream)
    order = {"wait": lambda: other.wait(stream), "view": lambda: StridedMemoryView.from_dlpack(view, other)}[how]
    stream.sync()
    _core._asking(MEASURE)
    with gate(stream) as opened:
        order()
        assert _core._asking() == MEASURE, "what is pending makes a difference"
        assert not other.is_done
        opened()
    for _ in range(64):
        stream.sync()
        other.sync()
        order()
    found = _core._asking()
    assert found in (ASK, NEVER)
    with gate(stream) as opened:
        order()
        assert not other.is_done
        opened()
    other.sync()
    assert _core._asking() == found


def test_a_failed_measurement_is_none(stream: Any, other: Any) -> None:
    other.wait(stream)
    stream.sync()
    _core._asking(MEASURE)
    _core._inject("cuEventRecord:1+:2")
    try:
        other.wait(stream)  # nothing is pending, and what failed nobody wanted
    finally:
        _core._inject("")
    assert _core._asking() == MEASURE


def test_it_is_measured_again(stream: Any, other: Any) -> None:
    other.wait(stream)
    stream.sync()
    _core._asking(MEASURE)
    counts = []
    for waits in (500, 700, 700):
        _core._inject("cuThreadExchangeStreamCaptureMode:1000000:1")  # counts, and never fails
        for _ in range(waits):
            stream.sync()
            other.wait(stream)
        counts.append(json.loads(_core._inject(""))["calls"])
    found = _core._asking()
    assert found in (ASK, NEVER)
    if found == NEVER:  # at first, after 1,024 waits, and after 4,096 more
        assert counts[0] > 0
        assert counts[1] > 0
        assert counts[2] == 0


def test_a_busy_stream_is_seldom_asked(stream: Any, other: Any, gate: Any) -> None:
    other.wait(stream)
    stream.sync()
    with gate(stream):
        for _ in range(80):
            other.wait(stream)
        _core._inject("cuStreamQuery:1000000:1")  # counts, and never fails
        for _ in range(64):
            other.wait(stream)
        calls = json.loads(_core._inject(""))["calls"]
    other.sync()
    assert 1 <= calls <= 4
