"""Every way to make a StridedMemoryView, and back to arrays without a copy.

Host memory by NumPy's array interface, DLPack and the buffer protocol; GPU memory by DLPack, the CUDA
array interface and a Buffer. Needs NumPy; the GPU part runs on a GPU, or on the software device with
HANDOFF_DRIVER=soft, and is left out without a driver.
"""

from __future__ import annotations

from typing import Any

import handoff
import numpy as np
from handoff import Device, StreamView, StridedLayout, StridedMemoryView


def host() -> None:
    """Views of host memory."""
    a = np.arange(12, dtype="int16").reshape(3, 4)
    views = [
        StridedMemoryView.from_array_interface(a),
        StridedMemoryView.from_dlpack(a, stream_ptr=-1),
        StridedMemoryView.from_any_interface(a, stream_ptr=-1),
        StridedMemoryView.from_buffer(memoryview(a).cast("B"), (3, 4), dtype="int16"),
    ]
    for v in views:
        assert (v.ptr, v.shape, v.dtype, v.device_id) == (a.ctypes.data, (3, 4), a.dtype, -1)
        back = np.from_dlpack(v)
        back[0, 0] += 1
    assert a[0, 0] == len(views), "all of them share the memory"
    layout = StridedLayout.of(views[0])
    assert np.array_equal(np.from_dlpack(views[0].view(layout=layout[:, ::-1])), a[:, ::-1])
    print(f"host: {len(views)} views of one array")


class Foreign:
    """An array of a library that only has the CUDA array interface, and works on its own stream."""

    def __init__(self, buffer: Any, stream: Any) -> None:
        self.buffer, self.stream = buffer, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (4, 8),
            "typestr": "<f4",
            "data": (self.buffer.handle, False),
            "strides": None,
            "version": 3,
            "stream": self.stream.handle,
        }


def device(d: Device) -> None:
    """Views of GPU memory."""
    theirs, ours = d.create_stream(), d.create_stream()
    buffer = d.allocate(128, stream=theirs)
    buffer.fill(b"\x00\x00\x80\x3f", stream=theirs)  # ones, as float32

    by_interface = StridedMemoryView.from_cuda_array_interface(Foreign(buffer, theirs), stream_ptr=ours)
    assert by_interface.producer_stream == theirs, "ours waits for it"
    flat = StridedMemoryView.from_dlpack(buffer, stream_ptr=ours)  # to others a Buffer is int8
    as_floats = StridedMemoryView.from_buffer(buffer, (4, 8), dtype="float32")
    foreign_stream = StreamView(ours.handle)  # or any library's stream object
    columns = as_floats.view(layout=StridedLayout.of(as_floats)[:, ::2])

    out = np.zeros((4, 4), "float32")
    columns.copy_to(out, foreign_stream)
    ours.sync()
    assert (out == 1).all()
    assert by_interface.ptr == flat.ptr == as_floats.ptr == buffer.handle
    assert (flat.dtype, flat.shape) == (np.dtype("int8"), (128,))
    again = StridedMemoryView.from_dlpack(by_interface, stream_ptr=theirs)
    assert again.exporting_obj is by_interface
    print(f"device: 4 views of one buffer on {d.name}")


def main() -> None:
    """Run what can be run here."""
    host()
    try:
        devices = Device.get_all_devices()
    except handoff.NoDriverError:
        print("device: left out, there is no driver")
        return
    device(devices[0])


if __name__ == "__main__":
    main()
