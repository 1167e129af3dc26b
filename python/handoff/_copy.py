"""Copies of many buffers in one call, and what may be said of a copy."""

from __future__ import annotations

import ctypes
import enum
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from handoff import _core
from handoff._core import StreamView, StridedMemoryView
from handoff._device import Buffer, Device, _bytes_of

if TYPE_CHECKING:
    from handoff._core import _StreamLike
    from handoff._device import _Array


class MemcpySrcAccessOrder(enum.StrEnum):
    """When a copy may read its source.

    STREAM: after the work that is queued on the stream. ANY: at any time until the copy is done; no
    work that is queued may still write the source. DURING_API_CALL: before the call returns; no
    work that is queued may still write the source, and the caller may change it at once.
    """

    STREAM = "stream"
    DURING_API_CALL = "during_api_call"
    ANY = "any"


class MemcpyOverlapMode(enum.StrEnum):
    """Whether a copy should rather run beside kernels; a wish."""

    DEFAULT = "default"
    PREFER_OVERLAP_WITH_COMPUTE = "prefer_overlap_with_compute"


@dataclass(frozen=True)
class CopyOptions:
    """What may be said of a copy.

    Only `src_access_order` says something that a program may rely on. The hints (a Device, "host", or
    an object of another library that stands for one of them) and the overlap mode are wishes, which
    every driver may leave aside; handoff's copies do.
    """

    src_access_order: MemcpySrcAccessOrder | str = "stream"
    src_location_hint: Any = None
    dst_location_hint: Any = None
    overlap_mode: MemcpyOverlapMode | str = "default"

    def __post_init__(self) -> None:
        """Check the fields, and make enums of text."""
        for name, kind in (("src_access_order", MemcpySrcAccessOrder), ("overlap_mode", MemcpyOverlapMode)):
            given = getattr(self, name)
            try:
                word = kind(given)
            except ValueError:
                words = ", ".join(repr(str(w)) for w in kind)
                raise _core.InvalidValueError(f"handoff: {name} is one of {words}, not {given!r}") from None
            object.__setattr__(self, name, word)  # frozen
        for name in ("src_location_hint", "dst_location_hint"):
            given = getattr(self, name)
            if given is None or given == "host" or isinstance(given, Device):
                continue
            if not hasattr(given, "device_id") and not hasattr(given, "numa_id"):
                raise _core.InvalidTypeError(f"handoff: {name} is a Device or 'host', not {given!r}")


def stream_of(op: str, stream: _StreamLike) -> StreamView:
    """Return the stream, if it is one that copies with options and batches may be queued on."""
    s = StreamView(stream)
    if s.handle in (0, 1):
        raise _core.InvalidTypeError(f"handoff: {op}: not on the legacy default stream; the per-thread one will do")
    if s.is_capturing:
        raise _core.InvalidTypeError(f"handoff: {op}: the stream captures, and a graph has no such copies")
    return s


def checked(op: str, options: Any) -> CopyOptions:
    """Return the options, if they are that."""
    if not isinstance(options, CopyOptions):
        raise _core.InvalidTypeError(f"handoff: {op}: options are a CopyOptions, not {options!r}")
    return options


def source(op: str, view: StridedMemoryView, options: CopyOptions) -> StridedMemoryView:
    """Return what to copy from in place of a view of bytes: one that may be read in the order of the stream.

    Bytes that have to be read before the call returns are read here, by the host. It cannot read
    memory of a device without waiting for that.
    """
    if options.src_access_order != MemcpySrcAccessOrder.DURING_API_CALL or view.nbytes == 0:
        return view
    if view.__dlpack_device__()[0] not in (1, 3):  # kDLCPU, kDLCUDAHost
        raise _core.StreamError(
            f"handoff: {op}: DURING_API_CALL is for sources in host memory; "
            "memory of a device is read in the order of the stream (STREAM or ANY)"
        )
    # Not by the view's own buffer, which waits for the stream: that no work writes it is the caller's word.
    data = bytes((ctypes.c_char * view.nbytes).from_address(view.ptr))
    return StridedMemoryView.from_buffer(data, (view.nbytes,), dtype="int8", is_readonly=True)


