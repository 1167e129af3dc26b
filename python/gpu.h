/* The GPU side of the bridge, shared between its C files: the driver that C
 * calls directly, what Go does for it, streams. Only here a driver header is
 * included; the rest of the bridge knows nothing of drivers. */
#pragma once

#include "../device/driver/driver.h"
#include "../device/driver/zcalls.h"
#include "gpuabi.h"
#include "internal.h"

/* ---- The driver (gpu.c) ------------------------------------------------- */

/* The driver of this process, opened by Go on first use. NULL with
 * NoDriverError (or ForkError) set. GIL held; it is given up while the driver
 * starts. */
HO_HIDDEN ho_driver *ho_gpu(void);
/* The same if it is open already, else NULL without an exception. */
HO_HIDDEN ho_driver *ho_gpu_in_use(void);
/* 0, or -1 with DriverError set: code and name are those of st. dev is -1
 * where there is none. */
HO_HIDDEN int ho_gpu_check(const char *op, int dev, ho_result st);
/* The exception of what Go reports. Returns -1. */
HO_HIDDEN int ho_gpu_raise(const char *op, ho_gpu_fault *f);
/* The primary context of a device, kept for ever; 0 with an exception set. */
HO_HIDDEN ho_context ho_gpu_context(int dev);
/* Where default streams belong to: the current context of the thread, or the
 * primary one of `dev`. 0 with an exception set. */
HO_HIDDEN ho_context ho_gpu_home(int dev);
/* Whose memory an address is (R195, R288): 1 and *out, 0 if the driver does not
 * know it, -1 with an exception set. */
HO_HIDDEN int ho_gpu_where(uint64_t address, DLDevice *out);
/* Brackets around calls that may wait: others run Python meanwhile. */
#define HO_UNLOCKED(statement) \
	do { \
		void *ho_saved = ho_py.PyEval_SaveThread(); \
		statement; \
		ho_py.PyEval_RestoreThread(ho_saved); \
	} while (0)

extern HO_HIDDEN ho_go_gpu_functions ho_go_gpu;

/* ---- CuPy (cupy.c) ------------------------------------------------------ */

/* 1 if the type is cupy.ndarray itself and this CuPy is one that we can read
 * the short way. */
HO_HIDDEN int ho_cupy_is(ho_PyTypeObject *type);
/* ho_consume for such an array. 0, or 1 if the protocols have to be asked; no
 * exception is set then. The stream that CuPy works on comes with it, as from an
 * exchange table. */
HO_HIDDEN int ho_cupy_take(ho_PyObject *obj, unsigned want, ho_arg *out);
/* 1 if CuPy's array interface names that stream (CuPy can be told not to); valid
 * once ho_cupy_take has returned 0. */
extern HO_HIDDEN int ho_cupy_names_stream;

/* ---- Streams (stream.c) ------------------------------------------------- */

/* Which stream an argument means. Of a default stream, ctx is where it belongs
 * to; of a created one it may be 0: not asked for. */
typedef struct ho_stream_ref {
	uint64_t handle; /* 0 and 1: legacy default, 2: per-thread default */
	uint64_t ctx;
	ho_PyObject *keep; /* borrowed: the object that keeps the stream alive, or NULL */
} ho_stream_ref;

enum {
	HO_STREAM_UNSAID, /* None, or not given */
	HO_STREAM_NOSYNC, /* -1 */
	HO_STREAM_ON,
};

/* Reads a stream_ptr or stream argument: None, an int of DLPack's meaning (0
 * counts as the legacy default stream, R142), or any stream object. One of
 * HO_STREAM_*, or -1 with an exception set. */
HO_HIDDEN int ho_stream_arg(ho_PyObject *o, const char *op, ho_stream_ref *out);
/* handoff.Device(id). Steals id, which may be NULL with an exception set. */
HO_HIDDEN ho_PyObject *ho_device_of(ho_PyObject *id);
/* Reads an argument that must name a stream. 0 or -1. */
HO_HIDDEN int ho_stream_need(ho_PyObject *o, const char *op, ho_stream_ref *out);
/* Fills in the context of a reference: a created stream's own, else that of
 * ho_gpu_home(dev). 0 or -1. */
HO_HIDDEN int ho_stream_place(const char *op, int dev, ho_stream_ref *ref);
/* Work queued on b from now on waits for what is queued on a now; nothing if
 * they are one stream. dev is the device whose default streams are meant where
 * a reference has no context. One event edge; the host does not wait. 0 or -1. */
