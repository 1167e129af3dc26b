"""Errors, panics, signals, threads, fork: what must not take the process down."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import shutil
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("kind", "cls", "text"),
    [
        ("plain", RuntimeError, "^a plain error$"),
        ("value", ValueError, "^bad value 3$"),
        ("wrapped", KeyError, "outer: inner"),
        ("custom", BufferError, "^custom$"),
        ("unknown", RuntimeError, "^unknown class$"),
        ("open", FileNotFoundError, "^open: file does not exist$"),
        ("deadline", TimeoutError, "deadline exceeded"),
        ("dtype", BufferError, r"test: detail \(R022\): unsupported dtype"),
        ("utf8", RuntimeError, "^bad \ufffd byte and \ufffd NUL$"),
        ("long", RuntimeError, "^0+7$"),
    ],
)
def test_errors(m: ModuleType, kind: str, cls: type[Exception], text: str) -> None:
    """A Go error becomes the exception that fits."""
    with pytest.raises(cls, match=text):
        m.fails(kind)
    assert m.fails("none") == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: m.panics("x"), "a panic: x"),
        (lambda m: m.panics("index"), "index out of range"),
        (lambda m: m.panics("error"), "an error value"),
        (lambda m: m.quickpanics(), "quick"),
        (lambda m: m.panics_context(), "in context"),
    ],
)
def test_panics(m: ModuleType, call: Callable[[ModuleType], object], text: str) -> None:
    """B179, B181: a panic is an exception with the Go stack, and nothing else happens."""
    for _ in range(100):
        with pytest.raises(RuntimeError) as e:
            call(m)
    assert type(e.value).__name__ == "GoPanic"
    assert f"panicked: {text}" in str(e.value) or text in str(e.value)
    assert "main.go:" in str(e.value)
    assert m.i(1) == 1


def test_rule(m: ModuleType) -> None:
    """The number of a broken rule is in the exception's attribute too."""
    with pytest.raises(BufferError) as e:
        m.fails("dtype")
    assert e.value.rule == "R022"  # type: ignore[attr-defined]


def test_nil_dereference(run: Run) -> None:
    """A fault in Go code is a panic, with Python's own fault handler installed before."""
    done = run(
        "import testmod\n"
        "for _ in range(100):\n"
        "    try: testmod.panics('nil')\n"
        "    except RuntimeError as e: text = str(e)\n"
        "print(text)\n"
    )
    assert "nil pointer dereference" in done.stdout, done.stderr
    assert "main.go:" in done.stdout


def test_goexit(m: ModuleType, run: Run) -> None:
    """B331: Goexit is an exception where Go owns the goroutine, and a clear end elsewhere."""
    with pytest.raises(RuntimeError, match=r"goexits_context\(\) called runtime.Goexit"):
        m.goexits_context()
    done = run("import testmod; testmod.goexits()")
    assert done.returncode != 0
    assert "testmod.goexits called runtime.Goexit on a thread of Python" in done.stderr


def test_callback_errors(m: ModuleType) -> None:
    """A Python exception goes through Go and comes back the same object."""
    error = ValueError("from the callback")

    def raises() -> None:
        raise error

    with pytest.raises(ValueError, match="from the callback") as e:
        m.call(raises)
    assert e.value is error
    assert "raises" in "".join(traceback.format_exception(e.value))
    with pytest.raises(ValueError, match="from the callback") as e:
        m.call_wrapped(raises)
    assert e.value is error
    assert e.value.__notes__ == ["while calling back: ValueError: from the callback"]
    assert m.catches(raises) == "ValueError|from the callback"
    assert m.catches(lambda: m.panics("deep")).startswith("GoPanic|testmod.panics() panicked: a panic: deep")


def test_nested_calls(m: ModuleType) -> None:
    """Python in Go in Python, some levels deep."""

    def down(n: int) -> int:
        return 0 if n == 0 else 1 + m.call(down, n - 1)

    assert down(50) == 50


