/* Asks a CUDA driver what it answers in the situations whose rules the software
 * device follows, and prints one line for each. Over a real driver it gave the
 * files of testdata; over the software device it has to give the same, which a
 * test compares. To make such a file, with two GPUs:
 *
 *   cc -std=gnu11 -DHO_PROBE_MAIN -I device/driver/include -o probe \
 *      device/soft/internal/probe/probe.c -ldl -lpthread
 *   ./probe libcuda.so.1 >FILE
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

static ho_cuda_table T;

#define P(label, expr) printf("%s: %d\n", label, (int)(expr))
#define V(label, value) printf("%s = %lld\n", label, (long long)(value))

static volatile int gate_open, gate_in;

static void gate(ho_word user)
{
	(void)user;
	gate_in = 1;
	while (!gate_open)
		usleep(50);
}

static void nothing(ho_word user) { (void)user; }

static void callback(ho_stream s, ho_result st, ho_word user)
{
	(void)s;
	(void)st;
	(void)user;
}

static int in_host[4];
static ho_event host_event;

static void calls(ho_word user)
{
	ho_context c = 0;

	(void)user;
	in_host[0] = T.cuEventQuery(host_event);
	in_host[1] = T.cuCtxGetCurrent(&c);
	in_host[2] = T.cuGetErrorString(1, &(char *){0});
}

/* Stops a stream until opened. */
static void block(ho_stream s)
{
	gate_open = gate_in = 0;
	P("  block", T.cuLaunchHostFunc(s, gate, 0));
	while (!gate_in)
		usleep(50);
}

static ho_stream mk(unsigned flags)
{
	ho_stream s = 0;

	T.cuStreamCreate(&s, flags);
	return s;
}

static ho_event ev(unsigned flags)
{
	ho_event e = 0;

	T.cuEventCreate(&e, flags);
	return e;
}

static ho_devptr dev(size_t n)
{
	ho_devptr p = 0;

	T.cuMemAlloc(&p, n);
	return p;
}

static void before_init(void)
{
	ho_context c = 0;
	int n = 0;

	printf("# before cuInit\n");
	P("cuCtxGetCurrent", T.cuCtxGetCurrent(&c));
	P("cuDeviceGetCount", T.cuDeviceGetCount(&n));
	P("cuDriverGetVersion", T.cuDriverGetVersion(&n));
	P("cuInit 1", T.cuInit(1));
	P("cuInit 0", T.cuInit(0));
	P("cuInit again", T.cuInit(0));
}

static void contexts(void)
{
	ho_context c = 0, c2 = 0, p = 0;
	ho_device d = 0;
	ho_stream s = 0, s2;
	ho_event e = 0, e2 = 0;
	ho_devptr m = 0;
	unsigned flags = 0;
	int n = 0, active = 0, lo = 0, hi = 0;
	uint64_t id = 0, id2 = 0;
	float ms = 0;
	size_t v = 0;
	char host[64] = {0};
	uint64_t word = 0;

	printf("# devices and contexts\n");
	P("cuDeviceGet -1", T.cuDeviceGet(&d, -1));
	P("cuDeviceGet 99", T.cuDeviceGet(&d, 99));
	P("cuDeviceGet NULL", T.cuDeviceGet(NULL, 0));
	P("attribute 0", T.cuDeviceGetAttribute(&n, 0, 0));
	P("attribute 9999", T.cuDeviceGetAttribute(&n, 9999, 0));
	P("attribute of device 99", T.cuDeviceGetAttribute(&n, 1, 99));
	P("pop empty", T.cuCtxPopCurrent(&c));
	P("push 0", T.cuCtxPushCurrent(0));
	P("pop after push 0", T.cuCtxPopCurrent(&c));
	P("set 0", T.cuCtxSetCurrent(0));
	P("get none", T.cuCtxGetCurrent(&c));
	V("current", c != 0);
	P("cuCtxGetDevice none", T.cuCtxGetDevice(&d));
	P("cuCtxSynchronize none", T.cuCtxSynchronize());
	P("cuStreamCreate none", T.cuStreamCreate(&s, 0));
	P("cuEventCreate none", T.cuEventCreate(&e, 0));
	P("cuMemAlloc none", T.cuMemAlloc(&m, 64));
	P("cuMemFree 0 none", T.cuMemFree(0));
	P("cuStreamQuery 0 none", T.cuStreamQuery(0));
	P("cuMemGetInfo none", T.cuMemGetInfo(&v, &v));
	P("cuCtxGetFlags none", T.cuCtxGetFlags(&flags));
	P("cuCtxGetLimit none", T.cuCtxGetLimit(&v, 0));
	P("state before", T.cuDevicePrimaryCtxGetState(0, &flags, &active));
	V("active", active);
	P("release unretained", T.cuDevicePrimaryCtxRelease(0));
	P("reset unretained", T.cuDevicePrimaryCtxReset(0));
	P("retain", T.cuDevicePrimaryCtxRetain(&p, 0));
	P("retain 99", T.cuDevicePrimaryCtxRetain(&c, 99));
	P("state", T.cuDevicePrimaryCtxGetState(0, &flags, &active));
	V("active", active);
	V("flags", flags);
	P("set flags while active", T.cuDevicePrimaryCtxSetFlags(0, 4));
	T.cuDevicePrimaryCtxSetFlags(0, 0);
	P("set flags bad", T.cuDevicePrimaryCtxSetFlags(0, 0x10000));
	P("destroy primary", T.cuCtxDestroy(p));
	P("set", T.cuCtxSetCurrent(p));
	P("id", T.cuCtxGetId(p, &id));
	P("id 0", T.cuCtxGetId(0, &id2));
	V("same", id == id2);
	P("priority range", T.cuCtxGetStreamPriorityRange(&lo, &hi));
	V("least", lo);
	V("greatest", hi);
	P("priority range NULL", T.cuCtxGetStreamPriorityRange(NULL, NULL));
	P("limit 99", T.cuCtxGetLimit(&v, 99));
	P("set cache config 9", T.cuCtxSetCacheConfig(9));
	P("create flags bad", T.cuCtxCreate(&c, 0x10000, 0));
	P("create sched bad", T.cuCtxCreate(&c, 3, 0));
	P("create", T.cuCtxCreate(&c, 0, 0));
	T.cuCtxGetCurrent(&c2);
	V("created is current", c == c2);
	s2 = mk(0);
	e2 = ev(0);
	P("peer access to same device", T.cuCtxEnablePeerAccess(p, 0));
	P("pop", T.cuCtxPopCurrent(&c2));
	V("popped created", c == c2);
	P("peer access to self", T.cuCtxEnablePeerAccess(p, 0));
	P("stream of other context", T.cuStreamQuery(s2));
	e = ev(0);
	s = mk(1);
	P("record event of A on stream of B", T.cuEventRecord(e, s2));
	P("record event of A on legacy of A", T.cuEventRecord(e, 0));
	P("wait on B for event of A", T.cuStreamWaitEvent(s2, e, 0));
	P("elapsed across contexts", (T.cuEventRecord(e2, s2), T.cuStreamSynchronize(s2), T.cuStreamSynchronize(0), T.cuEventElapsedTime(&ms, e, e2)));
	m = dev(64);
	P("memset on stream of other context", T.cuMemsetD8Async(m, 0, 64, s2));
	P("destroy created", T.cuCtxDestroy(c));

	T.cuCtxSetCurrent(0);
	printf("# without a current context\n");
	P("cuStreamQuery", T.cuStreamQuery(s));
	P("cuStreamSynchronize", T.cuStreamSynchronize(s));
	P("cuEventQuery", T.cuEventQuery(e));
	P("cuEventSynchronize", T.cuEventSynchronize(e));
	P("cuEventRecord", T.cuEventRecord(e, s));
	P("cuStreamWaitEvent", T.cuStreamWaitEvent(s, e, 0));
	P("cuMemsetD8Async", T.cuMemsetD8Async(m, 1, 64, s));
	P("cuMemcpyHtoDAsync", T.cuMemcpyHtoDAsync(m, (ho_word)host, 64, s));
	P("cuMemcpyDtoHAsync", T.cuMemcpyDtoHAsync((ho_word)host, m, 64, s));
	P("cuMemcpyAsync", T.cuMemcpyAsync(m, m, 0, s));
	P("cuPointerGetAttribute", T.cuPointerGetAttribute(&word, 1, m));
	P("cuMemGetAddressRange", T.cuMemGetAddressRange(&m, &v, m));
	P("cuLaunchHostFunc", T.cuLaunchHostFunc(s, nothing, 0));
	P("cuStreamGetCtx", T.cuStreamGetCtx(s, &c2));
	P("cuStreamGetFlags", T.cuStreamGetFlags(s, &flags));
	P("cuStreamGetPriority", T.cuStreamGetPriority(s, &n));
	P("cuStreamIsCapturing", T.cuStreamIsCapturing(s, &n));
	P("cuStreamBeginCapture", T.cuStreamBeginCapture(s, 0));
	{
		ho_graph g = 0;
		P("cuStreamEndCapture", T.cuStreamEndCapture(s, &g));
		if (g)
			T.cuGraphDestroy(g);
	}
	P("cuMemAllocAsync", T.cuMemAllocAsync(&m, 64, s));
	if (m)
		T.cuMemFreeAsync(m, s);
	P("cuStreamSynchronize", T.cuStreamSynchronize(s));
	P("cuStreamDestroy", T.cuStreamDestroy(s));
	P("cuEventDestroy", T.cuEventDestroy(e));
	T.cuCtxSetCurrent(p);
}

