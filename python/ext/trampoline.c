/* One C function per slot: CPython hands a built-in function nothing but its
 * module, so the function that is meant has to be in the code address. They
 * are ordinary built-in functions of the module to Python (pickle, help and
 * inspect work) and cost one load. */
#include "ext.h"

ho_ext_function *ho_ext_functions[HO_EXT_MAX_FUNCS];

#define HO_T(n) \
	static ho_PyObject *ho_t##n(ho_PyObject *self, ho_PyObject *const *args, ho_ssize nargs, ho_PyObject *kwnames) \
	{ \
		(void)self; \
		return ho_ext_call(ho_ext_functions[0x##n], args, nargs, kwnames); \
	}
#define HO_T16(n, X) \
	X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) \
	X(n##8) X(n##9) X(n##a) X(n##b) X(n##c) X(n##d) X(n##e) X(n##f)
#define HO_T256(n, X) \
	HO_T16(n##0, X) HO_T16(n##1, X) HO_T16(n##2, X) HO_T16(n##3, X) HO_T16(n##4, X) HO_T16(n##5, X) \
	HO_T16(n##6, X) HO_T16(n##7, X) HO_T16(n##8, X) HO_T16(n##9, X) HO_T16(n##a, X) HO_T16(n##b, X) \
	HO_T16(n##c, X) HO_T16(n##d, X) HO_T16(n##e, X) HO_T16(n##f, X)

HO_T256(0, HO_T)
HO_T256(1, HO_T)
HO_T256(2, HO_T)
HO_T256(3, HO_T)

#define HO_E(n) ho_t##n,
static const ho_PyCFunctionFastKw trampolines[HO_EXT_MAX_FUNCS] = {
	HO_T256(0, HO_E) HO_T256(1, HO_E) HO_T256(2, HO_E) HO_T256(3, HO_E)
};

ho_PyCFunctionFastKw ho_ext_trampoline(uint32_t slot)
{
	return slot < HO_EXT_MAX_FUNCS ? trampolines[slot] : NULL;
}
