"""NumPy's array interface, taken and offered (6.8, 6.11)."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import pytest

import handoff
from handoff import Array, StridedMemoryView, _core

raw = ctypes.create_string_buffer(4096 + 64)
ADDRESS = (ctypes.addressof(raw) + 63) & ~63
BASE: dict[str, Any] = {"shape": (2, 3), "typestr": "<f4", "data": (ADDRESS, False), "version": 3}


class Exporter:
    def __init__(self, remove: tuple[str, ...] = (), **changes: Any) -> None:
        self.__array_interface__ = {k: v for k, v in (BASE | changes).items() if k not in remove}


class OnType(Exporter):
    """With the attribute on the type, as NumPy has it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Exporter.__init__(self, *args, **kwargs)
        self.inner = self.__dict__.pop("__array_interface__")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.inner

    @__array_interface__.setter
    def __array_interface__(self, value: dict[str, Any]) -> None:
        self.__dict__["__array_interface__"] = value


TAKERS = {
    "consume": lambda x: _core._inspect(x),
    "from_array_interface": lambda x: StridedMemoryView.from_array_interface(x),
    "from_any_interface": lambda x: StridedMemoryView.from_any_interface(x),
}
taker = pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())


@taker
@pytest.mark.parametrize("cls", [Exporter, OnType])
def test_plain(take: Any, cls: type, raises: Any) -> None:
    v = take(cls())
    if isinstance(v, StridedMemoryView):
        assert (v.ptr, v.shape, v.strides, v.dlpack_dtype, v.readonly) == (ADDRESS, (2, 3), None, (2, 32, 1), False)
        assert v.device_id == -1
    else:
        assert v[:5] == (ADDRESS, (2, 3), (3, 1), (2, 32, 1), (1, 0))


MALFORMED = {
    "R200 no dict": (None, ValueError, "R200"),
    "R201 no shape": (dict(remove=("shape",)), ValueError, "R201"),
    "R201 no typestr": (dict(remove=("typestr",)), ValueError, "R201"),
    "R201 no version": (dict(remove=("version",)), ValueError, "R201"),
    "R201 version of another type": (dict(version="3"), TypeError, "R201"),
    "R201 version 2": (dict(version=2), BufferError, "R201"),
    "R202 shape is a list": (dict(shape=[2, 3]), TypeError, "R202"),
    "R202 shape is an int": (dict(shape=2), TypeError, "R202"),
    "R202 shape of floats": (dict(shape=(2.0, 3)), TypeError, "R202"),
    "R202 negative": (dict(shape=(2, -3)), ValueError, "R202"),
    "R202 huge int": (dict(shape=(2**70,)), ValueError, "R202"),
    "R202 too many": (dict(shape=(1,) * 65), ValueError, "R202"),
    "R203 unknown": (dict(typestr="<x4"), TypeError, "R203"),
    "R203 empty": (dict(typestr=""), TypeError, "R203"),
    "R203 no size": (dict(typestr="<f"), TypeError, "R203"),
    "R203 rest": (dict(typestr="<f4x"), TypeError, "R203"),
    "R203 bytes": (dict(typestr=b"<f4"), TypeError, "R203"),
    "R204 foreign order": (dict(typestr=">f4"), BufferError, "R204"),
    "R206 data is an int": (dict(data=ADDRESS), TypeError, "R206"),
    "R206 data of length 1": (dict(data=(ADDRESS,)), TypeError, "R206"),
    "R206 address is a str": (dict(data=("1", False)), TypeError, "R206"),
    "R206 address negative": (dict(data=(-1, False)), TypeError, "R206"),
    "R206 address huge": (dict(data=(2**65, False)), TypeError, "R206"),
    "R207 no data, no buffer": (dict(remove=("data",)), TypeError, "R207"),
    "R209 address 0": (dict(data=(0, False)), ValueError, "R209"),
    "R213 too few strides": (dict(strides=(4,)), ValueError, "R213"),
    "R214 strides is a list": (dict(strides=[12, 4]), TypeError, "R214"),
    "R214 strides of strs": (dict(strides=("12", 4)), TypeError, "R214"),
    "R217 mask": (dict(mask=object()), ValueError, "R217"),
    "R217 mask B": (dict(mask=object()), BufferError, "R217"),
    "R281 strides": (dict(strides=(10, 4)), BufferError, "R281"),
    "R034 wrap": (dict(shape=(2**62, 8)), BufferError, "R034"),
    "R041 unaligned": (dict(data=(ADDRESS + 1, False)), BufferError, "R041"),
}