static void streams(void)
{
	ho_stream s, a, n, b;
	ho_event e, f;
	ho_context c;
	unsigned flags;
	int pr;
	uint64_t i0 = 0, i1 = 0, i2 = 0;
	float ms;
	ho_devptr m = dev(4096);
	ho_launch_attribute_value val;

	printf("# streams\n");
	P("create flags 2", T.cuStreamCreate(&s, 2));
	P("create NULL", T.cuStreamCreate(NULL, 0));
	P("create priority 5", T.cuStreamCreateWithPriority(&s, 0, 5));
	T.cuStreamGetPriority(s, &pr);
	V("priority", pr);
	T.cuStreamDestroy(s);
	P("create priority -100", T.cuStreamCreateWithPriority(&s, 1, -100));
	T.cuStreamGetPriority(s, &pr);
	V("priority", pr);
	T.cuStreamGetFlags(s, &flags);
	V("flags", flags);
	T.cuStreamDestroy(s);
	P("destroy 0", T.cuStreamDestroy(0));
	P("destroy 1", T.cuStreamDestroy(1));
	P("destroy 2", T.cuStreamDestroy(2));
	P("flags of 0", T.cuStreamGetFlags(0, &flags));
	V("flags", flags);
	P("flags of 1", T.cuStreamGetFlags(1, &flags));
	V("flags", flags);
	P("flags of 2", T.cuStreamGetFlags(2, &flags));
	V("flags", flags);
	P("priority of 1", T.cuStreamGetPriority(1, &pr));
	V("priority", pr);
	T.cuStreamGetId(0, &i0);
	T.cuStreamGetId(1, &i1);
	T.cuStreamGetId(2, &i2);
	V("id of 0 is id of 1", i0 == i1);
	V("id of 2 is id of 1", i2 == i1);
	P("ctx of 1", T.cuStreamGetCtx(1, &c));
	P("query 0", T.cuStreamQuery(0));
	P("query 2", T.cuStreamQuery(2));
	memset(&val, 0, sizeof val);
	P("attribute 3", T.cuStreamGetAttribute(1, 3, &val));
	V("sync policy", val.sync_policy);
	P("attribute 99", T.cuStreamGetAttribute(1, 99, &val));

	printf("# events\n");
	P("create flags 8", T.cuEventCreate(&e, 8));
	P("create interprocess with timing", T.cuEventCreate(&e, 4));
	e = ev(0);
	f = ev(0);
	P("query unrecorded", T.cuEventQuery(e));
	P("synchronize unrecorded", T.cuEventSynchronize(e));
	P("elapsed unrecorded", T.cuEventElapsedTime(&ms, e, f));
	P("record external outside of a capture", T.cuEventRecordWithFlags(e, 0, 1));
	P("record flags 2", T.cuEventRecordWithFlags(e, 0, 2));
	P("record", T.cuEventRecord(e, 0));
	P("elapsed half recorded", (T.cuStreamSynchronize(0), T.cuEventElapsedTime(&ms, e, f)));
	P("elapsed with itself", T.cuEventElapsedTime(&ms, e, e));
	a = mk(0);
	block(a);
	P("record behind the block", T.cuEventRecord(f, a));
	P("query", T.cuEventQuery(f));
	P("elapsed not done", T.cuEventElapsedTime(&ms, e, f));
	P("wait flags 2", T.cuStreamWaitEvent(a, f, 2));
	P("wait external outside of a capture", T.cuStreamWaitEvent(a, e, 1));
	P("destroy while pending", T.cuEventDestroy(f));
	gate_open = 1;
	T.cuStreamSynchronize(a);
	f = ev(2);
	T.cuEventRecord(f, a);
	T.cuStreamSynchronize(a);
	P("elapsed without timing", T.cuEventElapsedTime(&ms, e, f));
	P("wait unrecorded", (T.cuEventDestroy(f), f = ev(0), T.cuStreamWaitEvent(a, f, 0)));
	T.cuEventDestroy(e);
	T.cuEventDestroy(f);

	printf("# the legacy default stream\n");
	b = mk(0);
	n = mk(1);
	block(a);
	P("query legacy, other blocked", T.cuStreamQuery(0));
	P("query per-thread, other blocked", T.cuStreamQuery(2));
	P("query other blocking stream", T.cuStreamQuery(b));
	P("memset on legacy", T.cuMemsetD8Async(m, 0, 16, 0));
	P("query legacy", T.cuStreamQuery(0));
	P("query other blocking stream, nothing on it", T.cuStreamQuery(b));
	P("memset on other blocking stream", T.cuMemsetD8Async(m + 64, 0, 16, b));
	P("query other blocking stream", T.cuStreamQuery(b));
	P("memset on non-blocking", T.cuMemsetD8Async(m + 128, 0, 16, n));
	P("synchronize non-blocking", T.cuStreamSynchronize(n));
	P("memset on per-thread", T.cuMemsetD8Async(m + 192, 0, 16, 2));
	P("query per-thread", T.cuStreamQuery(2));
	e = ev(0);
	P("record on non-blocking", T.cuEventRecord(e, n));
	P("event on non-blocking", T.cuEventSynchronize(e));
	gate_open = 1;
	P("synchronize context", T.cuCtxSynchronize());
	P("query legacy", T.cuStreamQuery(0));
	block(0);
	P("legacy blocked, query blocking", T.cuStreamQuery(b));
	P("record on blocking", T.cuEventRecord(e, b));
	P("query event", T.cuEventQuery(e));
	P("query blocking", T.cuStreamQuery(b));
	P("record on non-blocking", T.cuEventRecord(e, n));
	P("synchronize event", T.cuEventSynchronize(e));
	gate_open = 1;
	T.cuCtxSynchronize();

	printf("# host functions\n");
	host_event = ev(0);
	P("launch", T.cuLaunchHostFunc(n, calls, 0));
	T.cuStreamSynchronize(n);
	V("cuEventQuery inside", in_host[0]);
	V("cuCtxGetCurrent inside", in_host[1]);
	V("cuGetErrorString inside", in_host[2]);
	P("callback flags 1", T.cuStreamAddCallback(n, callback, 0, 1));
	P("callback", T.cuStreamAddCallback(n, callback, 0, 0));
	T.cuCtxSynchronize();
	T.cuEventDestroy(host_event);
	T.cuEventDestroy(e);
	T.cuStreamDestroy(a);
	T.cuStreamDestroy(b);
	T.cuStreamDestroy(n);
	T.cuMemFree(m);
}

static void pointer(const char *what, ho_devptr p, ho_context cur)
{
	static const int attrs[] = {1, 2, 3, 4, 6, 8, 9, 11, 12, 13, 16, 17};
	size_t i;

	for (i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		uint64_t one = 0, many = 0x5555555555555555;
		void *out = &many;
		int a = attrs[i];
		int st = T.cuPointerGetAttribute(&one, a, p);
		int st2 = T.cuPointerGetAttributes(1, (int *)&attrs[i], &out, p);
		unsigned long long v = many;

		if (st == 0) {
			if (a == 2 || a == 9 || a == 16 || a == 6)
				v = (uint32_t)many;
			if (a == 8 || a == 13)
				v = (uint8_t)many;
			if (a == 1)
				v = many == 0 ? 0 : many == cur ? 1 : 2;
			if (a == 3 || a == 4 || a == 11)
				v = many == p ? 1 : many == 0 ? 0 : 2;
			if (a == 12)
				v = many >= 4096;
			if (a == 17)
				v = many != 0;
		} else {
			if (a == 2 || a == 9 || a == 16 || a == 6)
				v = (uint32_t)many;
			if (a == 8 || a == 13)
				v = (uint8_t)many;
			if (a == 4)
				v = many == p;
		}
		printf("%s attribute %d: %d, batch %d, value %lld\n", what, a, st, st2, (long long)(int64_t)v);
	}
}

static void memory(void)
{
	ho_context cur = 0;
	ho_devptr p = 0, q = 0, base = 0;
	size_t n = 0;
	ho_word h = 0;
	unsigned flags = 0;
	unsigned one = 1;
	char *page = aligned_alloc(4096, 16384);
	char *buf = malloc(8192);
	ho_memcpy2d c2;
	ho_memcpy3d c3;

	memset(page, 0, 16384);
	memset(buf, 0, 8192);
	T.cuCtxGetCurrent(&cur);
	printf("# memory\n");
	P("alloc 0", T.cuMemAlloc(&p, 0));
	P("alloc huge", T.cuMemAlloc(&p, (size_t)1 << 60));
	P("alloc NULL", T.cuMemAlloc(NULL, 64));
	p = dev(4096);
	P("free interior", T.cuMemFree(p + 16));
	P("free pageable", T.cuMemFree((ho_devptr)(uintptr_t)buf));
	P("free host of device memory", T.cuMemFreeHost((ho_word)p));
	P("free host of pageable", T.cuMemFreeHost((ho_word)buf));
	P("free host of 0", T.cuMemFreeHost(0));
	P("range of interior", T.cuMemGetAddressRange(&base, &n, p + 100));
	V("base", base == p);
	V("size", n);
	P("range of pageable", T.cuMemGetAddressRange(&base, &n, (ho_devptr)(uintptr_t)buf));
	P("pitch 0", T.cuMemAllocPitch(&q, &n, 0, 1, 4));
	P("pitch element 3", T.cuMemAllocPitch(&q, &n, 10, 2, 3));
	P("pitch", T.cuMemAllocPitch(&q, &n, 100, 4, 4));
	V("pitch", n);
	T.cuMemFree(q);
	q = dev(64);
	P("free", T.cuMemFree(q));
	P("free again", T.cuMemFree(q));
	P("copy to freed", T.cuMemcpyHtoD(q, (ho_word)buf, 64));

	printf("# pinned, registered, managed\n");
	P("host alloc 0", T.cuMemHostAlloc(&h, 0, 0));
	P("host alloc flags 8", T.cuMemHostAlloc(&h, 64, 8));
	P("host alloc", T.cuMemHostAlloc(&h, 4096, 0));
	P("flags", T.cuMemHostGetFlags(&flags, h));
	V("flags", flags);
	P("flags of pageable", T.cuMemHostGetFlags(&flags, (ho_word)buf));
	P("flags of device", T.cuMemHostGetFlags(&flags, (ho_word)p));
	P("device pointer", T.cuMemHostGetDevicePointer(&q, h, 0));
	V("same", q == (ho_devptr)h);
	P("device pointer of interior", T.cuMemHostGetDevicePointer(&q, h + 8, 0));
	V("same", q == (ho_devptr)h + 8);
	P("device pointer flags 1", T.cuMemHostGetDevicePointer(&q, h, 1));
	P("device pointer of pageable", T.cuMemHostGetDevicePointer(&q, (ho_word)buf, 0));
	P("range of pinned", T.cuMemGetAddressRange(&base, &n, (ho_devptr)h + 8));
	P("free host interior", T.cuMemFreeHost(h + 8));
	P("free of pinned", T.cuMemFree((ho_devptr)h));
	P("register", T.cuMemHostRegister((ho_word)page, 8192, 0));
	P("register again", T.cuMemHostRegister((ho_word)page, 8192, 0));
	P("register overlapping", T.cuMemHostRegister((ho_word)page + 4096, 8192, 0));
	P("register 0 bytes", T.cuMemHostRegister((ho_word)buf, 0, 0));
	P("register NULL", T.cuMemHostRegister(0, 4096, 0));
	P("register flags 16", T.cuMemHostRegister((ho_word)buf, 64, 16));
	P("register pinned", T.cuMemHostRegister(h, 4096, 0));
	P("flags of registered", T.cuMemHostGetFlags(&flags, (ho_word)page));
	V("flags", flags);
	P("unregister interior", T.cuMemHostUnregister((ho_word)page + 64));
	P("unregister pageable", T.cuMemHostUnregister((ho_word)buf));
	P("unregister pinned", T.cuMemHostUnregister(h));
	P("unregister device", T.cuMemHostUnregister((ho_word)p));
	P("managed 0", T.cuMemAllocManaged(&q, 0, 1));
	P("managed flags 0", T.cuMemAllocManaged(&q, 64, 0));
	P("managed flags 4", T.cuMemAllocManaged(&q, 64, 4));
	P("managed", T.cuMemAllocManaged(&q, 4096, 1));
	P("range of managed", T.cuMemGetAddressRange(&base, &n, q + 8));
	P("free host of managed", T.cuMemFreeHost((ho_word)q));

	printf("# pointers\n");
	pointer("device", p, cur);
	pointer("pinned", (ho_devptr)h, cur);
	pointer("registered", (ho_devptr)(uintptr_t)page, cur);
	pointer("managed", q, cur);
	pointer("pageable", (ho_devptr)(uintptr_t)buf, cur);
	pointer("null", 0, cur);
	P("sync memops of device", T.cuPointerSetAttribute(&one, 6, p));
	P("sync memops of pinned", T.cuPointerSetAttribute(&one, 6, (ho_devptr)h));
	P("sync memops of pageable", T.cuPointerSetAttribute(&one, 6, (ho_devptr)(uintptr_t)buf));
	P("set attribute 1", T.cuPointerSetAttribute(&one, 1, p));
	one = 0;
	T.cuPointerSetAttribute(&one, 6, p);

	printf("# copies\n");
	P("to device, target pageable", T.cuMemcpyHtoD((ho_devptr)(uintptr_t)buf, (ho_word)page, 64));
	P("to device, source device", T.cuMemcpyHtoD(p, (ho_word)p + 64, 64));
	P("to host, source pageable", T.cuMemcpyDtoH((ho_word)page, (ho_devptr)(uintptr_t)buf, 64));
	P("to host, target device", T.cuMemcpyDtoH((ho_word)p + 64, p, 64));
	P("device to device, both pinned", T.cuMemcpyDtoD((ho_devptr)h, (ho_devptr)h + 64, 64));
	P("device to device, pageable", T.cuMemcpyDtoD((ho_devptr)(uintptr_t)buf, p, 64));
	P("unified, both pageable", T.cuMemcpy((ho_devptr)(uintptr_t)buf, (ho_devptr)(uintptr_t)buf + 4096, 64));
	P("unified, to pageable", T.cuMemcpy((ho_devptr)(uintptr_t)buf, p, 64));
	P("overrun", T.cuMemcpyHtoD(p, (ho_word)page, 8192));
	P("overrun at source", T.cuMemcpyDtoH((ho_word)page, p + 4000, 4096));
	P("0 bytes, null", T.cuMemcpyHtoD(0, 0, 0));
	P("unified 0 bytes, null", T.cuMemcpy(0, 0, 0));
	P("null source", T.cuMemcpyHtoD(p, 0, 16));
	P("null target", T.cuMemcpyHtoD(0, (ho_word)buf, 16));
	P("memset pageable", T.cuMemsetD8((ho_devptr)(uintptr_t)buf, 0, 16));
	P("memset pinned", T.cuMemsetD8((ho_devptr)h, 0, 16));
	P("memset overrun", T.cuMemsetD8(p, 0, 8192));
	P("memset misaligned", T.cuMemsetD32(p + 1, 0, 4));
	P("memset misaligned 16", T.cuMemsetD16(p + 1, 0, 4));
	P("memset none", T.cuMemsetD8(p, 0, 0));
	P("memset none at null", T.cuMemsetD8(0, 0, 0));
	P("memset null", T.cuMemsetD8(0, 0, 8));
	P("memset 2d", T.cuMemsetD2D8(p, 64, 0, 32, 4));
	P("memset 2d pitch small", T.cuMemsetD2D8(p, 16, 0, 32, 4));
	P("memset 2d pitch 0", T.cuMemsetD2D8(p, 0, 0, 32, 4));
	P("memset 2d one row pitch 0", T.cuMemsetD2D8(p, 0, 0, 32, 1));
	memset(&c2, 0, sizeof c2);
	c2.src_type = 1;
	c2.src_host = (ho_word)buf;
	c2.src_pitch = 64;
	c2.dst_type = 2;
	c2.dst_device = p;
	c2.dst_pitch = 128;
	c2.width_bytes = 32;
	c2.height = 4;
	P("2d", T.cuMemcpy2D(&c2));
	P("2d NULL", T.cuMemcpy2D(NULL));
	c2.dst_pitch = 16;
	P("2d pitch small", T.cuMemcpy2D(&c2));
	c2.dst_pitch = 0;
	P("2d pitch 0", T.cuMemcpy2D(&c2));
	c2.height = 1;
	P("2d one row, pitch 0", T.cuMemcpy2D(&c2));
	c2.dst_pitch = 128;
	c2.height = 4;
	c2.width_bytes = 0;
	P("2d width 0", T.cuMemcpy2D(&c2));
	c2.width_bytes = 32;
	c2.height = 0;
	P("2d height 0", T.cuMemcpy2D(&c2));
	c2.height = 4;
	c2.dst_type = 0;
	P("2d type 0", T.cuMemcpy2D(&c2));
	c2.dst_type = 7;
	P("2d type 7", T.cuMemcpy2D(&c2));
	c2.dst_type = 2;
	c2.dst_pitch = (size_t)1 << 40;
	P("2d pitch huge", T.cuMemcpy2D(&c2));
	c2.dst_pitch = 128;
	c2.dst_x_bytes = 120;
	P("2d beyond the row", T.cuMemcpy2D(&c2));
	c2.dst_x_bytes = 0;
	c2.dst_y = 100;
	P("2d beyond the end", T.cuMemcpy2D(&c2));
	memset(&c3, 0, sizeof c3);
	c3.src_type = 1;
	c3.src_host = (ho_word)buf;
	c3.src_pitch = 32;
	c3.src_height = 4;
	c3.dst_type = 2;
	c3.dst_device = p;
	c3.dst_pitch = 32;
	c3.dst_height = 4;
	c3.width_bytes = 32;
	c3.height = 4;
	c3.depth = 2;
	P("3d", T.cuMemcpy3D(&c3));
	c3.dst_height = 2;
	P("3d height small", T.cuMemcpy3D(&c3));
	c3.dst_height = 0;
	P("3d height 0", T.cuMemcpy3D(&c3));
	c3.dst_height = 4;
	c3.dst_lod = 1;
	P("3d lod 1", T.cuMemcpy3D(&c3));
	T.cuCtxSynchronize();
	P("unregister", T.cuMemHostUnregister((ho_word)page));
	P("free host", T.cuMemFreeHost(h));
	P("free managed", T.cuMemFree(q));
	P("free device", T.cuMemFree(p));
	free(page);
	free(buf);
}