def test_callbacks_from_goroutines(m: ModuleType) -> None:
    """B165: many goroutines enter Python."""
    seen: list[int] = []
    assert m.call_many(seen.append, 100) == 100
    assert sorted(seen) == list(range(100))


def test_escaped_view(m: ModuleType) -> None:
    """A borrowed view that outlives its call is refused, not read."""
    m.stash(np.arange(3.0))
    with pytest.raises(ValueError, match="given back"):
        m.peek()
    m.ndim(np.arange(3.0))  # the pooled call runs again: the old view stays dead
    with pytest.raises(ValueError, match="given back"):
        m.peek()


def test_retain(m: ModuleType) -> None:
    """A retained view lives on, and is released by goroutines without the GIL."""
    arrays = [np.full(1000, float(i)) for i in range(50)]
    counts = [sys.getrefcount(x) for x in arrays]
    for x in arrays:
        m.retain(x)
        m.retain_elsewhere(x)
        m.retain_quick(x)
    assert m.retained_sum() == 3 * sum(range(50))
    with pytest.raises(BufferError, match="quick"):
        m.retain_quick_elsewhere(arrays[0])
    del x
    m.release()
    end = time.monotonic() + 60
    while time.monotonic() < end:  # what was dropped without the GIL is dropped for good at the next chance
        m.nothing()
        gc.collect()
        if [sys.getrefcount(x) for x in arrays] == counts:
            break
        time.sleep(0.01)
    assert [sys.getrefcount(x) for x in arrays] == counts


def test_kept_object(m: ModuleType) -> None:
    """A retained object, and one that was not."""
    x = object()
    count = sys.getrefcount(x)
    m.keep(x)
    assert m.kept() is x
    with pytest.raises(ValueError, match="has returned"):
        m.stale()
    m.drop()
    m.drop()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        m.nothing()
        if sys.getrefcount(x) == count:
            break
        time.sleep(0.01)
    assert sys.getrefcount(x) == count
    with pytest.raises(ValueError, match="closed"):
        m.kept()


def test_gil_is_free(m: ModuleType) -> None:
    """B167: eight threads are inside at once."""
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(m.rendezvous(8))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert results == [8] * 8


def test_threads(m: ModuleType) -> None:
    """Many threads that come and go."""
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            x = np.full(10, float(i))
            for _ in range(200):
                assert m.total(x) == 10 * i
                assert m.sizes(x, x, x) == 30
                assert np.from_dlpack(m.arange(3))[2] == 2
                m.call(lambda: None)
        except BaseException as e:
            failures.append(e)

    for _ in range(4):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not failures


def test_context(m: ModuleType) -> None:
    """A context that nobody cancels."""
    assert m.wait(0.01) == "waited"


INTERRUPT = """
import os, signal, threading, time, testmod
start = time.monotonic()
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    {call}
except KeyboardInterrupt:
    assert time.monotonic() - start < 20
    print("interrupted")
{after}
"""


@pytest.mark.parametrize(
    "call", ["testmod.wait(60.0)", "testmod.stubborn(60.0)", "testmod.wait_and_call(lambda: 1 / 0)"]
)
def test_keyboard_interrupt(run: Run, call: str) -> None:
    """B377: Ctrl-C ends a call with a context, and only that call."""
    done = run(INTERRUPT.format(call=call, after="print(testmod.wait(0.01))"))
    assert done.stdout == "interrupted\nwaited\n", done.stderr
    assert done.returncode == 0


def test_keyboard_interrupt_without_context(run: Run) -> None:
    """B377: without a context it is raised when the call is over."""
    code = INTERRUPT.format(call="[testmod.rendezvous(1) for _ in iter(int, 1)]", after="")
    done = run(code)
    assert done.stdout == "interrupted\n", done.stderr