@taker
@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed(take: Any, case: tuple[dict[str, Any] | None, type, str], raises: Any) -> None:
    args, cls, rule = case
    x = Exporter(**(args or {}))
    if args is None:
        x.__array_interface__ = [("shape", (2, 3))]  # type: ignore[assignment]
    before = sys.getrefcount(x)
    with raises(cls, rule):
        take(x)
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize(
    "typestr", ["|O", "|S4", "<U1", "|V4", "<M8[ns]", "<m8[s]", "<f16", "<c32", "<V2", "|t8", "<c4"]
)
def test_R220_R285_R286_types_without_counterpart(typestr: str, raises: Any) -> None:
    x = Exporter(typestr=typestr, shape=(4,))
    with raises(handoff.DTypeError, "R285"):
        _core._inspect(x)


@pytest.mark.parametrize(
    ("typestr", "dl"),
    [("|b1", (6, 8, 1)), ("|i1", (0, 8, 1)), ("<i1", (0, 8, 1)), (">u1", (1, 8, 1)), ("<i2", (0, 16, 1)),
     ("<i4", (0, 32, 1)), ("<i8", (0, 64, 1)), ("<u2", (1, 16, 1)), ("<u4", (1, 32, 1)), ("<u8", (1, 64, 1)),
     ("<f2", (2, 16, 1)), ("<f4", (2, 32, 1)), ("=f8", (2, 64, 1)), ("f8", (2, 64, 1)), ("|f8", (2, 64, 1)),
     ("<c8", (5, 64, 1)), ("<c16", (5, 128, 1))],
)  # fmt: skip
def test_R203_R289_typestr(typestr: str, dl: tuple[int, int, int]) -> None:
    assert _core._inspect(Exporter(typestr=typestr))[3] == dl


def test_R205_sizes_of_text() -> None:
    pytest.importorskip("numpy")
    assert StridedMemoryView.from_array_interface(Exporter(typestr="<U3", shape=(2,))).itemsize == 12
    assert StridedMemoryView.from_array_interface(Exporter(typestr="|S5", shape=(2,))).itemsize == 5


@pytest.mark.parametrize("data", [(0, False), (ADDRESS, True)])
def test_R210_empty(data: tuple[int, bool]) -> None:
    v = StridedMemoryView.from_array_interface(Exporter(shape=(0, 3), data=data))
    assert (v.size, v.shape) == (0, (0, 3))


def test_R207_R208_R211_buffers(raises: Any) -> None:
    b = bytearray(64)
    v = StridedMemoryView.from_array_interface(Exporter(data=b))
    assert not v.readonly
    with pytest.raises(BufferError):
        b.append(1)  # R219: held
    at = ctypes.addressof((ctypes.c_char * 64).from_buffer(b))
    assert v.ptr == at
    assert StridedMemoryView.from_array_interface(Exporter(data=b, offset=8)).ptr == at + 8
    assert StridedMemoryView.from_array_interface(Exporter(data=bytes(64))).readonly
    for offset, cls in ((44, ValueError), (65, ValueError), (-1, ValueError), ("8", TypeError), (2**70, ValueError)):
        with raises(cls, "R208"):
            StridedMemoryView.from_array_interface(Exporter(data=b, offset=offset))
    with raises(ValueError, "R208"):
        StridedMemoryView.from_array_interface(Exporter(data=b, strides=(-12, 4)))
    del v
    gc.collect()

    class Self(bytearray):
        @property
        def __array_interface__(self) -> dict[str, Any]:
            return {"shape": (16,), "typestr": "<f4", "version": 3}

    v = StridedMemoryView.from_array_interface(Self(64))
    assert v.shape == (16,)


def test_R211_R212_R218_R219() -> None:
    x = Exporter(data=(ADDRESS, True), strides=None, version=99)
    before = sys.getrefcount(x)
    v = StridedMemoryView.from_array_interface(x)
    assert v.readonly
    assert v.exporting_obj is x
    assert sys.getrefcount(x) == before + 1
    del v
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("take", list(TAKERS.values())[1:], ids=list(TAKERS)[1:])
def test_R216_descr_has_the_size_of_the_typestr(take: Any) -> None:
    fits = [
        ("|V4", [("a", "<i4")]), ("|V12", [("a", "<i4"), ("b", "<f8")]), ("|V8", [("", "|V8")]),
        ("|V24", [("a", "<i4", (2, 3))]), ("|V8", [("a", "<i2", 4)]), ("|V10", [("a", [("x", "<f8")]), ("b", "<i2")]),
    ]  # fmt: skip
    for typestr, descr in fits:
        take(Exporter(typestr=typestr, descr=descr))
    deep: list[Any] = [("a", "|u1")]
    for _ in range(40):
        deep = [("a", deep)]
    for bad in (
        [("a", "<f8")], [], [("a", "<i4"), ("b", "|u1")], "a", [("a",)], [5], [("a", 5)], [("a", "x9")],
        [("a", "|u1", (-4,))], [("a", "|u1", (1 << 40, 1 << 40))], [("a", "|u1", ("4",))], deep,
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)) as info:
            take(Exporter(typestr="|V4", descr=bad))
        assert getattr(info.value, "rule", "") == "R216", bad


