"""pytest --conformance TARGET: a test per check, in a child process each target.

    pytest --conformance mylib --conformance mylib:make_array

A check that finds a MUST broken, or that ends the process, is a failed test. Weaker rules that are not
kept are warnings, unless --conformance-strict is given. A check that does not apply is skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "rules of the exchange protocols")
    group.addoption(
        "--conformance",
        action="append",
        default=[],
        metavar="TARGET",
        help="test this library or module:factory",
    )
    group.addoption("--conformance-strict", action="store_true", help="fail on rules of any strength")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--conformance"):
        config.pluginmanager.register(_Plugin(config), "handoff-conformance-run")


def _rules() -> dict[str, dict[str, str]]:
    rows = json.loads(Path(__file__).with_name("rules.json").read_text())
    return {r["id"]: r for r in rows}


class _Plugin:
    """Adds the checks to what is collected."""

    def __init__(self, config: pytest.Config) -> None:
        self.targets: list[str] = config.getoption("--conformance")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        for target in self.targets:
            node = _Target.from_parent(session, name=f"conformance[{target}]", nodeid=f"conformance[{target}]")
            node.target = target
            items.extend(node.collect())


class _Target(pytest.Collector):
    target = ""
    records: dict[str, dict[str, Any]] | None = None

    def collect(self) -> list[pytest.Item]:
        out = subprocess.run(
            [sys.executable, "-m", "handoff_conformance", "list"], capture_output=True, text=True, check=True
        )
        items: list[pytest.Item] = []
        for line in out.stdout.splitlines():
            check = json.loads(line)
            item = _Check.from_parent(self, name=check["check"])
            item.rules = check["rules"]
            items.append(item)
        return items

    def results(self) -> dict[str, dict[str, Any]]:
        """The record of every check, from children that are started again after a crash."""
        if self.records is None:
            self.records = {}
            after = ""
            while True:
                open_check, at, code = "", "", 0
                for d in self._child(after):
                    if "missing" in d:
                        raise RuntimeError(d["missing"])
                    open_check = d.get("start", open_check)
                    at = d.get("at", "" if "start" in d else at)
                    if "done" in d:
                        self.records[d["done"]["check"]] = d["done"]
                        open_check = ""
                    code = d.get("exit", code)
                if not open_check:
                    break
                self.records[open_check] = {"crash": f"the process ended with {code} at: {at}"}
                after = open_check
        return self.records

    def _child(self, after: str) -> Iterator[dict[str, Any]]:
        command = [sys.executable, "-m", "handoff_conformance", "run", self.target, "--after", after]
        try:
            p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300)
            out, code = p.stdout, p.returncode
        except subprocess.TimeoutExpired as e:
            out, code = (e.stdout or b"").decode(), -1
        for line in out.splitlines():
            yield json.loads(line)
        yield {"exit": code}


class _Check(pytest.Item):
    rules: tuple[str, ...] = ()

    def runtest(self) -> None:
        assert isinstance(self.parent, _Target)
        record = self.parent.results().get(self.name)
        if record is None:
            pytest.skip("did not run")
        if "crash" in record:
            raise _Broken(record["crash"])
        if "skip" in record:
            pytest.skip(record["skip"])
        table = _rules()
        strict = self.config.getoption("--conformance-strict")
        failed = []
        for rule, status in record["rules"].items():
            if status["status"] not in ("broken", "error"):
                continue
            r = table[rule]
            text = f"{rule} {r['strength']} {r['condition']}: {r['behaviour']}\n  {status['what']}"
            if strict or r["strength"] == "MUST":
                failed.append(text)
            else:
                warnings.warn(text, stacklevel=1)
        if failed:
            raise _Broken("\n".join(failed))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, _Broken) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return Path(__file__), 0, f"{self.parent.name if self.parent else ''} {self.name}"


class _Broken(Exception):  # noqa: N818
    """A rule is broken."""