def test_signal_handler_exception(run: Run) -> None:
    """The exception of any signal handler comes through."""
    done = run(
        "import os, signal, threading, testmod\n"
        "def handler(*_): raise LookupError('mine')\n"
        "signal.signal(signal.SIGUSR1, handler)\n"
        "try:\n"
        "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()\n"
        "    testmod.wait(60.0)\n"
        "except LookupError as e: print(e)\n"
    )
    assert done.stdout == "mine\n", done.stderr


def test_fork(run: Run) -> None:
    """B315, B317: the child of a fork gets an error at once, the parent goes on."""
    done = run(
        "import os, testmod, numpy as np\n"
        "x = np.arange(3.0); a = testmod.arange(3)\n"
        "testmod.total(x)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: testmod.total(x)\n"
        "    except RuntimeError as e: print('refused:', e, flush=True)\n"
        "    b = np.from_dlpack(a); del a, b\n"
        "    os._exit(7)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "print(status, testmod.total(x))\n",
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused: ")
    assert "fork" in done.stdout
    assert done.stdout.endswith("7 3.0\n")


POOL = """
import multiprocessing, testmod
def work(n):
    try:
        return testmod.i(n)
    except RuntimeError as e:
        return "refused" if "fork" in str(e) else e
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(*pool.map_async(work, range(4)).get(timeout=30))
        if {method!r} == "spawn":
            print(*pool.map_async(testmod.i, range(4)).get(timeout=30))
"""


def test_multiprocessing(run: Run, tmp_path: Path) -> None:
    """B319: spawn works; fork is refused in the children and does not hang."""
    for method, want in (("spawn", "0 1 2 3\n0 1 2 3\n"), ("fork", "refused refused refused refused\n")):
        script = tmp_path / f"{method}.py"
        script.write_text(POOL.format(method=method))
        done = run(f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, {str(script)!r}]))")
        assert done.stdout == want, done.stderr
    assert multiprocessing.active_children() == []


def test_import_after_fork(run: Run) -> None:
    """B321: the first load in a forked child is fine."""
    done = run(
        "import os\n"
        "for i in range(2):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        import testmod; print(testmod.i(i), flush=True); os._exit(0)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
    )
    assert done.stdout == "0\n1\n", done.stderr


def test_two_modules(run: Run, testmod_path: Path) -> None:
    """B364: two modules in one shared object."""
    load = (
        "import importlib.util, sys, testmod\n"
        "def load(name, path):\n"
        "    spec = importlib.util.spec_from_file_location(name, path)\n"
        "    mod = importlib.util.module_from_spec(spec); spec.loader.exec_module(mod); return mod\n"
    )
    done = run(load + f"print(load('testmod2', {str(testmod_path)!r}).double(21), testmod.i(1))")
    assert done.stdout == "42 1\n", done.stderr
    done = run(load + f"load('testbroken', {str(testmod_path)!r})")
    assert (
        'ImportError: testbroken: ext: module testbroken: bad: parameter "x": type chan int is not supported'
        in done.stderr
    )
    assert "worse(x" in done.stderr


def test_import_again(run: Run) -> None:
    """A module whose name was taken out of sys.modules is imported again, any number of times."""
    done = run(
        "import sys, testmod\n"
        "first = testmod\n"
        "for _ in range(40):\n"
        "    del sys.modules['testmod']; import testmod\n"
        "print(testmod is first, testmod.i(3), testmod.pair(1))\n"
    )
    assert done.stdout == "True 3 (1, 'x')\n", done.stderr


def test_subinterpreter(run: Run) -> None:
    """B386: refused, also when the main interpreter has imported the module before."""
    done = run(
        "import sys\n"
        "try: import _interpreters as interpreters\n"
        "except ImportError: import _xxsubinterpreters as interpreters\n"
        "import testmod\n"
        "code = 'try: import testmod\\nexcept ImportError as e: print(e)\\nelse: print(testmod.i(1))'\n"
        "try: i = interpreters.create(isolated=False)\n"
        "except TypeError: i = interpreters.create('legacy')\n"
        "print(interpreters.run_string(i, code), testmod.i(3))\n"
    )
    assert "subinterpreters are not supported" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith("None 3\n")