def test_R215_descr_without_kind_V_is_not_read() -> None:
    assert _core._inspect(Exporter(descr="nonsense"))[3] == (2, 32, 1)


def test_negative_strides() -> None:
    v = StridedMemoryView.from_array_interface(Exporter(shape=(3,), strides=(-4,), data=(ADDRESS + 8, False)))
    assert (v.ptr, v.strides) == (ADDRESS + 8, (-1,))


def test_object_without_the_attribute(raises: Any) -> None:
    with raises(handoff.ProtocolError, "R158"):
        StridedMemoryView.from_array_interface(object())


def test_property_that_raises() -> None:
    class Bad:
        @property
        def __array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("no")

    with pytest.raises((RuntimeError, BufferError)):
        StridedMemoryView.from_array_interface(Bad())


# --- as a producer -----------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "typestr"),
    [("bool", "|b1"), ("int8", "|i1"), ("uint8", "|u1"), ("int16", "<i2"), ("int32", "<i4"), ("int64", "<i8"),
     ("uint16", "<u2"), ("uint32", "<u4"), ("uint64", "<u8"), ("float16", "<f2"), ("float32", "<f4"),
     ("float64", "<f8"), ("complex64", "<c8"), ("complex128", "<c16")],
)  # fmt: skip
def test_R166_R201_R280_R282_R283(dtype: str, typestr: str) -> None:
    a = Array.zeros((3, 4), dtype)
    assert a.__array_interface__ == {
        "shape": (3, 4), "typestr": typestr, "data": (a.ptr, False), "strides": None, "version": 3,
    }  # fmt: skip
    s = a[::2, ::-1]
    assert s.__array_interface__["strides"] == (8 * a.itemsize, -a.itemsize)
    assert s.__array_interface__["data"][0] == a.ptr + 3 * a.itemsize
    v = StridedMemoryView.from_buffer(bytes(a.nbytes), (3, 4), dtype=dtype)
    assert v.__array_interface__["data"] == (v.ptr, True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float4_e2m1fn", "int4", "complex32"])
def test_types_without_a_typestr_have_no_attribute(dtype: str) -> None:
    assert not hasattr(Array.full(2, 1, dtype), "__array_interface__")


def test_numpy_takes_it() -> None:
    np = pytest.importorskip("numpy")

    class Only:
        def __init__(self, x: Any) -> None:
            self.__array_interface__ = x.__array_interface__
            self.x = x

    a = Array.full((2, 3), 4, "int16")
    n = np.asarray(Only(a[::-1, ::2]))
    assert n.tolist() == [[4, 4], [4, 4]]
    n[:] = 1
    assert a[1, 0] == 1
    v = StridedMemoryView.from_buffer(bytes(8), (4,), dtype="int16")
    assert not np.asarray(Only(v)).flags.writeable


@pytest.mark.parametrize("where", ["version", "shape", "strides", "address", "readonly", "offset"])
def test_entries_that_change_the_dict_while_it_is_read(where: str) -> None:
    entries: dict[str, Any] = {}

    class Evil:
        def __init__(self, value: int) -> None:
            self.value = value

        def __index__(self) -> int:
            entries.clear()
            gc.collect()
            [tuple(range(n)) for n in range(64)]  # what was freed is used again
            return self.value

        def __bool__(self) -> bool:
            return bool(self.__index__())

    def int_(name: str, value: int) -> Any:
        return Evil(value) if name == where else value

    entries.update(
        version=int_("version", 3),
        typestr="".join(["<", "f4"]),
        shape=(int_("shape", 2), 3),
        strides=(int_("strides", 16), 4),
        data=(int_("address", ADDRESS), int_("readonly", 0)),
    )
    if where == "offset":
        entries.update(data=bytearray(64), offset=Evil(0))
    x = Exporter()
    x.__array_interface__ = entries
    v = StridedMemoryView.from_array_interface(x)
    assert entries == {}
    assert (v.shape, v.strides, v.dlpack_dtype, v.readonly) == ((2, 3), (4, 1), (2, 32, 1), False)


def test_a_message_that_is_cut_within_a_character_keeps_its_rule(raises: Any) -> None:
    for n in range(4):
        with raises(handoff.Error, "R203"):
            StridedMemoryView.from_array_interface(Exporter(typestr="<" + "x" * n + "\u20ac" * 40))
