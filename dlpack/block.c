/* Owners, exported blocks and the state of the process. */
#include <handoff/block.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/*
 * The process
 */

_Atomic(int) ho_forked;
_Atomic(int) ho_exiting;

static void forget_lock(void);

static void in_child(void)
{
	atomic_store(&ho_forked, 1);
	forget_lock();
}

__attribute__((constructor)) static void watch_process(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

__attribute__((destructor)) static void process_ends(void)
{
	atomic_store(&ho_exiting, 1);
}

/*
 * Memory
 */

static _Atomic(int) fail_in;

void ho_fail_alloc(int n)
{
	atomic_store(&fail_in, n);
}

static int fails(void)
{
	return atomic_load_explicit(&fail_in, memory_order_relaxed) > 0 && atomic_fetch_sub(&fail_in, 1) == 1;
}

static void *get(size_t size)
{
	return fails() ? NULL : malloc(size);
}

static void *get_aligned(size_t align, size_t size)
{
	return fails() ? NULL : aligned_alloc(align, size);
}

/*
 * Owners
 */

ho_owner *ho_owner_new(void (*last)(ho_owner *), void *ptr, uint64_t u)
{
	ho_owner *o = get(sizeof(*o));
	if (o == NULL)
		return NULL;
	atomic_init(&o->refs, 1);
	o->last = last;
	o->ptr = ptr;
	o->u = u;
	return o;
}

void ho_owner_free(ho_owner *o)
{
	free(o);
}

void ho_owner_ref(ho_owner *o)
{
	atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
}

void ho_owner_unref(ho_owner *o)
{
	if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1)
		o->last(o);
}

void ho_release_versioned(DLManagedTensorVersioned *m)
{
	if (m->deleter != NULL) /* R059 */
		m->deleter(m);
}

void ho_release_legacy(DLManagedTensor *m)
{
	if (m->deleter != NULL)
		m->deleter(m);
}

static void last_versioned(ho_owner *o)
{
	DLManagedTensorVersioned *m = o->ptr;
	ho_owner_free(o);
	ho_release_versioned(m);
}

static void last_legacy(ho_owner *o)
{
	DLManagedTensor *m = o->ptr;
	ho_owner_free(o);
	ho_release_legacy(m);
}

ho_owner *ho_owner_from_versioned(DLManagedTensorVersioned *m)
{
	return ho_owner_new(last_versioned, m, 0);
}

ho_owner *ho_owner_from_legacy(DLManagedTensor *m)
{
	return ho_owner_new(last_legacy, m, 0);
}

static void last_alloc(ho_owner *o)
{
	free(o->ptr);
	ho_owner_free(o);
}

ho_owner *ho_owner_alloc(size_t bytes, void **data)
{
	enum { align = 256 };
	void *p = NULL;
	*data = NULL;
	if (bytes != 0) {
		if (bytes > PTRDIFF_MAX - align)
			return NULL;
		p = get_aligned(align, (bytes + align - 1) / align * align);
		if (p == NULL)
			return NULL;
	}
	ho_owner *o = ho_owner_new(last_alloc, p, bytes);
	if (o == NULL) {
		free(p);
		return NULL;
	}
	*data = p;
	return o;
}

size_t ho_owner_bytes(const ho_owner *o)
{
	return o->last == last_alloc ? o->u : 0;
}

/*
 * Blocks
 */

enum {
	inline_dims = 8, /* axes that fit a block of the free list */
	max_free = 256,  /* blocks kept */
};

/* One exported tensor. The managed struct is the first member: its address is
 * the address of the block. */
typedef struct block {
	union {
		DLManagedTensorVersioned versioned;
		DLManagedTensor legacy;
	} managed;
	ho_owner *owner;
	struct block *next; /* in the free list; the block itself if never listed */
	int64_t dims[];     /* shape, then strides */
} block;

/* The free list. Its lock is only ever tried: whoever does not get it at once
 * uses malloc and free. So nobody waits, a thread that is suspended or lost in
 * a fork while it holds the lock harms nobody, and the list costs two atomic
 * operations per tensor. */
static struct {
	atomic_flag lock;
	int count;
	block *top;
	_Atomic(int64_t) live; /* written under the lock only */
	char pad[64];
	_Atomic(int64_t) live_unlocked; /* changes made without the lock */
} list = {.lock = ATOMIC_FLAG_INIT};

static void forget_lock(void)
{
	atomic_flag_clear(&list.lock);
}

static inline int try_lock(void)
{
	return !atomic_flag_test_and_set_explicit(&list.lock, memory_order_acquire);
}

static inline void unlock(void)
{
	atomic_flag_clear_explicit(&list.lock, memory_order_release);
}

static inline void count_live(int64_t d)
{
	int64_t n = atomic_load_explicit(&list.live, memory_order_relaxed);
	atomic_store_explicit(&list.live, n + d, memory_order_relaxed);
}

int64_t ho_live_exports(void)
{
	return atomic_load(&list.live) + atomic_load(&list.live_unlocked);
}

static block *block_get(int32_t ndim)
{
	block *b = NULL;
	int32_t room = ndim > inline_dims ? ndim : inline_dims;
	if (room == inline_dims && try_lock()) {
		b = list.top;
		if (b != NULL) {
			list.top = b->next;
			list.count--;
			count_live(1);
		}
		unlock();
		if (b != NULL)
			return b;
	}
	b = get(sizeof(*b) + 2 * (size_t)room * sizeof(int64_t));
	if (b == NULL)
		return NULL;
	b->next = room == inline_dims ? NULL : b;
	atomic_fetch_add_explicit(&list.live_unlocked, 1, memory_order_relaxed);
	return b;
}

