"""Results: every kind, and what keeps the memory of arrays."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def test_slices(m: ModuleType) -> None:
    """A Go slice is handed out as it is, pinned until Python drops it."""
    gc.collect()
    before = m.pinned()
    a = m.arange(5)
    assert type(a).__name__ == "Array"
    x = np.from_dlpack(a)
    assert x.tolist() == [0, 1, 2, 3, 4]
    x[0] = 7
    assert np.from_dlpack(a)[0] == 7
    assert m.pinned() == before + 1
    del a
    m.gc()
    assert x.tolist() == [7, 1, 2, 3, 4]
    del x
    gc.collect()
    assert m.pinned() == before
    assert m.nilslice() is None
    assert np.from_dlpack(m.emptyslice()).shape == (0,)
    assert np.asarray(m.frozen(3)).flags.writeable is False
    assert np.from_dlpack(m.c64s()).tolist() == [1 + 2j]
    assert m.describe(m.bf16s())[0] == "bfloat16"


def test_dlpack_objects(m: ModuleType) -> None:
    """Exported and imported tensors are handed over."""
    gc.collect()
    before = m.exports(), m.pinned()
    a, b = m.alloc(4), m.reimport(3)
    assert np.from_dlpack(a).tolist() == [0, 0, 0, 0]
    assert np.from_dlpack(b).tolist() == [0, 1, 2]
    del a, b
    gc.collect()
    assert (m.exports(), m.pinned()) == before
    with pytest.raises(BufferError):
        m.alloc(-1)


def test_views(m: ModuleType) -> None:
    """Views of Go memory, and parts of arguments."""
    a = np.from_dlpack(m.matrix(2, 3))
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BufferError):
        m.fill(np.zeros(3, np.float32), 1.0)  # the dtype does not fit: DTypeError
    x = np.arange(6.0).reshape(2, 3)
    for y in (np.from_dlpack(m.same(x)), np.from_dlpack(m.transposed(x)).T):
        assert y.ctypes.data == x.ctypes.data
        assert y.strides == x.strides
    t = np.from_dlpack(m.tail(x, 4))
    assert t.tolist() == [4, 5]
    assert t.ctypes.data == x.ctypes.data + 32


def test_result_keeps_argument(m: ModuleType) -> None:
    """What lies in an argument keeps that argument, and only that long."""
    x = np.arange(1000.0)
    count = sys.getrefcount(x)
    results = [m.same(x), m.tail(x, 10), m.transposed(x)]
    assert sys.getrefcount(x) == count + 3
    del x
    gc.collect()
    views = [np.from_dlpack(r) for r in results]
    del results
    np.zeros(1000)  # would reuse the memory
    assert views[0][:3].tolist() == [0, 1, 2]
    assert views[1][0] == 10


def test_read_only_argument_stays_read_only(m: ModuleType) -> None:
    """A view of a read-only argument cannot be written through the result."""
    x = np.arange(3.0)
    x.flags.writeable = False
    assert np.asarray(m.same(x)).flags.writeable is False


def test_compound(m: ModuleType) -> None:
    """Tuples, named tuples, lists, dicts, None."""
    assert m.pair(3) == (3, "x")
    s = m.stats(np.zeros(4))
    assert type(s) is m.Stats
    assert s._fields == ("mean", "count", "max_index", "sorted")
    assert (s.mean, s.count, s.max_index) == (1.5, 4, 3)
    assert np.from_dlpack(s.sorted).tolist() == [1, 2]
    assert m.Stats.__module__ == "testmod"
    assert m.maybe(True) == 7
    assert m.maybe(False) is None
    assert m.words(0) == []
    assert m.words(200) == [f"word number {i} of 200" for i in range(200)]
    assert list(m.table().items()) == [("a", 1.0), ("b", 2.0)]
    assert m.anything("int") == 3
    assert m.anything("list") == [1, "two", 3.0, None, True, b"x"]
    assert np.from_dlpack(m.anything("array")).tolist() == [1, 2]
    assert m.anything("map") == {"k": [1]}
    assert m.anything("none") is None
    with pytest.raises(RuntimeError, match="chan int is not supported"):
        m.badany()


def test_stub(m: ModuleType, tmp_path: Path) -> None:
    """The generated stub is complete and clean under mypy --strict."""
    pytest.importorskip("mypy")
    (tmp_path / "testmod.pyi").write_text(m.__handoff_stub__)
    # What the package handoff declares is tested there.
    (tmp_path / "handoff.pyi").write_text("class Array: ...\n")
    (tmp_path / "use.py").write_text(
        "import array\nimport numpy as np\nimport testmod\n"
        "x = np.zeros(3)\ntestmod.scale(x, factor=3)\ntestmod.scale(array.array('d'))\n"
        "s: testmod.Stats = testmod.stats(x)\nmean: float = s.mean\nn: int = testmod.data.__name__ != '' and 1\n"
        "b: bytes = testmod.data(b'x')\nw: list[str] = testmod.words(3)\n"
        "testmod.sig(1, d=2, e='x', f=None)\ntestmod.shape([1, 2])\ntestmod.lengths(x, x)\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--cache-dir",
            str(tmp_path / "cache"),
            "use.py",
            "testmod.pyi",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "wrong.py").write_text("import testmod\ntestmod.scale('text')\ntestmod.i8(1.5)\ntestmod.sig(1)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("error:") >= 3, done.stdout
