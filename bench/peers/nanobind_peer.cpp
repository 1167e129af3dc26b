// The nanobind side of the benchmark table: functions that take arrays and
// return an int, as a C++ author would write them. Built by build.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

NB_MODULE(nanobind_peer, m) {
	m.def("nothing", []() { return int64_t{0}; });
	m.def("take1", [](nb::ndarray<> a) { return int64_t(a.shape(0)); });
	m.def("take3", [](nb::ndarray<> a, nb::ndarray<> b, nb::ndarray<> c) {
		return int64_t(a.shape(0)) + int64_t(b.shape(0)) + int64_t(c.shape(0));
	});
}
