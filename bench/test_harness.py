"""Tests of the benchmark harness: that its figures mean what the table says."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from harness import GoBenchmark, Row, importing, report, run, show_ns, statement


def scripted(values: list[float]) -> tuple[list[float], object]:
    """A side that takes these times, one after the other."""
    left = list(values)
    return left, lambda: left.pop(0)


def test_median_ratio_and_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first time of each side only warms; the medians of the others count."""
    fast = Row("fast", scripted([9e9, 10, 30, 20])[1], "peer", scripted([9e9, 40, 40, 1e9])[1], 0.5)
    slow = Row("slow", scripted([0, 90, 90, 90])[1], "peer", scripted([0, 100, 100, 100])[1], 0.5)
    run([fast, slow], 3, budget_s=0)
    assert report([fast, slow], tmp_path / "b.json", ["a row: because"]) == 1
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert [r["name"] for r in rows] == ["fast", "slow"]
    assert (rows[0]["ours_ns"], rows[0]["peer_ns"], rows[0]["ratio"], rows[0]["ok"]) == (20, 40, 0.5, True)
    assert (rows[1]["ratio"], rows[1]["ok"]) == (0.9, False)
    out = capsys.readouterr().out
    assert "left out: a row: because" in out
    assert "MISSED" in out
    assert "1 of 2 rows reach their target" in out


def test_a_floor_cannot_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row without a target is shown, and counts neither way."""
    row = Row("floor", lambda: 3.0, "peer", lambda: 1.0, None)
    run([row], 1, budget_s=0)
    assert report([row], tmp_path / "b.json", []) == 0
    (shown,) = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert (shown["ratio"], shown["target"], shown["ok"]) == (3.0, None, None)
    assert "0 of 0 rows" in capsys.readouterr().out


def test_sides_of_a_go_benchmark_share_a_run(tmp_path: Path) -> None:
    """Two metrics asked in turns come from one run; the same one again from the next."""
    runs = tmp_path / "runs"
    binary = tmp_path / "x.test"
    count = f"echo >> {runs}; n=$(wc -l < {runs})"
    binary.write_text(f"#!/bin/sh\n{count}\necho BenchmarkX-2 9 1$n.5 ns/a 2$n ns/b 0 ns/op\n")
    binary.chmod(0o755)
    bench = GoBenchmark(binary, "BenchmarkX")
    a, b = bench.side("ns/a"), bench.side("ns/b")
    assert [a(), b(), b(), a()] == [11.5, 21, 22, 12.5]
    binary.write_text("#!/bin/sh\necho ok\n")
    with pytest.raises(RuntimeError, match="no benchmark BenchmarkX"):
        a()


def test_quick_rows_take_many_turns() -> None:
    """Who goes first changes with every turn."""
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return 1.0

    row = Row("r", lambda: side("a"), "peer", lambda: side("b"), 1)
    run([row], 1, budget_s=5, clock=itertools.count().__next__)
    assert len(row.ours_ns) == len(row.peer_ns) == 5
    assert "".join(order[2:]).startswith("abbaab"), "after the two that warm"


def test_rounds_of_a_slow_row_are_limited() -> None:
    """A row may ask for fewer rounds than the others have."""
    row = Row("r", lambda: 1.0, "peer", lambda: 1.0, 1, rounds=2)
    run([row], 5, budget_s=0)
    assert len(row.ours_ns) == len(row.peer_ns) == 2


def test_statement_is_per_run() -> None:
    """The time is that of one run of the statement, whatever the batch is."""
    short = statement("pass", {}, batch_s=0.002)()
    long = statement("sum(r)", {"r": range(20000)}, batch_s=0.002)()
    assert 0 < short < long < 1e8


def test_a_slow_first_call_does_not_shorten_the_batches() -> None:
    """What a first call loads is not what a batch is measured by."""
    calls: list[int] = []
    now = 0.0

    def job() -> None:
        nonlocal now
        now += 1e-6 if calls else 0.01
        calls.append(1)

    side = statement("job()", {"job": job}, batch_s=0.001, clock=lambda: now)
    before = len(calls)
    side()
    assert len(calls) - before == pytest.approx(1000, abs=1)


def test_importing_runs_in_a_fresh_interpreter() -> None:
    """A module that is loaded here is loaded again there."""
    assert importing("json")() > 1000


def test_units() -> None:
    """Times are shown in the unit that fits."""
    assert [show_ns(x) for x in (12.34, 1500, 2.5e6, 3e9)] == ["12.3 ns", "1.50 us", "2.50 ms", "3.00 s"]
