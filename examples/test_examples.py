"""Runs every example that has a Python program, each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

PROGRAMS = {
    "demo/demo.py": r"^\d+ passed, 0 failed$",
    "loader/loader.py": r"^loader: 1000 records",
    "images/images.py": r"^images: 6x4 out of Go",
    "arrow/columns.py": r"^arrow: 1000 rows",
    "torch_saxpy/torch_saxpy.py": r"^refused: ",
    "quickstart/quickstart.py": r"^refused: .*read-only",
    "strided_views/constructors.py": r"^host: 4 views(.|\n)*^device: 4 views",
    "strided_views/cpu.py": r"^sorted: \[1.0, 2.0, 3.0\] \[4.0, 5.0, 6.0\]\nrefused: ",
    "strided_views/gpu.py": r"^gpu: 1024 elements(.|\n)*^refused: ",
}

# Those that want a device run on the software one where the environment names no driver; it hunts
# for missing synchronization and says what it finds.
DRIVER = {"HANDOFF_DRIVER": os.environ.get("HANDOFF_DRIVER", "soft"), "HANDOFF_SOFT_CHECK": "1"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: str) -> None:
    """The program ends well and says what it did."""
    done = subprocess.run(
        [sys.executable, str(HERE / program)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
        env=os.environ
        | {"PYTHONFAULTHANDLER": "1"}
        | (DRIVER if program.startswith("strided_views/") else {}),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(PROGRAMS[program], done.stdout, re.MULTILINE), done.stdout
    assert "missing synchronization" not in done.stderr, done.stderr


def test_every_program_is_listed() -> None:
    """A new example is not forgotten here."""
    found = {str(p.relative_to(HERE)) for p in HERE.glob("*/*.py")}
    assert found == set(PROGRAMS)


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="not run inside the repository")
def test_readme_quotes_the_quickstart() -> None:
    """The snippets of the README are the files that the tests run."""
    text = (ROOT / "README.md").read_text()
    quoted = re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```\n", text, re.DOTALL)
    assert len(quoted) == 2
    for name, code in quoted:
        assert code == (ROOT / name).read_text(), f"README.md and {name} differ"