static void pools(void)
{
	ho_stream s = mk(1);
	ho_mem_pool def = 0, pool = 0, cur = 0;
	ho_devptr p = 0, q = 0;
	ho_mem_pool_props props;
	ho_mem_location loc = {1, 0};
	ho_mem_access_desc acc = {{1, 0}, 0};
	uint64_t v = 0;
	int i = 0, a;

	printf("# pools\n");
	T.cuDeviceGetDefaultMemPool(&def, 0);
	T.cuDeviceGetMemPool(&cur, 0);
	V("default is current", def == cur);
	for (a = 1; a <= 3; a++) {
		P("attribute", T.cuMemPoolGetAttribute(def, a, &i));
		V("value", i);
	}
	P("threshold", T.cuMemPoolGetAttribute(def, 4, &v));
	V("value", v);
	P("attribute 99", T.cuMemPoolGetAttribute(def, 99, &v));
	P("alloc 0", T.cuMemAllocAsync(&p, 0, s));
	P("alloc NULL", T.cuMemAllocAsync(NULL, 64, s));
	P("alloc huge", T.cuMemAllocAsync(&p, (size_t)1 << 60, s));
	P("alloc", T.cuMemAllocAsync(&p, 1000, s));
	T.cuMemPoolGetAttribute(def, 7, &v);
	V("used > 0", v >= 1000);
	P("free 0", T.cuMemFreeAsync(0, s));
	P("free interior", T.cuMemFreeAsync(p + 8, s));
	P("free", T.cuMemFreeAsync(p, s));
	P("free again", T.cuMemFreeAsync(p, s));
	P("synchronize", T.cuStreamSynchronize(s));
	T.cuMemPoolGetAttribute(def, 7, &v);
	V("used", v);
	T.cuMemPoolGetAttribute(def, 5, &v);
	V("reserved", v);
	P("alloc", T.cuMemAllocAsync(&p, 1000, s));
	P("range", T.cuMemGetAddressRange(&q, &(size_t){0}, p));
	P("synchronous free", T.cuMemFree(p));
	q = dev(64);
	P("stream-ordered free of plain memory", T.cuMemFreeAsync(q, s));
	T.cuStreamSynchronize(s);
	P("plain free afterwards", T.cuMemFree(q));
	P("alloc", T.cuMemAllocAsync(&p, 4096, s));
	T.cuStreamSynchronize(s);
	{
		ho_context c = 0;
		T.cuCtxGetCurrent(&c);
		pointer("pool", p, c);
	}
	T.cuMemFreeAsync(p, s);
	T.cuStreamSynchronize(s);
	v = 5;
	P("set reserved high 5", T.cuMemPoolSetAttribute(def, 6, &v));
	v = 0;
	P("set reserved high 0", T.cuMemPoolSetAttribute(def, 6, &v));
	P("set reserved current", T.cuMemPoolSetAttribute(def, 5, &v));
	P("destroy default", T.cuMemPoolDestroy(def));
	P("access of owner", T.cuMemPoolGetAccess(&i, def, &loc));
	V("access", i);
	loc.type = 2;
	P("access of host", T.cuMemPoolGetAccess(&i, def, &loc));
	P("set access of owner to none", T.cuMemPoolSetAccess(def, &acc, 1));
	acc.flags = 3;
	P("set access of owner to all", T.cuMemPoolSetAccess(def, &acc, 1));
	acc.location.type = 2;
	P("set access of host", T.cuMemPoolSetAccess(def, &acc, 1));
	acc.location.type = 1;
	acc.location.id = 99;
	P("set access of device 99", T.cuMemPoolSetAccess(def, &acc, 1));
	memset(&props, 0, sizeof props);
	P("create of nothing", T.cuMemPoolCreate(&pool, &props));
	props.alloc_type = 1;
	props.location.type = 1;
	props.location.id = 99;
	P("create on device 99", T.cuMemPoolCreate(&pool, &props));
	props.location.id = 0;
	P("create", T.cuMemPoolCreate(&pool, &props));
	P("alloc from it", T.cuMemAllocFromPoolAsync(&p, 64, pool, s));
	P("destroy in use", T.cuMemPoolDestroy(pool));
	P("free after destroy", T.cuMemFreeAsync(p, s));
	T.cuStreamSynchronize(s);
	P("trim", T.cuMemPoolTrimTo(def, 0));
	T.cuStreamDestroy(s);
}

static ho_stream other_stream;
static int other_code;

static void *end_elsewhere(void *unused)
{
	ho_graph g = 0;

	(void)unused;
	other_code = T.cuStreamEndCapture(other_stream, &g);
	return NULL;
}

static ho_context the_ctx;

static void *alloc_elsewhere(void *unused)
{
	ho_devptr p = 0;

	(void)unused;
	T.cuCtxSetCurrent(the_ctx);
	other_code = T.cuMemAlloc(&p, 64);
	if (p)
		T.cuMemFree(p);
	return NULL;
}

static void elsewhere(void *(*fn)(void *))
{
	pthread_t t;

	pthread_create(&t, NULL, fn, NULL);
	pthread_join(t, NULL);
}

static int status(ho_stream s)
{
	int st = -1;

	T.cuStreamIsCapturing(s, &st);
	return st;
}

/* Ends a capture, says how, and drops the graph. */
static void end(const char *label, ho_stream s)
{
	ho_graph g = 0;
	size_t n = 0;
	int st = T.cuStreamEndCapture(s, &g);

	if (g)
		T.cuGraphGetNodes(g, NULL, &n);
	printf("%s: end %d, graph %d, nodes %d\n", label, st, g != 0, (int)n);
	if (g)
		T.cuGraphDestroy(g);
}

