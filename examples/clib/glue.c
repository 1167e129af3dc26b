/* The forwards of glue.h. */
#include "glue.h"

#include "signals.h"

uintptr_t glue_ramp(int64_t n, float first, float step)
{
	return (uintptr_t)sig_ramp(n, first, step);
}

uintptr_t glue_reverse(uintptr_t in)
{
	DLManagedTensorVersioned *out;
	return sig_reverse((DLManagedTensorVersioned *)in, &out) == 0 ? (uintptr_t)out : 0;
}

int glue_scale(uintptr_t t, float factor)
{
	return -sig_scale((DLManagedTensorVersioned *)t, factor);
}
