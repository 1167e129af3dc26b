"""What the closest peer lacks (twelve gaps, numbered as in our notes on cuda.core), and we have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capsules import Managed, Table, python_class
from gpuhelp import read

import handoff
from handoff import Array, Device, StridedLayout, StridedMemoryView

ROOT = Path(__file__).resolve().parents[3]


class Foreign:
    """A GPU array of another library, by the CUDA array interface."""

    def __init__(self, buffer: Any, works_on: Any, **change: Any) -> None:
        self.buffer, self.works_on, self.change = buffer, works_on, change

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        d = {
            "shape": (64,),
            "typestr": "|u1",
            "data": (self.buffer.handle, False),
            "version": 3,
            "stream": self.works_on.handle,
        }
        return {k: v for k, v in (d | self.change).items() if v is not ...}


@pytest.fixture
def buffer(device: Device, stream: Any) -> Any:
    b = device.allocate(64, stream=stream)
    b.fill(1, stream=stream)
    return b


def test_gap_1_the_producers_stream_is_known_and_can_wait(buffer: Any, stream: Any, other: Any, gate: Any) -> None:
    v = StridedMemoryView.from_cuda_array_interface(Foreign(buffer, stream), other)
    assert v.producer_stream == stream
    assert v.stream == other
    stream.sync()
    with gate(other) as opened:
        v.release_on(other)  # the way back, by one event edge
        assert not stream.is_done
        opened()
    stream.sync()


def test_gap_2_strided_copies(buffer: Any, stream: Any) -> None:
    whole = StridedMemoryView.from_buffer(buffer, (8, 8), dtype="uint8")
    a = np.arange(64, dtype="uint8").reshape(8, 8)
    whole.copy_from(a, stream)
    part = whole.view(layout=StridedLayout.of(whole)[::2, ::-1].permuted((1, 0)))
    out = np.zeros((8, 4), "uint8")
    part.copy_to(out, stream)
    stream.sync()
    assert np.array_equal(out, a[::2, ::-1].T)


def test_gap_3_and_9_the_exchange_table_of_any_version_of_any_library(buffer: Any, stream: Any, other: Any) -> None:
    # No list of libraries or versions: what a type offers counts.
    table = Table()
    table.args = {"device": (2, 0), "data": buffer.handle, "shape": (16,), "strides": (1,)}
    table.stream = stream.handle
    x = python_class(__dlpack_c_exchange_api__=table.capsule)()
    v = StridedMemoryView.from_dlpack(x, other)
    assert table.calls == ["from_py", "stream"]
    assert (v.ptr, v.producer_stream, v.stream) == (buffer.handle, stream, other)
    del v
    assert table.managed[0].deleted == 1


@pytest.mark.parametrize(
    "dtype",
    [(4, 16, 1), (5, 32, 1), (10, 8, 1), (12, 8, 1), (17, 4, 2), (15, 6, 4), (2, 32, 4), (1, 8, 3)],
    ids=["bfloat16", "complex32", "e4m3fn", "e5m2", "e2m1fn x2", "e2m3fn x4", "float32 x4", "uint8 x3"],
)
def test_gap_4_every_dtype_comes_and_goes(dtype: tuple[int, int, int], buffer: Any, stream: Any) -> None:
    m = Managed(dtype=dtype, device=(2, 0), data=buffer.handle, shape=(2,), strides=(1,))
    v = StridedMemoryView.from_dlpack(m.capsule(), stream)
    again = StridedMemoryView.from_dlpack(v.__dlpack__(stream=-1, max_version=(1, 3)), stream)  # type: ignore[arg-type]
    assert again.dlpack_dtype == dtype
    assert again.ptr == buffer.handle


def test_gap_5_read_only_is_never_lost(buffer: Any, stream: Any) -> None:
    v = StridedMemoryView.from_cuda_array_interface(Foreign(buffer, stream, data=(buffer.handle, True)), stream)
    assert v.readonly
    assert StridedMemoryView.from_dlpack(v, stream).readonly
    assert StridedMemoryView.from_dlpack(v.__dlpack__(max_version=(1, 0)), stream).readonly  # type: ignore[arg-type]
    with pytest.raises(handoff.ReadOnlyError, match="R057"):
        v.__dlpack__(stream=-1)  # an old capsule cannot say it
    assert v.__cuda_array_interface__["data"] == (buffer.handle, True)
    table = Table()
    table.args = {"device": (2, 0), "data": buffer.handle, "flags": 1}
    x = python_class(__dlpack_c_exchange_api__=table.capsule)()
    assert StridedMemoryView.from_dlpack(x, stream).readonly


def test_gap_6_host_data_has_one_device_id() -> None:
    a = np.arange(6)
    for v in (
        StridedMemoryView.from_dlpack(a),
        StridedMemoryView.from_array_interface(a),
        StridedMemoryView.from_any_interface(a),
        StridedMemoryView.from_buffer(a, (6,), dtype=a.dtype),
        StridedMemoryView.from_any_interface(bytearray(6)),
        StridedMemoryView.from_dlpack(Managed().capsule()),
        Array.zeros(6),
    ):
        assert v.device_id == -1


def test_gap_7_a_stream_means_the_same_on_every_path(buffer: Any, stream: Any) -> None:
    table = Table()
    table.args = {"device": (2, 0), "data": buffer.handle}
    objects: dict[str, Any] = {
        "from_dlpack": buffer,
        "from_cuda_array_interface": Foreign(buffer, stream),
        "from_any_interface": python_class(__dlpack_c_exchange_api__=table.capsule)(),
    }
    for how, x in objects.items():
        make = getattr(StridedMemoryView, how)
        with pytest.raises(handoff.ExchangeError, match="R126"):
            make(x)
        with pytest.raises(handoff.ExchangeError, match="R126"):
            make(x, None)
        assert make(x, 0).stream == make(x, 1).stream == handoff.LEGACY_DEFAULT_STREAM
        assert make(x, 2).stream == handoff.PER_THREAD_DEFAULT_STREAM
        assert make(x, stream.handle).stream == make(x, stream).stream == stream
        make(x, -1)
        for wrong in (-2, 3, True, "1"):
            with pytest.raises(handoff.Error):
                make(x, wrong)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"shape": [64]}, "R169"),
        ({"typestr": 5}, "R168"),
        ({"data": 7}, "R172"),
        ({"strides": (1, 1)}, "R179"),
        ({"stream": 0}, "R184"),
        ({"stream": "x"}, "R187"),
        ({"mask": 1}, "R181"),
        ({"version": ...}, "R167"),
    ],
)
def test_gap_8_malformed_producers_are_typed_errors(
    change: dict[str, Any], rule: str, buffer: Any, stream: Any, raises: Any
) -> None:
    with raises(handoff.Error, rule):
        StridedMemoryView.from_cuda_array_interface(Foreign(buffer, stream, **change), stream)


def test_gap_10_the_layout_is_public(buffer: Any, stream: Any) -> None:
    v = StridedMemoryView.from_buffer(buffer, (4, 16), dtype="uint8")
    layout = handoff.StridedLayout.of(v)
    assert layout.is_contiguous_c
    assert v.view(layout=layout[1:, ::4]).ptr == v.ptr + 16
    assert read(v.view(layout=layout.reshaped((64,))), stream) == [1] * 64


def test_gap_11_views_are_arguments() -> None:
    # Of kernels in Go (launch.Args), of Go functions in Python (python/ext). There they are tested.
    if not (ROOT / "go.mod").exists():
        pytest.skip("not run inside the repository")
    assert "memview.StridedMemoryView" in (ROOT / "launch" / "args.go").read_text()
    assert "testmod.on_stream(view()" in (ROOT / "python" / "ext" / "tests" / "test_stream.py").read_text()


def test_gap_12_there_is_a_benchmark_suite() -> None:
    if not (ROOT / "go.mod").exists():
        pytest.skip("not run inside the repository")
    suite = (ROOT / "bench" / "gpu_bench.py").read_text()
    for row in ("view of a PyTorch tensor", "view of a CuPy array", "call, one CuPy array"):
        assert row in suite
