/*
 * The library's calls with addresses as integers, which is how Handoff hands
 * tensors over: Go then needs no unsafe. An error is 0 or negative.
 */
#pragma once

#include <stdint.h>

uintptr_t glue_ramp(int64_t n, float first, float step);
uintptr_t glue_reverse(uintptr_t in);
int glue_scale(uintptr_t t, float factor);
