"""What the real cuda.core does on the software device, one function a case.

``test_cuda_core.py`` runs this file in a process whose libcuda.so.1 is the
software device; importing it needs no CUDA. As a program it runs all cases and
writes one JSON line for each: its name and the traceback of its failure, or
null.
"""

import json
import sys
import threading
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

CASES = {}


def case(fn):
    CASES[fn.__name__] = fn
    return fn


class raises:
    """As pytest.raises, which the child does without."""

    def __init__(self, *kinds):
        self.kinds = kinds

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        assert kind is not None, f"nothing raised, expected {self.kinds}"
        self.value = value
        return issubclass(kind, self.kinds)


def device(i=0):
    from cuda.core import Device

    d = Device(i)
    d.set_current()
    return d


def host_array(buffer):
    import numpy as np

    return np.from_dlpack(buffer)


def pinned(n):
    from cuda.core import LegacyPinnedMemoryResource

    return LegacyPinnedMemoryResource().allocate(n)


@case
def devices():
    from cuda.core import Device

    all_ = Device.get_all_devices()
    assert [d.device_id for d in all_] == [0, 1]
    assert {d.name for d in all_} == {"Handoff software device"}
    assert len({d.uuid for d in all_}) == 2
    assert all_[0].arch == "90"
    assert tuple(all_[0].compute_capability) == (9, 0)
    assert all_[0].can_access_peer(all_[1])


@case
def properties():
    p = device().properties
    names = [n for n in dir(p) if not n.startswith("_")]
    assert len(names) > 100
    for n in names:
        getattr(p, n)
    assert p.memory_pools_supported
    assert p.multiprocessor_count == 16


@case
def contexts():
    d = device()
    assert int(d.context.handle)
    s = d.create_stream()
    assert s.context == d.context
    assert s.device.device_id == 0


@case
def contexts_of_threads():
    from cuda.core import Device

    device(0)
    seen = []

    def other():
        d = Device(1)
        d.set_current()
        s = d.create_stream()
        seen.append(s.device.device_id)
        s.sync()

    t = threading.Thread(target=other)
    t.start()
    t.join()
    assert seen == [1]
    assert Device().device_id == 0


@case
def streams():
    from cuda.core import Stream, StreamOptions

    d = device()
    s = d.create_stream(options=StreamOptions(priority=-1, nonblocking=True))
    assert s.priority == -1
    assert s.is_nonblocking
    assert not d.create_stream(options=StreamOptions(nonblocking=False)).is_nonblocking
    with raises(ValueError):
        d.create_stream(options=StreamOptions(priority=1))
    assert s.__cuda_stream__() == (0, int(s.handle))
    assert Stream.from_handle(int(s.handle)) == s
    s.sync()
    assert d.default_stream.device.device_id == 0


@case
def foreign_stream():
    d = device()
    s = d.create_stream()

    class Wrapper:
        def __cuda_stream__(self):
            return (0, int(s.handle))

    assert d.create_stream(Wrapper()) == s
    for answer in ((1, 2), (0,), 7):
        bad = type("Bad", (), {"__cuda_stream__": lambda self, a=answer: a})()
        with raises(RuntimeError, TypeError):
            d.create_stream(bad)


@case
def events():
    from cuda.core import EventOptions

    d = device()
    s, o = d.create_stream(), d.create_stream()
    timed = EventOptions(timing_enabled=True)
    a = s.record(options=timed)
    b = d.allocate(1 << 20, stream=s)
    b.fill(1, stream=s)
    e = s.record(options=timed)
    o.wait(e)
    o.wait(s)
    o.sync()
    e.sync()
    assert e.is_done
    assert e - a >= 0
    with raises(RuntimeError):
        s.record() - a
    with raises(ValueError):
        s.wait("a string")
    b.close(stream=s)


@case
def buffer_kinds():
    d = device()
    s = d.create_stream()
    b = d.allocate(4096, stream=s)
    assert (b.is_device_accessible, b.is_host_accessible, b.device_id) == (True, False, 0)
    assert b.__dlpack_device__() == (2, 0)
    h = pinned(64)
    assert (h.is_device_accessible, h.is_host_accessible) == (True, True)
    assert h.__dlpack_device__()[0] == 3


