/* A foreign DLPack producer and consumer for tests. */
#define _GNU_SOURCE
#include "foreign.h"

#include <handoff/block.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic(int64_t) deleted, alive, wrong;

int64_t dt_deleted(void)
{
	return deleted;
}

int64_t dt_alive(void)
{
	return alive;
}

int64_t dt_wrong(void)
{
	return wrong;
}

typedef struct {
	union {
		DLManagedTensorVersioned v;
		DLManagedTensor l;
	} u;
	int64_t shape[64], strides[64];
} foreign;

static void del_versioned(DLManagedTensorVersioned *m)
{
	if (m->manager_ctx != m)
		wrong++;
	deleted++;
	alive--;
	free(m);
}

static void del_legacy(DLManagedTensor *m)
{
	if (m->manager_ctx != m)
		wrong++;
	deleted++;
	alive--;
	free(m);
}

static foreign *fresh(int versioned, const int64_t *shape, const int64_t *strides, int dims)
{
	foreign *f = calloc(1, sizeof(*f));
	if (dims > 64)
		dims = 64;
	if (dims > 0 && shape != NULL)
		memcpy(f->shape, shape, (size_t)dims * 8);
	if (dims > 0 && strides != NULL)
		memcpy(f->strides, strides, (size_t)dims * 8);
	if (versioned) {
		f->u.v.manager_ctx = f;
		f->u.v.deleter = del_versioned;
	} else {
		f->u.l.manager_ctx = f;
		f->u.l.deleter = del_legacy;
	}
	alive++;
	return f;
}

uintptr_t dt_new(const dt_spec *s, int dims, const int64_t *shape, const int64_t *strides)
{
	foreign *f = fresh(s->versioned, shape, strides, dims);
	DLTensor *t = s->versioned ? &f->u.v.dl_tensor : &f->u.l.dl_tensor;
	t->data = (void *)(uintptr_t)s->data;
	t->byte_offset = s->byte_offset;
	t->device.device_type = (DLDeviceType)s->device_type;
	t->device.device_id = s->device_id;
	t->ndim = s->ndim;
	t->dtype.code = s->code;
	t->dtype.bits = s->bits;
	t->dtype.lanes = s->lanes;
	t->shape = s->null_shape ? NULL : f->shape;
	t->strides = s->null_strides ? NULL : f->strides;
	if (s->versioned) {
		f->u.v.version.major = s->major;
		f->u.v.version.minor = s->minor;
		f->u.v.flags = s->flags;
		if (s->null_deleter)
			f->u.v.deleter = NULL;
	} else if (s->null_deleter) {
		f->u.l.deleter = NULL;
	}
	return (uintptr_t)f;
}

uintptr_t dt_raw(const void *header, int versioned, const int64_t *shape, const int64_t *strides)
{
	foreign *f = fresh(versioned, shape, strides, 64);
	foreign keep = *f;
	memcpy(f, header, versioned ? sizeof(f->u.v) : sizeof(f->u.l));
	DLTensor *t = versioned ? &f->u.v.dl_tensor : &f->u.l.dl_tensor;
	if (versioned) {
		f->u.v.manager_ctx = keep.u.v.manager_ctx;
		f->u.v.deleter = keep.u.v.deleter;
	} else {
		f->u.l.manager_ctx = keep.u.l.manager_ctx;
		f->u.l.deleter = keep.u.l.deleter;
	}
	if (t->shape != NULL)
		t->shape = f->shape;
	if (t->strides != NULL)
		t->strides = f->strides;
	return (uintptr_t)f;
}

void dt_free(uintptr_t m)
{
	alive--;
	free((void *)m);
}

/* The 32 bytes that may be read end where a page without access begins. */
static void del_guarded(DLManagedTensorVersioned *m)
{
	deleted++;
	alive--;
	dt_unguard((uintptr_t)m);
}

uintptr_t dt_guarded(uint32_t major, uint32_t minor, int null_deleter)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE) != 0)
		abort();
	DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)(p + page - 32);
	m->version.major = major;
	m->version.minor = minor;
	m->deleter = null_deleter ? NULL : del_guarded;
	m->flags = ~(uint64_t)0;
	alive++;
	return (uintptr_t)m;
}

void dt_unguard(uintptr_t m)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	munmap((char *)m + 32 - page, 2 * page);
}

