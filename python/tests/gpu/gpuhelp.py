"""What the tests here share."""

from __future__ import annotations

from typing import Any

import pytest

import handoff


def read(view: handoff.StridedMemoryView, stream: Any) -> list[Any]:
    """The elements of a GPU view, by a copy in the order of a stream."""
    host = handoff.Array.zeros(view.shape, view.dtype)
    view.copy_to(host, stream)
    stream.sync()
    return host.tolist()  # type: ignore[no-any-return]


def real_gpu() -> bool:
    """Whether the driver of this process is a GPU's."""
    try:
        return "software" not in handoff.Device(0).name
    except handoff.NoDriverError:
        return False


def library(name: str) -> Any:
    """A library that has a GPU here; its tests are skipped elsewhere."""
    if not real_gpu():
        pytest.skip(f"{name}: no GPU", allow_module_level=True)
    return pytest.importorskip(name)
