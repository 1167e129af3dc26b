/* What the GPU side's C code and Go code tell each other. Plain numbers: no
 * Python and no driver header is needed to read it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Why something failed in Go. */
enum {
	HO_FAULT_NONE,
	HO_FAULT_DRIVER,    /* code is the driver's */
	HO_FAULT_NO_DRIVER, /* also: no device */
	HO_FAULT_CLOSED,
	HO_FAULT_VALUE,
	HO_FAULT_FORK,
	HO_FAULT_EXCHANGE, /* code is a HO_E_* or HO_X_* code */
	HO_FAULT_PANIC,
	HO_FAULT_OTHER,
};

typedef struct ho_gpu_fault {
	int kind, code, rule;
	char *text; /* free() it */
} ho_gpu_fault;

/* Something that Go made and keeps under a number until it is closed. */
typedef struct ho_gpu_made {
	uint64_t key;
	uint64_t handle; /* raw handle, or address */
	uint64_t ctx;
	int32_t device_type; /* of memory, DLPack's */
	int32_t device_id;
	int32_t ordinal; /* of the device that memory belongs to; -1 */
} ho_gpu_made;

/* Texts about a device. */
enum { HO_TEXT_NAME, HO_TEXT_UUID, HO_TEXT_PCI, HO_TEXT_PROPERTIES, HO_TEXT_ARCH };
/* Kinds of memory. Host memory of others that no device knows is never allocated. */
enum { HO_MEMORY_DEVICE, HO_MEMORY_PINNED, HO_MEMORY_MANAGED, HO_MEMORY_HOST };

enum { HO_IPC_EVENT = 64 };

/* Two views between which Go copies; addresses of DLTensors. Each owner, if
 * not 0, is one reference for Go to drop once the memory is not used any more. */
typedef struct ho_gpu_copy {
	uintptr_t dst, src;
	uintptr_t dst_owner, src_owner;
	uint64_t stream, ctx;
	int padded;
	int wait; /* 1: return when the copy is done */
} ho_gpu_copy;

/* Filled in by Go when it is linked in; all NULL in plain C builds. Called
 * without the GIL. Results are 0 on a fault. */
typedef struct ho_go_gpu_functions {
	/* environment holds the program's variables HANDOFF_*: "NAME=value" each, with their NULs, and
	 * an empty one. Go has those that the process began with. */
	uintptr_t (*open)(const char *environment, ho_gpu_fault *);
	int (*count)(ho_gpu_fault *);
	uint64_t (*context)(int dev, ho_gpu_fault *);
	char *(*text)(int dev, int what, ho_gpu_fault *);
	void (*memory)(int dev, uint64_t *free, uint64_t *total, ho_gpu_fault *);
	int (*can_access)(int dev, int peer, ho_gpu_fault *);
	void (*sync_device)(int dev, ho_gpu_fault *);
	void (*stream_new)(int dev, int blocking, int priority, ho_gpu_made *, ho_gpu_fault *);
	void (*event_new)(uint64_t ctx, int timing, int blocking, int shared, ho_gpu_made *, ho_gpu_fault *);
	/* An event of another process; ipc is the address of its HO_IPC_EVENT bytes. */
	void (*event_open)(uint64_t ctx, uintptr_t ipc, ho_gpu_made *, ho_gpu_fault *);
	/* Where memory comes from, with options: see gpuSourceNew. where and node are the
	 * driver's kind and number of a location. */
	void (*source_new)(int dev, int kind, int own, uint64_t size, int32_t where, int32_t node, ho_gpu_made *,
	                   ho_gpu_fault *);
	uint64_t (*pool_attribute)(uint64_t key, int32_t attr, ho_gpu_fault *);
	int (*pool_peer)(uint64_t key, int peer, int can, ho_gpu_fault *);
	/* from is the number of a source, or 0 for what the device has. */
	void (*buffer_new)(int dev, int kind, uint64_t from, int64_t size, uint64_t stream, uint64_t ctx, ho_gpu_made *,
	                   ho_gpu_fault *);
	/* Takes memory of a source over, which goes back on the stream. */
	void (*buffer_adopt)(int dev, int kind, uint64_t from, uint64_t ptr, int64_t size, uint64_t stream, uint64_t ctx,
	                     ho_gpu_made *, ho_gpu_fault *);
	/* Refuses memory that is not of a source, as far as the driver can tell. */
	void (*memory_check)(int dev, int kind, uint64_t from, uint64_t ptr, int64_t size, ho_gpu_fault *);
	/* Gives memory of a source back that no buffer has, on the stream. */
	void (*memory_free)(int dev, int kind, uint64_t from, uint64_t ptr, int64_t size, uint64_t stream, uint64_t ctx,
	                    ho_gpu_fault *);
	/* Memory that stays somebody else's. */
	void (*buffer_wrap)(uint64_t ptr, int64_t size, ho_gpu_made *, ho_gpu_fault *);
	void (*buffer_used)(uint64_t key, int set, uint64_t stream, uint64_t ctx, ho_gpu_fault *);
	void (*buffer_fill)(uint64_t key, int width, uint32_t value, uint64_t stream, uint64_t ctx, ho_gpu_fault *);
	void (*close)(uint64_t key, ho_gpu_fault *);
	void (*copy)(const ho_gpu_copy *, ho_gpu_fault *);
	/* Drops the reference on an owner once what is queued on the stream now is
	 * done. On a fault the reference is still the caller's. */
	void (*release_later)(uintptr_t owner, uint64_t stream, uint64_t ctx, ho_gpu_fault *);
	/* Tests: work on the stream that lasts until the number is closed. */
	uint64_t (*gate)(uint64_t stream, uint64_t ctx, ho_gpu_fault *);
	void (*flush)(ho_gpu_fault *);
	/* Tests: faults of the software device, from now on; what the last ones did. */
	char *(*inject)(const char *faults, ho_gpu_fault *);
} ho_go_gpu_functions;

/* Called by the package's init. */
void ho_go_gpu_hooks(void);
/* For Go: drops a reference on an owner. */
void ho_gpu_owner_unref(uintptr_t owner);
