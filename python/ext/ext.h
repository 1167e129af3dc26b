/* The C side of python/ext: what Go tells C about a module, and the frame in
 * which one call travels. The Go mirrors are in frame.go; sizes and offsets
 * are asserted on both sides. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bridge.h"

/* ---- Values ------------------------------------------------------------- */

/* Tags of values, also the kinds of parameters. Numbers are shared with Go. */
enum {
	HO_EXT_NONE = 0,   /* None, or a parameter that was left out */
	HO_EXT_BOOL = 1,   /* a: 0 or 1 */
	HO_EXT_INT = 2,    /* a: int64 */
	HO_EXT_UINT = 3,   /* a: uint64 */
	HO_EXT_FLOAT = 4,  /* a: bits of a double */
	HO_EXT_COMPLEX = 5,/* a, b: bits of two doubles */
	HO_EXT_STR = 6,    /* a: address, b: bytes, UTF-8 */
	HO_EXT_BYTES = 7,  /* a: address, b: bytes */
	HO_EXT_VIEW = 8,   /* parameter: a = index of the array; result: a = DLManagedTensorVersioned*, stolen */
	HO_EXT_SLICE = 9,  /* parameter: a = address, b = elements, n = index of the array */
	HO_EXT_OBJECT = 10,/* a: PyObject*; parameter: borrowed; result: a new reference is taken */
	HO_EXT_ARRAY = 11, /* result: like VIEW, for memory made by Go */
	HO_EXT_TUPLE = 12, /* result: n values follow */
	HO_EXT_LIST = 13,  /* result: n values follow */
	HO_EXT_DICT = 14,  /* result: n pairs of values follow */
	HO_EXT_NAMED = 15, /* result: a = named tuple class (index), n values follow */
	HO_EXT_OWNED = 16, /* result: a = PyObject*, b = the ho_owner* that keeps it, whose reference is given away */
	HO_EXT_SEQ = 17,   /* parameter: n values, from a on (index) */
	HO_EXT_STREAM = 18,/* parameter: a = raw handle, b = context, n = device */
};

typedef struct ho_ext_value {
	uint32_t tag;
	uint32_t n;
	uint64_t a, b;
} ho_ext_value;

/* ---- The frame of one call ---------------------------------------------- */

enum { HO_EXT_INLINE_RESULTS = 8, HO_EXT_SCRATCH = 256 };

/* Lives on the C stack of the thread that calls. Go reads values and arrays,
 * writes out, and nothing of it after ho_ext_enter returned. */
typedef struct ho_ext_frame {
	uint32_t func;     /* in: number of the function */
	uint32_t status;   /* out: 0 fine, 1 an error is described below */
	uint32_t nvalues;  /* in */
	uint32_t narrays;  /* in */
	ho_ext_value *values;
	ho_arg *arrays;
	ho_ext_value *out; /* out values: out_inline, or a spilled block */
	uint32_t out_len;
	uint32_t out_cap;
	uint8_t *scratch;  /* text of results and errors */
	uint32_t scratch_used;
	uint32_t scratch_cap;
	void *spilled;     /* list of malloc'd blocks, freed by C after the call */
	const char *err_class; /* NUL-terminated */
	const char *err_text;  /* NUL-terminated */
	ho_PyObject *exc;  /* exception to raise, or NULL */
	ho_PyObject *kept; /* list of objects made during the call, or NULL */
	ho_owner *exc_owner; /* keeps exc, given away; NULL: exc is a reference itself */
	void *tstate;      /* thread state, when the GIL was released */
	uint64_t thread;   /* pthread_self() of the calling thread */
	uint32_t slot;     /* Go's state for this call, see take_slot */
	uint32_t unused;
	ho_PyObject *interrupt; /* exception of a signal handler (a reference), see ho_ext_signals */
	ho_ext_value out_inline[HO_EXT_INLINE_RESULTS];
	uint8_t scratch_inline[HO_EXT_SCRATCH];
} ho_ext_frame;

_Static_assert(sizeof(ho_ext_value) == 24, "mirrored in frame.go");
_Static_assert(offsetof(ho_ext_frame, values) == 16, "mirrored in frame.go");
_Static_assert(offsetof(ho_ext_frame, out_len) == 40, "mirrored in frame.go");
_Static_assert(offsetof(ho_ext_frame, spilled) == 64, "mirrored in frame.go");
_Static_assert(offsetof(ho_ext_frame, thread) == 120, "mirrored in frame.go");
_Static_assert(offsetof(ho_ext_frame, slot) == 128, "mirrored in frame.go");
_Static_assert(offsetof(ho_ext_frame, interrupt) == 136, "mirrored in frame.go");
_Static_assert(sizeof(ho_arg) == 200, "mirrored in frame.go");
_Static_assert(offsetof(ho_arg, flags) == 24, "mirrored in frame.go and memview.LentArray");
_Static_assert(offsetof(ho_arg, shape) == 32, "mirrored in frame.go and memview.LentArray");
_Static_assert(offsetof(ho_arg, dims) == 48, "mirrored in frame.go and memview.LentArray");
_Static_assert(HO_ARG_READONLY == 1 && HO_ARG_PADDED == 2, "flags of memview.LentArray");

/* More memory for results and errors; freed after the call. NULL on OOM.
 * Any thread, no GIL. */
