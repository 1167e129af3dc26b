"""The C exchange table, taken and offered (6.5)."""

from __future__ import annotations

import ctypes
import gc
import sys
from ctypes import c_void_p
from typing import Any

import pytest
from capsules import (
    ALLOCATE,
    DELETER,
    FROM_PY,
    LEND,
    SET_ERROR,
    STREAM,
    TO_PY,
    DLDataType,
    DLDevice,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
    DLTensor,
    Managed,
    Producer,
    Table,
    ints,
    pointer_of,
    python_class,
    table_capsule,
)

import handoff
from handoff import Array, StridedMemoryView, _core

NEW, OLD = "__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"
WRITABLE, OWNED = 1, 2


def held(obj: Any, want: int = 0) -> int:
    return _core._inspect(obj, want)[6]


def tensor(table: Table, value: Any = None, name: str = NEW, **more: Any) -> Any:
    return python_class(**{name: table.capsule if value is None else value}, **more)()


# --- as a consumer -----------------------------------------------------------


@pytest.mark.parametrize("name", [NEW, OLD], ids=["1.3 name", "1.2 name"])
@pytest.mark.parametrize("as_int", [True, False], ids=["int", "capsule"])
def test_R085_R086_both_names_both_forms(name: str, as_int: bool) -> None:
    table = Table()
    obj = tensor(table, table.address if as_int else None, name)
    data, shape, strides, dtype, device, flags, how = _core._inspect(obj)
    assert (shape, strides, dtype, device, flags & 1, how) == ((2, 3), (3, 1), (2, 32, 1), (1, 0), 0, 6)
    assert data == table.managed[0].base
    assert table.calls == ["lend"]


def test_R106_lent_tensor_is_not_deleted() -> None:
    table = Table()
    obj = tensor(table)
    _core._inspect(obj)
    assert table.managed[0].deleted == 0


def test_R106_owned_form_where_it_is_kept() -> None:
    table = Table()
    obj = tensor(table)
    view = StridedMemoryView.from_dlpack(obj)
    assert table.calls == ["from_py"]
    assert view.exporting_obj is obj
    del view
    gc.collect()
    assert table.managed[0].deleted == 1


@pytest.mark.parametrize("kind", ["lend NULL", "wants owned", "lend fails"])
def test_R094_managed_form(kind: str) -> None:
    table = Table(lend=kind != "lend NULL")
    if kind == "lend fails":
        table.fail.add("lend")
    obj = tensor(table)
    assert held(obj, OWNED if kind == "wants owned" else 0) == 2
    assert table.calls[-1] == "from_py"
    assert [m.deleted for m in table.managed] == [1]


def test_R087_on_the_type_not_the_instance() -> None:
    table = Table()
    obj = Producer()
    setattr(obj, NEW, table.capsule)
    assert held(obj) == 2
    assert table.calls == []
    assert len(obj.calls) == 1


def test_R087_asked_once_per_type_and_inherited() -> None:
    table = Table()
    asked = []

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            if name in (NEW, OLD):
                asked.append(name)
            return super().__getattribute__(name)

    base = Meta("Base", (), {NEW: table.capsule})
    derived = Meta("Derived", (base,), {})
    obj = derived()
    for _ in range(5):
        assert held(obj) == 6
    assert asked == [NEW]


@pytest.mark.parametrize("version", [(2, 0), (0, 9)])
def test_R090_R112_other_major_falls_back(version: tuple[int, int]) -> None:
    table = Table(version)
    cls = type("Tensor", (Producer,), {NEW: table.capsule})
    obj = cls()
    assert held(obj) == 2
    assert table.calls == []
    assert len(obj.calls) == 1


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_R091_prev_api_is_walked(hops: int) -> None:
    table = Table()
    newer = [DLPackExchangeAPI() for _ in range(hops)]
    previous = table.address
    for i, t in enumerate(newer):
        t.version.major = 2 + i
        t.prev_api = previous
        previous = ctypes.addressof(t)
    assert held(python_class(**{NEW: table_capsule(newer[-1])})()) == 6
    assert table.calls == ["lend"]


