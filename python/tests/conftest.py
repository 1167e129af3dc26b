"""Fixtures: no test may leave a tensor of ours alive, or a child process running."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator

import limit
import pytest

import handoff
from handoff import _core


@pytest.fixture(autouse=True)
def no_leaked_exports() -> Iterator[None]:
    before = _core._stats()["live_exports"]
    yield
    if _core._stats()["live_exports"] > before:
        gc.collect()
    assert _core._stats()["live_exports"] <= before, "an exported tensor was not given back"


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program in a fresh interpreter, with a limit."""

    def run(code: str, timeout: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
        p = limit.run([sys.executable, "-X", "faulthandler", "-c", code], timeout=timeout)
        if check:
            assert p.returncode == 0, f"exit {p.returncode}\n{p.stdout}\n{p.stderr}"
        return p

    return run


@pytest.fixture
def raises() -> Callable[..., object]:
    """`with raises(class, "R047"):` also checks the rule that the error names."""

    class Raises:
        def __init__(self, cls: type[BaseException] | tuple[type[BaseException], ...], rule: str | None) -> None:
            self.cls, self.rule = cls, rule
            self.inner = pytest.raises(cls if isinstance(cls, tuple) else (cls,))

        def __enter__(self) -> object:
            self.info = self.inner.__enter__()
            return self.info

        def __exit__(self, *exc: object) -> bool | None:
            swallow = self.inner.__exit__(*exc)
            if swallow and self.rule is not None:
                assert isinstance(self.info.value, handoff.Error), f"not an error of handoff: {self.info.value!r}"
                assert self.info.value.rule == self.rule, str(self.info.value)
                assert self.rule in str(self.info.value)
            return swallow

    return lambda cls, rule=None: Raises(cls, rule)