void dt_fail_alloc(int n)
{
	ho_fail_alloc(n);
}

void dt_release(uintptr_t m, int versioned)
{
	if (versioned)
		ho_release_versioned((DLManagedTensorVersioned *)m);
	else
		ho_release_legacy((DLManagedTensor *)m);
}

typedef struct {
	const uintptr_t *m;
	int n, versioned;
} work;

static void *release_all(void *p)
{
	work *w = p;
	for (int i = 0; i < w->n; i++)
		dt_release(w->m[i], w->versioned);
	return NULL;
}

void dt_release_on_thread(uintptr_t m, int versioned)
{
	pthread_t th;
	work w = {&m, 1, versioned};
	if (pthread_create(&th, NULL, release_all, &w) != 0)
		abort();
	pthread_join(th, NULL);
}

void dt_release_on_threads(const uintptr_t *m, int n, int threads)
{
	pthread_t th[16];
	work w[16];
	if (threads > 16)
		threads = 16;
	for (int i = 0; i < threads; i++) {
		int from = n / threads * i, to = i == threads - 1 ? n : n / threads * (i + 1);
		w[i] = (work){m + from, to - from, 1};
		if (pthread_create(&th[i], NULL, release_all, &w[i]) != 0)
			abort();
	}
	for (int i = 0; i < threads; i++)
		pthread_join(th[i], NULL);
}

static int wait_for(pid_t pid)
{
	int status = -1;
	while (waitpid(pid, &status, 0) < 0)
		;
	return status;
}

int dt_release_in_child(uintptr_t m, int versioned)
{
	pid_t pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0) {
		alarm(20); /* a hang ends the child by a signal */
		dt_release(m, versioned);
		_exit(atomic_load(&ho_forked) ? 0 : 3);
	}
	return wait_for(pid);
}

static DLTensor small(int ndim, int64_t *shape)
{
	DLTensor t;
	memset(&t, 0, sizeof(t));
	for (int i = 0; i < ndim; i++)
		shape[i] = 2 + i;
	t.data = (void *)(uintptr_t)4096;
	t.device.device_type = kDLCPU;
	t.ndim = ndim;
	t.dtype.code = kDLFloat;
	t.dtype.bits = 32;
	t.dtype.lanes = 1;
	t.shape = shape;
	return t;
}

int dt_export_in_child(uintptr_t owner, int n)
{
	pid_t pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0) {
		alarm(20);
		dt_export_loop(owner, n, 2);
		_exit(0);
	}
	return wait_for(pid);
}

void dt_read(uintptr_t p, int versioned, dt_spec *s, uint64_t *shape_addr, uint64_t *strides_addr)
{
	memset(s, 0, sizeof(*s));
	const DLTensor *t;
	if (versioned) {
		const DLManagedTensorVersioned *m = (const DLManagedTensorVersioned *)p;
		t = &m->dl_tensor;
		s->major = m->version.major;
		s->minor = m->version.minor;
		s->flags = m->flags;
		s->null_deleter = m->deleter == NULL;
	} else {
		const DLManagedTensor *m = (const DLManagedTensor *)p;
		t = &m->dl_tensor;
		s->null_deleter = m->deleter == NULL;
	}
	s->versioned = versioned;
	s->data = (uintptr_t)t->data;
	s->byte_offset = t->byte_offset;
	s->device_type = (int32_t)t->device.device_type;
	s->device_id = t->device.device_id;
	s->ndim = t->ndim;
	s->code = t->dtype.code;
	s->bits = t->dtype.bits;
	s->lanes = t->dtype.lanes;
	s->null_shape = t->shape == NULL;
	s->null_strides = t->strides == NULL;
	*shape_addr = (uintptr_t)t->shape;
	*strides_addr = (uintptr_t)t->strides;
}