def test_second_runtime(run: Run, othermod_path: Path) -> None:
    """B361: a second Go runtime is refused, and the first goes on."""
    done = run(
        f"import sys; sys.path.append({str(othermod_path.parent)!r})\n"
        "import testmod\n"
        "try: import othermod\n"
        "except ImportError as e: print(e)\n"
        "print(testmod.i(3))\n"
    )
    assert done.returncode == 0, done.stderr
    assert "testmod" in done.stdout.splitlines()[0]
    assert done.stdout.endswith("3\n")


def test_no_libpython(testmod_path: Path) -> None:
    """B366, B374: no libpython is linked, no driver symbol is wanted, and lazy binding is not relied on."""
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("no readelf")
    dynamic = subprocess.run([readelf, "-dW", testmod_path], capture_output=True, text=True, check=True).stdout
    assert "libpython" not in dynamic
    symbols = subprocess.run(
        [readelf, "-sW", "--dyn-syms", testmod_path], capture_output=True, text=True, check=True
    ).stdout
    undefined = [line.split()[-1] for line in symbols.splitlines() if " UND " in line]
    assert not [s for s in undefined if s.startswith(("Py", "_Py", "cu", "ho_"))]


def test_core_is_served(run: Run) -> None:
    """The object loaded first serves handoff._core."""
    done = run("import testmod, sys; print(sys.modules['handoff._core'].Array is type(testmod.arange(1)))")
    assert done.stdout == "True\n", done.stderr


def test_shutdown(run: Run) -> None:
    """B183, B189, B191: exit with live objects on both sides and threads inside Go."""
    done = run(
        "import testmod, numpy as np, threading\n"
        "keep = [testmod.arange(5), np.from_dlpack(testmod.matrix(2, 2))]\n"
        "x = np.arange(3.0); testmod.retain(x); testmod.keep(object())\n"
        "threading.Thread(target=testmod.rendezvous, args=(2,), daemon=True).start()\n"
        "threading.Thread(target=testmod.wait, args=(60.0,), daemon=True).start()\n"
        "def spin():\n"
        "    while True: testmod.total(x)\n"
        "threading.Thread(target=spin, daemon=True).start()\n"
        "print('end')\n",
        timeout=30,
    )
    assert done.stdout == "end\n"
    assert done.returncode == 0, done.stderr


def test_gc_pressure(m: ModuleType) -> None:
    """A collection at nearly every allocation changes nothing."""
    old = m.gogc(1)
    try:
        for i in range(300):
            a = np.from_dlpack(m.arange(100))
            m.gc() if i % 50 == 0 else None
            assert a[99] == 99
            assert m.total(a) == 4950
            assert np.from_dlpack(m.tail(np.arange(9.0), 3))[0] == 3
            assert len(m.words(20)) == 20
    finally:
        m.gogc(old)


def rss() -> int:
    """Resident memory, in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def test_leaks(m: ModuleType) -> None:
    """10^5 calls of each kind leave nothing behind."""
    x, obj = np.arange(16.0), object()

    def calls(n: int) -> None:
        for _ in range(n):
            m.ndim(x)
            m.total(x)
            m.same(x)
            m.arange(4)
            m.stats(x)
            m.text("abc")
            m.anything("list")
            with contextlib.suppress(ValueError):
                m.fails("value")
            with contextlib.suppress(TypeError, BufferError):
                m.ndim(obj)

    calls(5000)
    gc.collect()
    m.gc()
    counts = sys.getrefcount(x), sys.getrefcount(obj), sys.getrefcount(None), m.exports(), m.pinned()
    before = rss()
    calls(20_000)
    gc.collect()
    m.gc()
    after = sys.getrefcount(x), sys.getrefcount(obj), sys.getrefcount(None), m.exports(), m.pinned()
    assert after[:2] == counts[:2]
    assert abs(after[2] - counts[2]) < 100
    assert after[3:] == counts[3:]
    assert rss() - before < 8 * 1024