void *ho_ext_spill(ho_ext_frame *f, size_t bytes);

/* ---- What Go may call during a call ------------------------------------- */

/* Upgrades array `slot` of the call: a new owner reference. Takes the GIL
 * when the call released it. NULL with a text (static or spilled) in *text. */
ho_owner *ho_ext_retain(ho_ext_frame *f, uint32_t slot, const char **text);

/* Runs Python's signal handlers on the calling thread. 1: one of them raised,
 * and the exception is in f->interrupt; 0 otherwise. Only between ho_ext_enter's
 * start and end, on the calling thread, with the GIL released. */
int ho_ext_signals(ho_ext_frame *f);

/* Operations on Python objects; each takes the GIL by itself and works on any
 * thread while the call lasts. 0, or -1 with the exception in exc, what keeps
 * it in exc_owner (a reference), its class name and its text (both spilled). */
enum { HO_EXT_OP_CALL = 0, HO_EXT_OP_ATTR = 1, HO_EXT_OP_STR = 2, HO_EXT_OP_TYPE = 3, HO_EXT_OP_VALUE = 4 };

typedef struct ho_ext_op {
	ho_ext_frame *frame;
	ho_PyObject *self;
	const char *name;       /* HO_EXT_OP_ATTR */
	ho_ext_value *in;       /* arguments, encoded like results */
	uint32_t nin;
	uint32_t kind;          /* HO_EXT_OP_* */
	ho_ext_value out;       /* answer: a scalar, text (spilled) or an object kept until the call ends */
	ho_PyObject *exc;
	ho_owner *exc_owner;
	const char *type;
	const char *text;
} ho_ext_op;

_Static_assert(sizeof(ho_ext_op) == 96, "mirrored in object.go");

int ho_ext_object(ho_ext_op *op);
/* An owner of the object, for use beyond the call. Takes the GIL. NULL with a
 * text in *text. */
ho_owner *ho_ext_own(ho_ext_frame *f, ho_PyObject *o, const char **text);

/* A frame on the heap, in which Go encodes the arguments of a Python call. */
ho_ext_frame *ho_ext_frame_new(void);
void ho_ext_frame_free(ho_ext_frame *f);

/* ---- Registration ------------------------------------------------------- */

enum {
	HO_EXT_OPTIONAL = 1,  /* None is accepted */
	HO_EXT_DEFAULT = 2,   /* may be left out: `def` */
	HO_EXT_KEYWORD = 4,   /* by name only */
	HO_EXT_POSITIONAL = 8,/* by position only */
	HO_EXT_VARIADIC = 16, /* takes the remaining positional arguments */
	HO_EXT_WRITABLE = 32, /* array: refuse read-only memory */
	HO_EXT_SEQUENCE = 64, /* a list or tuple of values of this kind */
};

enum {
	HO_EXT_QUICK = 1, /* keep the GIL during the Go function */
	HO_EXT_BACK = 2,  /* the producers' streams wait for the call's stream afterwards */
};

enum { HO_EXT_MAX_FUNCS = 1024, HO_EXT_MAX_PARAMS = 64, HO_EXT_FEW_VIEWS = 4 };

typedef struct ho_ext_module ho_ext_module;

/* Describe a module from Go: begin, then each function followed
 * by its parameters, then classes, then finish. Strings are copied. Memory is kept for
 * the life of the process, as Python requires of module definitions. */
ho_ext_module *ho_ext_begin(const char *name, const char *doc, const char *stub, uint32_t nfuncs);
int ho_ext_add_func(ho_ext_module *m, const char *name, const char *doc, uint32_t number, uint32_t flags, uint32_t nparams);
int ho_ext_add_param(ho_ext_module *m, const char *name, uint32_t kind, uint32_t bits, uint32_t flags,
	uint32_t dtype /* code | bits << 8 | lanes << 16 */, const char *wants, ho_ext_value def);
int ho_ext_add_class(ho_ext_module *m, const char *name, const char *fields /* separated by spaces */, uint32_t number);
/* A new reference to the module, which is never freed, or NULL with an
 * exception set. */
ho_PyObject *ho_ext_finish(ho_ext_module *m);
/* Another reference to a module of ho_ext_finish. */
ho_PyObject *ho_ext_again(ho_PyObject *module);
/* Sets ImportError; returns NULL. */
ho_PyObject *ho_ext_import_error(const char *module, const char *text);
/* 1 when Python can be used from PyInit; otherwise 0 with an exception set. */
int ho_ext_start(void);

/* Used by the trampolines. */
typedef struct ho_ext_function ho_ext_function;
ho_PyObject *ho_ext_call(const ho_ext_function *fn, ho_PyObject *const *args, ho_ssize nargs, ho_PyObject *kwnames);
ho_PyCFunctionFastKw ho_ext_trampoline(uint32_t slot);
extern ho_ext_function *ho_ext_functions[HO_EXT_MAX_FUNCS];

/* Builds Python objects from encoded values; *at moves past what was used.
 * A new reference, or NULL with an exception set, and then the rest of what
 * was encoded is left for ho_ext_drop. */
ho_PyObject *ho_ext_build(const ho_ext_value **at, const ho_ext_value *end);
/* Gives back what encoded values own, without building them. */
void ho_ext_drop(const ho_ext_value *at, const ho_ext_value *end);
