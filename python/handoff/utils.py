"""The names that cuda.core has in its module utils, with the same meaning."""

from __future__ import annotations

from handoff._copy import CopyOptions, MemcpyOverlapMode, MemcpySrcAccessOrder, copy_batch
from handoff._core import StridedMemoryView
from handoff._decorator import args_viewable_as_strided_memory

__all__ = [
    "CopyOptions",
    "MemcpyOverlapMode",
    "MemcpySrcAccessOrder",
    "StridedMemoryView",
    "args_viewable_as_strided_memory",
    "copy_batch",
]
