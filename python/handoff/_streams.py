"""The stream that this thread hands data out on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from handoff import _core
from handoff._core import StreamView

if TYPE_CHECKING:
    from handoff._core import _StreamLike


@contextmanager
def use_stream(stream: _StreamLike) -> Iterator[StreamView]:
    """Hand GPU data out on a stream, in this thread and for the stream's device.

    Consumers that use the DLPack exchange table ask for the producer's current stream and order
    their work after it. In the block that is `stream`; elsewhere it is the legacy default stream.
    A view that is ordered on another stream is refused by the table (ExchangeError, R103): hand it
    out under its own stream. `__dlpack__` and `__cuda_array_interface__` need none of this.
    """
    view = StreamView(stream)
    device = view.device_id
    before = _core._use_stream(device, view.handle)
    try:
        yield view
    finally:
        _core._use_stream(device, before)
