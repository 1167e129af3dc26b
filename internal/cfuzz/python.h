/* The C code of the Python bridge in a process of its own: an embedded
 * interpreter, a driver of a few lines, and what a consumer does with objects. */
#pragma once

#include "../../python/gpu.h"
#include "fuzz.h"

/* Starts Python and handoff._core; once. */
void python_start(void);
/* The namespace of python.c's Python code: classes and helpers. Borrowed. */
ho_PyObject *python_name(const char *name);
/* eval(text) in that namespace; a new reference, never NULL. */
ho_PyObject *python_eval(const char *text);

/* An object of any kind, mostly of those that descriptions hold: ints of all
 * sizes, texts, tuples, None, bools, floats, objects that raise. New. */
ho_PyObject *python_any(input *in, int depth);
/* A tuple of n numbers, most of them small. New. */
ho_PyObject *python_numbers(input *in, unsigned n);
/* A text: one of the list (by a byte), or any. New. */
ho_PyObject *python_text(input *in, const char *const *list, unsigned n);
/* o.name = value; steals value. */
void python_set(ho_PyObject *o, const char *name, ho_PyObject *value);

/* The result of a call: NULL goes with an exception of a sensible class, which
 * is cleared, and an object with none. Returns result. */
ho_PyObject *python_result(ho_PyObject *result);
/* The same for calls that return 0 or -1. */
int python_status(int status);

/* Gives obj to one of the consumers of the bridge, and does with the result
 * what users do. */
void python_consume(input *in, ho_PyObject *obj);

/* Waits for what was dropped without the GIL: another thread drops it. */
void python_settle(void);
/* Ends an input: garbage is collected now and then, the type cache forgets, and
 * everything that was exported has been given back. */
void python_done(void);
