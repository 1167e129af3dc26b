"""`__dlpack__` and `__dlpack_device__` of our types (6.6)."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from capsules import Managed, has_driver, ints, name_of, tensor_of, versioned_of

import handoff
from handoff import Array, StridedMemoryView


def make(kind: str) -> Any:
    a = Array.full((2, 3), 5, "float32")
    return a if kind == "Array" else StridedMemoryView.from_dlpack(a)


both = pytest.mark.parametrize("kind", ["Array", "StridedMemoryView"])
readonly_bytes = b"0123456789abcdef"


def read_only() -> StridedMemoryView:
    return StridedMemoryView.from_buffer(readonly_bytes, (4,), dtype="float32")


@both
def test_R114_keyword_only(kind: str) -> None:
    x = make(kind)
    x.__dlpack__(stream=None, max_version=None, dl_device=None, copy=None)
    for args in ((None,), (-1,), ((1, 0),)):
        with pytest.raises(TypeError):
            x.__dlpack__(*args)
    with pytest.raises(TypeError, match="unexpected"):
        x.__dlpack__(max_versions=(1, 0))


@both
def test_R071_R084_R116_without_max_version(kind: str) -> None:
    assert name_of(make(kind).__dlpack__()) == b"dltensor"
    assert name_of(make(kind).__dlpack__(max_version=None)) == b"dltensor"


@both
@pytest.mark.parametrize("version", [(1, 0), (1, 3), (1, 99), (2, 0), (99, 99)])
def test_R072_R105_R117_R118_versioned(kind: str, version: tuple[int, int]) -> None:
    c = make(kind).__dlpack__(max_version=version)
    assert name_of(c) == b"dltensor_versioned"
    m = versioned_of(c)
    assert (m.version.major, m.version.minor) == (1, 3)
    assert m.flags == 0  # R013


@both
def test_R119_major_0_is_the_legacy_struct(kind: str, raises: Any) -> None:
    assert name_of(make(kind).__dlpack__(max_version=(0, 8))) == b"dltensor"
    with raises(handoff.VersionError, "R119"):
        make(kind).__dlpack__(max_version=(-1, 0))


@both
@pytest.mark.parametrize("version", [1, "1.0", (1,), (1, 0, 0), (), [1, 0], ("1", "0"), (1.0, 0), (None, 0)], ids=str)
def test_R120_malformed_max_version(kind: str, version: Any, raises: Any) -> None:
    with raises(TypeError, "R120"):
        make(kind).__dlpack__(max_version=version)


@both
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_R049_R055_strides_are_there(kind: str, max_version: Any) -> None:
    x = make(kind)
    c = x.__dlpack__(max_version=max_version)
    t = tensor_of(c)
    assert (t.data, t.ndim, t.byte_offset) == (x.ptr, 2, 0)
    assert ints(t.shape, 2) == (2, 3)
    assert ints(t.strides, 2) == (3, 1)
    assert (t.dtype.code, t.dtype.bits, t.dtype.lanes) == (2, 32, 1)
    assert (t.device.device_type, t.device.device_id) == (1, 0)


def test_R046_no_dimensions() -> None:
    c = Array.full((), 1).__dlpack__(max_version=(1, 0))
    t = tensor_of(c)
    assert (t.ndim, t.shape, t.strides) == (0, None, None)


def test_R043_empty_has_no_data() -> None:
    for shape in ((0,), (3, 0, 2)):
        c = Array.zeros(shape).__dlpack__(max_version=(1, 0))
        assert tensor_of(c).data is None


@both
def test_R126_R135_stream_on_cpu(kind: str, raises: Any) -> None:
    x = make(kind)
    x.__dlpack__(stream=None)
    x.__dlpack__(stream=-1)  # tolerated: nothing to synchronize
    for stream in (0, 1, 2, 3, 2**63, 2**70):
        with raises(ValueError, "R135"):
            x.__dlpack__(stream=stream)


@both
def test_R132_stream_below(kind: str, raises: Any) -> None:
    for stream in (-2, -(2**70)):
        with raises(ValueError, "R132"):
            make(kind).__dlpack__(stream=stream)


@both
@pytest.mark.parametrize("stream", ["1", 1.0, True, False, [], b"x"], ids=repr)
def test_R136_stream_not_int(kind: str, stream: Any, raises: Any) -> None:
    with raises(TypeError, "R136"):
        make(kind).__dlpack__(stream=stream)


@pytest.mark.parametrize(
    ("device", "stream", "rule"),
    [((2, 0), 0, "R128"), ((13, 0), 0, "R128"), ((10, 0), 1, "R134"), ((10, 0), 2, "R134"), ((2, 0), -2, "R132")],
)
def test_R128_R134_sentinels_of_gpus(device: tuple[int, int], stream: int, rule: str, raises: Any) -> None:
    v = StridedMemoryView.from_dlpack(Managed(device=device).capsule(), -1)
    with raises(ValueError, rule):
        v.__dlpack__(stream=stream)


@pytest.mark.parametrize("stream", [None, 1, 2, 0x1000])
def test_R137_nothing_is_known_to_be_pending(stream: int | None) -> None:
    v = StridedMemoryView.from_dlpack(Managed(device=(2, 0)).capsule(), -1)
    assert v.stream is None
    v.__dlpack__(stream=stream)  # taken with -1: ordering is the user's, and no driver is needed


@pytest.mark.parametrize("stream", [None, 0, 3])
def test_R137_unordered_devices(stream: int | None, raises: Any) -> None:
    v = StridedMemoryView.from_dlpack(Managed(device=(10, 0)).capsule(), -1)
    with raises(BufferError, "R137"):
        v.__dlpack__(stream=stream)


@pytest.mark.parametrize("device", [(2, 1), (3, 0), (13, 0), (10, 0)])
def test_R127_R155_no_synchronization(device: tuple[int, int]) -> None:
    v = StridedMemoryView.from_dlpack(Managed(device=device).capsule(), -1)
    assert v.__dlpack_device__() == device
    t = tensor_of(v.__dlpack__(stream=-1, max_version=(1, 0)))
    assert (t.device.device_type, t.device.device_id) == device


@both
def test_R143_R144_R149_dl_device(kind: str, raises: Any) -> None:
    x = make(kind)
    t = tensor_of(x.__dlpack__(dl_device=(1, 0)))
    assert (t.data, t.device.device_type) == (x.ptr, 1)
    for device in ((2, 0), (1, 1), (3, 0), (99, 0), (-1, 0)):
        with raises(handoff.DeviceError, "R144"):
            x.__dlpack__(dl_device=device)
    for malformed in (1, (1,), "cpu", (1, 0, 0), (None, None), [1, 0]):
        with raises(TypeError, "R144"):
            x.__dlpack__(dl_device=malformed)


@pytest.mark.parametrize("device", [(3, 0), (13, 0), (11, 0)])
def test_R149_host_memory_by_its_other_name(device: tuple[int, int], raises: Any) -> None:
    v = StridedMemoryView.from_dlpack(Managed(device=device).capsule())
    t = tensor_of(v.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    assert (t.device.device_type, t.device.device_id, t.data) == (1, 0, v.ptr)
    with raises(ValueError, "R135"):  # the stream is valid for dl_device (R147)
        v.__dlpack__(dl_device=(1, 0), stream=1)


def test_R145_gpu_memory_to_the_cpu(raises: Any) -> None:
    v = StridedMemoryView.from_dlpack(Managed(device=(2, 0)).capsule(), -1)
    with raises(BufferError, "R151"):
        v.__dlpack__(dl_device=(1, 0), copy=False)
    with raises(BufferError, "R144"):
        v.__dlpack__(dl_device=(10, 0))
    if not has_driver():  # one that reaches all host memory copies from the address, which is real
        for device in ((1, 0), (2, 1)):
            with pytest.raises(BufferError):
                v.__dlpack__(dl_device=device)


@both
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_R017_R111_R150_copy_true(kind: str, max_version: Any) -> None:
    x = make(kind)
    c = x.__dlpack__(copy=True, max_version=max_version)
    t = tensor_of(c)
    assert t.data != x.ptr
    assert t.data % 256 == 0
    if max_version:
        assert versioned_of(c).flags == 2
    v = StridedMemoryView.from_dlpack(c)
    assert memoryview(v).tolist() == [[5, 5, 5], [5, 5, 5]]


@both
def test_R019_R151_R152_copy_false_and_none_share(kind: str) -> None:
    x = make(kind)
    for copy in (False, None):
        c = x.__dlpack__(copy=copy, max_version=(1, 0))
        assert tensor_of(c).data == x.ptr
        assert versioned_of(c).flags == 0


@both
def test_copy_of_another_kind(kind: str) -> None:
    for copy in (1, 0, "yes", []):
        with pytest.raises(ValueError):
            make(kind).__dlpack__(copy=copy)


def test_R057_B069_B070_B072_read_only(raises: Any) -> None:
    v = read_only()
    for version in (None, (0, 8)):
        with raises(BufferError, "R057"):
            v.__dlpack__(max_version=version)
    assert versioned_of(v.__dlpack__(max_version=(1, 0))).flags == 1
    # A copy is the consumer's alone.
    c = v.__dlpack__(max_version=(1, 0), copy=True)
    assert versioned_of(c).flags == 2
    assert name_of(v.__dlpack__(copy=True)) == b"dltensor"


def test_R020_R021_padded(raises: Any) -> None:
    a = Array.full(5, 3, "int4")
    assert versioned_of(a.__dlpack__(max_version=(1, 1))).flags == 4
    with raises(BufferError, "R021"):
        a.__dlpack__()


def test_R157_dtype_without_counterpart(raises: Any) -> None:
    v = StridedMemoryView.from_buffer(bytearray(24), (2,), itemsize=12)
    with raises(handoff.DTypeError, "R157"):
        v.__dlpack__(max_version=(1, 0))


@both
def test_B109_R154_device(kind: str) -> None:
    device = make(kind).__dlpack_device__()
    assert device == (1, 0)
    assert type(device) is tuple
    assert all(type(x) is int for x in device)


@both
def test_R056_R165_export_keeps_and_does_not_change(kind: str) -> None:
    x = make(kind)
    before = sys.getrefcount(x), x.ptr, x.shape, x.readonly
    capsules = [x.__dlpack__(max_version=(1, 0)) for _ in range(3)]
    address = x.ptr
    del capsules[0]
    assert (sys.getrefcount(x), x.ptr, x.shape, x.readonly) == before
    del x
    gc.collect()
    v = StridedMemoryView.from_dlpack(capsules[0])
    assert v.ptr == address
    assert memoryview(v).tolist() == [[5, 5, 5], [5, 5, 5]]


def test_R058_R030_numpy_views_that_have_no_dlpack(raises: Any) -> None:
    np = pytest.importorskip("numpy")
    v = StridedMemoryView.from_array_interface(np.zeros(3, [("a", "i2"), ("b", "f4")]))
    with raises(BufferError, "R157"):
        v.__dlpack__(max_version=(1, 0))
