#!/usr/bin/env python3
"""Builds the fuzz targets of internal/cfuzz and runs them, under ASan and UBSan.

    scripts/cfuzz.py                    the inputs that are kept, and 3 s each
    scripts/cfuzz.py 60s                60 s each
    scripts/cfuzz.py 60s tensor buffer  only these targets
    scripts/cfuzz.py --cc gcc           another compiler
    scripts/cfuzz.py 60s --keep         adds what was found interesting to corpus/

With clang the fuzzer is libFuzzer; with afl-clang-fast (only if asked for) it is
afl-fuzz; with gcc a small driver replays the inputs and mutates them blindly.
The targets of the Python bridge embed the interpreter that runs this script,
and need its shared library. A failing input is left in build/cfuzz/found. The
last line is "N passed, N failed, N skipped".
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "internal" / "cfuzz"
BUILD = ROOT / "build" / "cfuzz"

FLAGS = [
    "-g",
    "-O1",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror=incompatible-pointer-types",  # a hook of another type would be called wrongly
    "-Wno-unused-parameter",
    "-fno-sanitize-recover=undefined",
]
INCLUDES = ["-Idlpack/include", "-Idevice/driver/include"]
DLPACK = ["dlpack/block.c", "dlpack/check.c", "internal/cfuzz/tensor.c"]
# Everything of the bridge but what Go fills in.
BRIDGE = [
    *DLPACK,
    *(f"device/driver/{name}.c" for name in ("order", "fused", "zcalls", "loader")),
    *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "python").glob("*.c") if "hooks" not in p.name),
    "internal/cfuzz/python.c",
]
TARGETS = {"dlpack": DLPACK} | dict.fromkeys(("tensor", "buffer", "interface", "stream", "dtype"), BRIDGE)

ENV = {
    # Python gives memory back late and some never: leaks are counted by the targets themselves.
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=64",
    "UBSAN_OPTIONS": "abort_on_error=1:print_stacktrace=1",
    "PYTHONHOME": sys.base_prefix,
    "AFL_SKIP_CPUFREQ": "1",
    "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1",
    "AFL_NO_UI": "1",
    "AFL_NO_AFFINITY": "1",
}


def works(cc: str) -> bool:
    """Whether the compiler is there and can build a fuzz target."""
    if shutil.which(cc) is None:
        return False
    if cc == "gcc":
        return True
    code = "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *p, size_t n) { return 0; }\n"
    out = BUILD / "probe"
    cmd = [cc, "-fsanitize=fuzzer,address,undefined", "-x", "c", "-", "-o", str(out)]
    return subprocess.run(cmd, input=code, text=True, capture_output=True, check=False).returncode == 0


def python_library() -> list[str] | None:
    """The arguments that link the interpreter, or None if it is no shared library."""
    folder = Path(sysconfig.get_config_var("LIBDIR") or "")
    name = sysconfig.get_config_var("INSTSONAME") or ""
    if not name.startswith("libpython") or ".so" not in name or not (folder / name).exists():
        return None
    return [str(folder / name), f"-Wl,-rpath,{folder}"]


def compile_all(cc: str, sources: list[str], folder: Path) -> dict[str, Path]:
    """Compiles what is older than its sources; the objects by source."""
    sanitize = (
        "-fsanitize=address,undefined" if cc == "gcc" else "-fsanitize=fuzzer-no-link,address,undefined"
    )
    newest_header = max(
        p.stat().st_mtime
        for d in ("python", "dlpack", "device/driver", "internal/cfuzz")
        for p in (ROOT / d).rglob("*.h")
    )

    def one(source: str) -> tuple[str, Path]:
        out = folder / (source.replace("/", "_") + ".o")
        if not out.exists() or out.stat().st_mtime < max(newest_header, (ROOT / source).stat().st_mtime):
            subprocess.run(
                [cc, *FLAGS, sanitize, *INCLUDES, "-c", source, "-o", str(out)], cwd=ROOT, check=True
            )
        return source, out

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(pool.map(one, sources))


def unpack(target: str) -> Path:
    """The kept inputs as files, beside what earlier runs found."""
    folder = BUILD / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for line in (HERE / "corpus" / f"{target}.txt").read_text().split():
        data = base64.b64decode(line)
        path = folder / hashlib.sha1(data).hexdigest()
        if not path.exists():
            path.write_bytes(data)
    return folder


def keep(target: str, program: Path, folder: Path) -> None:
    """Writes the smallest set of inputs that covers as much back to the repository."""
    least = BUILD / "least" / target
    shutil.rmtree(least, ignore_errors=True)
    least.mkdir(parents=True)
    cmd = [str(program), "-detect_leaks=0", "-set_cover_merge=1", str(least), str(folder)]
    subprocess.run(cmd, env=os.environ | ENV, check=True, capture_output=True)
    path = HERE / "corpus" / f"{target}.txt"
    # Regression inputs, which begin the file, stay.
    marked = path.read_text().split("\n\n")[0] if path.exists() else ""
    lines = {
        base64.b64encode(p.read_bytes()).decode() for p in least.iterdir() if 0 < p.stat().st_size <= 512
    }
    path.write_text(
        marked + "\n\n" + "\n".join(sorted(lines - set(marked.split()), key=lambda s: (len(s), s))) + "\n"
    )
    print(f"{target}: {len(lines)} inputs kept")


def main() -> int:
    """Builds and runs."""
    args = argparse.ArgumentParser(description="Fuzz the C code.")
    args.add_argument("time", nargs="?", default="3s", help="seconds for each target, such as 60s")
    args.add_argument("targets", nargs="*", help=", ".join(TARGETS))
    args.add_argument("--cc", help="clang, gcc or afl-clang-fast")
    args.add_argument("--keep", action="store_true", help="add what was found to the kept inputs")
    opts = args.parse_args()
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (opts.time[:-1], opts.time[-1]) if opts.time[-1] in units else (opts.time, "s")
    seconds = max(1, int(float(number) * units[unit]))
    unknown = set(opts.targets) - set(TARGETS)
    if unknown:
        args.error(f"no target {', '.join(sorted(unknown))}")

    BUILD.mkdir(parents=True, exist_ok=True)
    cc = opts.cc or next((c for c in ("clang", "gcc") if works(c)), None)
    if cc is None or not works(cc):
        print("handoff: a C compiler is needed: clang with libFuzzer, or gcc", file=sys.stderr)
        return 1
    folder = BUILD / cc.replace("/", "_")
    folder.mkdir(exist_ok=True)
    found = BUILD / "found"
    found.mkdir(exist_ok=True)
    library = python_library()
    names = opts.targets or list(TARGETS)
    passed = failed = skipped = 0
    if library is None:
        for name in [n for n in names if TARGETS[n] is BRIDGE]:
            print(f"skip {name}: this Python ({sys.executable}) has no shared library to embed")
            names.remove(name)
            skipped += 1
    sources = {s for n in names for s in TARGETS[n]} | {f"internal/cfuzz/{n}_target.c" for n in names}
    if cc == "gcc":
        sources.add("internal/cfuzz/driver.c")
    objects = compile_all(cc, sorted(sources), folder)
    for name in names:
        mine = [*TARGETS[name], f"internal/cfuzz/{name}_target.c"]
        if cc == "gcc":
            mine.append("internal/cfuzz/driver.c")
        program = folder / name
        sanitize = "-fsanitize=address,undefined" if cc == "gcc" else "-fsanitize=fuzzer,address,undefined"
        link = list(library or []) if TARGETS[name] is BRIDGE else []
        cmd = [
            cc,
            sanitize,
            *(str(objects[s]) for s in mine),
            "-o",
            str(program),
            *link,
            "-lm",
            "-ldl",
            "-lpthread",
        ]
        subprocess.run(cmd, cwd=ROOT, check=True)
        corpus = unpack(name)
        print(f"=== {name} ({cc}, {seconds} s and {len(list(corpus.iterdir()))} inputs)", flush=True)
        cmd = [str(program), f"-max_total_time={seconds}", str(corpus)]
        if "afl" in cc:
            cmd = ["afl-fuzz", "-i", str(corpus), "-o", str(BUILD / "afl" / name), "-V", str(seconds)]
            cmd += ["-t", "5000", "-m", "none", "--", str(program)]
        elif cc == "clang":
            cmd += ["-detect_leaks=0", "-rss_limit_mb=4096", "-timeout=60", "-verbosity=0"]
            cmd += [f"-artifact_prefix={found / name}-", "-print_final_stats=1"]
        env = os.environ | ENV
        if "afl" in cc:
            (BUILD / "afl").mkdir(exist_ok=True)
            env["ASAN_OPTIONS"] += ":symbolize=0"
        p = subprocess.run(
            cmd,
            cwd=found,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        crashes = list((BUILD / "afl" / name).glob("default/crashes/id*")) if "afl" in cc else []
        if p.returncode == 0 and not crashes:
            passed += 1
            for line in (p.stdout + p.stderr).splitlines():
                if line.startswith(("Done", "stat::number_of_executed_units", "stat::new_units_added")):
                    print(f"    {line.removeprefix('stat::')}")
            if opts.keep and cc == "clang":
                keep(name, program, corpus)
        else:
            failed += 1
            print((p.stdout + p.stderr)[-8000:])
            print(f"--- FAILED: {name}; the input is in {found} {' '.join(map(str, crashes))}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