HO_HIDDEN int ho_stream_order(const char *op, int dev, const ho_stream_ref *a, const ho_stream_ref *b);
/* Whether nothing is pending on a stream, as far as that can be told without harm
 * to a capture. */
HO_HIDDEN int ho_stream_quiet(ho_driver *d, ho_context ctx, ho_stream s);
/* Whether it pays to ask stream a that, in place of ordering b after it at once,
 * and what it answered. dev is a's device, or -1. GIL held; ask may give it up for a
 * while, the first time on a device. */
HO_HIDDEN int ho_stream_ask(ho_driver *d, int dev, const ho_stream_ref *a, const ho_stream_ref *b);
HO_HIDDEN void ho_stream_answered(const ho_stream_ref *a, int quiet);
/* 1 if both are one stream as far as the numbers tell. */
HO_HIDDEN int ho_stream_same(const ho_stream_ref *a, const ho_stream_ref *b);
/* 1 and *out if o is an open stream of ours that somebody created on the device
 * `dev`, and whose place is known; no exception is set otherwise. */
HO_HIDDEN int ho_stream_settled(ho_PyObject *o, int dev, ho_stream_ref *out);
/* The reference of a stream object of ours, open or not. */
HO_HIDDEN ho_stream_ref ho_stream_of(ho_PyObject *o);
/* A use of the handle of a stream object of ours that outlasts close(): the
 * stream is given up with the last one. GIL held; unhold may give it up for a
 * while. The caller has a reference on o. */
HO_HIDDEN void ho_stream_hold(ho_PyObject *o);
HO_HIDDEN void ho_stream_unhold(ho_PyObject *o);
/* The same of any object; another library's stream is not held. */
HO_HIDDEN void ho_stream_hold_any(ho_PyObject *o);
HO_HIDDEN void ho_stream_unhold_any(ho_PyObject *o);
/* The same of a stream argument, which may be no object. */
static inline void ho_stream_ref_hold(const ho_stream_ref *s)
{
	if (s->keep != NULL)
		ho_stream_hold_any(s->keep);
}

static inline void ho_stream_ref_unhold(const ho_stream_ref *s)
{
	if (s->keep != NULL)
		ho_stream_unhold_any(s->keep);
}
/* Without the GIL another thread may close what a call uses, a stream, stream_ref or
 * event: its handle is given back after the call. */
#define HO_HELD(kind, what, statement) \
	do { \
		ho_##kind##_hold(what); \
		HO_UNLOCKED(statement); \
		ho_##kind##_unhold(what); \
	} while (0)
/* The ordinal of the device of a placed stream. 0 or -1. */
HO_HIDDEN int ho_stream_device_id(const char *op, const ho_stream_ref *ref, int32_t *out);
/* A new StreamView of a raw handle, or None for handle 0 with none. */
HO_HIDDEN ho_PyObject *ho_stream_view_new(uint64_t handle, uint64_t ctx, ho_PyObject *exporter);
/* The stream that this thread hands data out on, for a device: what
 * handoff.use_stream set, or the legacy default stream (0). */
HO_HIDDEN uint64_t ho_stream_current(int dev);

/* ---- Views (gpuview.c) -------------------------------------------------- */

/* ClosedError after release_on. */
HO_HIDDEN int ho_view_live(const ho_view *v, const char *op);
/* Completes the import of a view that ho_view_from_arg made: one event edge
 * from the producer's stream to `on`, if both are known and differ. mode is
 * what ho_stream_arg returned, arg_flags are those of the ho_arg. 0 or -1. */
HO_HIDDEN int ho_view_imported(ho_view *v, uint32_t arg_flags, int mode, const ho_stream_ref *on);
/* A new view of an object with __cuda_array_interface__. */
HO_HIDDEN ho_view *ho_view_of_cuda_interface(ho_PyObject *obj, int mode, const ho_stream_ref *on);
/* The exporter's stream duty: work queued on `consumer` (a raw handle) from now
 * on waits for what is pending on v (R137). 0 or -1. */
HO_HIDDEN int ho_view_order_for(ho_view *v, uint64_t consumer);
/* Blocks until the host may touch v's memory (R146). 0 or -1. */
HO_HIDDEN int ho_view_host_wait(ho_view *v);
/* Whether the exchange table may give v out: it tells one stream and orders
 * nothing. 0 or -1. */