static void capture(void)
{
	ho_stream a = mk(1), b = mk(1), blocking = mk(0);
	ho_event e = ev(2), f = ev(2);
	ho_devptr m = dev(4096), p = 0;
	ho_graph g = 0;
	ho_graph_exec x = 0;
	ho_graph_instantiate_params ip;
	char host[64] = {0};
	int st, mode;
	float ms;
	static const char *modes[] = {"global", "thread-local", "relaxed"};

	T.cuCtxGetCurrent(&the_ctx);
	printf("# capture\n");
	P("begin on 0", T.cuStreamBeginCapture(0, 0));
	P("begin on 1", T.cuStreamBeginCapture(1, 0));
	P("begin on 2", T.cuStreamBeginCapture(2, 2));
	P("end on 2", T.cuStreamEndCapture(2, &g));
	if (g)
		T.cuGraphDestroy(g);
	P("begin mode 7", T.cuStreamBeginCapture(a, 7));
	P("end without begin", T.cuStreamEndCapture(a, &g));
	P("begin", T.cuStreamBeginCapture(a, 0));
	P("begin again", T.cuStreamBeginCapture(a, 0));
	V("status", status(a));
	end("after begin again", a);
	for (mode = 0; mode < 3; mode++) {
		printf("# capture, mode %s\n", modes[mode]);
		T.cuStreamBeginCapture(a, mode);
		P("query", T.cuStreamQuery(a));
		V("status", status(a));
		end("query", a);
		T.cuStreamBeginCapture(a, mode);
		P("synchronize", T.cuStreamSynchronize(a));
		V("status", status(a));
		P("memset after", T.cuMemsetD8Async(m, 0, 16, a));
		end("synchronize", a);
		T.cuStreamBeginCapture(a, mode);
		P("cuMemAlloc", T.cuMemAlloc(&p, 64));
		V("status", status(a));
		end("cuMemAlloc", a);
		if (p)
			T.cuMemFree(p);
		p = 0;
		T.cuStreamBeginCapture(a, mode);
		elsewhere(alloc_elsewhere);
		V("cuMemAlloc on another thread", other_code);
		V("status", status(a));
		end("cuMemAlloc elsewhere", a);
		T.cuStreamBeginCapture(a, mode);
		P("cuCtxSynchronize", T.cuCtxSynchronize());
		V("status", status(a));
		end("cuCtxSynchronize", a);
		T.cuStreamBeginCapture(a, mode);
		P("cuMemcpyHtoD", T.cuMemcpyHtoD(m, (ho_word)host, 16));
		V("status", status(a));
		end("cuMemcpyHtoD", a);
		T.cuStreamBeginCapture(a, mode);
		P("query of another stream", T.cuStreamQuery(b));
		V("status", status(a));
		end("query of another stream", a);
		T.cuEventRecord(e, b);
		T.cuStreamBeginCapture(a, mode);
		P("query of an event outside", T.cuEventQuery(e));
		V("status", status(a));
		end("query of an event outside", a);
		T.cuStreamBeginCapture(a, mode);
		P("memset on legacy, capture non-blocking", T.cuMemsetD8Async(m, 0, 16, 0));
		V("status", status(a));
		end("legacy, non-blocking", a);
		T.cuStreamBeginCapture(blocking, mode);
		P("is capturing of legacy", T.cuStreamIsCapturing(0, &st));
		V("status of the capture", status(blocking));
		P("memset on legacy, capture blocking", T.cuMemsetD8Async(m, 0, 16, 0));
		V("status", status(blocking));
		end("legacy, blocking", blocking);
		T.cuStreamBeginCapture(blocking, mode);
		P("query legacy, capture blocking", T.cuStreamQuery(0));
		V("status", status(blocking));
		end("query legacy, blocking", blocking);
		T.cuStreamBeginCapture(a, mode);
		other_stream = a;
		elsewhere(end_elsewhere);
		V("end on another thread", other_code);
		V("status", status(a));
		if (status(a) != 0)
			end("end elsewhere", a);
	}

	printf("# capture and events\n");
	T.cuStreamBeginCapture(a, 2);
	P("record", T.cuEventRecord(e, a));
	P("query event", T.cuEventQuery(e));
	V("status", status(a));
	end("query event", a);
	T.cuStreamBeginCapture(a, 2);
	T.cuEventRecord(e, a);
	P("synchronize event", T.cuEventSynchronize(e));
	V("status", status(a));
	end("synchronize event", a);
	P("query event after the capture", T.cuEventQuery(e));
	P("wait for it outside of the capture", T.cuStreamWaitEvent(b, e, 0));
	V("status", status(b));
	P("elapsed", T.cuEventElapsedTime(&ms, e, e));
	T.cuEventRecord(f, b);
	T.cuStreamBeginCapture(a, 2);
	P("wait for an event from outside", T.cuStreamWaitEvent(a, f, 0));
	V("status", status(a));
	end("wait for an event from outside", a);
	T.cuStreamSynchronize(b);
	T.cuEventDestroy(f);
	f = ev(2);
	T.cuStreamBeginCapture(a, 2);
	P("wait for an unrecorded event", T.cuStreamWaitEvent(a, f, 0));
	V("status", status(a));
	end("wait for an unrecorded event", a);
	T.cuStreamBeginCapture(a, 2);
	T.cuStreamBeginCapture(b, 2);
	T.cuEventRecord(e, a);
	P("wait across captures", T.cuStreamWaitEvent(b, e, 0));
	V("status a", status(a));
	V("status b", status(b));
	end("merge a", a);
	end("merge b", b);
	T.cuStreamBeginCapture(a, 2);
	T.cuMemsetD8Async(m, 0, 16, a);
	T.cuEventRecord(e, a);
	P("fork", T.cuStreamWaitEvent(b, e, 0));
	V("status b", status(b));
	P("memset on fork", T.cuMemsetD8Async(m + 64, 0, 16, b));
	P("end on fork", T.cuStreamEndCapture(b, &g));
	V("status a", status(a));
	end("end on fork, then origin", a);
	V("status b", status(b));
	T.cuStreamBeginCapture(a, 2);
	T.cuMemsetD8Async(m, 0, 16, a);
	T.cuEventRecord(e, a);
	T.cuStreamWaitEvent(b, e, 0);
	T.cuMemsetD8Async(m + 64, 0, 16, b);
	end("unjoined", a);
	V("status b", status(b));
	T.cuStreamBeginCapture(a, 2);
	T.cuMemsetD8Async(m, 0, 16, a);
	T.cuEventRecord(e, a);
	T.cuStreamWaitEvent(b, e, 0);
	end("forked, nothing on the fork", a);
	T.cuStreamBeginCapture(a, 2);
	T.cuMemsetD8Async(m, 0, 16, a);
	T.cuEventRecord(e, a);
	T.cuStreamWaitEvent(b, e, 0);
	T.cuMemsetD8Async(m + 64, 0, 16, b);
	T.cuEventRecord(f, b);
	T.cuStreamWaitEvent(a, f, 0);
	end("joined", a);
	T.cuStreamBeginCapture(a, 2);
	T.cuEventRecord(e, a);
	P("legacy waits for a captured event", T.cuStreamWaitEvent(0, e, 0));
	V("status", status(a));
	end("legacy waits for a captured event", a);
	T.cuStreamBeginCapture(a, 2);
	P("record external", T.cuEventRecordWithFlags(e, a, 1));
	P("wait external", T.cuStreamWaitEvent(a, f, 1));
	end("external", a);
	P("query externally recorded event", T.cuEventQuery(e));

	printf("# capture and the rest\n");
	T.cuStreamBeginCapture(a, 2);
	P("callback", T.cuStreamAddCallback(a, callback, 0, 0));
	V("status", status(a));
	end("callback", a);
	T.cuStreamBeginCapture(a, 2);
	P("host function", T.cuLaunchHostFunc(a, nothing, 0));
	P("pageable to device", T.cuMemcpyHtoDAsync(m, (ho_word)host, 16, a));
	P("device to pageable", T.cuMemcpyDtoHAsync((ho_word)host, m, 16, a));
	V("status", status(a));
	end("host function and copies", a);
	T.cuStreamBeginCapture(a, 2);
	P("stream-ordered alloc", T.cuMemAllocAsync(&p, 64, a));
	P("memset of it", T.cuMemsetD8Async(p, 0, 64, a));
	P("stream-ordered free", T.cuMemFreeAsync(p, a));
	end("alloc and free", a);
	T.cuMemAllocAsync(&p, 64, b);
	T.cuStreamSynchronize(b);
	T.cuStreamBeginCapture(a, 2);
	P("free of memory from outside", T.cuMemFreeAsync(p, a));
	V("status", status(a));
	end("free of memory from outside", a);
	T.cuMemFreeAsync(p, b);
	T.cuGraphCreate(&g, 0);
	memset(&ip, 0, sizeof ip);
	P("instantiate empty", T.cuGraphInstantiateWithParams(&x, g, &ip));
	T.cuStreamBeginCapture(a, 2);
	P("graph launch", T.cuGraphLaunch(x, a));
	V("status", status(a));
	end("graph launch", a);
	T.cuGraphExecDestroy(x);
	T.cuGraphDestroy(g);
	T.cuStreamBeginCapture(a, 2);
	P("destroy of a capturing stream", T.cuStreamDestroy(a));
	T.cuStreamDestroy(b);
	T.cuStreamDestroy(blocking);
	T.cuEventDestroy(e);
	T.cuEventDestroy(f);
	P("synchronize", T.cuCtxSynchronize());
	T.cuMemFree(m);
}

static void graphs(void)
{
	ho_graph g = 0, g2 = 0;
	ho_graph_node n1 = 0, n2 = 0, n3 = 0, free1 = 0;
	ho_graph_exec x = 0;
	ho_graph_instantiate_params ip;
	ho_graph_exec_update_result ur;
	ho_memset_node_params ms;
	ho_mem_alloc_node_params ap;
	ho_host_node_params hp = {nothing, 0};
	ho_stream s = mk(1);
	ho_devptr m = dev(4096);
	ho_context c = 0;
	size_t n = 0;
	unsigned on = 0;
	int type = -1;

	T.cuCtxGetCurrent(&c);
	printf("# graphs\n");
	P("create flags 1", T.cuGraphCreate(&g, 1));
	T.cuGraphCreate(&g, 0);
	P("empty node", T.cuGraphAddEmptyNode(&n1, g, NULL, 0));
	memset(&ms, 0, sizeof ms);
	ms.dst = m;
	ms.element_size = 1;
	ms.width = 64;
	ms.height = 1;
	P("memset node", T.cuGraphAddMemsetNode(&n2, g, &n1, 1, &ms, c));
	ms.element_size = 3;
	P("memset node, element 3", T.cuGraphAddMemsetNode(&n3, g, &n1, 1, &ms, c));
	ms.element_size = 1;
	ms.width = 0;
	P("memset node, width 0", T.cuGraphAddMemsetNode(&n3, g, &n1, 1, &ms, c));
	ms.width = 64;
	P("host node", T.cuGraphAddHostNode(&n3, g, &n2, 1, &hp));
	P("type", T.cuGraphNodeGetType(n3, &type));
	V("type", type);
	P("edge again", T.cuGraphAddDependencies(g, &n1, &n2, NULL, 1));
	P("edge to itself", T.cuGraphAddDependencies(g, &n1, &n1, NULL, 1));
	P("edge that is not there", T.cuGraphRemoveDependencies(g, &n1, &n3, NULL, 1));
	P("edge that makes a cycle", T.cuGraphAddDependencies(g, &n3, &n1, NULL, 1));
	memset(&ip, 0, sizeof ip);
	P("instantiate with a cycle", T.cuGraphInstantiateWithParams(&x, g, &ip));
	V("result", ip.result);
	P("remove it", T.cuGraphRemoveDependencies(g, &n3, &n1, NULL, 1));
	P("count", T.cuGraphGetNodes(g, NULL, &n));
	V("nodes", n);
	P("roots", T.cuGraphGetRootNodes(g, NULL, &n));
	V("roots", n);
	P("edges", T.cuGraphGetEdges(g, NULL, NULL, NULL, &n));
	V("edges", n);
	P("instantiate flags 99", (ip.flags = 99 << 8, T.cuGraphInstantiateWithParams(&x, g, &ip)));
	ip.flags = 0;
	P("instantiate", T.cuGraphInstantiateWithParams(&x, g, &ip));
	P("launch", T.cuGraphLaunch(x, s));
	P("launch on legacy", T.cuGraphLaunch(x, 0));
	P("synchronize", T.cuCtxSynchronize());
	P("enabled of host node", T.cuGraphNodeGetEnabled(x, n3, &on));
	P("enabled of memset node", T.cuGraphNodeGetEnabled(x, n2, &on));
	V("enabled", on);
	P("disable memset", T.cuGraphNodeSetEnabled(x, n2, 0));
	P("set params of the wrong type", T.cuGraphExecHostNodeSetParams(x, n2, &hp));
	ms.value = 3;
	P("set params", T.cuGraphExecMemsetNodeSetParams(x, n2, &ms, c));
	T.cuGraphCreate(&g2, 0);
	P("update from an empty graph", T.cuGraphExecUpdate(x, g2, &ur));
	V("result", ur.result);
	T.cuGraphDestroy(g2);
	P("clone", T.cuGraphClone(&g2, g));
	P("update from a clone", T.cuGraphExecUpdate(x, g2, &ur));
	V("result", ur.result);
	P("find in clone", T.cuGraphNodeFindInClone(&n1, n2, g2));
	P("find in the original", T.cuGraphNodeFindInClone(&n1, n2, g));
	P("destroy the clone", T.cuGraphDestroy(g2));
	P("destroy a node", T.cuGraphDestroyNode(n2));
	P("destroy", T.cuGraphDestroy(g));
	P("launch after destroy", T.cuGraphLaunch(x, s));
	P("synchronize", T.cuStreamSynchronize(s));
	P("destroy exec", T.cuGraphExecDestroy(x));

	printf("# graph memory\n");
	T.cuGraphCreate(&g, 0);
	memset(&ap, 0, sizeof ap);
	P("alloc node of nothing", T.cuGraphAddMemAllocNode(&n1, g, NULL, 0, &ap));
	ap.pool.alloc_type = 1;
	ap.pool.location.type = 1;
	ap.bytes = 1024;
	P("alloc node", T.cuGraphAddMemAllocNode(&n1, g, NULL, 0, &ap));
	V("address", ap.dptr != 0);
	P("clone", T.cuGraphClone(&g2, g));
	P("destroy alloc node", T.cuGraphDestroyNode(n1));
	P("instantiate", T.cuGraphInstantiateWithParams(&x, g, &ip));
	P("instantiate again", T.cuGraphInstantiateWithParams(&(ho_graph_exec){0}, g, &ip));
	P("launch", T.cuGraphLaunch(x, s));
	P("launch again, unfreed", T.cuGraphLaunch(x, s));
	P("memset of it", T.cuMemsetD8Async(ap.dptr, 1, 1024, s));
	P("free outside", T.cuMemFreeAsync(ap.dptr, s));
	P("free outside again", T.cuMemFreeAsync(ap.dptr, s));
	P("launch after free", T.cuGraphLaunch(x, s));
	P("plain free", T.cuMemFree(ap.dptr));
	T.cuStreamSynchronize(s);
	P("free node without alloc in order", T.cuGraphAddMemFreeNode(&free1, g, NULL, 0, ap.dptr));
	P("free node", T.cuGraphAddMemFreeNode(&free1, g, &n1, 1, ap.dptr));
	P("free node again", T.cuGraphAddMemFreeNode(&n2, g, &free1, 1, ap.dptr));
	P("free node of plain memory", T.cuGraphAddMemFreeNode(&n2, g, NULL, 0, m));
	T.cuGraphExecDestroy(x);
	T.cuGraphDestroy(g);
	T.cuStreamDestroy(s);
	T.cuMemFree(m);
}