int64_t dt_dim(uint64_t addr, int i)
{
	return ((const int64_t *)(uintptr_t)addr)[i];
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* What a usual producer does: one block for struct and arrays, a context that
 * is counted, a deleter that frees. */
typedef struct {
	DLManagedTensorVersioned m;
	_Atomic(int64_t) *refs;
	int64_t dims[4];
} plain;

static _Atomic(int64_t) plain_refs;

static void del_plain(DLManagedTensorVersioned *m)
{
	plain *p = (plain *)m;
	atomic_fetch_sub(p->refs, 1);
	free(p);
}

int64_t dt_batch(uintptr_t *out, int n)
{
	int64_t start = now();
	for (int i = 0; i < n; i++) {
		plain *p = malloc(sizeof(*p));
		int64_t shape[2];
		memset(&p->m, 0, sizeof(p->m));
		p->m.dl_tensor = small(2, shape);
		p->dims[0] = 2;
		p->dims[1] = 3;
		p->dims[2] = 3;
		p->dims[3] = 1;
		p->m.dl_tensor.shape = p->dims;
		p->m.dl_tensor.strides = p->dims + 2;
		p->m.version.major = 1;
		p->m.version.minor = 3;
		p->m.deleter = del_plain;
		p->refs = &plain_refs;
		atomic_fetch_add(&plain_refs, 1);
		out[i] = (uintptr_t)p;
	}
	return now() - start;
}

int64_t dt_consume_batch(const uintptr_t *m, int n)
{
	int64_t start = now();
	for (int i = 0; i < n; i++) {
		DLManagedTensorVersioned *t = (DLManagedTensorVersioned *)m[i];
		int rule;
		if (ho_check_versioned(t, &rule) != 0)
			abort();
		ho_release_versioned(t);
	}
	return now() - start;
}

typedef struct {
	_Atomic(DLManagedTensorVersioned *) m;
	const DLTensor *t;
	uint64_t flags;
	DLPackVersion version;
} held;

__attribute__((noinline)) static held *hold(DLManagedTensorVersioned *m)
{
	int rule;
	if (ho_check_versioned(m, &rule) != 0)
		return NULL;
	held *h = malloc(sizeof(*h));
	if (h == NULL)
		return NULL;
	atomic_init(&h->m, m);
	h->t = &m->dl_tensor;
	h->flags = m->flags;
	h->version = m->version;
	return h;
}

__attribute__((noinline)) static void drop(held *h)
{
	DLManagedTensorVersioned *m = atomic_exchange(&h->m, NULL);
	if (m != NULL)
		ho_release_versioned(m);
}

int64_t dt_consume_batch_held(const uintptr_t *m, int n)
{
	int64_t start = now();
	for (int i = 0; i < n; i++) {
		held *h = hold((DLManagedTensorVersioned *)m[i]);
		if (h == NULL)
			abort();
		drop(h);
		free(h);
	}
	return now() - start;
}

int64_t dt_export_loop(uintptr_t owner, int n, int ndim)
{
	int64_t shape[64];
	DLTensor t = small(ndim, shape);
	int64_t start = now();
	for (int i = 0; i < n; i++) {
		DLManagedTensorVersioned *m = ho_export_versioned((ho_owner *)owner, &t, 0);
		if (m == NULL)
			abort();
		m->deleter(m);
	}
	return now() - start;
}

/*
 * Exchange tables
 */

static float object_data[6] = {1, 2, 3, 4, 5, 6};
static int64_t object_shape[2] = {2, 3}, object_strides[2] = {3, 1};
static int object;
static _Atomic(int64_t) to_py_count;

int64_t dt_to_py_count(void)
{
	return to_py_count;
}

uintptr_t dt_object(void)
{
	return (uintptr_t)&object;
}

static int borrow(void *o, DLTensor *out)
{
	if (o != &object)
		return -1;
	memset(out, 0, sizeof(*out));
	out->data = object_data;
	out->device.device_type = kDLCPU;
	out->ndim = 2;
	out->dtype.code = kDLFloat;
	out->dtype.bits = 32;
	out->dtype.lanes = 1;
	out->shape = object_shape;
	out->strides = object_strides;
	return 0;
}

static int from_py(void *o, DLManagedTensorVersioned **out)
{
	foreign *f = fresh(1, object_shape, object_strides, 2);
	if (borrow(o, &f->u.v.dl_tensor) != 0) {
		alive--;
		free(f);
		return -1;
	}
	f->u.v.version.major = 1;
	f->u.v.version.minor = 3;
	f->u.v.dl_tensor.shape = f->shape;
	f->u.v.dl_tensor.strides = f->strides;
	*out = &f->u.v;
	return 0;
}

static int to_py(DLManagedTensorVersioned *m, void **out)
{
	ho_release_versioned(m);
	to_py_count++;
	*out = &object;
	return 0;
}

static int stream(DLDeviceType type, int32_t id, void **out)
{
	*out = type == kDLCPU ? NULL : (void *)(uintptr_t)(0x1 + id);
	return 0;
}

static int alloc_fails(DLTensor *t, DLManagedTensorVersioned **out, void *ctx,
                       void (*set_error)(void *, const char *, const char *))
{
	(void)t;
	(void)out;
	set_error(ctx, "MemoryError", "no room for that");
	return -1;
}

static int from_fails(void *o, DLManagedTensorVersioned **out)
{
	(void)o;
	(void)out;
	return -1;
}

static int to_fails(DLManagedTensorVersioned *m, void **out)
{
	(void)out;
	ho_release_versioned(m); /* the callee frees, as some do */
	return -1;
}

static int borrow_fails(void *o, DLTensor *out)
{
	(void)o;
	(void)out;
	return -1;
}

static int stream_fails(DLDeviceType type, int32_t id, void **out)
{
	(void)type;
	(void)id;
	(void)out;
	return -1;
}

static int alloc_empty(DLTensor *t, DLManagedTensorVersioned **out, void *ctx,
                       void (*set_error)(void *, const char *, const char *))
{
	(void)t;
	(void)out;
	(void)ctx;
	(void)set_error;
	return 0;
}

static int from_empty(void *o, DLManagedTensorVersioned **out)
{
	(void)o;
	(void)out;
	return 0;
}

static int borrow_bad(void *o, DLTensor *out)
{
	borrow(o, out);
	out->ndim = -1;
	return 0;
}

static int from_bad(void *o, DLManagedTensorVersioned **out)
{
	from_py(o, out);
	(*out)->dl_tensor.ndim = -1;
	return 0;
}

#define HEADER(major, prev) {{(major), 3}, (DLPackExchangeAPIHeader *)(prev)}

static DLPackExchangeAPI good = {HEADER(1, NULL), ho_managed_alloc, from_py, to_py, borrow, stream};
static DLPackExchangeAPI future3 = {.header = HEADER(2, &good)};
static DLPackExchangeAPI future2 = {.header = HEADER(3, &future3)};
static DLPackExchangeAPI future_end = {.header = HEADER(2, NULL)};
static DLPackExchangeAPI old = {.header = HEADER(0, &good)};
static DLPackExchangeAPI cycle = {.header = HEADER(2, &cycle)};
static DLPackExchangeAPI no_borrow = {HEADER(1, NULL), ho_managed_alloc, from_py, to_py, NULL, stream};
static DLPackExchangeAPI no_export = {HEADER(1, NULL), ho_managed_alloc, NULL, to_py, borrow, stream};
static DLPackExchangeAPI only_export = {HEADER(1, NULL), NULL, from_py, NULL, NULL, NULL};
static DLPackExchangeAPI failing = {HEADER(1, NULL), alloc_fails, from_fails, to_fails, borrow_fails, stream_fails};
static DLPackExchangeAPI empty = {HEADER(1, NULL), alloc_empty, from_empty, to_py, borrow, stream};
static DLPackExchangeAPI bad = {HEADER(1, NULL), ho_managed_alloc, from_bad, to_py, borrow_bad, stream};

uintptr_t dt_table(int which)
{
	static DLPackExchangeAPI *const tables[] = {
		[DT_TABLE_GOOD] = &good,           [DT_TABLE_MAJOR2_CHAIN] = &future2,
		[DT_TABLE_MAJOR2_END] = &future_end, [DT_TABLE_MAJOR0] = &old,
		[DT_TABLE_CYCLE] = &cycle,         [DT_TABLE_NO_BORROW] = &no_borrow,
		[DT_TABLE_NO_EXPORT] = &no_export, [DT_TABLE_ONLY_EXPORT] = &only_export,
		[DT_TABLE_FAILING] = &failing,     [DT_TABLE_EMPTY_SUCCESS] = &empty,
		[DT_TABLE_BAD_TENSORS] = &bad,
	};
	return (uintptr_t)tables[which];
}

void dt_functions(uintptr_t out[5])
{
	out[0] = (uintptr_t)ho_managed_alloc;
	out[1] = (uintptr_t)from_py;
	out[2] = (uintptr_t)to_py;
	out[3] = (uintptr_t)borrow;
	out[4] = (uintptr_t)stream;
}
