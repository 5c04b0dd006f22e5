// Forward and backward passes of gated layers, for the operators of ridge.torch.
#include <nanobind/stl/optional.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ridge/python/training.h"

namespace nb = nanobind;

namespace ridge::python {

void expect_type(const ArrayOperand& operand, DType dtype, const std::vector<std::int64_t>& shape) {
  const ArrayType found = operand.type(operand.name());
  if (found.dtype == dtype && found.shape == shape) return;
  raise_error(input_error(fmt::format("expected '{}' to be {}[{}], found {}[{}]", operand.name(), dtype_name(dtype),
                                      fmt::join(shape, ", "), dtype_name(found.dtype), fmt::join(found.shape, ", "))));
}

namespace {

using Sizes = GegluOnDevice::Sizes;

// Checks and returns the sizes of a call whose first inputs are x, w and optionally b.
Sizes read_sizes(const ArrayCall& call, bool has_bias, bool keeps_h) {
  const ArrayType x = call.inputs()[0].type("x"), w = call.inputs()[1].type("w");
  if (!call.device()) raise_error(input_error("expected 'x' to be on a CUDA device"));
  if (x.shape.empty() || w.shape.size() != 2 || w.shape[0] % 2 != 0)
    raise_error(input_error(fmt::format("expected x[..., D] and w[2*F, D], found x[{}] and w[{}]",
                                        fmt::join(x.shape, ", "), fmt::join(w.shape, ", "))));
  Sizes out{1, w.shape[0] / 2, x.shape.back(), x.dtype, has_bias, keeps_h};
  for (std::size_t axis = 0; axis + 1 < x.shape.size(); ++axis) out.rows *= x.shape[axis];
  expect_type(call.inputs()[1], x.dtype, {2 * out.hidden, out.width});
  if (has_bias) expect_type(call.inputs()[2], x.dtype, {2 * out.hidden});
  return out;
}

void add_operands(ArrayCall& call, nb::handle x, nb::handle w, nb::handle b) {
  call.add_input("x", x);
  call.add_input("w", w);
  if (!b.is_none()) call.add_input("b", b);
}

GegluOnDevice plan_geglu(const ArrayCall& call, const Sizes& sizes) {
  return value_or_raise(GegluOnDevice::make(call.device()->number(), sizes));
}

// Returns y and, if `keeps_h`, h.
nb::tuple geglu_forward(nb::handle x, nb::handle w, nb::handle b, bool keeps_h) {
  ArrayCall call;
  add_operands(call, x, w, b);
  const Sizes sizes = read_sizes(call, !b.is_none(), keeps_h);
  const GegluOnDevice layer = plan_geglu(call, sizes);
  std::vector<std::int64_t> shape = call.inputs()[0].type("x").shape;
  shape.back() = sizes.hidden;
  call.add_result({"y", sizes.dtype, shape}, nb::none());
  if (keeps_h) call.add_result({"h", sizes.dtype, {sizes.rows, 2 * sizes.hidden}}, nb::none());
  const GegluOnDevice::Forward arrays{input_address(call, 0), input_address(call, 1),
                                      sizes.has_bias ? input_address(call, 2) : nullptr, call.output_views()[0].data,
                                      keeps_h ? call.output_views()[1].data : nullptr};
  queue_layer(call, layer, arrays, layer.forward_scratch_bytes());
  return nb::make_tuple(call.release_result(0), keeps_h ? call.release_result(1) : nb::none());
}

// Returns dx, dw and, if there is b, db.
nb::tuple geglu_backward(nb::handle dy, nb::handle x, nb::handle w, nb::handle b, nb::handle h) {
  ArrayCall call;
  add_operands(call, x, w, b);
  const Sizes sizes = read_sizes(call, !b.is_none(), !h.is_none());
  const std::size_t gradient_index = call.inputs().size();
  call.add_input("dy", dy);
  std::vector<std::int64_t> shape = call.inputs()[0].type("x").shape;
  const std::vector<std::int64_t> x_shape = shape;
  shape.back() = sizes.hidden;
  expect_type(call.inputs()[gradient_index], sizes.dtype, shape);
  if (sizes.keeps_h) {
    call.add_input("h", h);
    expect_type(call.inputs()[gradient_index + 1], sizes.dtype, {sizes.rows, 2 * sizes.hidden});
  }
  const GegluOnDevice layer = plan_geglu(call, sizes);
  call.add_result({"dx", sizes.dtype, x_shape}, nb::none());
  call.add_result({"dw", sizes.dtype, {2 * sizes.hidden, sizes.width}}, nb::none());
  if (sizes.has_bias) call.add_result({"db", sizes.dtype, {2 * sizes.hidden}}, nb::none());
  const auto output = [&](std::size_t i) { return call.output_views()[i].data; };
  const GegluOnDevice::Backward arrays{.x = input_address(call, 0),
                                       .w = input_address(call, 1),
                                       .b = sizes.has_bias ? input_address(call, 2) : nullptr,
                                       .dy = input_address(call, gradient_index),
                                       .h = sizes.keeps_h ? input_address(call, gradient_index + 1) : nullptr,
                                       .dx = output(0),
                                       .dw = output(1),
                                       .db = sizes.has_bias ? output(2) : nullptr};
  queue_layer(call, layer, arrays, layer.backward_scratch_bytes());
  return nb::make_tuple(call.release_result(0), call.release_result(1),
                        sizes.has_bias ? call.release_result(2) : nb::none());
}

}  // namespace

void add_geglu(nb::module_& module) {
  module.def("geglu_forward", geglu_forward, nb::arg("x"), nb::arg("w"), nb::arg("b").none(), nb::arg("keeps_h"));
  module.def("geglu_backward", geglu_backward, nb::arg("dy"), nb::arg("x"), nb::arg("w"), nb::arg("b").none(),
             nb::arg("h").none());
}

}  // namespace ridge::python
