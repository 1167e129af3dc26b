"""Our declarations of CPython against the real headers: sizes, offsets, values."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

PYTHON_DIR = Path(__file__).resolve().parents[1]

STRUCTS = {
    "PyObject": ["ob_type"],
    "Py_buffer": ["buf", "obj", "len", "itemsize", "readonly", "ndim", "format", "shape", "strides", "suboffsets",
                  "internal"],
    "PyMethodDef": ["ml_name", "ml_meth", "ml_flags", "ml_doc"],
    "PyGetSetDef": ["name", "get", "set", "doc", "closure"],
    "PyModuleDef_Base": ["m_init", "m_index", "m_copy"],
    "PyModuleDef": ["m_base", "m_name", "m_doc", "m_size", "m_methods", "m_slots", "m_traverse", "m_clear", "m_free"],
    "PyType_Slot": ["slot", "pfunc"],
    "PyType_Spec": ["name", "basicsize", "itemsize", "flags", "slots"],
}  # fmt: skip


def headers() -> Path:
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        pytest.skip("Python.h of this interpreter is not installed")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return include


def compile_and_run(tmp_path: Path, source: str) -> str:
    include = headers()
    c = tmp_path / "check.c"
    c.write_text(source)
    out = tmp_path / "check"
    subprocess.run(
        ["cc", "-std=gnu11", f"-I{include}", f"-I{PYTHON_DIR}", "-o", str(out), str(c)], check=True, timeout=120
    )
    return subprocess.run([out], check=True, capture_output=True, text=True).stdout


def enums() -> list[str]:
    """The names HO_X of pyapi.h that stand for X of Python.h."""
    text = (PYTHON_DIR / "pyapi.h").read_text()
    names = re.findall(r"^\tHO_((?:METH|TPFLAGS|bf|mp|sq|tp|nb|PyBUF)_\w+) =", text, re.M)
    assert len(names) >= 50
    return names


def real_name(name: str) -> str:
    if name.startswith("TPFLAGS"):
        return "Py_" + name
    if name.startswith(("METH", "PyBUF")):
        return name
    return "Py_" + name


def test_structs(tmp_path: Path) -> None:
    lines = []
    for struct, fields in STRUCTS.items():
        lines.append(f'CHECK("{struct}", sizeof({struct}), sizeof(ho_{struct}));')
        lines += [f'CHECK("{struct}.{f}", offsetof({struct}, {f}), offsetof(ho_{struct}, {f}));' for f in fields]
    source = f"""
#include <Python.h>
#include <stdio.h>
#include "pyapi.h"
#define CHECK(name, real, ours) \\
    if ((real) != (ours)) printf("%s: %zu, ours %zu\\n", name, (size_t)(real), (size_t)(ours))
int main(void) {{
{chr(10).join(lines)}
CHECK("Py_ssize_t", sizeof(Py_ssize_t), sizeof(ho_ssize));
CHECK("PyGILState_STATE", sizeof(PyGILState_STATE), sizeof(int));
return 0; }}
"""
    assert compile_and_run(tmp_path, source) == ""


def test_values(tmp_path: Path) -> None:
    lines = [f'CHECK("{n}", {real_name(n)}, HO_{n});' for n in enums()]
    source = f"""
#include <Python.h>
#include <stdio.h>
#include "pyapi.h"
#define CHECK(name, real, ours) \\
    if ((long)(real) != (long)(ours)) printf("%s: %ld, ours %ld\\n", name, (long)(real), (long)(ours))
int main(void) {{
{chr(10).join(lines)}
CHECK("PYTHON_ABI_VERSION", PYTHON_ABI_VERSION, 3);
CHECK("Py_EQ", Py_EQ, 2);
return 0; }}
"""
    assert compile_and_run(tmp_path, source) == ""


def test_prototypes(tmp_path: Path) -> None:
    """Every function of the table has the type that the headers give it, up to our own names of the structs."""
    text = (PYTHON_DIR / "pyapi.h").read_text()
    stable = re.search(r"#define HO_PY_FUNCTIONS\(X\)(.*?)\n\n", text, re.S)
    assert stable is not None
    functions = re.findall(r"X\(([^,]+), (\w+), \((.*)\)\)", stable.group(1))
    assert len(functions) > 100
    replace = {
        "ho_ssize": "Py_ssize_t",
        "ho_capsule_destructor": "PyCapsule_Destructor",
        "ho_": "",
    }
    ours = {
        "PyInterpreterState_Get": "PyInterpreterState *",
        "PyEval_SaveThread": "PyThreadState *",
        "PyGILState_Ensure": "PyGILState_STATE",
    }
    parameters = {
        "PyEval_RestoreThread": "PyThreadState *",
        "PyInterpreterState_GetID": "PyInterpreterState *",
        "PyGILState_Release": "PyGILState_STATE",
    }
    lines = []
    for result, name, params in functions:
        if name == "PyModule_Create2":
            params = params.replace("ho_PyModuleDef", "struct PyModuleDef")
        result, params = ours.get(name, result), parameters.get(name, params)
        for a, b in replace.items():
            result, params = result.replace(a, b), params.replace(a, b)
        lines.append(f"{result} (*check_{name})({params}) = {name};")
    source = (
        "#define Py_LIMITED_API 0x030b0000\n#include <Python.h>\n" + "\n".join(lines) + "\nint main(void){return 0;}\n"
    )
    c = tmp_path / "prototypes.c"
    c.write_text(source)
    p = subprocess.run(
        ["cc", "-std=gnu11", "-Werror", f"-I{headers()}", "-fsyntax-only", str(c)], capture_output=True, text=True
    )
    assert p.returncode == 0, p.stderr


def test_symbols_are_in_the_stable_abi() -> None:
    """Nothing outside the stable ABI of 3.11 is needed: such names are declared optional."""
    text = (PYTHON_DIR / "pyapi.h").read_text()
    optional = re.search(r"#define HO_PY_OPTIONAL\(X\)(.*?)\n\n", text, re.S)
    assert optional is not None
    names = re.findall(r"X\([^,]+, (\w+), ", optional.group(1))
    assert "PyGILState_Check" in names
    stable = re.search(r"#define HO_PY_FUNCTIONS\(X\)(.*?)\n\n", text, re.S)
    assert stable is not None
    assert not set(names) & set(re.findall(r"X\([^,]+, (\w+), ", stable.group(1)))