def test_R091_endless_chain_ends() -> None:
    loop = DLPackExchangeAPI()
    loop.version.major = 3
    loop.prev_api = ctypes.addressof(loop)
    obj = type("Tensor", (Producer,), {NEW: table_capsule(loop)})()
    assert held(obj) == 2


@pytest.mark.parametrize("value", [None, "text", 0, (1,)], ids=str)
def test_R112_attribute_of_another_kind(value: Any) -> None:
    assert held(type("Tensor", (Producer,), {NEW: value, OLD: value})()) == 2


def test_R085_capsule_of_another_name() -> None:
    table = Table()
    wrong = table_capsule(table.struct, b"exchange_api")
    assert held(type("Tensor", (Producer,), {NEW: wrong})()) == 2
    assert table.calls == []


def test_R093_incomplete_table() -> None:
    # Without the function that gives tensors a table is of no use; the
    # allocator and the stream are not needed for host memory.
    assert held(type("Tensor", (Producer,), {NEW: Table(null=["from_py"]).capsule})()) == 2
    assert held(tensor(Table(null=["allocator", "stream"]))) == 6


def test_R101_R163_exception_of_the_table_passes() -> None:
    # Functions of our own table refuse objects of other types with TypeError.
    table = Table()
    table.struct.lend, table.struct.from_py = api().lend, api().from_py
    with pytest.raises(TypeError, match="neither a StridedMemoryView nor an Array"):
        _core._inspect(tensor(table))


@pytest.mark.parametrize("want", [0, OWNED])
def test_B119_table_that_sets_no_exception(want: int, raises: Any) -> None:
    table = Table()
    table.fail = {"lend", "from_py"}
    with raises(handoff.ExchangeError, "R101"):
        _core._inspect(tensor(table), want)


BAD = {
    "R035": dict(device=(0, 0)),
    "R027": dict(dtype=(99, 8, 1)),
    "R047": dict(ndim=-1),
    "R034": dict(shape=(2, -1)),
    "R045": dict(data=0),
    "R041": dict(byte_offset=1),
}


@pytest.mark.parametrize("want", [0, OWNED], ids=["lent", "owned"])
@pytest.mark.parametrize(("rule", "args"), BAD.items(), ids=BAD.keys())
def test_R067_bad_tensors_of_a_table(rule: str, args: dict[str, Any], want: int, raises: Any) -> None:
    table = Table()
    table.args = args
    obj = tensor(table)
    before = sys.getrefcount(obj)
    with raises(BufferError, rule):
        _core._inspect(obj, want)
    assert [m.deleted for m in table.managed] == [1 if want else 0]
    assert sys.getrefcount(obj) == before


def test_R008_table_gives_another_major(raises: Any) -> None:
    table = Table(lend=False)
    table.args = dict(version=(2, 0))
    with raises(handoff.VersionError, "R008"):
        _core._inspect(tensor(table))
    assert table.managed[0].deleted == 1


def test_R014_read_only_is_not_lost(raises: Any) -> None:
    # A lent tensor has no flags. A type with a `readonly` attribute is asked
    # for the form that has them.
    table = Table()
    table.args = dict(flags=1)
    obj = tensor(table, readonly=True)
    assert _core._inspect(obj)[5] & 1
    assert table.calls == ["from_py"]
    with raises(handoff.ReadOnlyError, "R015"):
        _core._inspect(obj, WRITABLE)
    assert [m.deleted for m in table.managed] == [1, 1]


@pytest.mark.parametrize("stream", [0, 1, 2, 0x1234])
def test_R103_R108_stream_of_gpu_memory(stream: int) -> None:
    table = Table()
    table.args = dict(device=(2, 0))
    table.stream = stream
    assert _core._inspect(tensor(table))[4] == (2, 0)
    assert table.calls == ["lend", "stream"]


