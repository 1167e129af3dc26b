"""A program that uses what cuda.core has of views, streams and buffers.

`python peer_program.py handoff` and `python peer_program.py cuda.core` do the same: code written
for cuda.core runs with the import changed.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

import numpy as np


class Raises:
    """As pytest.raises, which a process without pytest does without."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self.kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: object) -> bool:
        assert kind is not None, f"nothing raised, expected {self.kinds}"
        return issubclass(kind, self.kinds)


def run(package: str) -> None:
    core: Any = importlib.import_module(package)
    utils: Any = importlib.import_module(package + ".utils")
    View = utils.StridedMemoryView
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream(options=core.StreamOptions(nonblocking=True))
    other = device.create_stream()
    consumer = int(other.handle)

    # Streams and events.
    event = stream.record()
    other.wait(event)
    other.wait(stream)
    assert event.device == device == stream.device
    event.sync()
    assert event.is_done
    assert not event.is_timing_enabled
    timing = core.EventOptions(timing_enabled=True)
    start, end = stream.record(options=timing), stream.record(options=timing)
    stream.sync()
    assert end - start >= 0
    with Raises(RuntimeError):
        end - event
    assert core.Stream.from_handle(int(stream.handle)) == stream
    assert stream.__cuda_stream__() == (0, int(stream.handle))
    assert len({stream, device.create_stream(stream), core.Stream.from_handle(int(stream.handle))}) == 1

    # Buffers.
    b = device.allocate(96, stream=stream)
    for value in (7, b"\x01\x02", np.uint8(3), np.float32(1)):
        b.fill(value, stream=stream)
    with Raises(OverflowError):
        b.fill(256, stream=stream)
    for value in (b"abc", np.int64(1)):
        with Raises(ValueError):
            b.fill(value, stream=stream)
    stream.sync()
    assert b.__dlpack_device__() == (2, 0)
    assert (b.size, b.device_id, b.is_device_accessible, b.is_host_accessible) == (96, 0, True, False)

    # Copies of several buffers, and what may be said of a copy.
    some, more = ([device.allocate(96, stream=stream) for _ in range(3)] for _ in range(2))
    stream.sync()
    utils.copy_batch(stream, some, more)
    said = utils.CopyOptions(src_access_order="any", overlap_mode="default")
    assert said == utils.CopyOptions("any")
    assert (said.src_access_order, said.overlap_mode) == ("any", "default")
    assert (said.src_location_hint, said.dst_location_hint) == (None, None)
    for wrong in ({"src_access_order": "none"}, {"overlap_mode": 1}):
        with Raises(ValueError):
            utils.CopyOptions(**wrong)
    for srcs, dsts in ((some, more[1:]), (some[:1], [device.allocate(95, stream=stream)])):
        with Raises(ValueError):
            utils.copy_batch(stream, srcs, dsts)
    with Raises(ValueError):
        utils.copy_batch(stream, some, more, options=[said])
    for on, srcs in ((stream, some[0]), (core.LEGACY_DEFAULT_STREAM, some)):
        with Raises(TypeError):
            utils.copy_batch(on, srcs, more)
    with Raises(TypeError):
        some[0].copy_to(more[0], stream=stream, options="any")
    stream.sync()

    # Views of a buffer.
    f4 = np.dtype("float32")
    v = View.from_buffer(buffer=b, shape=(4, 6), strides=None, dtype=f4)
    assert (v.ptr, v.shape, v.size, v.dtype, v.device_id) == (int(b.handle), (4, 6), 24, f4, 0)
    assert v.is_device_accessible
    assert not v.readonly
    assert v.exporting_obj is b
    assert View.from_buffer(b, (6, 4), (1, 6), dtype=f4).strides == (1, 6)
    assert View.from_buffer(b, (24,), itemsize=4).shape == (24,)
    assert View.from_buffer(b, (24,), dtype=f4, is_readonly=True).readonly
    assert v.view() is v
    assert v.view(dtype=np.dtype("int32")).dtype == np.int32
    for shape, strides, options in (
        ((25,), None, {"dtype": f4}),
        ((24,), (-1,), {"dtype": f4}),
        ((24,), None, {"dtype": f4, "itemsize": 2}),
        ((24,), None, {}),
    ):
        with Raises(ValueError):
            View.from_buffer(b, shape, strides, **options)
    with Raises(ValueError):
        v.view(dtype=np.dtype("float64"))

    # Views of arrays, by every protocol, with arguments by position and by name.
    a = np.arange(36.0).reshape(6, 6)[::2, ::2]
    for w in (
        View.from_dlpack(a, -1),
        View.from_dlpack(obj=a, stream_ptr=-1),
        View.from_any_interface(a, stream_ptr=-1),
        View.from_any_interface(obj=a, stream_ptr=-1),
        View.from_array_interface(a),
        View.from_array_interface(obj=a),
    ):
        assert (w.ptr, w.shape, w.strides, w.dtype) == (a.ctypes.data, (3, 3), (12, 2), a.dtype)
        assert not w.is_device_accessible
        assert w.exporting_obj is a
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert View(a, -1).shape == View(obj=a, stream_ptr=-1).shape == (3, 3)
    assert [w.category for w in seen] == [DeprecationWarning] * 2
    assert View.from_any_interface(np.frombuffer(b"abc", "u1"), -1).readonly
    with Raises(BufferError):
        View.from_any_interface(object(), -1)

    class Cai:
        def __init__(self, **change: Any) -> None:
            self.__cuda_array_interface__ = {
                "shape": (4,),
                "typestr": "<f4",
                "data": (int(b.handle), False),
                "version": 3,
                "stream": int(stream.handle),
            } | change

    for on in (-1, consumer):
        w = View.from_cuda_array_interface(Cai(), on)
        assert (w.ptr, w.shape, w.strides, w.dtype, w.device_id) == (int(b.handle), (4,), None, f4, 0)
        assert View.from_any_interface(Cai(), stream_ptr=on).ptr == w.ptr
    assert View.from_cuda_array_interface(Cai(data=(int(b.handle), True)), -1).readonly
    assert View.from_cuda_array_interface(Cai(strides=(-4,)), -1).strides == (-1,)
    assert View.from_cuda_array_interface(Cai(shape=(0, 3), data=(0, False)), -1).size == 0
    assert View.from_cuda_array_interface(Cai(typestr="|V12", shape=(2,)), -1).dtype == np.dtype("V12")
    with Raises(ValueError):
        View.from_cuda_array_interface(Cai(strides=(10,), typestr="<f8"), -1)
    for wrong, on in ((Cai(), None), (Cai(mask=b), -1)):
        with Raises(BufferError):
            View.from_cuda_array_interface(wrong, on)

    # Functions whose arguments are viewed.
    @utils.args_viewable_as_strided_memory((0, -1))
    def f(x: Any, n: int, y: Any) -> tuple[Any, ...]:
        return x.obj, x.has_dlpack, n, y.has_dlpack, x.view(-1), y.view(consumer)

    c = Cai()
    obj, has, n, has_y, w, on_gpu = f(a, 5, c)
    assert obj is a
    assert (has, n, has_y, w.shape, on_gpu.shape, on_gpu.exporting_obj) == (True, 5, False, (3, 3), (4,), c)
    with Raises(BufferError):
        f(object(), 5, c)

    # Handing on.
    assert np.array_equal(np.from_dlpack(View.from_dlpack(a, -1)), a)
    assert v.__dlpack_device__() == (2, 0)
    for options in ({}, {"stream": int(stream.handle)}, {"max_version": (1, 0)}, {"copy": False}):
        assert "dltensor" in repr(v.__dlpack__(**options))
    assert View.__dlpack_c_exchange_api__ is View.__c_dlpack_exchange_api__
    b.close(stream)
    b.close()
    assert b.is_closed


if __name__ == "__main__":
    run(sys.argv[1])
    print("ran with", sys.argv[1])
