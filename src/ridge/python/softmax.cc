// Softmax of Python arrays in host memory, along any axis.
#include <fmt/format.h>

#include "ridge/python/call.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

constexpr std::int64_t max_elements_with_gil = 1 << 13;  // About 10 us; releasing the GIL would take a part of that
constexpr std::size_t max_axes = 14;

// Returns an axis as a number from 0. Raises ridge.Error for objects that are none.
int parse_axis(nb::handle axis, std::size_t rank) {
  const long count = static_cast<long>(rank);
  long at = PyLong_CheckExact(axis.ptr()) ? PyLong_AsLong(axis.ptr()) : count;
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    at = count;
  }
  if (at < 0) at += count;
  if (at < 0 || at >= count || rank > max_axes)
    raise_error(usage_error(fmt::format("expected an axis from {} to {}", -count, count - 1)));
  return static_cast<int>(at);
}

// Returns the softmax of a PyTorch tensor of few elements, or an empty object for other arrays.
nb::object normalize_small_tensor(nb::handle x, nb::handle axis, nb::handle out, int threads) {
  const auto from = view_host_tensor(x);
  if (!from) return {};
  std::int64_t elements = 1;
  for (const std::int64_t extent : from->shape)
    elements = extent > max_elements_with_gil ? extent : std::min(elements * extent, max_elements_with_gil + 1);
  if (elements > max_elements_with_gil) return {};
  const int along = parse_axis(axis, from->shape.size());
  if (out.is_none()) {
    NewArray result({"y", from->dtype, {from->shape.begin(), from->shape.end()}});
    check_status(softmax(*from, result.view(), along, threads));
    return result.release_array(ArrayLibrary::torch);
  }
  const auto to = view_host_tensor(out);
  if (!to) return {};
  check_status(softmax(*from, *to, along, threads));
  return nb::borrow(out);
}

// Returns the softmax of an array in host memory, or None for one on a device.
nb::object normalize_array(nb::handle x, nb::handle axis, nb::handle out, nb::handle thread_count) {
  const int threads = parse_threads(thread_count);
  if (nb::object y = normalize_small_tensor(x, axis, out, threads); y.is_valid()) return y;
  ArrayCall call;
  call.add_input("x", x);
  if (call.device()) return nb::none();
  const ArrayOperand& from = call.inputs()[0];
  const int along = parse_axis(axis, from.shape().size());
  call.add_result(from.type("y"), out);
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = softmax(from.view(), call.output_views()[0], along, threads);
  }
  check_status(*done);
  return call.release_result(0);
}

}  // namespace

void add_softmax(nb::module_& module) {
  module.def("softmax", normalize_array, nb::arg("x").none(), nb::arg("axis").none(), nb::arg("out").none(),
             nb::arg("threads").none());
}

}  // namespace ridge::python