static void block_put(block *b)
{
	if (b->next != b && try_lock()) {
		int kept = list.count < max_free;
		if (kept) {
			b->next = list.top;
			list.top = b;
			list.count++;
			count_live(-1);
		}
		unlock();
		if (kept)
			return;
	}
	free(b);
	atomic_fetch_sub_explicit(&list.live_unlocked, 1, memory_order_relaxed);
}

/* The deleters: the block goes first, because the last owner may take long. */
static void delete_block(block *b)
{
	ho_owner *o = b->owner;
	block_put(b);
	ho_owner_unref(o);
}

static void delete_versioned(DLManagedTensorVersioned *m)
{
	delete_block((block *)m);
}

static void delete_legacy(DLManagedTensor *m)
{
	delete_block((block *)m);
}

/* Fills shape and strides of the block and the tensor in it. */
static block *export_block(ho_owner *o, const DLTensor *t, DLTensor *(*tensor_of)(block *))
{
	int32_t n = t->ndim;
	if (n < 0 || n > HO_MAX_DIMS)
		return NULL;
	block *b = block_get(n);
	if (b == NULL)
		return NULL;
	DLTensor *out = tensor_of(b);
	int64_t *shape = b->dims, *strides = b->dims + n;
	int empty = 0;
	for (int32_t i = 0; i < n; i++) {
		shape[i] = t->shape[i];
		empty |= shape[i] == 0;
	}
	if (n > 0 && t->strides != NULL) {
		for (int32_t i = 0; i < n; i++)
			strides[i] = t->strides[i];
	} else if (ho_row_major(n, shape, strides) != 0) {
		block_put(b);
		return NULL;
	}
	out->data = t->data;
	out->byte_offset = t->byte_offset;
	if (ho_device_has_addresses((int32_t)t->device.device_type)) {
		/* Consumers are known to ignore byte_offset: fold it (B057). No
		 * elements: no data (R043). */
		uintptr_t first = (uintptr_t)t->data + t->byte_offset; /* foreign numbers: no pointer arithmetic */
		out->data = empty || t->data == NULL ? NULL : (void *)first;
		out->byte_offset = 0;
	}
	out->device = t->device;
	out->ndim = n;
	out->dtype = t->dtype;
	out->shape = n > 0 ? shape : NULL;
	out->strides = n > 0 ? strides : NULL;
	ho_owner_ref(o);
	b->owner = o;
	return b;
}

static DLTensor *versioned_tensor(block *b)
{
	return &b->managed.versioned.dl_tensor;
}

static DLTensor *legacy_tensor(block *b)
{
	return &b->managed.legacy.dl_tensor;
}

DLManagedTensorVersioned *ho_export_versioned(ho_owner *o, const DLTensor *t, uint64_t flags)
{
	block *b = export_block(o, t, versioned_tensor);
	if (b == NULL)
		return NULL;
	DLManagedTensorVersioned *m = &b->managed.versioned;
	m->version.major = DLPACK_MAJOR_VERSION;
	m->version.minor = DLPACK_MINOR_VERSION;
	m->manager_ctx = o;
	m->deleter = delete_versioned;
	m->flags = flags;
	return m;
}

DLManagedTensor *ho_export_legacy(ho_owner *o, const DLTensor *t)
{
	block *b = export_block(o, t, legacy_tensor);
	if (b == NULL)
		return NULL;
	DLManagedTensor *m = &b->managed.legacy;
	m->manager_ctx = o;
	m->deleter = delete_legacy;
	return m;
}

int ho_managed_alloc(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                     void (*set_error)(void *error_ctx, const char *kind, const char *message))
{
	const char *kind = "BufferError", *message;
	int code;
	if (prototype == NULL || out == NULL) { /* R113 */
		message = "NULL argument";
		kind = "ValueError";
		goto fail;
	}
	*out = NULL;
	/* Only these four fields of the prototype mean anything (R096). */
	DLTensor t = {
		.data = (void *)(uintptr_t)256, /* passes the check; replaced below */
		.device = prototype->device,
		.ndim = prototype->ndim,
		.dtype = prototype->dtype,
		.shape = prototype->shape,
	};
	code = ho_check_tensor(&t, 0, NULL);
	if (code != 0) {
		message = ho_error_text(code);
		goto fail;
	}
	if (t.device.device_type != kDLCPU) {
		message = "only host memory can be allocated";
		goto fail;
	}
	/* The check has shown that these products fit. */
	uint64_t count = 1, bits = (uint64_t)t.dtype.bits * t.dtype.lanes;
	for (int32_t i = 0; i < t.ndim; i++) {
		if (t.shape[i] == 0) {
			count = 0;
			break;
		}
		count *= (uint64_t)t.shape[i];
	}
	uint64_t bytes = count / 8 * bits + (count % 8 * bits + 7) / 8;
	kind = "MemoryError";
	message = "out of memory";
	ho_owner *o = ho_owner_alloc(bytes, &t.data);
	if (o == NULL)
		goto fail;
	t.device.device_id = 0; /* R036 */
	*out = ho_export_versioned(o, &t, 0);
	ho_owner_unref(o); /* the export keeps its own reference */
	if (*out != NULL)
		return 0;
fail:
	if (set_error != NULL)
		set_error(error_ctx, kind, message);
	return -1;
}