def test_R103_stream_fails(raises: Any) -> None:
    for lend in (True, False):
        table = Table(lend=lend)
        table.args = dict(device=(2, 0))
        table.fail.add("stream")
        with raises(handoff.ExchangeError, "R101"):
            _core._inspect(tensor(table))
        assert [m.deleted for m in table.managed] == [0 if lend else 1]


def test_type_cache_is_bounded_and_forgets() -> None:
    _core._forget_types()
    for _ in range(300):
        held(Producer())
        held(type("T", (Producer,), {})())
    assert 0 < _core._stats()["cached_types"] <= 64
    _core._forget_types()
    assert _core._stats()["cached_types"] == 0


# --- as a producer -----------------------------------------------------------


def api() -> DLPackExchangeAPI:
    return DLPackExchangeAPI.from_address(pointer_of(getattr(Array, NEW)))


def objects() -> list[Any]:
    a = Array.full((3, 4), 2, "float32")
    return [a, StridedMemoryView.from_dlpack(a)]


@pytest.mark.parametrize("cls", [Array, StridedMemoryView])
def test_R085_R088_R092_R093_offered(cls: type, run: Any) -> None:
    capsule = getattr(cls, NEW)
    assert getattr(cls, OLD) is capsule
    assert NEW not in vars(Array.zeros(1)) if hasattr(Array.zeros(1), "__dict__") else True
    table = DLPackExchangeAPI.from_address(pointer_of(capsule))
    assert (table.version.major, table.version.minor) == (1, 3)
    assert not table.prev_api
    assert all((table.allocator, table.from_py, table.to_py, table.lend, table.stream))


def test_R089_layout() -> None:
    assert ctypes.sizeof(DLPackExchangeAPI) == 56


@pytest.mark.parametrize("obj", objects(), ids=["Array", "StridedMemoryView"])
def test_R095_from_py(obj: Any) -> None:
    out = c_void_p()
    before = sys.getrefcount(obj)
    assert FROM_PY(api().from_py)(id(obj), ctypes.addressof(out)) == 0
    m = DLManagedTensorVersioned.from_address(out.value or 0)
    assert m.version.major == 1
    assert m.dl_tensor.data == obj.ptr
    assert ints(m.dl_tensor.shape, 2) == (3, 4)
    assert ints(m.dl_tensor.strides, 2) == (4, 1)  # R111
    DELETER(m.deleter)(out.value)
    assert sys.getrefcount(obj) == before


@pytest.mark.parametrize("obj", objects(), ids=["Array", "StridedMemoryView"])
def test_R107_lend(obj: Any) -> None:
    t = DLTensor()
    before = sys.getrefcount(obj)
    assert LEND(api().lend)(id(obj), ctypes.addressof(t)) == 0
    assert sys.getrefcount(obj) == before
    assert (t.data, t.ndim, t.byte_offset) == (obj.ptr, 2, 0)
    assert ints(t.shape, 2) == (3, 4)
    assert ints(t.strides, 2) == (4, 1)


def test_R014_R020_lending_refuses_what_it_cannot_say() -> None:
    t = DLTensor()
    readonly = StridedMemoryView.from_buffer(b"12345678", (2,), dtype="int32")
    padded = Array.zeros(3, "int4")
    for obj in (readonly, padded):
        with pytest.raises(BufferError):
            LEND(api().lend)(id(obj), ctypes.addressof(t))
        out = c_void_p()
        assert FROM_PY(api().from_py)(id(obj), ctypes.addressof(out)) == 0
        m = DLManagedTensorVersioned.from_address(out.value or 0)
        assert m.flags == (1 if obj is readonly else 4)
        DELETER(m.deleter)(out.value)


