/* A table of the driver's entry points that tells Go of what is done through it
 * and passes everything on to another table. */
#pragma once

#include "handoff/entries.h"

/* What a note is about. */
enum {
	CK_COPY = 1, /* a copy in a stream */
	CK_SET,      /* a memset in a stream */
	CK_LAUNCH,   /* a kernel in a stream */
	CK_GRAPH,    /* a graph in a stream */
	CK_HOST,     /* a host function in a stream; back comes a number for CK_HOST_RUNS */
	CK_HOST_RUNS,
	CK_ALLOC,      /* memory, by the host */
	CK_ALLOC_IN,   /* memory, in a stream */
	CK_FREE,       /* by the host, before the call */
	CK_FREE_IN,    /* in a stream, before the call */
	CK_RECORD,     /* an event */
	CK_WAIT,       /* for an event */
	CK_STREAM_IS,  /* the host knows that a stream is done, */
	CK_EVENT_IS,   /* an event, */
	CK_CONTEXT_IS, /* a context */
	CK_STREAM_END,
};

/* Rows of memory: depth slices of height rows of width bytes. */
typedef struct ck_box {
	uint64_t addr, width, pitch, height, slice, depth;
} ck_box;

typedef struct ck_note {
	int kind, sync; /* sync: the call waits for pageable memory, and so does the host know */
	ho_stream stream;
	ho_context ctx; /* current */
	ho_event event;
	ho_word fn; /* kernel */
	ck_box dst, src;
	void **params;
	ho_word *extra;
	uint64_t number;
} ck_note;

/* The table in front of real, which has to stay. One for the life of the process. */
const ho_cuda_table *ck_table(const ho_cuda_table *real);

/* Of a stream, by the real driver: its context, device and flags; 0 if it does not say. */
int ck_stream(ho_stream s, ho_context current, ho_context *ctx, int *device, uint32_t *flags);

/* The sizes of a kernel's parameters, and how many there are, at most n. */
int ck_params(ho_word fn, uint64_t *offset, uint64_t *size, int n);