@case
def managed():
    from cuda.core import ManagedMemoryResource

    s = device().create_stream()
    b = ManagedMemoryResource().allocate(64, stream=s)
    b.fill(9, stream=s)
    s.sync()
    assert b.is_managed
    assert b.__dlpack_device__()[0] == 13
    b.close(stream=s)


@case
def pinned_pool():
    from cuda.core import PinnedMemoryResource

    s = device().create_stream()
    b = PinnedMemoryResource().allocate(64, stream=s)
    b.fill(3, stream=s)
    s.sync()
    assert host_array(b)[63] == 3
    assert b.is_host_accessible
    b.close(stream=s)


@case
def device_pool():
    from cuda.core import DeviceMemoryResource, DeviceMemoryResourceOptions

    d = device()
    s = d.create_stream()
    mr = DeviceMemoryResource(d, DeviceMemoryResourceOptions(max_size=1 << 22))
    b = mr.allocate(1000, stream=s)
    assert mr.attributes.used_mem_current >= 1000
    assert mr.attributes.reserved_mem_current >= 1000
    first = int(b.handle)
    b.close(stream=s)
    again = mr.allocate(1000, stream=s)
    assert int(again.handle) == first, "the same stream gets its memory back"
    with raises(Exception):
        mr.allocate(1 << 30, stream=s)
    again.close(stream=s)
    s.sync()
    mr.close()


@case
def peer_pool():
    from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions

    d = device()
    mr = DeviceMemoryResource(d, DeviceMemoryResourceOptions())
    mr.peer_accessible_by = [Device(1)]
    assert {int(x.device_id) if hasattr(x, "device_id") else x for x in mr.peer_accessible_by} == {1}
    mr.close()


@case
def fills():
    import numpy as np

    s = device().create_stream()
    h = pinned(64)
    for value, dtype, want in (
        (7, np.uint8, 7),
        (b"\x01\x02", np.uint16, 0x0201),
        (np.uint32(0x01020304), np.uint32, 0x01020304),
    ):
        h.fill(value, stream=s)
        s.sync()
        assert (host_array(h).view(dtype) == want).all()
    for bad, error in ((-1, OverflowError), (256, OverflowError), (b"abc", ValueError)):
        with raises(error):
            h.fill(bad, stream=s)


