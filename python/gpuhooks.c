/* Connects the GPU side's C code to the functions that Go exports. Not part of
 * a build without Go. */
#include "gpu.h"

#include "_cgo_export.h"

static uint64_t context(int dev, ho_gpu_fault *f)
{
	return hoGPUContext(dev, f);
}

static void copy(const ho_gpu_copy *c, ho_gpu_fault *f)
{
	hoGPUCopy((ho_gpu_copy *)c, f);
}

static char *inject(const char *faults, ho_gpu_fault *f)
{
	return hoGPUInject((char *)faults, f);
}

void ho_go_gpu_hooks(void)
{
	ho_go_gpu = (ho_go_gpu_functions){
		.open = hoGPUOpen,
		.count = hoGPUCount,
		.context = context,
		.text = hoGPUText,
		.memory = hoGPUMemory,
		.can_access = hoGPUCanAccess,
		.sync_device = hoGPUSyncDevice,
		.stream_new = hoGPUStreamNew,
		.event_new = hoGPUEventNew,
		.event_open = hoGPUEventOpen,
		.source_new = hoGPUSourceNew,
		.pool_attribute = hoGPUPoolAttribute,
		.pool_peer = hoGPUPoolPeer,
		.buffer_new = hoGPUBufferNew,
		.buffer_adopt = hoGPUBufferAdopt,
		.memory_check = hoGPUMemoryCheck,
		.memory_free = hoGPUMemoryFree,
		.buffer_wrap = hoGPUBufferWrap,
		.buffer_used = hoGPUBufferUsed,
		.buffer_fill = hoGPUBufferFill,
		.close = hoGPUClose,
		.copy = copy,
		.release_later = hoGPUReleaseLater,
		.gate = hoGPUGate,
		.flush = hoGPUFlush,
		.inject = inject,
	};
}