/* Code for the kernels: PTX for a GPU, an image for the software device, whose
 * user registers them. */
static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry nop() { ret; }\n"
	".visible .entry args(.param .u64 p, .param .u32 n) { ret; }\n";
static const char image[] = "handoff-soft-image 1\nkernel nop\nkernel args\n";

static int destroyed;

static void destroy(ho_word user)
{
	(void)user;
	destroyed++;
}

static void node_params(void)
{
	ho_module mod = 0;
	ho_function nop = 0, args = 0;
	ho_graph g = 0, child = 0, inner = 0;
	ho_graph_node k = 0, k2 = 0, c = 0, m = 0, h = 0, r = 0, w = 0, ch = 0, al = 0, fr = 0, nodes[8] = {0}, to[8] = {0};
	ho_graph_edge_data data[8];
	ho_graph_exec x = 0;
	ho_graph_instantiate_params ip;
	ho_kernel_node_params kp, kq;
	ho_memcpy3d cp, cq;
	ho_memset_node_params mp, mq;
	ho_host_node_params hp = {nothing, 7}, hq;
	ho_mem_alloc_node_params ap, aq;
	ho_graph_node_params np;
	ho_launch_attribute_value val;
	ho_event e = ev(0), f = ev(0), eq = 0;
	ho_devptr a = dev(256), b = dev(256), fq = 0;
	ho_context ctx = 0;
	ho_stream s = mk(1);
	ho_user_object u = 0;
	uint64_t ptr = 0x1234, flags = 99, mem = 0;
	unsigned n = 5, on = 9;
	void *params[2] = {&ptr, &n};
	size_t count = 0;
	char host[64] = {0}, path[64];

	T.cuCtxGetCurrent(&ctx);
	memset(&ip, 0, sizeof ip);
	if (T.cuModuleLoadData(&mod, (void *)ptx) != 0)
		T.cuModuleLoadData(&mod, (void *)image);
	T.cuModuleGetFunction(&nop, mod, (char *)"nop");
	T.cuModuleGetFunction(&args, mod, (char *)"args");
	T.cuGraphCreate(&g, 0);
	printf("# kernel nodes\n");
	memset(&kp, 0, sizeof kp);
	kp.func = args;
	kp.grid_x = 2;
	kp.grid_y = kp.grid_z = kp.block_y = kp.block_z = 1;
	kp.block_x = 32;
	kp.params = params;
	P("add", T.cuGraphAddKernelNode(&k, g, NULL, 0, &kp));
	ptr = 0;
	n = 0;
	memset(&kq, 0xff, sizeof kq);
	P("get", T.cuGraphKernelNodeGetParams(k, &kq));
	V("function", kq.func == args);
	V("kernel", kq.kern == 0);
	V("context", kq.ctx == ctx);
	V("grid", kq.grid_x);
	V("block", kq.block_x);
	V("shared", kq.shared_bytes);
	V("pointer argument", kq.params != NULL ? (long long)*(uint64_t *)kq.params[0] : -1);
	V("number argument", kq.params != NULL ? (long long)*(uint32_t *)kq.params[1] : -1);
	V("extra", kq.extra != NULL);
	kp.grid_x = 0;
	P("set grid 0", T.cuGraphKernelNodeSetParams(k, &kp));
	kp.grid_x = 3;
	P("set", T.cuGraphKernelNodeSetParams(k, &kp));
	P("get", T.cuGraphKernelNodeGetParams(k, &kq));
	V("grid", kq.grid_x);
	V("number argument", *(uint32_t *)kq.params[1]);
	P("get of NULL", T.cuGraphKernelNodeGetParams(k, NULL));
	kp.func = 0;
	P("set without function", T.cuGraphKernelNodeSetParams(k, &kp));
	kp.func = nop;
	kp.params = NULL;
	P("add another", T.cuGraphAddKernelNode(&k2, g, &k, 1, &kp));
	P("set to another function", T.cuGraphKernelNodeSetParams(k, &kp));
	memset(&val, 0, sizeof val);
	P("attribute priority", T.cuGraphKernelNodeGetAttribute(k, 8, &val));
	V("priority", val.priority);
	val.priority = -1;
	P("set priority", T.cuGraphKernelNodeSetAttribute(k, 8, &val));
	P("attribute 99", T.cuGraphKernelNodeGetAttribute(k, 99, &val));
	P("copy attributes", T.cuGraphKernelNodeCopyAttributes(k2, k));
	memset(&val, 0, sizeof val);
	P("attribute priority", T.cuGraphKernelNodeGetAttribute(k2, 8, &val));
	V("priority", val.priority);

	printf("# copy, memset, host nodes\n");
	memset(&cp, 0, sizeof cp);
	cp.src_type = 1;
	cp.src_host = (ho_word)host;
	cp.dst_type = 2;
	cp.dst_device = a;
	cp.width_bytes = 64;
	cp.height = cp.depth = 1;
	P("add copy", T.cuGraphAddMemcpyNode(&c, g, NULL, 0, &cp, ctx));
	memset(&cq, 0xff, sizeof cq);
	P("get copy", T.cuGraphMemcpyNodeGetParams(c, &cq));
	V("source type", cq.src_type);
	V("target type", cq.dst_type);
	V("source", cq.src_host == (ho_word)host);
	V("target", cq.dst_device == a);
	V("width", cq.width_bytes);
	V("height", cq.height);
	cp.width_bytes = 0;
	P("set copy of nothing", T.cuGraphMemcpyNodeSetParams(c, &cp));
	cp.width_bytes = 512;
	P("set copy that overruns", T.cuGraphMemcpyNodeSetParams(c, &cp));
	cp.width_bytes = 32;
	cp.dst_device = b;
	P("set copy", T.cuGraphMemcpyNodeSetParams(c, &cp));
	P("get copy of a kernel node", T.cuGraphMemcpyNodeGetParams(k, &cq));
	memset(&mp, 0, sizeof mp);
	mp.dst = a;
	mp.value = 0xab;
	mp.element_size = 2;
	mp.width = 8;
	mp.height = 2;
	mp.pitch = 32;
	P("add memset", T.cuGraphAddMemsetNode(&m, g, &c, 1, &mp, ctx));
	memset(&mq, 0xff, sizeof mq);
	P("get memset", T.cuGraphMemsetNodeGetParams(m, &mq));
	V("target", mq.dst == a);
	V("value", mq.value);
	V("element", mq.element_size);
	V("width", mq.width);
	V("height", mq.height);
	V("pitch", mq.pitch);
	mp.pitch = 4;
	P("set memset with a small pitch", T.cuGraphMemsetNodeSetParams(m, &mp));
	mp.pitch = 32;
	mp.value = 1;
	P("set memset", T.cuGraphMemsetNodeSetParams(m, &mp));
	P("add host", T.cuGraphAddHostNode(&h, g, &m, 1, &hp));
	memset(&hq, 0, sizeof hq);
	P("get host", T.cuGraphHostNodeGetParams(h, &hq));
	V("function", hq.fn == nothing);
	V("datum", hq.user);
	hp.user = 8;
	P("set host", T.cuGraphHostNodeSetParams(h, &hp));
	P("get host", T.cuGraphHostNodeGetParams(h, &hq));
	V("datum", hq.user);
	hp.fn = NULL;
	P("set host to NULL", T.cuGraphHostNodeSetParams(h, &hp));
	hp.fn = nothing;

	printf("# event, child, memory nodes\n");
	P("add record", T.cuGraphAddEventRecordNode(&r, g, &h, 1, e));
	P("get record", T.cuGraphEventRecordNodeGetEvent(r, &eq));
	V("event", eq == e);
	P("set record", T.cuGraphEventRecordNodeSetEvent(r, f));
	P("get record", T.cuGraphEventRecordNodeGetEvent(r, &eq));
	V("event", eq == f);
	P("add wait", T.cuGraphAddEventWaitNode(&w, g, &r, 1, e));
	P("get wait", T.cuGraphEventWaitNodeGetEvent(w, &eq));
	V("event", eq == e);
	P("set wait", T.cuGraphEventWaitNodeSetEvent(w, f));
	T.cuGraphCreate(&child, 0);
	T.cuGraphAddMemsetNode(&nodes[0], child, NULL, 0, &mp, ctx);
	P("add child", T.cuGraphAddChildGraphNode(&ch, g, &w, 1, child));
	P("get child", T.cuGraphChildGraphNodeGetGraph(ch, &inner));
	V("nodes inside", (T.cuGraphGetNodes(inner, NULL, &count), count));

	printf("# edges\n");
	P("dependencies of host", T.cuGraphNodeGetDependencies(h, NULL, NULL, &count));
	V("count", count);
	count = 4;
	memset(nodes, 0xff, sizeof nodes);
	memset(data, 0xff, sizeof data);
	P("dependencies of host", T.cuGraphNodeGetDependencies(h, nodes, data, &count));
	V("count", count);
	V("first", nodes[0] == m);
	V("rest is 0", nodes[1] == 0 && nodes[3] == 0);
	V("data", data[0].from_port + data[0].to_port + data[0].type);
	count = 8;
	P("dependents of host", T.cuGraphNodeGetDependentNodes(h, nodes, NULL, &count));
	V("count", count);
	V("first", nodes[0] == r);
	P("edges", T.cuGraphGetEdges(g, NULL, NULL, NULL, &count));
	V("count", count);
	count = 2;
	P("two edges", T.cuGraphGetEdges(g, nodes, to, NULL, &count));
	V("count", count);
	count = 2;
	P("two nodes", T.cuGraphGetNodes(g, nodes, &count));
	V("count", count);
	V("first", nodes[0] == k);
	V("second", nodes[1] == k2);
	count = 8;
	P("roots", T.cuGraphGetRootNodes(g, nodes, &count));
	V("count", count);
	P("edges, one list", T.cuGraphGetEdges(g, nodes, NULL, NULL, &count));

	printf("# the executable's nodes\n");
	P("instantiate", T.cuGraphInstantiateWithParams(&x, g, &ip));
	P("flags", T.cuGraphExecGetFlags(x, &flags));
	V("flags", flags);
	kp.func = nop;
	kp.params = NULL;
	kp.grid_x = 4;
	P("set kernel", T.cuGraphExecKernelNodeSetParams(x, k2, &kp));
	kp.grid_x = 0;
	P("set kernel, grid 0", T.cuGraphExecKernelNodeSetParams(x, k2, &kp));
	kp.grid_x = 1;
	P("set copy", T.cuGraphExecMemcpyNodeSetParams(x, c, &cp, ctx));
	P("set memset", T.cuGraphExecMemsetNodeSetParams(x, m, &mp, ctx));
	P("set host", T.cuGraphExecHostNodeSetParams(x, h, &hp));
	P("set record", T.cuGraphExecEventRecordNodeSetEvent(x, r, e));
	P("set wait", T.cuGraphExecEventWaitNodeSetEvent(x, w, e));
	P("set child", T.cuGraphExecChildGraphNodeSetParams(x, ch, child));
	T.cuGraphAddEmptyNode(&nodes[0], child, NULL, 0);
	P("set child of another shape", T.cuGraphExecChildGraphNodeSetParams(x, ch, child));
	P("disable kernel", T.cuGraphNodeSetEnabled(x, k, 0));
	P("enabled", T.cuGraphNodeGetEnabled(x, k, &on));
	V("enabled", on);
	P("upload", T.cuGraphUpload(x, s));
	P("launch", T.cuGraphLaunch(x, s));
	P("synchronize", T.cuStreamSynchronize(s));
	P("event", T.cuEventQuery(e));
	T.cuGraphExecDestroy(x);

	printf("# nodes by the general call\n");
	memset(&np, 0, sizeof np);
	np.type = 0;
	np.u.kernel = kp;
	P("kernel", T.cuGraphAddNode(&nodes[0], g, NULL, NULL, 0, &np));
	np.u.kernel.grid_x = 5;
	P("set kernel", T.cuGraphNodeSetParams(nodes[0], &np));
	P("get", T.cuGraphKernelNodeGetParams(nodes[0], &kq));
	V("grid", kq.grid_x);
	memset(&np, 0, sizeof np);
	np.type = 1;
	np.u.copy.ctx = ctx;
	np.u.copy.copy = cp;
	P("copy", T.cuGraphAddNode(&nodes[1], g, NULL, NULL, 0, &np));
	memset(&np, 0, sizeof np);
	np.type = 2;
	np.u.set.dst = a;
	np.u.set.element_size = 1;
	np.u.set.width = 4;
	np.u.set.height = 1;
	np.u.set.ctx = ctx;
	P("memset", T.cuGraphAddNode(&nodes[2], g, NULL, NULL, 0, &np));
	P("set a copy node to it", T.cuGraphNodeSetParams(nodes[1], &np));
	memset(&np, 0, sizeof np);
	np.type = 3;
	np.u.host = hp;
	P("host", T.cuGraphAddNode(&nodes[3], g, NULL, NULL, 0, &np));
	memset(&np, 0, sizeof np);
	np.type = 5;
	P("empty", T.cuGraphAddNode(&nodes[4], g, NULL, NULL, 0, &np));
	P("set empty", T.cuGraphNodeSetParams(nodes[4], &np));
	memset(&np, 0, sizeof np);
	np.type = 6;
	np.u.event_wait.event = e;
	P("wait", T.cuGraphAddNode(&nodes[5], g, NULL, NULL, 0, &np));
	np.type = 7;
	P("record", T.cuGraphAddNode(&nodes[6], g, NULL, NULL, 0, &np));
	np.type = 77;
	P("type 77", T.cuGraphAddNode(&nodes[6], g, NULL, NULL, 0, &np));
	P("NULL", T.cuGraphAddNode(&nodes[6], g, NULL, NULL, 0, NULL));
	P("dot", (snprintf(path, sizeof path, "/tmp/ho-probe-%d.dot", (int)getpid()), T.cuGraphDebugDotPrint(g, path, 0)));
	V("written", access(path, R_OK) == 0);
	unlink(path);
	P("destroy", T.cuGraphDestroy(g));
	T.cuGraphDestroy(child);

	printf("# allocation nodes\n");
	T.cuGraphCreate(&g, 0);
	memset(&ap, 0, sizeof ap);
	ap.pool.alloc_type = 1;
	ap.pool.location.type = 1;
	ap.bytes = 1000;
	P("alloc", T.cuGraphAddMemAllocNode(&al, g, NULL, 0, &ap));
	memset(&aq, 0, sizeof aq);
	P("get alloc", T.cuGraphMemAllocNodeGetParams(al, &aq));
	V("bytes", aq.bytes);
	V("address", aq.dptr == ap.dptr);
	P("free", T.cuGraphAddMemFreeNode(&fr, g, &al, 1, ap.dptr));
	P("get free", T.cuGraphMemFreeNodeGetParams(fr, &fq));
	V("address", fq == ap.dptr);
	P("free again", T.cuGraphAddMemFreeNode(&nodes[0], g, &fr, 1, ap.dptr));
	P("free beside", T.cuGraphAddMemFreeNode(&nodes[0], g, NULL, 0, ap.dptr));
	P("instantiate", T.cuGraphInstantiateWithParams(&x, g, &ip));
	P("launch", T.cuGraphLaunch(x, s));
	P("launch", T.cuGraphLaunch(x, s));
	P("synchronize", T.cuStreamSynchronize(s));
	T.cuGraphExecDestroy(x);
	T.cuGraphDestroy(g);
	P("graph memory in use", T.cuDeviceGetGraphMemAttribute(0, 0, &mem));
	P("graph memory attribute 9", T.cuDeviceGetGraphMemAttribute(0, 9, &mem));
	mem = 0;
	P("reset high", T.cuDeviceSetGraphMemAttribute(0, 1, &mem));
	mem = 5;
	P("set high to 5", T.cuDeviceSetGraphMemAttribute(0, 1, &mem));
	mem = 0;
	P("set current", T.cuDeviceSetGraphMemAttribute(0, 0, &mem));
	P("trim", T.cuDeviceGraphMemTrim(0));
	P("trim device 99", T.cuDeviceGraphMemTrim(99));

	printf("# user objects\n");
	P("create flags 0", T.cuUserObjectCreate(&u, 1, destroy, 1, 0));
	P("create no references", T.cuUserObjectCreate(&u, 1, destroy, 0, 1));
	P("create without destructor", T.cuUserObjectCreate(&u, 1, NULL, 1, 1));
	P("create", T.cuUserObjectCreate(&u, 1, destroy, 1, 1));
	P("retain", T.cuUserObjectRetain(u, 2));
	P("release", T.cuUserObjectRelease(u, 2));
	V("destroyed", destroyed);
	T.cuGraphCreate(&g, 0);
	P("give to a graph", T.cuGraphRetainUserObject(g, u, 1, 0));
	P("take back", T.cuGraphReleaseUserObject(g, u, 1));
	P("move to a graph", T.cuGraphRetainUserObject(g, u, 1, 1));
	P("destroy graph", T.cuGraphDestroy(g));
	usleep(100000);
	V("destroyed", destroyed);
	T.cuModuleUnload(mod);
	T.cuStreamDestroy(s);
	T.cuEventDestroy(e);
	T.cuEventDestroy(f);
	T.cuMemFree(a);
	T.cuMemFree(b);
}

