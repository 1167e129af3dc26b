"""Calling producers: negotiation, devices, copies, errors (2.6, 6.6)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from capsules import Managed, Producer

import handoff
from handoff import Array, StridedMemoryView, _core

from_dlpack = StridedMemoryView.from_dlpack


class Old(Producer):
    """Knows only some keywords."""

    known: tuple[str, ...] = ()

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.calls.append(dict(kwargs))
        for k in kwargs:
            if k not in self.known:
                raise TypeError(f"__dlpack__() got an unexpected keyword argument {k!r}")
        return self.managed.capsule()


class Fails(Producer):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        raise self.error


def test_R122_R164_normal_call() -> None:
    p = Producer()
    _core._inspect(p)
    assert p.calls == [{"max_version": (1, 3)}]


def test_R121_B107_answer_may_be_legacy() -> None:
    p = Producer(versioned=False)
    v = from_dlpack(p)
    assert v.shape == (2, 3)
    assert not v.readonly
    del v
    gc.collect()
    assert p.managed.deleted == 1


def test_R123_B174_one_step_at_a_time() -> None:
    p = Old()
    _core._inspect(p)
    assert p.calls == [{"max_version": (1, 3)}, {}]

    p = Old()
    p.known = ("copy", "dl_device")
    handoff.from_dlpack(p, copy=True, device="cpu")
    assert p.calls == [{"max_version": (1, 3), "copy": True}, {"copy": True}]

    p = Old()
    p.known = ("max_version",)
    handoff.from_dlpack(p, copy=True)
    assert p.calls[-1] == {"max_version": (1, 3)}

    p = Old()
    handoff.from_dlpack(p, copy=True)
    assert p.calls[0] == {"max_version": (1, 3), "copy": True}
    assert p.calls[-1] == {}


@pytest.mark.parametrize(
    "error", [BufferError("b"), ValueError("v"), RuntimeError("r"), KeyboardInterrupt(), OSError(5)]
)
def test_R124_R163_other_exceptions_pass(error: BaseException) -> None:
    p = Fails(error)
    for take in (from_dlpack, handoff.from_dlpack, _core._inspect):
        with pytest.raises(type(error)) as info:
            take(p)
        assert info.value is error
    assert len(p.calls) == 3


def test_R163_first_type_error_is_shown() -> None:
    p = Fails(TypeError("deep inside the producer"))
    with pytest.raises(TypeError, match="deep inside"):
        from_dlpack(p)
    assert p.calls == [{"max_version": (1, 3)}, {}]


def test_R125_R161_copy_false_cannot_be_promised(raises: Any) -> None:
    p = Old()
    with raises(handoff.CopyError, "R125"):
        handoff.from_dlpack(p, copy=False)
    with pytest.raises(BufferError):
        handoff.from_dlpack(p, copy=False)
    with pytest.raises(ValueError):
        handoff.from_dlpack(p, copy=False)
    gc.collect()
    assert p.managed.deleted == 3


def test_R125_R162_copy_true_is_made_here() -> None:
    p = Old()
    v = handoff.from_dlpack(p, copy=True)
    assert v.ptr != p.managed.base
    assert v.exporting_obj is None
    assert p.managed.deleted == 1


def test_R162_copy_true_by_the_producer() -> None:
    a = Array.full((2, 2), 3)
    v = handoff.from_dlpack(a, copy=True)
    assert v.ptr != a.ptr
    a[0, 0] = 9
    assert memoryview(v).tolist() == [[3, 3], [3, 3]]
    assert handoff.from_dlpack(a, copy=False).ptr == a.ptr


def test_R162_producer_ignores_copy_true() -> None:
    p = Producer()
    v = handoff.from_dlpack(p, copy=True)
    assert p.calls[0]["copy"] is True
    assert v.ptr != p.managed.base


def test_R159_R160_device(raises: Any) -> None:
    p = Producer()
    handoff.from_dlpack(p, device=None)
    handoff.from_dlpack(p, device="cpu")
    handoff.from_dlpack(p, device=(1, 0))
    assert all("dl_device" not in c for c in p.calls)
    with raises(handoff.DeviceError, "R160"):
        handoff.from_dlpack(p, device=(2, 0))
    assert p.calls[-1]["dl_device"] == (2, 0)
    for bad in ("gpu", (1,), 1.5, (-1, 0), (2**40, 0)):
        with pytest.raises((TypeError, ValueError)):
            handoff.from_dlpack(p, device=bad)
    gc.collect()
    assert p.managed.deleted == len(p.calls)


def test_B111_R147_accelerator_to_cpu() -> None:
    class Gpu(Producer):
        def __dlpack__(self, **kwargs: Any) -> Any:
            self.calls.append(kwargs)
            return Managed(device=kwargs.get("dl_device", (2, 0)), flags=2).capsule()

    p = Gpu(device=(2, 0))
    v = handoff.from_dlpack(p, device="cpu")
    assert p.calls == [{"max_version": (1, 3), "dl_device": (1, 0)}]  # and no stream
    assert v.__dlpack_device__() == (1, 0)
    assert v.exporting_obj is None


def test_B172_refusal_of_a_device_passes() -> None:
    class Refuses(Producer):
        def __dlpack__(self, **kwargs: Any) -> Any:
            if "dl_device" in kwargs:
                raise BufferError("not there")
            return super().__dlpack__(**kwargs)

    with pytest.raises(BufferError, match="not there"):
        handoff.from_dlpack(Refuses(), device=(2, 0))


@pytest.mark.parametrize(
    ("device", "stream"), [((1, 0), None), ((2, 0), 1), ((3, 0), None), ((10, 0), 0), ((11, 0), None), ((13, 0), None)]
)
def test_R141_R142_R147_default_streams(device: tuple[int, int], stream: int | None) -> None:
    p = Producer(Managed(device=device), device=device)
    _core._inspect(p)
    assert p.calls == [{"max_version": (1, 3)} | ({} if stream is None else {"stream": stream})]


def test_R126_stream_of_gpu_memory_must_be_said(raises: Any) -> None:
    p = Producer(Managed(device=(2, 0)), device=(2, 0))
    with raises(BufferError, "R126"):
        from_dlpack(p)
    for stream in (-1, 1, 2, 4096):
        v = from_dlpack(p, stream)
        assert p.calls[-1]["stream"] == stream
        assert (v.device_id, v.is_device_accessible) == (0, True)
    del v
    gc.collect()
    assert p.managed.deleted == 5
    with raises(ValueError, "R132"):
        from_dlpack(p, -2)


def test_R135_stream_of_host_memory(raises: Any) -> None:
    p = Producer()
    assert from_dlpack(p, -1).device_id == -1
    assert from_dlpack(p, stream_ptr=None).device_id == -1
    with raises(ValueError, "R135"):
        from_dlpack(p, 4096)
    with raises(ValueError, "R135"):
        from_dlpack(Array.zeros(1), 1)
    with pytest.raises(TypeError):
        from_dlpack(p, "1")


@pytest.mark.parametrize("device", [1, (1,), (1, 0, 0), None, ("1", "0"), (1, None), [1, 0], (2**40, 0)], ids=str)
def test_R154_malformed_device(device: Any, raises: Any) -> None:
    with raises(TypeError, "R154"):
        from_dlpack(Producer(device=device))


def test_R154_int_enum() -> None:
    import enum

    class Device(enum.IntEnum):
        CPU = 1

    assert from_dlpack(Producer(device=(Device.CPU, 0))).shape == (2, 3)


@pytest.mark.parametrize("number", [0, 5, 6, 22, 99, -1])
def test_R035_R156_B170_unknown_device_is_refused_early(number: int, raises: Any) -> None:
    p = Producer(device=(number, 0))
    with raises(BufferError, "R035"):
        from_dlpack(p)
    assert p.calls == []


@pytest.mark.parametrize("result", [None, 1, "x", (1, 2), object()], ids=str)
def test_R115_no_capsule(result: Any, raises: Any) -> None:
    class Wrong(Producer):
        def __dlpack__(self, **kwargs: Any) -> Any:
            return result

    with raises(TypeError, "R115"):
        from_dlpack(Wrong())


@pytest.mark.parametrize("obj", [object(), 5, 2.5, None, "text", [1, 2], {}], ids=repr)
@pytest.mark.parametrize(
    "take", [from_dlpack, handoff.from_dlpack, StridedMemoryView.from_any_interface, _core._inspect]
)
def test_R158_B169_B176_no_protocol(obj: Any, take: Callable[[Any], Any], raises: Any) -> None:
    with raises(handoff.ProtocolError, "R158"):
        take(obj)
    for cls in (BufferError, AttributeError, TypeError):
        with pytest.raises(cls, match="__dlpack__"):
            take(obj)


def test_R158_no_dlpack_device(raises: Any) -> None:
    class Half:
        def __dlpack__(self, **kwargs: Any) -> Any:
            raise AssertionError("not to be called")

    with raises(AttributeError, "R158"):
        from_dlpack(Half())

    class Broken(Producer):
        def __dlpack_device__(self) -> Any:
            raise AttributeError("inside the method")

    with pytest.raises(AttributeError, match="inside the method"):
        from_dlpack(Broken())


def test_methods_on_the_instance_only() -> None:
    inner = Producer()

    class Proxy:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

    assert from_dlpack(Proxy()).shape == (2, 3)
    assert _core._inspect(Proxy())[1] == (2, 3)


def test_order_of_protocols() -> None:
    # __dlpack__ before the buffer protocol before __array_interface__.
    class Both(bytearray):
        calls: list[str] = []

        def __dlpack_device__(self) -> Any:
            return (1, 0)

        def __dlpack__(self, **kwargs: Any) -> Any:
            self.calls.append("dlpack")
            return Managed().capsule()

    assert _core._inspect(Both(b"1234"))[6] == 2
    assert Both.calls == ["dlpack"]

    class Bytes(bytearray):
        __array_interface__ = {"shape": (1,), "typestr": "|u1", "version": 3}

    assert _core._inspect(Bytes(b"1234"))[6] == 1
    assert _core._inspect(Bytes(b"1234"))[1] == (4,)


def test_no_reference_leaks_on_failure() -> None:
    p = Producer(Managed(ndim=-1))
    before = sys.getrefcount(p)
    for _ in range(100):
        with pytest.raises(BufferError):
            _core._inspect(p)
    gc.collect()
    assert sys.getrefcount(p) == before
    assert p.managed.deleted == 100


def test_exporting_obj_is_kept() -> None:
    p = Producer()
    before = sys.getrefcount(p)
    v = from_dlpack(p)
    assert v.exporting_obj is p
    del v
    gc.collect()
    assert sys.getrefcount(p) == before


@pytest.mark.parametrize(("base", "readonly"), [(bytes, True), (bytearray, False), (object, False)])
@pytest.mark.parametrize("versioned", [False, True])
def test_R057_a_legacy_capsule_of_an_object_whose_buffer_is_read_only(
    base: type, readonly: bool, versioned: bool, raises: Any
) -> None:
    m = Managed(versioned=versioned)

    class Tensor(base):  # type: ignore[misc]
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **kwargs: Any) -> Any:
            return m.capsule()

    readonly = readonly and not versioned  # a versioned one says so itself
    view = StridedMemoryView.from_dlpack(Tensor())
    assert view.readonly is readonly
    del view
    assert m.deleted == 1
    if readonly:
        with raises(handoff.ReadOnlyError, "R015"):
            _core._inspect(Tensor(), 1)
        assert m.deleted == 2
