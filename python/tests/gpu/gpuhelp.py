"""What the tests here share."""

from __future__ import annotations

from typing import Any

import handoff


def read(view: handoff.StridedMemoryView, stream: Any) -> list[Any]:
    """The elements of a GPU view, by a copy in the order of a stream."""
    host = handoff.Array.zeros(view.shape, view.dtype)
    view.copy_to(host, stream)
    stream.sync()
    return host.tolist()  # type: ignore[no-any-return]