HO_HIDDEN int ho_view_table_ready(ho_view *v);
/* Copies in stream order; both views are ordered on the stream first. wait: 1 for the host to wait for the copy, 0 not to, HO_WAIT_FOR_HOST to wait if
 * one side is memory that a GPU cannot reach, where the stream does not capture. */
enum { HO_WAIT_FOR_HOST = 2 };
HO_HIDDEN int ho_view_copy_on(ho_view *dst, ho_view *src, const ho_stream_ref *on, int wait);
HO_HIDDEN int ho_stream_captures(ho_driver *d, ho_context ctx, ho_stream s);
/* Whether a device can: also pinned memory that says CPU, if a driver is in use
 * that knows it. */
HO_HIDDEN int ho_view_on_device(const ho_view *v);
/* Whether a device touches v's memory. */
HO_HIDDEN int ho_view_needs_stream(const ho_view *v);
/* A finished copy in host memory, row-major. NULL with an exception set. */
HO_HIDDEN ho_owner *ho_view_to_host(ho_view *v, DLTensor *out, int64_t *strides);
/* A copy in memory of another device, or of the same, row-major: ordered for the
 * consumer's stream argument of __dlpack__, which has been checked. NULL with an
 * exception set. */
HO_HIDDEN ho_owner *ho_view_to_device(ho_view *v, DLDevice to, ho_PyObject *stream, DLTensor *out, int64_t *strides);
/* Makes v's elements bytes of a size that DLPack has no type for (smv.c). */
HO_HIDDEN int ho_view_void(ho_view *v, int64_t itemsize);
/* Methods and properties of StridedMemoryView. */
HO_HIDDEN ho_PyObject *ho_view_release_on(ho_PyObject *self, ho_PyObject *stream);
HO_HIDDEN ho_PyObject *ho_get_cuda_array_interface(ho_PyObject *self, void *unused);
HO_HIDDEN ho_PyObject *ho_get_producer_stream(ho_PyObject *self, void *unused);
HO_HIDDEN ho_PyObject *ho_get_ordered_stream(ho_PyObject *self, void *unused);

HO_HIDDEN int ho_gpuview_init(void);
HO_HIDDEN int ho_cupy_init(void); /* cupy.c */

/* ---- Memory (gpu.c, memory.c) ------------------------------------------- */

/* New memory that Go allocates, as a view of its bytes. from is the number of a
 * source, or 0 for what the device has. */
HO_HIDDEN ho_PyObject *ho_buffer_new(int dev, int kind, uint64_t from, ho_PyObject *size, ho_PyObject *stream);
/* Hands memory of such a source, which goes back on a stream, over to Go: a view of
 * its bytes. *taken says that the caller has it no more, which is so even on an
 * error that comes late. */
HO_HIDDEN ho_PyObject *ho_buffer_adopt(int dev, int kind, uint64_t from, uint64_t ptr, int64_t size,
                                       const ho_stream_ref *on, int *taken);
/* A buffer of a subclass of _Memory over such a view, which it takes over, also on an error. */
HO_HIDDEN ho_PyObject *ho_memory_new(ho_PyObject *cls, ho_PyObject *view, int kind, int dev);
/* Says that work on the stream uses the memory of such a view; with set it is
 * given back on that stream from now on. 0 or -1. */
HO_HIDDEN int ho_buffer_use(ho_PyObject *view, ho_PyObject *stream, int set);
/* What handoff.Device is a subclass of: borrowed. */
HO_HIDDEN ho_PyTypeObject *ho_memory_device_type(void);
HO_HIDDEN int ho_memory_init(ho_PyObject *module);

HO_HIDDEN int ho_stream_init(ho_PyObject *module); /* stream.c */
HO_HIDDEN int ho_event_init(ho_PyObject *module);  /* event.c */

extern HO_HIDDEN ho_PyTypeObject *ho_event_type;
/* The raw handle of an Event; -1 with ClosedError set if it is closed. */
HO_HIDDEN int ho_event_handle(ho_PyObject *event, ho_event *out);
/* A use of the handle that outlasts close(), as ho_stream_hold. */
HO_HIDDEN void ho_event_hold(ho_PyObject *event);
HO_HIDDEN void ho_event_unhold(ho_PyObject *event);
/* A new event recorded on a stream, or `event` recorded again. */
HO_HIDDEN ho_PyObject *ho_event_record(ho_PyObject *event, ho_PyObject *options, const ho_stream_ref *on);