static void settings(void)
{
	ho_context c = 0;
	ho_module mod = 0;
	ho_function fn[3] = {0}, nop = 0;
	ho_library lib = 0;
	ho_kernel ks[3] = {0}, k = 0;
	ho_stream s = mk(1), o = mk(1);
	ho_devptr m = 0, d = dev(64);
	ho_mem_location here = {1, 0}, host = {2, 0}, far = {1, 99};
	ho_device device = -1;
	ho_launch_attribute_value val;
	size_t v = 0, w = 0;
	unsigned u = 0;
	int i = 0, l[4];

	printf("# settings of a context\n");
	P("create", T.cuCtxCreate(&c, 4, 0));
	P("flags", T.cuCtxGetFlags(&u));
	V("flags", u & 7);
	P("set flags", T.cuCtxSetFlags(1));
	P("flags", T.cuCtxGetFlags(&u));
	V("flags", u & 7);
	P("set flags bad", T.cuCtxSetFlags(3));
	P("stack limit", T.cuCtxSetLimit(0, 4096));
	P("stack limit", T.cuCtxGetLimit(&v, 0));
	V("bytes", v);
	P("limit 99", T.cuCtxSetLimit(99, 1));
	P("cache config", T.cuCtxSetCacheConfig(2));
	P("cache config", T.cuCtxGetCacheConfig(&i));
	P("api version", T.cuCtxGetApiVersion(c, &u));
	P("profiler", T.cuProfilerStart());
	P("profiler", T.cuProfilerStop());
	P("destroy", T.cuCtxDestroy(c));
	T.cuCtxGetCurrent(&c);

	printf("# settings of code\n");
	if (T.cuModuleLoadDataEx(&mod, (void *)ptx, 0, NULL, NULL) != 0)
		T.cuModuleLoadDataEx(&mod, (void *)image, 0, NULL, NULL);
	V("loaded", mod != 0);
	P("enumerate", T.cuModuleEnumerateFunctions(fn, 2, mod));
	V("both", fn[0] != 0 && fn[1] != 0 && fn[2] == 0);
	T.cuModuleGetFunction(&nop, mod, (char *)"nop");
	P("module of a function", T.cuFuncGetModule(&(ho_module){0}, nop));
	P("load", T.cuFuncLoad(nop));
	P("is loaded", T.cuFuncIsLoaded(&i, nop));
	V("state", i);
	P("occupancy flags 1", T.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&i, nop, 32, 0, 1));
	P("occupancy flags 4", T.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&i, nop, 32, 0, 4));
	P("available shared", T.cuOccupancyAvailableDynamicSMemPerBlock(&v, nop, 1, 32));
	P("available shared, 0 blocks", T.cuOccupancyAvailableDynamicSMemPerBlock(&v, nop, 0, 32));
	if (T.cuLibraryLoadData(&lib, (void *)ptx, NULL, NULL, 0, NULL, NULL, 0) != 0)
		T.cuLibraryLoadData(&lib, (void *)image, NULL, NULL, 0, NULL, NULL, 0);
	P("kernels", T.cuLibraryEnumerateKernels(ks, 2, lib));
	V("both", ks[0] != 0 && ks[1] != 0);
	P("kernel", T.cuLibraryGetKernel(&k, lib, (char *)"args"));
	P("library of a kernel", T.cuKernelGetLibrary(&(ho_library){0}, k));
	P("function of a kernel", T.cuKernelGetFunction(&nop, k));
	P("parameter 1", T.cuKernelGetParamInfo(k, 1, &v, &w));
	V("offset", v);
	P("parameter 2", T.cuKernelGetParamInfo(k, 2, &v, &w));
	P("set attribute", T.cuKernelSetAttribute(8, 65536, k, 0));
	P("get attribute", T.cuKernelGetAttribute(&i, 8, k, 0));
	V("bytes", i);
	P("get attribute of the function", T.cuFuncGetAttribute(&i, 8, nop));
	V("bytes", i);
	P("set attribute of device 99", T.cuKernelSetAttribute(8, 65536, k, 99));
	P("get attribute 99", T.cuKernelGetAttribute(&i, 99, k, 0));
	P("cache config", T.cuKernelSetCacheConfig(k, 1, 0));
	P("global missing", T.cuLibraryGetGlobal(&m, &v, lib, (char *)"missing"));
	P("managed missing", T.cuLibraryGetManaged(&m, &v, lib, (char *)"missing"));
	P("unified function missing", T.cuLibraryGetUnifiedFunction(&(ho_word){0}, lib, (char *)"missing"));
	P("load missing file", T.cuLibraryLoadFromFile(&lib, (char *)"/nonexistent", NULL, NULL, 0, NULL, NULL, 0));
	T.cuLibraryUnload(lib);
	T.cuModuleUnload(mod);
	P("loading mode", T.cuModuleGetLoadingMode(&i));

	printf("# settings of streams\n");
	P("device", T.cuStreamGetDevice(s, &device));
	V("ordinal", device);
	memset(&val, 0, sizeof val);
	val.sync_policy = 2;
	T.cuStreamSetAttribute(s, 3, &val);
	P("copy attributes", T.cuStreamCopyAttributes(o, s));
	memset(&val, 0, sizeof val);
	P("attribute", T.cuStreamGetAttribute(o, 3, &val));
	V("policy", val.sync_policy);
	T.cuStreamDestroy(o);

	printf("# managed memory\n");
	T.cuMemAllocManaged(&m, 8192, 1);
	P("prefetch", T.cuMemPrefetchAsync(m, 8192, here, 0, s));
	P("prefetch to the host", T.cuMemPrefetchAsync(m, 4096, host, 0, s));
	P("prefetch to device 99", T.cuMemPrefetchAsync(m, 4096, far, 0, s));
	P("prefetch flags 1", T.cuMemPrefetchAsync(m, 4096, here, 1, s));
	P("prefetch too much", T.cuMemPrefetchAsync(m, 1 << 20, here, 0, s));
	P("prefetch plain memory", T.cuMemPrefetchAsync(d, 64, here, 0, s));
	P("prefetch nothing", T.cuMemPrefetchAsync(m, 0, here, 0, s));
	T.cuStreamSynchronize(s);
	P("read mostly", T.cuMemAdvise(m, 8192, 1, here));
	P("attribute", T.cuMemRangeGetAttribute(&i, 4, 1, m, 8192));
	V("read mostly", i);
	P("preferred location", T.cuMemAdvise(m, 8192, 3, here));
	P("attribute", T.cuMemRangeGetAttribute(&i, 4, 2, m, 8192));
	V("preferred", i);
	P("accessed by", T.cuMemAdvise(m, 8192, 5, here));
	P("attribute", T.cuMemRangeGetAttribute(l, 16, 3, m, 8192));
	V("first", l[0]);
	V("second", l[1]);
	P("advice 99", T.cuMemAdvise(m, 8192, 99, here));
	P("advice of device 99", T.cuMemAdvise(m, 8192, 3, far));
	P("advice for plain memory", T.cuMemAdvise(d, 64, 1, here));
	P("attribute 99", T.cuMemRangeGetAttribute(&i, 4, 99, m, 8192));
	P("attribute of 3 bytes", T.cuMemRangeGetAttribute(&i, 3, 1, m, 8192));
	P("attach", T.cuStreamAttachMemAsync(s, m, 0, 4));
	P("attach flags 3", T.cuStreamAttachMemAsync(s, m, 0, 3));
	P("attach interior", T.cuStreamAttachMemAsync(s, m + 64, 64, 4));
	P("attach plain memory", T.cuStreamAttachMemAsync(s, d, 0, 4));
	T.cuStreamSynchronize(s);
	T.cuStreamDestroy(s);
	T.cuMemFree(m);
	T.cuMemFree(d);
}

