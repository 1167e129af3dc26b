#!/usr/bin/env python3
"""Runs the project's suites and counts what they ran.

    scripts/suites.py test            what `make test` runs
    scripts/suites.py check           the rest of `make check`
    scripts/suites.py test -k python  only the suites whose name has "python"

Each suite is one command. Its output is shown; for `go test` only failures,
skips and one line a package are. At the end every suite has a line, and the
last line is "N passed, N failed, N skipped": tests where the suite counts
them, one for a plain step such as a linter. The exit status is 1 when anything
failed, a suite that ran no test included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NVIDIA = Path(sysconfig.get_path("purelib")) / "nvidia"  # the packages of the environment
PYTHON = sys.executable
GO = os.environ.get("GO", "go")
PYTEST = [PYTHON, "-m", "pytest", "-o", "addopts=", "-q", "-ra", "-p", "no:cacheprovider"]
TOOLS = ROOT / "build" / "tools"
LIMIT = 40 * 60  # seconds that one suite may take before it counts as hung


@dataclass
class Suite:
    """One command: kind says how its output is counted."""

    name: str
    command: list[str]
    kind: str = "step"  # "step", "go" or "pytest"
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path = ROOT
    quiet: bool = False  # must print nothing, as `gofmt -l` does when all is well
    offline_ok: str = ""  # a failure whose output matches this is a skip


@dataclass
class Result:
    """What a suite came to."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""


def modules() -> list[Path]:
    """The Go modules of the repository, the root first, the tools left out."""
    found = [ROOT]
    for top in ("cmd", "examples", "bench", "python"):
        for mod in sorted((ROOT / top).rglob("go.mod")):
            parts = mod.relative_to(ROOT).parts
            if not {"testdata", "templates", "template", "build"} & set(parts):
                found.append(mod.parent)
    return found


def label(module: Path) -> str:
    """A module's name in the report."""
    return "." if module == ROOT else str(module.relative_to(ROOT))


