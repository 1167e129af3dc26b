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
	CK_FOUND,      /* memory that was there: another process's, mapped, a kernel's variable */
	CK_UNKNOWN,    /* memory of which nothing is known, for what happens to it is not seen */
	CK_OPENED,     /* memory of another process, once more, */
	CK_CLOSED,     /* and before it is given up as often as that */
	CK_FREE,       /* by the host, before the call; of a range all that is in it */
	CK_FREE_IN,    /* in a stream, before the call */
	CK_RECORD,     /* an event */
	CK_WAIT,       /* for an event */
	CK_WORD,       /* a word of memory becomes number, in a stream */
	CK_WORD_WAIT,  /* a stream waits for a word that compares to number, as sync says */
	CK_STREAM_IS,  /* the host knows that a stream is done, */
	CK_EVENT_IS,   /* an event, */
	CK_CONTEXT_IS, /* a context */
	CK_STREAM_END,
	CK_EVENT_END,
	CK_CONTEXT_END, /* fn is the context, or 0 for those of the device number */
	CK_CODE_END,    /* a library or module fn goes */
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
	ho_word fn; /* kernel, or library */
	ck_box dst, src;
	void **params;
	ho_word *extra;
	uint64_t number;
} ck_note;

/* The table in front of real, which has to stay. One for the life of the process. */
const ho_cuda_table *ck_table(const ho_cuda_table *real);

/* Of a stream, by the real driver: its context, device and flags; 0 if it does not say. */
int ck_stream(ho_stream s, ho_context current, ho_context *ctx, int *device, uint32_t *flags);

/* The driver's number of the allocation at an address, which no other ever gets; 0 if there is none. */
uint64_t ck_buffer(uint64_t addr);

/* The sizes of a kernel's parameters, and how many there are, at most n. */
int ck_params(ho_word fn, uint64_t *offset, uint64_t *size, int n);
