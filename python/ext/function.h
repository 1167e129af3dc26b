/* A function as C knows it. Filled once at the module's start, then constant. */
#pragma once

#include "ext.h"

typedef struct ho_ext_param {
	ho_PyObject *name; /* interned str */
	const char *cname;
	const char *wants; /* what messages say is accepted */
	uint32_t kind;     /* HO_EXT_INT ... */
	uint32_t bits;     /* of numbers */
	uint32_t flags;    /* HO_EXT_OPTIONAL ... */
	uint32_t view;     /* 1: one view, which None and lists are not */
	DLDataType dtype;  /* of typed slices */
	ho_ext_value def;  /* the default; a string's text is kept by the module */
} ho_ext_param;

struct ho_ext_function {
	const char *name;
	const char *doc;
	uint32_t number; /* Go's number of the function */
	uint32_t flags;  /* HO_EXT_QUICK, HO_EXT_BACK */
	uint32_t nparams;
	uint32_t npos;      /* parameters that positional arguments can fill */
	uint32_t nrequired; /* of these, how many have no default */
	uint32_t narrays;   /* parameters that may hold an array */
	uint32_t variadic;  /* 1: takes more positional arguments than npos */
	uint32_t stream;    /* 1 + the parameter on whose stream the arrays are ordered; 0: none */
	uint32_t sequences; /* 1: variadic, or has list parameters */
	uint32_t mixed;     /* 1: not for call_views: something else than views, or too many of them */
	ho_ext_param *params;
};