def c_packages() -> list[str]:
    """The packages of the root module that have C code and tests."""
    out = subprocess.run(
        [
            GO,
            "list",
            "-e",
            "-f",
            "{{if and .CgoFiles (or .TestGoFiles .XTestGoFiles)}}{{.ImportPath}}{{end}}",
            "./...",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return out.stdout.split()


def test_suites() -> list[Suite]:
    """What `make test` runs."""
    suites = []
    for mod in modules():
        suites.append(Suite(f"go vet {label(mod)}", [GO, "vet", "./..."], cwd=mod))
        suites.append(
            Suite(
                f"go test {label(mod)}",
                [GO, "test", "-json", "-vet=off", "-shuffle=on", "./..."],
                "go",
                cwd=mod,
            )
        )
    # Tests that need a driver have a suite of their own, on the software device where none is
    # chosen: in the other they would all be skipped, and run by one test in a child.
    on_device = "python/tests/gpu"
    suites.append(
        Suite(
            "pytest python/tests",
            [
                *PYTEST,
                "python/tests",
                f"--ignore={on_device}",
                "-k",
                "not test_on_the_software_device",
            ],
            "pytest",
        )
    )
    chosen = os.environ.get("HANDOFF_DRIVER", "")
    races = ROOT / "build" / "races.jsonl"  # what the hunt finds; a test fails of it
    races.parent.mkdir(exist_ok=True)
    suites.append(
        Suite(
            f"pytest {on_device}, {chosen or 'software device'}",
            [*PYTEST, on_device],
            "pytest",
            env={} if chosen else {"HANDOFF_DRIVER": "soft", "HANDOFF_SOFT_CHECK": str(races)},
        )
    )
    for folder in (
        "python/ext/tests",
        "device/soft/tests",
        "conformance/py/tests",
        "examples",
        "bench",
    ):
        if any((ROOT / folder).rglob("test_*.py")):
            suites.append(
                Suite(
                    f"pytest {folder}",
                    [*PYTEST, folder],
                    "pytest",
                )
            )
    return suites


def check_suites() -> list[Suite]:
    """The rest of `make check`: linters, other builds, checked builds."""
    nocgo = {"CGO_ENABLED": "0"}
    gofiles = [
        f
        for f in subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        if (ROOT / f).exists() and "/testdata/" not in f
    ]
    suites = [
        Suite("gofumpt", [str(TOOLS / "gofumpt"), "-l", *gofiles], quiet=True),
        Suite("go vet, no cgo", [GO, "vet", "./..."], env=nocgo),
        Suite(
            "generated files",
            [PYTHON, "scripts/unchanged.py", GO, "generate", "./..."],
            # Generators in Python find this environment's libraries.
            env={"PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ.get('PATH', '')}"},
        ),
    ]
    for mod in modules():
        suites += [
            Suite(f"go mod tidy {label(mod)}", [GO, "mod", "tidy", "-diff"], cwd=mod),
            Suite(f"staticcheck {label(mod)}", [str(TOOLS / "staticcheck"), "./..."], cwd=mod),
            Suite(
                f"govulncheck {label(mod)}",
                [str(TOOLS / "govulncheck"), "./..."],
                cwd=mod,
                offline_ok=r"fetching vulnerabilities: ",  # it could not ask
            ),
        ]
    suites += [
        # What only cgo files use looks unused here.
        Suite(
            "staticcheck, no cgo",
            [str(TOOLS / "staticcheck"), "-checks", "inherit,-U1000", "./..."],
            env=nocgo,
        ),
        Suite("ruff", [PYTHON, "-m", "ruff", "check", "."]),
        Suite("ruff format", [PYTHON, "-m", "ruff", "format", "--check", "."]),
        Suite("build, no cgo", [GO, "build", "./..."], env=nocgo),
        Suite(
            "build darwin/arm64", [GO, "build", "./..."], env=nocgo | {"GOOS": "darwin", "GOARCH": "arm64"}
        ),
        Suite(
            "build windows/amd64",
            [GO, "build", "./..."],
            env=nocgo | {"GOOS": "windows", "GOARCH": "amd64"},
        ),
        Suite("test, no cgo", [GO, "test", "-json", "-vet=off", "./..."], "go", env=nocgo),
    ]
    if (ROOT / "python" / "handoff").is_dir():
        suites.append(Suite("mypy", [PYTHON, "-m", "mypy", "--strict", "handoff"], cwd=ROOT / "python"))
    for cc in ("gcc", "clang"):
        if shutil.which(cc):
            suites.append(
                Suite(
                    f"C warnings, {cc}",
                    [GO, "build", "./..."],
                    env={"CC": cc, "CGO_CFLAGS": "-O2 -Wall -Wextra -Werror -Wno-unused-parameter"},
                )
            )
    suites += [
        # -race and -asan switch checkptr on, and cgocheck2 goes with both: one
        # build of everything in place of three.
        Suite(
            "test -race, checkptr, cgocheck2",
            [GO, "test", "-json", "-vet=off", "-race", "./..."],
            "go",
            env={"GOEXPERIMENT": "cgocheck2"},
        ),
        # As on a GPU with HANDOFF_CHECK: nothing fails of it, and it reports nothing.
        Suite(
            "test behind the checking layer",
            [GO, "test", "-json", "-vet=off", "./stream", "./device", "./memview", "./launch"],
            "go",
            env={"HANDOFF_CHECK": "1"},
        ),
    ]
    # The C code under AddressSanitizer and UBSan, with hostile input: what was kept, and a moment more.
    suites.append(Suite("fuzz targets in C", [PYTHON, "scripts/cfuzz.py", "3s"]))
    with_c = c_packages()
    if with_c:
        suites.append(
            Suite(
                "test -asan",
                [GO, "test", "-json", "-vet=off", "-asan", *with_c],
                "go",
                # A size that no machine has must come back as NULL, as it does without. And
                # libasan takes what lies before a thread's dynamic TLS for a header of glibc 2.19:
                # since then it is one of its own allocator's, whose fields it then follows as
                # addresses, into a crash of the leak check every few runs. With the interception
                # off, that memory is found through the thread's own vector of it.
                env={
                    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:intercept_tls_get_addr=0",
                    "LSAN_OPTIONS": f"suppressions={ROOT / 'scripts' / 'lsan.supp'}:print_suppressions=0",
                    # Its dlopen stands between a library and its own run path, by which NVRTC
                    # finds its other half.
                    "LD_LIBRARY_PATH": ":".join(map(str, NVIDIA.glob("*/lib"))),
                },
            )
        )
    return suites


def run_go(suite: Suite, proc: subprocess.Popen[str], res: Result) -> None:
    """Reads the events of `go test -json`."""
    output: dict[tuple[str, str], list[str]] = {}
    broken: set[str] = set()  # packages with a failed test
    assert proc.stdout is not None
    for line in proc.stdout:
        try:
            ev = json.loads(line)
        except ValueError:
            print(line, end="")
            continue
        pkg, test, action = ev.get("Package", ""), ev.get("Test", ""), ev.get("Action", "")
        key = (pkg, test)
        if action == "build-output":
            print(ev["Output"], end="")
        elif action == "output":
            output.setdefault(key, []).append(ev["Output"])
        elif action in ("pass", "fail", "skip"):
            said = output.pop(key, [])
            if not test:
                last = [s for s in said if re.match(r"(ok|FAIL|---|\?|panic)\b", s)]
                if action == "fail":
                    print("".join(said), end="")
                    if pkg not in broken:  # it did not build, or stopped outside a test
                        res.failed += 1
                elif last:
                    print("  " + last[-1].rstrip())
                continue
            if action == "pass":
                res.passed += 1
            elif action == "fail":
                res.failed += 1
                broken.add(pkg)
                print("".join(said), end="")
            else:
                res.skipped += 1
                why = [s.strip() for s in said if re.match(r"\s+\S+\.go:\d+:", s)]
                print(f"  skip {test}: {why[-1] if why else 'no reason given'}")


def run_plain(suite: Suite, proc: subprocess.Popen[str], res: Result) -> str:
    """Shows the output and returns it; counts what pytest's last line says."""
    said = []
    assert proc.stdout is not None
    for line in proc.stdout:
        said.append(line)
        print(line, end="", flush=True)
    if suite.kind == "pytest":
        closing = next((s for s in reversed(said) if re.search(r"\d+ \w+.* in [\d.:]+", s)), "")
        for n, what in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)", closing):
            if what in ("passed", "xpassed"):
                res.passed += int(n)
            elif what in ("skipped", "xfailed"):
                res.skipped += int(n)
            else:
                res.failed += int(n)
    return "".join(said)


def run(suite: Suite) -> Result:
    """Runs one suite to its end."""
    print(f"\n=== {suite.name}", flush=True)
    res = Result(suite.name)
    start = time.monotonic()
    try:
        proc = subprocess.Popen(
            ["timeout", str(LIMIT), *suite.command] if shutil.which("timeout") else suite.command,
            cwd=suite.cwd,
            env=os.environ | suite.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as err:
        print(err)
        res.failed, res.note = 1, str(err)
        return res
    if suite.kind == "go":
        run_go(suite, proc, res)
        said = ""
    else:
        said = run_plain(suite, proc, res)
    code = proc.wait()
    res.seconds = time.monotonic() - start
    bad = code != 0 or (suite.quiet and said.strip() != "")
    if suite.kind == "step":
        if bad and suite.offline_ok and re.search(suite.offline_ok, said):
            res.skipped, res.note = 1, "no network"
        elif bad:
            res.failed = 1
        else:
            res.passed = 1
    elif bad and not res.failed:
        res.failed, res.note = 1, f"exit status {code}"
    elif not bad and not res.passed and not res.skipped:
        res.failed, res.note = 1, "ran no test"
    return res


def main() -> int:
    """Runs the sets that the command line names."""
    sets = {"test": test_suites, "check": check_suites}
    args = argparse.ArgumentParser(description="Run the project's suites.")
    args.add_argument("sets", nargs="+", choices=sorted(sets))
    args.add_argument("-k", default="", metavar="TEXT", help="only the suites whose name has TEXT")
    opts = args.parse_args()

    start = time.monotonic()
    results = [run(s) for name in opts.sets for s in sets[name]() if opts.k in s.name]

    width = max((len(r.name) for r in results), default=0)
    print("\n" + "=" * 72)
    for r in results:
        word = "FAILED" if r.failed else "ok" if r.passed else "skipped"
        counts = f"{r.passed} passed, {r.failed} failed, {r.skipped} skipped"
        print(f"{r.name:<{width}}  {word:<8}{r.seconds:7.1f} s  {counts}{'  ' + r.note if r.note else ''}")
    total = [sum(getattr(r, k) for r in results) for k in ("passed", "failed", "skipped")]
    print(f"\n{' and '.join(opts.sets)}: {time.monotonic() - start:.0f} s")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