@case
def copies():
    import numpy as np

    d = device()
    s = d.create_stream()
    n = 1 << 16
    a, b, h = d.allocate(n, stream=s), d.allocate(n, stream=s), pinned(n)
    host_array(h)[:] = np.arange(n, dtype=np.int64).astype(np.int8)
    back = pinned(n)
    a.copy_from(h, stream=s)
    b.copy_from(a, stream=s)
    b.copy_to(back, stream=s)
    s.sync()
    assert (host_array(back) == host_array(h)).all()
    small = pinned(n // 2)
    with raises(ValueError):
        a.copy_to(small, stream=s)


@case
def copies_between_devices():
    from cuda.core import Device

    d0 = device(0)
    s0 = d0.create_stream()
    a = d0.allocate(64, stream=s0)
    a.fill(5, stream=s0)
    s0.sync()
    d1 = Device(1)
    d1.set_current()
    s1 = d1.create_stream()
    b = d1.allocate(64, stream=s1)
    b.copy_from(a, stream=s1)
    h = pinned(64)
    b.copy_to(h, stream=s1)
    s1.sync()
    assert (host_array(h) == 5).all()
    assert (a.device_id, b.device_id) == (0, 1)
    d0.set_current()


@case
def strided_memory_view():
    from cuda.core.utils import StridedMemoryView, args_viewable_as_strided_memory

    s = device().create_stream()
    b = device().allocate(4096, stream=s)
    v = StridedMemoryView.from_dlpack(b, stream_ptr=int(s.handle))
    assert (v.ptr, v.shape, v.device_id, v.is_device_accessible) == (int(b.handle), (4096,), 0, True)
    assert v.exporting_obj is b
    h = StridedMemoryView.from_dlpack(pinned(64), stream_ptr=-1)
    assert h.is_device_accessible

    @args_viewable_as_strided_memory((0,))
    def f(x):
        return x.view(int(s.handle)).shape

    assert f(b) == (4096,)


@case
def strided_memory_view_from_buffer():
    import numpy as np
    from cuda.core.utils import StridedMemoryView

    s = device().create_stream()
    b = device().allocate(4 * 6 * 7, stream=s)
    v = StridedMemoryView.from_buffer(b, (6, 7), dtype=np.dtype("float32"))
    assert v.shape == (6, 7)
    assert v.ptr == int(b.handle)
    with raises(ValueError):
        StridedMemoryView.from_buffer(b, (7, 7), dtype=np.dtype("float32"))


@case
def cuda_array_interface():
    from cuda.core.utils import StridedMemoryView

    s, p = device().create_stream(), device().create_stream()
    b = device().allocate(256, stream=s)
    b.fill(1, stream=p)

    class Producer:
        __cuda_array_interface__ = {
            "shape": (8, 8),
            "strides": None,
            "typestr": "<f4",
            "data": (int(b.handle), False),
            "version": 3,
            "stream": int(p.handle),
        }

    v = StridedMemoryView.from_cuda_array_interface(Producer(), stream_ptr=int(s.handle))
    assert v.shape == (8, 8)
    assert v.device_id == 0


@case
def kernels():
    import numpy as np
    from cuda.core import LaunchConfig, ObjectCode, launch

    s = device().create_stream()
    code = ObjectCode.from_cubin(b"handoff-soft-image 1\nkernel saxpy\nkernel fill\n\0")
    k = code.get_kernel("saxpy")
    assert k.num_arguments == 4
    assert k.attributes.max_threads_per_block == 1024
    n = 100
    x, y = pinned(4 * n), pinned(4 * n)
    xv, yv = host_array(x).view(np.float32), host_array(y).view(np.float32)
    xv[:], yv[:] = np.arange(n), 1
    launch(s, LaunchConfig(grid=4, block=32), k, np.int64(n), np.float32(2), int(x.handle), int(y.handle))
    s.sync()
    assert (yv == 1 + 2 * np.arange(n)).all()
    with raises(Exception):
        code.get_kernel("missing")
    with raises(Exception):
        launch(
            s, LaunchConfig(grid=1, block=2048), k, np.int64(n), np.float32(2), int(x.handle), int(y.handle)
        )


@case
def code_for_a_gpu_is_refused():
    from cuda.core import ObjectCode

    with raises(Exception) as e:
        ObjectCode.from_cubin(b"\x7fELF" + bytes(64)).get_kernel("k")
    assert "NO_BINARY_FOR_GPU" in str(e.value)


@case
def graphs():
    d = device()
    s = d.create_stream()
    h = pinned(64)
    ran = []
    g = d.create_graph_builder().begin_building()
    h.fill(5, stream=g)
    g.callback(lambda: ran.append(1))
    graph = g.end_building().complete()
    host_array(h)[:] = 0
    graph.launch(s)
    graph.launch(s)
    s.sync()
    assert (host_array(h) == 5).all()
    assert len(ran) == 2
    with TemporaryDirectory() as tmp:
        path = Path(tmp) / "g.dot"
        g2 = d.create_graph_builder().begin_building()
        h.fill(1, stream=g2)
        g2.end_building().debug_dot_print(str(path))
        assert "MEMSET" in path.read_text()


@case
def order_is_real():
    """Work behind a slow host function has not run yet; an event carries it over."""
    d = device()
    s, o = d.create_stream(), d.create_stream()
    h = pinned(64)
    gate = threading.Event()
    g = d.create_graph_builder().begin_building()
    g.callback(gate.wait)
    h.fill(1, stream=g)
    slow = g.end_building().complete()
    host_array(h)[:] = 0
    slow.launch(s)
    e = s.record()
    assert not e.is_done
    o.wait(e)
    h.fill(2, stream=o)
    assert host_array(h)[0] == 0
    gate.set()
    o.sync()
    assert (host_array(h) == 2).all()


def main():
    for name, fn in CASES.items():
        try:
            fn()
            failure = None
        except BaseException:
            failure = traceback.format_exc()
        print(json.dumps([name, failure]), flush=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