@pytest.mark.parametrize("function", ["from_py", "lend"])
def test_R100_R101_wrong_object(function: str) -> None:
    out = (ctypes.c_char * 64)()
    f = LEND(getattr(api(), function))
    with pytest.raises(TypeError):
        f(id(object()), ctypes.addressof(out))
    with pytest.raises(RuntimeError):  # R113
        f(id(Array.zeros(1)), None)
    with pytest.raises(RuntimeError):
        f(None, ctypes.addressof(out))


def test_R101_dtype_without_counterpart() -> None:
    v = StridedMemoryView.from_buffer(bytearray(24), (2,), itemsize=12)
    out = c_void_p()
    with pytest.raises(BufferError):
        FROM_PY(api().from_py)(id(v), ctypes.addressof(out))


def test_R104_to_py() -> None:
    m = Managed()
    out = c_void_p()
    assert TO_PY(api().to_py)(m.address, ctypes.addressof(out)) == 0
    view = ctypes.cast(out, ctypes.py_object).value
    assert isinstance(view, StridedMemoryView)
    assert (view.ptr, view.shape) == (m.base, (2, 3))
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(view))  # the reference that we were given
    del view
    gc.collect()
    assert m.deleted == 1


@pytest.mark.parametrize("args", [dict(version=(2, 0)), dict(ndim=-1), dict(dtype=(99, 8, 1))])
def test_R105_to_py_failure_frees(args: dict[str, Any]) -> None:
    m = Managed(**args)
    out = c_void_p()
    with pytest.raises(BufferError):
        TO_PY(api().to_py)(m.address, ctypes.addressof(out))
    assert m.deleted == 1
    assert not out.value


def test_R108_R109_current_stream() -> None:
    out = c_void_p(7)
    assert STREAM(api().stream)(1, 0, ctypes.addressof(out)) == 0
    assert out.value is None


def test_R096_R098_allocator() -> None:
    errors: list[tuple[bytes, bytes]] = []
    set_error = SET_ERROR(lambda ctx, kind, message: errors.append((kind, message)))
    shape = (ctypes.c_int64 * 2)(3, 5)
    prototype = DLTensor(None, DLDevice(1, 0), 2, DLDataType(2, 64, 1), ctypes.addressof(shape), None, 99)
    out = c_void_p()
    call = ALLOCATE(api().allocator)
    assert call(ctypes.addressof(prototype), ctypes.addressof(out), None, set_error) == 0
    m = DLManagedTensorVersioned.from_address(out.value or 0)
    assert m.dl_tensor.data % 256 == 0
    assert m.dl_tensor.byte_offset == 0
    assert ints(m.dl_tensor.strides, 2) == (5, 1)
    ctypes.memset(m.dl_tensor.data, 1, 120)
    DELETER(m.deleter)(out.value)
    assert errors == []


@pytest.mark.parametrize("bad", [dict(device=(2, 0)), dict(dtype=(99, 8, 1)), dict(ndim=-1)], ids=str)
def test_R097_allocator_failure(bad: dict[str, Any]) -> None:
    errors: list[tuple[bytes, bytes]] = []
    set_error = SET_ERROR(lambda ctx, kind, message: errors.append((kind, message)))
    m = Managed(**bad)
    out = c_void_p()
    assert ALLOCATE(api().allocator)(ctypes.addressof(m.struct.dl_tensor), ctypes.addressof(out), None, set_error) == -1
    assert len(errors) == 1


def test_with_tvm_ffi() -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi")
    np = pytest.importorskip("numpy")
    a = np.arange(6, dtype="float32").reshape(2, 3)
    t = tvm_ffi.from_dlpack(a)
    data, shape, strides, dtype, device, _, how = _core._inspect(t)
    assert (data, shape, strides, dtype, device) == (a.ctypes.data, (2, 3), (3, 1), (2, 32, 1), (1, 0))
    assert how in (2, 6)
    ours = Array.full((2, 3), 4, "float32")
    theirs = tvm_ffi.from_dlpack(ours)
    assert np.from_dlpack(theirs).tolist() == ours.tolist()
    view = StridedMemoryView.from_dlpack(theirs)
    assert view.ptr == ours.ptr
