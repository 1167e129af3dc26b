"""The real cuda.core on the software device.

The library is built from this tree, or taken from HANDOFF_SOFT_LIBCUDA (a
directory that has libcuda.so.1). Each case of ``cuda_core_cases.py`` is a test
here; they run in one child process whose loader finds the library first.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def has(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="the software device as a library is for Linux"
    ),
    pytest.mark.skipif(not has("cuda.core"), reason="cuda.core is not installed"),
    pytest.mark.skipif(not has("cuda.bindings"), reason="cuda.bindings is not installed"),
]


def load_cases():
    spec = importlib.util.spec_from_file_location("cuda_core_cases", HERE / "cuda_core_cases.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.CASES)


@pytest.fixture(scope="session")
def libcuda(tmp_path_factory):
    if given := os.environ.get("HANDOFF_SOFT_LIBCUDA"):
        return Path(given)
    go = os.environ.get("GO", "go")
    if shutil.which(go) is None:
        pytest.skip("no go command to build libcuda.so.1 with")
    out = tmp_path_factory.mktemp("libcuda")
    subprocess.run(
        [go, "build", "-buildmode=c-shared", "-ldflags=-extldflags=-Wl,-soname,libcuda.so.1",
         "-o", out / "libcuda.so.1", "./device/soft/libcuda"],
        cwd=ROOT,
        check=True,
    )  # fmt: skip
    return out


def child_env(libcuda):
    path = os.environ.get("LD_LIBRARY_PATH")
    env = {k: v for k, v in os.environ.items() if not k.startswith("HANDOFF_SOFT_")}
    return env | {"LD_LIBRARY_PATH": f"{libcuda}:{path}" if path else str(libcuda)}


@pytest.fixture(scope="session")
def results(libcuda):
    done = subprocess.run(
        [sys.executable, HERE / "cuda_core_cases.py"],
        env=child_env(libcuda),
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return dict(lines), done


@pytest.mark.parametrize("name", load_cases())
def test_case(results, name):
    found, done = results
    assert name in found, f"the child ended early ({done.returncode}):\n{done.stderr}"
    assert found[name] is None, found[name]


def test_child_ends_well(results):
    _, done = results
    assert done.returncode == 0, done.stderr


def test_the_program_that_runs_with_handoff_too(libcuda):
    """What python/tests/gpu runs with our package means the same with cuda.core's."""
    done = subprocess.run(
        [sys.executable, ROOT / "python" / "tests" / "gpu" / "peer_program.py", "cuda.core"],
        env=child_env(libcuda), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "ran with cuda.core\n", done.stderr


def test_host_access_to_device_memory_faults(libcuda):
    code = (
        "import ctypes; from cuda.core import Device; d = Device(); d.set_current(); "
        "b = d.allocate(64, stream=d.default_stream); d.default_stream.sync(); "
        "print('touching', flush=True); "
        "print(ctypes.string_at(int(b.handle), 1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_env(libcuda), capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "touching\n"
    assert done.returncode != 0


def test_forked_child_is_refused_at_once(libcuda):
    code = """if True:
        import os
        from cuda.bindings import driver
        (err,) = driver.cuInit(0)
        assert int(err) == 0, err
        pid = os.fork()
        if pid == 0:
            (err,) = driver.cuInit(0)
            os._exit(int(err))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status))
    """
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_env(libcuda), capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "3\n", done.stderr


def test_per_thread_default_streams(libcuda):
    """The forms of the calls in which stream 0 is the calling thread's own."""
    code = """if True:
        import ctypes
        from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
        lib = ctypes.CDLL("libcuda.so.1")

        def proc(name, version, flags):
            fn, found = c_void_p(), c_int(-1)
            assert lib.cuGetProcAddress_v2(name, byref(fn), version, c_uint64(flags), byref(found)) == 0
            assert found.value == 0, name
            return ctypes.CFUNCTYPE(c_int)(fn.value)

        def ok(code):
            assert code == 0, code

        def stream_id(fn, stream):
            out = c_uint64()
            ok(fn(c_void_p(stream), byref(out)))
            return out.value

        ok(lib.cuInit(0))
        ctx = c_void_p()
        ok(lib.cuDevicePrimaryCtxRetain(byref(ctx), 0))
        ok(lib.cuCtxSetCurrent(ctx))
        plain, own = proc(b"cuStreamGetId", 12000, 0), proc(b"cuStreamGetId", 12000, 2)
        assert stream_id(plain, 0) == stream_id(plain, 1) != stream_id(plain, 2)
        assert stream_id(own, 0) == stream_id(own, 2) != stream_id(own, 1)

        image = b"handoff-soft-image 1\\nkernel nop\\n"
        mod, fn, mem, graph, n = c_void_p(), c_void_p(), c_uint64(), c_void_p(), c_size_t()
        ok(lib.cuModuleLoadData(byref(mod), c_char_p(image)))
        ok(lib.cuModuleGetFunction(byref(fn), mod, b"nop"))
        ok(lib.cuMemAlloc_v2(byref(mem), c_size_t(64)))

        class Config(ctypes.Structure):
            _fields_ = [("dims", c_uint * 7), ("stream", c_void_p), ("attrs", c_void_p), ("n", c_uint)]

        config = Config((c_uint * 7)(1, 1, 1, 1, 1, 1, 0), None, None, 0)
        # What goes to the thread's own stream is captured with it.
        ok(lib.cuStreamBeginCapture_v2(c_void_p(2), 2))
        ok(proc(b"cuMemsetD8Async", 3020, 2)(mem, c_uint(1), c_size_t(64), c_void_p()))
        eight, two = c_size_t(8), c_size_t(2)
        ok(proc(b"cuMemsetD2D8Async", 3020, 2)(mem, eight, c_uint(1), eight, two, c_void_p()))
        ones = [c_uint(1)] * 6
        ok(proc(b"cuLaunchKernel", 4000, 2)(fn, *ones, c_uint(0), c_void_p(), None, None))
        ok(proc(b"cuLaunchKernelEx", 11060, 2)(byref(config), fn, None, None))
        assert config.stream is None
        ok(lib.cuStreamEndCapture(c_void_p(2), byref(graph)))
        ok(lib.cuGraphGetNodes(graph, None, byref(n)))
        print(n.value)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_env(libcuda), capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "4\n", done.stderr
