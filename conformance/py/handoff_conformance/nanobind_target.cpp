// The target "nanobind": a module that takes and makes arrays by nanobind's
// ndarray, as an extension in C++ would. Built by nanobind_target.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <vector>

namespace nb = nanobind;

using Any = nb::ndarray<nb::ro>;
using Out = nb::ndarray<nb::array_api>;
using ReadOnly = nb::ndarray<nb::array_api, nb::ro>;

// What a function of an extension was given.
struct Taken {
	Any a;
};

static void release(void *p) noexcept { delete[] static_cast<uint8_t *>(p); }

template <typename T>
static T make(nb::bytes raw, std::vector<size_t> shape, std::vector<int64_t> strides, size_t offset, int code, int bits)
{
	auto *data = new uint8_t[raw.size() + 64];
	std::memcpy(data, raw.c_str(), raw.size());
	nb::capsule owner(data, release);
	nb::dlpack::dtype d{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
	return T(data + offset, shape.size(), shape.data(), owner, strides.data(), d);
}

NB_MODULE(handoff_conformance_nanobind, m)
{
	m.def("make", &make<Out>);
	m.def("make_readonly", &make<ReadOnly>);
	nb::class_<Taken>(m, "Taken")
		.def_prop_ro("address", [](Taken &t) { return reinterpret_cast<uintptr_t>(t.a.data()); })
		.def_prop_ro("shape",
			     [](Taken &t) {
				     std::vector<size_t> v;
				     for (size_t i = 0; i < t.a.ndim(); i++)
					     v.push_back(t.a.shape(i));
				     return v;
			     })
		.def_prop_ro("strides",
			     [](Taken &t) {
				     std::vector<int64_t> v;
				     for (size_t i = 0; i < t.a.ndim(); i++)
					     v.push_back(t.a.stride(i));
				     return v;
			     })
		.def_prop_ro("dtype",
			     [](Taken &t) {
				     nb::dlpack::dtype d = t.a.dtype();
				     return nb::make_tuple(d.code, d.bits, d.lanes);
			     })
		.def_prop_ro("device", [](Taken &t) { return nb::make_tuple(t.a.device_type(), t.a.device_id()); })
		// A result over the same memory. The array itself would come out as the object that it came from.
		.def("give", [](nb::handle self) {
			Any &a = nb::cast<Taken &>(self).a;
			std::vector<size_t> shape;
			std::vector<int64_t> strides;
			for (size_t i = 0; i < a.ndim(); i++) {
				shape.push_back(a.shape(i));
				strides.push_back(a.stride(i));
			}
			return ReadOnly(a.data(), a.ndim(), shape.data(), self, strides.data(), a.dtype(), a.device_type(),
					a.device_id());
		});
	m.def("take", [](Any a) { return Taken{a}; });
}
