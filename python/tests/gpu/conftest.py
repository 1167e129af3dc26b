"""Tests that need a driver: a GPU, or the software device with HANDOFF_DRIVER=soft.

Elsewhere they are skipped; ../test_gpu.py runs them on the software device. Those of a library
(test_torch.py, ...) are skipped where it is not installed, or has no GPU.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import handoff
from handoff import _core

try:
    DEVICES = handoff.Device.get_all_devices()
    REASON = ""
except handoff.NoDriverError as e:
    DEVICES = ()
    REASON = str(e)


# Where the software device appends what it finds of missing synchronization, see ../test_gpu.py.
RACES = Path(os.environ.get("HANDOFF_SOFT_CHECK", ""))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "racy: leaves synchronization out on purpose")


@pytest.fixture(autouse=True)
def no_missing_synchronization(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test hunts for missing synchronization, on the software device."""
    if not RACES.is_absolute():
        yield
        return
    before = RACES.stat().st_size if RACES.exists() else 0
    yield
    if request.node.get_closest_marker("racy") or not RACES.exists():
        return
    with RACES.open() as f:
        f.seek(before)
        found = [json.loads(line)["text"] for line in f]
    assert not found, "\n".join(found)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not DEVICES:
        for item in items:
            if "tests/gpu/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture
def device() -> handoff.Device:
    return DEVICES[0]


def warm(device: handoff.Device, stream: Any) -> None:
    """Loads what copies need: on a GPU that may wait for the device, and so for a closed gate."""
    for kind in ("device", "pinned", "managed"):
        b = device.allocate(64, stream=stream, kind=kind)  # type: ignore[arg-type]
        b.fill(0, stream=stream)
        view = handoff.StridedMemoryView.from_buffer(b, (64,), dtype="uint8")
        host = handoff.Array.zeros((64,), "uint8")
        view.copy_to(host, stream)
        view.copy_from(host, stream)
        stream.sync()
        b.close()


@pytest.fixture
def stream(device: handoff.Device) -> Iterator[Any]:
    s = device.create_stream()
    warm(device, s)
    yield s
    s.sync()


@pytest.fixture
def other(device: handoff.Device) -> Iterator[Any]:
    s = device.create_stream()
    warm(device, s)
    yield s
    s.sync()


@pytest.fixture
def gate() -> Callable[..., Any]:
    """`with gate(stream) as open:`: work on the stream lasts until open() or the end of the block."""

    @contextmanager
    def gate(stream: Any) -> Iterator[Callable[[], None]]:
        key = _core._gate(stream)
        done = False

        def opened() -> None:
            nonlocal done
            if not done:
                done = True
                _core._gate_open(key)

        try:
            yield opened
        finally:
            opened()

    return gate


@pytest.fixture(autouse=True)
def nothing_held_back() -> Iterator[None]:
    before = _core._stats()["live_exports"]
    yield
    if DEVICES:
        gc.collect()
        _core._flush()
        # A deleter that needs the GIL may be on its way, on another thread. It must not come in
        # the next test: freeing pinned memory waits for the device, and so for a closed gate.
        end = time.monotonic() + 10
        while time.monotonic() < end:
            now = _core._stats()
            if now["live_exports"] <= before and now["pending_releases"] == 0:
                break
            time.sleep(0.001)
        _core._flush()
