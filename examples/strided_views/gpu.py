"""A function over GPU memory of any library, in stream order and without waiting.

With a GPU, CuPy and cuda.core the array is CuPy's and the work a kernel that cuda.core compiles.
Without them (HANDOFF_DRIVER=soft: the software device) the array is a class of its own, and the work
a copy. Either way the producer's stream waits for the work in the end, by one event: the host does
not, until it looks.
"""

from __future__ import annotations

from typing import Any

import handoff
import numpy as np
from handoff import Device, StridedMemoryView, args_viewable_as_strided_memory

N = 1024

KERNEL = """
extern "C" __global__ void add(float *p, size_t n, float value)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] += value;
}
"""


class Samples:
    """An array of a library that has the CUDA array interface: ones, written on its own stream.

    The interface names the stream, so that it can be made to wait in the end. Of `__dlpack__` alone
    the consumer does not learn it.
    """

    def __init__(self, device: Device) -> None:
        self.stream = device.create_stream()
        memory = device.allocate(4 * N, stream=self.stream)
        self.view = StridedMemoryView.from_buffer(memory, (N,), dtype="float32")
        self.view.copy_from(np.ones(N, "float32"), self.stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.view.__cuda_array_interface__ | {"stream": self.stream.handle}

    def numpy(self) -> Any:
        out = np.empty(N, "float32")
        self.view.copy_to(out, self.stream)
        self.stream.sync()
        return out


def by_copy(view: StridedMemoryView, stream: Any) -> None:
    """What the kernel does, for arrays of ones."""
    view.copy_from(np.full(view.shape, 2, "float32"), stream)


def kernel() -> Any:
    """Return the kernel as a function, or None without what it needs."""
    try:
        import cupy  # noqa: F401
        from cuda.core import Device as CoreDevice
        from cuda.core import LaunchConfig, Program, ProgramOptions, Stream, launch
    except ImportError:
        return None
    device = CoreDevice(0)
    device.set_current()
    program = Program(KERNEL, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
    add = program.compile("cubin").get_kernel("add")

    def run(view: StridedMemoryView, stream: Any) -> None:
        config = LaunchConfig(grid=4, block=256)
        launch(Stream.from_handle(stream.handle), config, add, view.ptr, np.uint64(view.size), np.float32(1))

    return run


@args_viewable_as_strided_memory((0,))
def add_one(array: Any, stream: Any, work: Any) -> None:
    """Add 1 to float32, in the order of a stream."""
    view = array.view(stream)  # ordered: the stream waits for the producer's, if anything is pending
    if not view.is_device_accessible or view.dtype != np.float32 or view.strides is not None:
        raise ValueError("not a dense array of float32 that a device reaches")
    work(view, stream)
    view.release_on(stream)  # what the producer does from now on comes after the work


def main() -> None:
    """Add one to an array twice."""
    device = Device(0)
    stream = device.create_stream()
    work = None if "software" in device.name else kernel()
    if work is not None:
        import cupy

        array = cupy.ones(N, "float32")
        add_one(array, stream, work)
        result = cupy.asnumpy(array)
    else:
        samples = Samples(device)
        add_one(samples, stream, by_copy)
        result = samples.numpy()
    assert (result == 2).all(), result
    print(f"gpu: {N} elements on {device.name}")
    try:
        add_one(np.ones(N, "float32"), stream, by_copy)
    except handoff.Error as e:
        print("refused:", e)


if __name__ == "__main__":
    main()