static void peers(void)
{
	ho_context c0 = 0, c1 = 0;
	ho_devptr p, q;
	int n = 0, v = 0;
	ho_mem_pool pool = 0;
	ho_mem_location loc = {1, 1};
	ho_mem_access_desc acc = {{1, 1}, 3};
	ho_stream s0, s1;
	ho_event e0, e1;
	float ms;

	T.cuDeviceGetCount(&n);
	if (n < 2)
		return;
	printf("# peers\n");
	T.cuDevicePrimaryCtxRetain(&c0, 0);
	T.cuDevicePrimaryCtxRetain(&c1, 1);
	T.cuCtxSetCurrent(c1);
	q = dev(4096);
	s1 = mk(1);
	e1 = ev(0);
	T.cuCtxSetCurrent(c0);
	p = dev(4096);
	s0 = mk(1);
	e0 = ev(0);
	P("can access", T.cuDeviceCanAccessPeer(&v, 0, 1));
	V("can", v);
	P("can access itself", T.cuDeviceCanAccessPeer(&v, 0, 0));
	V("can", v);
	P("attribute of itself", T.cuDeviceGetP2PAttribute(&v, 2, 0, 0));
	P("attribute", T.cuDeviceGetP2PAttribute(&v, 2, 0, 1));
	V("value", v);
	P("attribute 99", T.cuDeviceGetP2PAttribute(&v, 99, 0, 1));
	P("disable not enabled", T.cuCtxDisablePeerAccess(c1));
	P("enable flags 1", T.cuCtxEnablePeerAccess(c1, 1));
	P("enable itself", T.cuCtxEnablePeerAccess(c0, 0));
	P("copy without access", T.cuMemcpyDtoDAsync(p, q, 4096, s0));
	P("enable", T.cuCtxEnablePeerAccess(c1, 0));
	P("enable again", T.cuCtxEnablePeerAccess(c1, 0));
	P("disable", T.cuCtxDisablePeerAccess(c1));
	P("disable again", T.cuCtxDisablePeerAccess(c1));
	P("peer copy", T.cuMemcpyPeerAsync(q, c1, p, c0, 4096, s0));
	P("peer copy, contexts swapped", T.cuMemcpyPeerAsync(q, c0, p, c1, 4096, s0));
	P("peer copy of context 0", T.cuMemcpyPeerAsync(q, 0, p, 0, 4096, s0));
	P("synchronous peer copy", T.cuMemcpyPeer(q, c1, p, c0, 4096));
	P("free of the other device's memory", T.cuMemFree(q));
	P("memset on the other device's stream", T.cuMemsetD8Async(p, 0, 16, s1));
	P("copy on the other device's stream", T.cuMemcpyDtoDAsync(p, p + 64, 64, s1));
	P("record of an event of device 0 on a stream of device 1", T.cuEventRecord(e0, s1));
	P("wait across devices", (T.cuEventRecord(e0, s0), T.cuStreamWaitEvent(s1, e0, 0)));
	P("record on own", T.cuEventRecord(e1, s1));
	T.cuStreamSynchronize(s0);
	T.cuStreamSynchronize(s1);
	P("elapsed across devices", T.cuEventElapsedTime(&ms, e0, e1));
	T.cuDeviceGetDefaultMemPool(&pool, 0);
	P("pool access of peer", T.cuMemPoolGetAccess(&v, pool, &loc));
	V("access", v);
	P("set pool access of peer", T.cuMemPoolSetAccess(pool, &acc, 1));
	P("pool access of peer", T.cuMemPoolGetAccess(&v, pool, &loc));
	V("access", v);
	acc.flags = 0;
	P("take it back", T.cuMemPoolSetAccess(pool, &acc, 1));
	P("set the other device's pool", T.cuDeviceSetMemPool(1, pool));
	T.cuCtxSynchronize();
	T.cuStreamDestroy(s0);
	T.cuStreamDestroy(s1);
	T.cuEventDestroy(e0);
	T.cuEventDestroy(e1);
	T.cuMemFree(p);
	T.cuDevicePrimaryCtxRelease(1);
	T.cuDevicePrimaryCtxRelease(0);
}

