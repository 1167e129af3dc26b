// Uses the header of blocks behind either dlpack.h.
#include <dlpack/dlpack.h>
#include <handoff/block.h>

int f(const DLTensor *t) { return ho_check_tensor(t, 0, 0); }