def copy_batch(
    stream: _StreamLike,
    srcs: Sequence[Buffer | _Array],
    dsts: Sequence[Buffer | _Array],
    *,
    options: CopyOptions | Sequence[CopyOptions] | None = None,
) -> None:
    """Copy each of srcs to that of dsts with its index, of as many bytes, in the order of a stream.

    They are buffers, or contiguous arrays. The copies may run in any order: no destination may
    overlap another one, or a source. Options are for all copies, or one for each. Everything is
    checked before the first copy is queued. The host does not wait: see Buffer.copy_to.

    TypeError for the legacy default stream, for one that captures, and for a buffer in place of a
    sequence; ValueError if lengths or sizes differ, or ranges overlap; RuntimeError for
    DURING_API_CALL and a source that is not in host memory.
    """
    op = "copy_batch"
    for name, given in (("srcs", srcs), ("dsts", dsts)):
        if not isinstance(given, Sequence) or isinstance(given, (str, bytes, bytearray, memoryview)):
            raise _core.InvalidTypeError(f"handoff: {op}: {name} is a sequence of buffers, not {given!r}")
    srcs, dsts = list(srcs), list(dsts)  # which stay as they are
    n = len(srcs)
    if len(dsts) != n:
        raise _core.InvalidValueError(f"handoff: {op}: {n} sources and {len(dsts)} destinations")
    if options is None:
        said = [CopyOptions()] * n
    elif isinstance(options, Sequence):
        said = [checked(op, o) for o in options]
        if len(said) != n:
            raise _core.InvalidValueError(f"handoff: {op}: {len(said)} options for {n} copies")
    else:
        said = [checked(op, options)] * n
    s = stream_of(op, stream)
    to = [_bytes_of(dst, s) for dst in dsts]
    come = [_bytes_of(src, s) for src in srcs]
    for i, (d, f) in enumerate(zip(to, come, strict=True)):
        if d.nbytes != f.nbytes:
            raise _core.InvalidValueError(f"handoff: {op}: {f.nbytes} bytes into {d.nbytes}, at index {i}")
        if d.readonly:
            raise _core.ReadOnlyError(f"handoff: {op}: the destination at index {i} is read-only")
        if d.__dlpack_device__()[0] == 1 == f.__dlpack_device__()[0]:
            raise _core.InvalidValueError(f"handoff: {op}: both sides are memory without streams, at index {i}")
    _disjoint(op, to, come)
    come = [source(op, f, o) for f, o in zip(come, said, strict=True)]
    for i in range(n):
        to[i].copy_from(come[i], s, blocking=False)
        for side in (srcs[i], dsts[i]):
            if isinstance(side, Buffer):
                side._queued(s)


def _disjoint(op: str, to: list[StridedMemoryView], come: list[StridedMemoryView]) -> None:
    """Refuse destinations that overlap one another, or sources: nobody says which copy is first."""
    written = sorted((d.ptr, d.ptr + d.nbytes, i) for i, d in enumerate(to) if d.nbytes > 0)
    for (_, end, i), (start, _, k) in pairwise(written):
        if start < end:
            raise _core.InvalidValueError(f"handoff: {op}: the destinations at index {i} and {k} overlap")
    starts = [start for start, _, _ in written]
    for i, f in enumerate(come):
        k = bisect_left(starts, f.ptr + f.nbytes) - 1  # the last one that begins before the end
        if f.nbytes > 0 and k >= 0 and written[k][1] > f.ptr:
            raise _core.InvalidValueError(
                f"handoff: {op}: the source at index {i} and the destination at {written[k][2]} overlap"
            )
