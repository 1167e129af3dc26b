#pragma once

#include <stdint.h>

/* A copy of a versioned tensor with lists of its own, whose fields may be
 * harmed: its deleter counts in *calls, releases the original and frees
 * nothing else before ho_relay_free. Returns NULL if there is no memory. */
void *ho_relay_new(uintptr_t original, int64_t **calls);
void ho_relay_free(void *relay);

/* How often the deleter was given another address than the copy's (R061). */
int64_t ho_relay_wrong(void *relay);

/* Lets the deleter write to an address. */
void ho_relay_scribble(void *relay, uintptr_t at);

/* The struct again, at another address, with the same lists and deleter. */
void *ho_relay_twin(uintptr_t relay);
