"""The limit of programs is on what they do themselves."""

from __future__ import annotations

import sys
import time
from typing import Any

import limit
import pytest


def test_a_program_that_ends() -> None:
    p = limit.run([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"])
    assert (p.returncode, p.stdout, p.stderr) == (3, "out\n", "err\n")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere time alone counts")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import time; print('begun', flush=True); time.sleep(60)", "in the last"),
        ("while True: pass", "processor time used"),
    ],
)
def test_one_that_does_not(code: str, why: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(limit, "PROCESSORS", 1)
    begin = time.monotonic()
    with pytest.raises(AssertionError, match=why) as info:
        limit.run([sys.executable, "-c", code], timeout=2)
    assert ("begun" in str(info.value)) == ("begun" in code)
    assert time.monotonic() - begin < 60


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere time alone counts")
def test_one_that_waits_for_its_turn_is_none() -> None:
    """Longer than the limit by the clock, with work in a child all the time, at a slow pace."""
    child = "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: sum(range(10**6)); time.sleep(0.02)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('end')"
    assert limit.run([sys.executable, "-c", code], timeout=2).stdout == "end\n"
