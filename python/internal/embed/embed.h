/* Runs CPython inside a Go test. */
#pragma once

#include <stddef.h>

/* Opens the libpython at path, initializes the interpreter and loads
 * handoff._core. 0, or -1 with a text in err. The calling thread has given
 * the GIL up at return. */
int ho_embed_start(const char *path, char *err, size_t n);
