"""The package: stubs, docstrings, import time."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import handoff
from handoff import _core

STUB = Path(__file__).resolve().parents[1] / "handoff" / "_core.pyi"


def stub() -> ast.Module:
    return ast.parse(STUB.read_text())


def members(tree: ast.Module, name: str) -> dict[str, ast.AST]:
    cls = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    found: dict[str, ast.AST] = {}
    for base in cls.bases:
        if isinstance(base, ast.Name) and base.id in ("_View", "_AnyStream"):
            found |= members(tree, base.id)
    for n in cls.body:
        if isinstance(n, ast.FunctionDef):
            found[n.name] = n
        elif isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name):
            found[n.target.id] = n
    return found


CLASSES = [
    handoff.Array, handoff.StridedMemoryView, handoff.StreamView, handoff.Stream, handoff.Event, _core._Memory,
    _core._DeviceBase,
]  # fmt: skip


@pytest.mark.parametrize("cls", CLASSES)
def test_stub_has_every_member(cls: type) -> None:
    inherited = set(dir(object)) | {"__weakref__", "__module__", "__doc__"}
    runtime = {n for n in vars(cls) if n not in inherited} - {
        "__delitem__", "__getattribute__", "__release_buffer__", "__rsub__",
    }  # fmt: skip
    want = set(members(stub(), cls.__name__)) - inherited - ({"__buffer__"} if sys.version_info < (3, 12) else set())
    assert runtime == want


def test_stub_has_every_name() -> None:
    names = {n.name for n in stub().body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    names |= {n.target.id for n in stub().body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    runtime = {n for n in vars(_core) if not n.startswith("__")}
    assert runtime <= names
    assert {n for n in names if not n.startswith("_")} <= runtime


@pytest.mark.parametrize("cls", CLASSES)
def test_signatures_agree(cls: type) -> None:
    for name, node in members(stub(), cls.__name__).items():
        f = getattr(cls, name, None)
        if not isinstance(node, ast.FunctionDef) or not callable(f) or (name.startswith("__") and "dlpack" not in name):
            continue
        signature = inspect.signature(f)
        a = node.args
        stubbed = [x.arg for x in a.posonlyargs + a.args + a.kwonlyargs if x.arg not in ("self", "cls")]
        assert [n for n in signature.parameters if n not in ("self", "type")] == stubbed, name


def test_docstrings() -> None:
    for name in handoff.__all__:
        if name != "__version__":
            assert getattr(handoff, name).__doc__, name
    for cls in CLASSES:
        for name, value in vars(cls).items():
            if not name.startswith("__") or ("dlpack" in name and callable(value)):
                assert value.__doc__, name


def test_exceptions() -> None:
    for name in handoff.__all__:
        cls = getattr(handoff, name)
        if isinstance(cls, type) and issubclass(cls, BaseException):
            assert issubclass(cls, handoff.Error)
            assert cls.__module__ == "handoff"
            assert cls.rule is None


def test_import_is_light(run: Any) -> None:
    p = run("import sys, handoff; print(any(m.split('.')[0] in ('numpy', 'ml_dtypes') for m in sys.modules))")
    assert p.stdout == "False\n"


def test_everything_works_without_numpy(run: Any) -> None:
    run(
        """
import sys
sys.modules["numpy"] = None
import handoff
a = handoff.Array.full((2, 3), 1, "int16")
v = handoff.StridedMemoryView.from_dlpack(a)
assert a.tolist() == [[1, 1, 1], [1, 1, 1]] and v.dlpack_dtype == (0, 16, 1) and memoryview(v).format == "h"
try:
    a.dtype
except ImportError:
    pass
else:
    raise SystemExit("no error")
"""
    )


def test_import_time() -> None:
    pytest.importorskip("numpy")

    def seconds(module: str) -> float:
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        runs = [
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)
        ]
        return min(float(p.stdout) for p in runs)

    ours, numpys = seconds("handoff"), seconds("numpy")
    assert ours <= 0.5 * numpys, f"{ours * 1e3:.1f} ms, numpy {numpys * 1e3:.1f} ms"
