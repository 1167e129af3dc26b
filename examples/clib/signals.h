/*
 * A small C library that exchanges arrays as DLPack tensors. It stands for any
 * library that does: it knows the header dlpack.h and nothing of Go.
 */
#pragma once

#include <dlpack/dlpack.h>

/* A float32 vector first, first+step, ... in memory of this library. The caller
 * owns it and calls its deleter. NULL if there is no memory. */
DLManagedTensorVersioned *sig_ramp(int64_t n, float first, float step);

/* The same vector from its end, over the same memory: the stride is negated, and
 * nothing is copied. On success `in` belongs to the result, and *out to the
 * caller. Not 0 if `in` is no float32 vector of the CPU or there is no memory;
 * then `in` still belongs to the caller. */
int sig_reverse(DLManagedTensorVersioned *in, DLManagedTensorVersioned **out);

/* Multiplies a float32 vector in place. `t` is borrowed. Not 0 if it is no
 * such vector or must not be written. */
int sig_scale(DLManagedTensorVersioned *t, float factor);

/* The tensors of this library that have not been deleted. */
int64_t sig_live(void);
