/* Driver calls in C loops, which tests compare the calls from Go with. Each
 * returns the nanoseconds that n rounds take, or -1 if the driver cannot be
 * reached or refuses a call. A context is current. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Records one event on a and makes b wait for it. */
int64_t ho_cloop_order(uintptr_t a, uintptr_t b, int n);
/* Allocates and frees bytes in the order of s. */
int64_t ho_cloop_alloc(uintptr_t s, uintptr_t bytes, int n);
/* Asks for memory type, managed and device of an address in one call. */
int64_t ho_cloop_attributes(uint64_t ptr, int n);
/* Asks for ten attributes in one call. */
int64_t ho_cloop_all_attributes(uint64_t ptr, int n);
/* Launches one block of one thread; params is the array of pointers that
 * cuLaunchKernel takes. With wait the time includes waiting for the stream once
 * in the end. */
int64_t ho_cloop_launch(uintptr_t fn, uintptr_t stream, void *params, int n, bool wait);
/* The same, one round a call and not timed: no call from Go takes less. Returns
 * 0 if it worked. To be called by one thread at a time; the event stays. */
int ho_cloop_order_once(uintptr_t a, uintptr_t b);
int ho_cloop_attributes_once(uint64_t ptr);
/* Does nothing: what a call from Go costs by itself. */
void ho_cloop_nothing(void);
