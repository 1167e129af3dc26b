/* See probe.c. */
#pragma once

#include "handoff/entries.h"

/* Asks the driver behind the table, which must not be initialized, and prints
 * what it said to stdout. */
void ho_soft_probe(const ho_cuda_table *table);

/* In package soft: see soft.h. */
extern int ho_soft_forked;