static void kernels(void)
{
	ho_module mod = 0, mod2;
	ho_function nop = 0, args = 0;
	ho_library lib = 0;
	ho_kernel k = 0;
	ho_stream s = mk(1), s2 = 0;
	ho_context c = 0, cur = 0;
	ho_launch_config cfg;
	ho_launch_attribute at;
	uint64_t p = 0;
	unsigned n = 0;
	void *params[2] = {&p, &n};
	size_t off = 0, size = 0, packed_size = 12;
	int v = 0, w = 0;
	unsigned count = 0;
	char packed[12] = {0};
	ho_word extra[5] = {1, (ho_word)packed, 2, (ho_word)&packed_size, 0};
	ho_word none[1] = {0};
	char *name = NULL;

	T.cuCtxGetCurrent(&cur);
	printf("# kernels\n");
	P("load rubbish", T.cuModuleLoadData(&mod, (void *)"rubbish, not an image, and longer than any magic number is"));
	P("load missing file", T.cuModuleLoad(&mod, (char *)"/nonexistent/file"));
	if (T.cuModuleLoadData(&mod, (void *)ptx) != 0)
		T.cuModuleLoadData(&mod, (void *)image);
	V("loaded", mod != 0);
	P("function missing", T.cuModuleGetFunction(&nop, mod, (char *)"missing"));
	P("global missing", T.cuModuleGetGlobal(&p, &size, mod, (char *)"missing"));
	P("function", T.cuModuleGetFunction(&nop, mod, (char *)"nop"));
	P("function", T.cuModuleGetFunction(&args, mod, (char *)"args"));
	P("function count", T.cuModuleGetFunctionCount(&count, mod));
	V("count", count);
	P("launch", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	P("grid 0", T.cuLaunchKernel(nop, 0, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	P("block 0", T.cuLaunchKernel(nop, 1, 1, 1, 1, 0, 1, 0, s, NULL, NULL));
	P("block 2048", T.cuLaunchKernel(nop, 1, 1, 1, 2048, 1, 1, 0, s, NULL, NULL));
	P("block z 128", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 128, 0, s, NULL, NULL));
	P("grid y 70000", T.cuLaunchKernel(nop, 1, 70000, 1, 1, 1, 1, 0, s, NULL, NULL));
	P("shared 64 KiB", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 65536, s, NULL, NULL));
	P("allow shared 64 KiB", T.cuFuncSetAttribute(nop, 8, 65536));
	P("shared 64 KiB", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 65536, s, NULL, NULL));
	P("allow shared 1 MiB", T.cuFuncSetAttribute(nop, 8, 1 << 20));
	P("allow shared -1", T.cuFuncSetAttribute(nop, 8, -1));
	P("set attribute 0", T.cuFuncSetAttribute(nop, 0, 5));
	P("set attribute 99", T.cuFuncSetAttribute(nop, 99, 5));
	P("carveout 101", T.cuFuncSetAttribute(nop, 9, 101));
	P("carveout -1", T.cuFuncSetAttribute(nop, 9, -1));
	P("get attribute 99", T.cuFuncGetAttribute(&v, 99, nop));
	P("get attribute 0", T.cuFuncGetAttribute(&v, 0, nop));
	V("max threads", v);
	P("get attribute 9", T.cuFuncGetAttribute(&v, 9, args));
	V("carveout", v);
	P("get attribute 8", T.cuFuncGetAttribute(&v, 8, args));
	V("dynamic shared", v);
	P("cache config 7", T.cuFuncSetCacheConfig(nop, 7));
	P("arguments", T.cuLaunchKernel(args, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	P("arguments missing", T.cuLaunchKernel(args, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	P("arguments packed", T.cuLaunchKernel(args, 1, 1, 1, 1, 1, 1, 0, s, NULL, extra));
	packed_size = 8;
	P("arguments packed, short", T.cuLaunchKernel(args, 1, 1, 1, 1, 1, 1, 0, s, NULL, extra));
	packed_size = 16;
	P("arguments packed, long", T.cuLaunchKernel(args, 1, 1, 1, 1, 1, 1, 0, s, NULL, extra));
	packed_size = 12;
	P("arguments twice", T.cuLaunchKernel(args, 1, 1, 1, 1, 1, 1, 0, s, params, extra));
	P("extra empty", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s, NULL, none));
	P("parameter 0", T.cuFuncGetParamInfo(args, 0, &off, &size));
	V("offset", off);
	V("size", size);
	P("parameter 1", T.cuFuncGetParamInfo(args, 1, &off, &size));
	V("offset", off);
	V("size", size);
	P("parameter 2", T.cuFuncGetParamInfo(args, 2, &off, &size));
	P("parameter without size", T.cuFuncGetParamInfo(args, 1, &off, NULL));
	P("parameter without offset", T.cuFuncGetParamInfo(args, 1, NULL, &size));
	P("name", T.cuFuncGetName(&name, args));
	V("is args", name != NULL && strcmp(name, "args") == 0);
	P("occupancy block 0", T.cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, nop, 0, 0));
	P("occupancy block 1024", T.cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, nop, 1024, 0));
	V("blocks", v);
	P("occupancy block 2048", T.cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, nop, 2048, 0));
	V("blocks", v);
	P("occupancy block 32", T.cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, nop, 32, 0));
	V("blocks", v);
	P("potential block size", T.cuOccupancyMaxPotentialBlockSize(&v, &w, nop, NULL, 0, 0));
	V("block", w);
	P("cooperative", T.cuLaunchCooperativeKernel(nop, 1, 1, 1, 32, 1, 1, 0, s, NULL));
	P("cooperative too large", T.cuLaunchCooperativeKernel(nop, 1000000, 1, 1, 1024, 1, 1, 0, s, NULL));
	memset(&cfg, 0, sizeof cfg);
	cfg.grid_x = 3;
	cfg.grid_y = cfg.grid_z = cfg.block_x = cfg.block_y = cfg.block_z = 1;
	cfg.stream = s;
	memset(&at, 0, sizeof at);
	at.id = 4;
	at.value.cluster_dim.x = 2;
	at.value.cluster_dim.y = at.value.cluster_dim.z = 1;
	cfg.attrs = &at;
	cfg.num_attrs = 1;
	P("cluster that does not divide", T.cuLaunchKernelEx(&cfg, nop, NULL, NULL));
	cfg.grid_x = 4;
	P("cluster", T.cuLaunchKernelEx(&cfg, nop, NULL, NULL));
	P("config NULL", T.cuLaunchKernelEx(NULL, nop, NULL, NULL));
	P("create context", T.cuCtxCreate(&c, 0, 0));
	s2 = mk(1);
	P("launch on a stream of another context", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s2, NULL, NULL));
	P("launch on legacy of another context", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
	P("own stream, other context current", T.cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	if (T.cuLibraryLoadData(&lib, (void *)ptx, NULL, NULL, 0, NULL, NULL, 0) != 0)
		T.cuLibraryLoadData(&lib, (void *)image, NULL, NULL, 0, NULL, NULL, 0);
	V("library", lib != 0);
	P("kernel missing", T.cuLibraryGetKernel(&k, lib, (char *)"missing"));
	P("kernel", T.cuLibraryGetKernel(&k, lib, (char *)"nop"));
	P("kernel as function", T.cuLaunchKernel((ho_function)k, 1, 1, 1, 1, 1, 1, 0, s2, NULL, NULL));
	P("kernel as function, other context's stream", T.cuLaunchKernel((ho_function)k, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	P("module of library", T.cuLibraryGetModule(&mod2, lib));
	P("unload module of library", T.cuModuleUnload(mod2));
	P("kernel count", T.cuLibraryGetKernelCount(&count, lib));
	V("count", count);
	P("unload", T.cuLibraryUnload(lib));
	T.cuCtxSynchronize();
	P("destroy context", T.cuCtxDestroy(c));
	T.cuCtxSetCurrent(cur);
	P("unload module", T.cuModuleUnload(mod));
	P("synchronize", T.cuCtxSynchronize());
	T.cuStreamDestroy(s);
}

static void forbidden(void)
{
	ho_stream a = mk(1), b = mk(1), x = 0;
	ho_event e = ev(2), f = ev(2), stale = ev(2);
	ho_devptr m = dev(4096), p, q = dev(64);
	ho_word h = 0, h2 = 0;
	ho_mem_pool pool = 0;
	char page[64];
	ho_context c = 0;
	size_t n;

	T.cuDeviceGetDefaultMemPool(&pool, 0);
	T.cuMemAllocHost(&h, 64);
	T.cuStreamBeginCapture(a, 2);
	T.cuEventRecord(stale, a);
	end("for a stale event", a);
	printf("# calls during a global capture\n");
#define DURING(label, expr) \
	T.cuStreamBeginCapture(a, 0); \
	P(label, expr); \
	V("  status", status(a)); \
	end("  ended", a);
	DURING("synchronize another stream", T.cuStreamSynchronize(b))
	T.cuEventRecord(e, b);
	DURING("synchronize an event outside", T.cuEventSynchronize(e))
	DURING("synchronous memset", T.cuMemsetD8(m, 0, 16))
	DURING("synchronous copy to host", T.cuMemcpyDtoH((ho_word)page, m, 16))
	DURING("cuMemFree", T.cuMemFree(q))
	DURING("cuMemAllocHost", T.cuMemAllocHost(&h2, 64))
	DURING("cuMemFreeHost", T.cuMemFreeHost(h))
	DURING("cuMemHostRegister", T.cuMemHostRegister((ho_word)page, 64, 0))
	DURING("cuMemAllocManaged", T.cuMemAllocManaged(&p, 64, 1))
	DURING("cuStreamCreate", T.cuStreamCreate(&x, 1))
	DURING("cuStreamDestroy of another", T.cuStreamDestroy(x))
	DURING("cuEventCreate", T.cuEventCreate(&f, 2))
	DURING("cuEventDestroy of another", T.cuEventDestroy(f))
	DURING("cuMemPoolTrimTo", T.cuMemPoolTrimTo(pool, 0))
	DURING("cuMemAllocAsync on another stream", T.cuMemAllocAsync(&p, 64, b))
	DURING("cuMemFreeAsync on another stream", T.cuMemFreeAsync(p, b))
	DURING("memset on another stream", T.cuMemsetD8Async(m, 0, 16, b))
	DURING("record on another stream", T.cuEventRecord(e, b))
	DURING("another stream waits", T.cuStreamWaitEvent(b, e, 0))
	DURING("cuMemGetInfo", T.cuMemGetInfo(&n, &n))
	DURING("cuCtxCreate", T.cuCtxCreate(&c, 0, 0))
	if (c)
		T.cuCtxDestroy(c);
	DURING("wait for a stale event", T.cuStreamWaitEvent(a, stale, 0))
	P("stale event again", T.cuEventRecord(stale, b));
	P("query it", (T.cuStreamSynchronize(b), T.cuEventQuery(stale)));
	P("host function NULL", T.cuLaunchHostFunc(a, NULL, 0));

	printf("# stream memory operations\n");
	T.cuMemAllocHost(&h, 64);
	memset((void *)h, 0, 64);
	P("write", T.cuStreamWriteValue32(a, m, 5, 0));
	P("write misaligned", T.cuStreamWriteValue32(a, m + 2, 5, 0));
	P("write 64 misaligned", T.cuStreamWriteValue64(a, m + 4, 5, 0));
	P("write to pageable", T.cuStreamWriteValue32(a, (ho_devptr)(uintptr_t)page, 5, 0));
	P("write to pinned", T.cuStreamWriteValue32(a, (ho_devptr)h, 5, 0));
	P("write flags 8", T.cuStreamWriteValue32(a, m, 5, 8));
	P("wait equal", T.cuStreamWaitValue32(a, m, 5, 1));
	P("wait greater or equal", T.cuStreamWaitValue32(a, m, 3, 0));
	P("wait and", T.cuStreamWaitValue32(a, m, 4, 2));
	P("wait nor", T.cuStreamWaitValue32(a, m, 4, 3));
	P("wait flags 64", T.cuStreamWaitValue32(a, m, 5, 64));
	P("write null", T.cuStreamWriteValue32(a, 0, 5, 0));
	P("synchronize", T.cuStreamSynchronize(a));
	V("pinned word", *(volatile uint32_t *)h);
	T.cuMemFreeHost(h);
	T.cuStreamDestroy(a);
	T.cuStreamDestroy(b);
	T.cuEventDestroy(e);
	T.cuEventDestroy(stale);
	T.cuMemFree(m);

	printf("# odd sizes\n");
	a = mk(1);
	p = 7;
	P("stream-ordered alloc of 0", T.cuMemAllocAsync(&p, 0, a));
	V("address", p);
	h = 7;
	P("host alloc of 0", T.cuMemHostAlloc(&h, 0, 0));
	V("address", h);
	{
		ho_launch_attribute_value val;

		memset(&val, 0, sizeof val);
		P("sync policy of a stream", T.cuStreamGetAttribute(a, 3, &val));
		V("policy", val.sync_policy);
		val.sync_policy = 2;
		P("set sync policy", T.cuStreamSetAttribute(a, 3, &val));
		val.sync_policy = 99;
		P("set sync policy 99", T.cuStreamSetAttribute(a, 3, &val));
	}
	T.cuStreamDestroy(a);
}

static void more_graphs(void)
{
	ho_graph g = 0, child = 0, body = 0, out = 0;
	ho_graph_node n1 = 0, n2 = 0;
	ho_graph_exec x = 0;
	ho_graph_instantiate_params ip;
	ho_graph_conditional cond = 0;
	ho_graph_node_params np;
	ho_stream a = mk(1), b = mk(1);
	ho_devptr m = dev(64);
	ho_event e = ev(0);
	ho_context c = 0;
	int st;
	uint64_t id;
	size_t n;

	T.cuCtxGetCurrent(&c);
	memset(&ip, 0, sizeof ip);
	printf("# child graphs and conditionals\n");
	T.cuGraphCreate(&g, 0);
	T.cuGraphCreate(&child, 0);
	T.cuGraphAddEmptyNode(&n1, child, NULL, 0);
	P("child", T.cuGraphAddChildGraphNode(&n1, g, NULL, 0, child));
	P("its graph", T.cuGraphChildGraphNodeGetGraph(n1, &body));
	V("is a clone", body != child);
	T.cuGraphDestroy(child);
	P("node of another graph as dependency", T.cuGraphAddEmptyNode(&n2, body, &n1, 1));
	P("dependency twice", T.cuGraphAddEmptyNode(&n2, g, (ho_graph_node[]){n1, n1}, 2));
	P("event record node", T.cuGraphAddEventRecordNode(&n2, g, &n1, 1, e));
	P("event wait node", T.cuGraphAddEventWaitNode(&n2, g, &n2, 1, e));
	P("event of the wrong node", T.cuGraphEventRecordNodeGetEvent(n2, &e));
	P("instantiate", T.cuGraphInstantiateWithParams(&x, g, &ip));
	P("launch", T.cuGraphLaunch(x, a));
	P("synchronize", T.cuStreamSynchronize(a));
	P("event", T.cuEventQuery(e));
	T.cuGraphExecDestroy(x);
	P("conditional handle", T.cuGraphConditionalHandleCreate(&cond, g, c, 1, 1));
	P("conditional handle flags 2", T.cuGraphConditionalHandleCreate(&(ho_graph_conditional){0}, g, c, 1, 2));
	memset(&np, 0, sizeof np);
	np.type = 13;
	np.u.conditional.handle = cond;
	np.u.conditional.type = 0;
	np.u.conditional.size = 1;
	np.u.conditional.ctx = c;
	P("instantiate with unused handle", T.cuGraphInstantiateWithParams(&x, g, &ip));
	V("result", ip.result);
	if (x)
		T.cuGraphExecDestroy(x);
	P("conditional", T.cuGraphAddNode(&n2, g, NULL, NULL, 0, &np));
	V("body", np.u.conditional.bodies != NULL && np.u.conditional.bodies[0] != 0);
	P("conditional with the same handle", T.cuGraphAddNode(&n2, g, NULL, NULL, 0, &np));
	np.u.conditional.size = 3;
	P("if of three", T.cuGraphAddNode(&n2, g, NULL, NULL, 0, &np));
	np.u.conditional.size = 1;
	np.u.conditional.handle = 12345;
	P("conditional with a strange handle", T.cuGraphAddNode(&n2, g, NULL, NULL, 0, &np));
	P("clone", T.cuGraphClone(&child, g));
	T.cuGraphDestroy(g);

	printf("# capture to a graph\n");
	T.cuGraphCreate(&g, 0);
	T.cuGraphAddEmptyNode(&n1, g, NULL, 0);
	P("begin", T.cuStreamBeginCaptureToGraph(a, g, &n1, NULL, 1, 2));
	P("memset", T.cuMemsetD8Async(m, 0, 16, a));
	P("info", T.cuStreamGetCaptureInfo(a, &st, &id, &out, NULL, NULL, &n));
	V("status", st);
	V("same graph", out == g);
	V("dependencies", n);
	P("update to none", T.cuStreamUpdateCaptureDependencies(a, NULL, NULL, 0, 1));
	P("update of a stream that does not capture", T.cuStreamUpdateCaptureDependencies(b, NULL, NULL, 0, 1));
	P("end", T.cuStreamEndCapture(a, &out));
	V("same graph", out == g);
	T.cuGraphGetNodes(g, NULL, &n);
	V("nodes", n);
	T.cuGraphDestroy(g);
	T.cuStreamDestroy(a);
	T.cuStreamDestroy(b);
	T.cuEventDestroy(e);
	T.cuMemFree(m);
}

void ho_soft_probe(const ho_cuda_table *table)
{
	T = *table;
	setvbuf(stdout, NULL, _IOLBF, 0);
	before_init();
	contexts();
	streams();
	memory();
	pools();
	capture();
	graphs();
	kernels();
	forbidden();
	more_graphs();
	node_params();
	settings();
	peers();
	fflush(stdout);
}

#ifdef HO_PROBE_MAIN
int main(int argc, char **argv)
{
	ho_cuda_table table;
	void *lib = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);

	if (lib == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
#define LOAD(name, symbol, version, ret, params) *(void **)&table.name = dlsym(lib, #symbol);
	HO_CUDA_ENTRIES(LOAD)
	ho_soft_probe(&table);
	return 0;
}
#endif
