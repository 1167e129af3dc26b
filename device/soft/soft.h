/* The C side of the software device: the table of its entry points, the state
 * of each thread, and calls from Go into functions of the host. */
#pragma once

#include "handoff/entries.h"

/* The filled table, for package driver. */
const ho_cuda_table *ho_soft_table(void);

/* The calling thread's number, 0 before ho_soft_set_thread, with
 * HO_SOFT_IN_HOST set while the thread runs a host function. */
#define HO_SOFT_IN_HOST 0x80000000u
uint32_t ho_soft_thread(void);
void ho_soft_set_thread(uint32_t number);

/* Takes the number of a thread that has ended, or 0. */
uint32_t ho_soft_ended_thread(void);

/* Host functions, called with the mark set. */
void ho_soft_call_host(ho_word fn, ho_word user);
void ho_soft_call_stream(ho_word fn, ho_stream stream, ho_result st, ho_word user);
size_t ho_soft_call_occupancy(ho_word fn, int block);

/* Non-zero in a process that was forked after the device was used: Go must
 * not be entered there, and every entry point answers NOT_INITIALIZED. */
extern int ho_soft_forked;
void ho_soft_watch_fork(void);

/* Non-zero while somebody wants to know who makes edges. */
extern int ho_soft_watching;
/* Call number i above the latest edge of this thread, from the innermost on: the
 * library or program that it is in, and where there. 0 if there is none. */
#define HO_SOFT_ABOVE 24
int ho_soft_above(int i, const char **file, uint64_t *offset);
