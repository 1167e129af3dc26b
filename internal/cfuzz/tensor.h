/* Managed tensors of any content, as a hostile producer makes them: the arrays
 * have exactly the length that ndim says, so that reading past it is seen. */
#pragma once

#include <dlpack/dlpack.h>
#include <handoff/block.h>

#include "fuzz.h"

/* Memory of the targets that may be read and written; for elements. */
enum { ARENA = 1 << 14 };
extern uint8_t tensor_arena[3 * ARENA];

/* Tensors made and deleted by this program. */
extern long tensor_made, tensor_deleted;

/* Fills a tensor; shape and strides are malloc'ed, tensor_clear frees them. */
void tensor_any(input *in, DLTensor *t);
void tensor_clear(DLTensor *t);
/* New managed tensors, whose deleter counts and frees; sometimes without one,
 * then they are freed by tensor_sweep. */
DLManagedTensorVersioned *tensor_versioned(input *in);
DLManagedTensor *tensor_legacy(input *in);
/* Frees the tensors that have no deleter. */
void tensor_sweep(void);
/* Whether every element lies in the arena. */
int tensor_in_arena(const DLTensor *t, int64_t itemsize);
