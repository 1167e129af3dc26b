/* What the Go code of the package calls. Every function here takes the GIL
 * and gives it back by itself, on the thread it is called on (B165), and
 * fails cleanly once Python is gone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How a call ended. */
enum {
	HO_GO_OK = 0,
	HO_GO_EXCEPTION = 1, /* ho_go_error is filled in */
	HO_GO_CLOSED = 2,    /* no Python in the process, or it is finalizing */
};

/* A Python exception as text; free() each string. */
typedef struct ho_go_error {
	char *type;    /* "ValueError", "handoff.LayoutError" */
	char *message; /* str(exception) */
	char *rule;    /* "R047", or NULL */
} ho_go_error;

/* Takes the GIL. 0 and *state for ho_go_leave, or HO_GO_CLOSED. The thread
 * must stay the same until ho_go_leave: runtime.LockOSThread. */
int ho_go_enter(int *state);
void ho_go_leave(int state);

void ho_go_error_free(ho_go_error *e);

/* A new reference; 0, or HO_GO_CLOSED. */
int ho_go_retain(uintptr_t object);
/* Drops a reference. Never waits for the GIL: without it the release is
 * queued. Does nothing once Python is gone. */
void ho_go_drop(uintptr_t object);

/* A managed tensor (versioned) that owns the memory of a Python object. */
int ho_go_consume(uintptr_t object, int writable, uintptr_t *tensor, ho_go_error *e);
/* A new handoff.StridedMemoryView, or handoff.Array, of a managed tensor,
 * which is taken over, also on failure. */
int ho_go_produce(uintptr_t tensor, int array, uintptr_t *object, ho_go_error *e);

/* import name; getattr; call with objects; str(); the name of the type. */
int ho_go_import(const char *name, uintptr_t *object, ho_go_error *e);
int ho_go_attr(uintptr_t object, const char *name, uintptr_t *result, ho_go_error *e);
int ho_go_call(uintptr_t object, const uintptr_t *args, size_t n, uintptr_t *result, ho_go_error *e);
int ho_go_text(uintptr_t object, int repr, char **text, size_t *size, ho_go_error *e);
int ho_go_type(uintptr_t object, char **text, size_t *size, ho_go_error *e);
/* A Python str. */
int ho_go_string(const char *text, size_t size, uintptr_t *object, ho_go_error *e);

/* Functions of Go that C calls, set once by the package's init. */
void ho_go_hooks(void);
