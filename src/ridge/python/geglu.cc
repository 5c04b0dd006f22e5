// Gated layers of training steps, for the operators of ridge.torch.
#include <nanobind/stl/optional.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ridge/python/training.h"

namespace nb = nanobind;

namespace ridge::python {

void expect(const Operand& operand, DType dtype, const std::vector<std::int64_t>& shape) {
  const ArrayType found = operand.type(operand.name());
  if (found.dtype == dtype && found.shape == shape) return;
  raise(input_error(fmt::format("expected '{}' to be {}[{}], found {}[{}]", operand.name(), name(dtype),
                                fmt::join(shape, ", "), name(found.dtype), fmt::join(found.shape, ", "))));
}

namespace {

using Sizes = GegluOnDevice::Sizes;

// Of a call whose first inputs are x, w and, where there is one, b.
Sizes sizes_of(const Call& call, bool has_bias, bool keeps_h) {
  const ArrayType x = call.inputs()[0].type("x"), w = call.inputs()[1].type("w");
  if (!call.device()) raise(input_error("expected 'x' to lie on a CUDA device"));
  if (x.shape.empty() || w.shape.size() != 2 || w.shape[0] % 2 != 0)
    raise(input_error(fmt::format("expected x[..., D] and w[2*F, D], found x[{}] and w[{}]", fmt::join(x.shape, ", "),
                                  fmt::join(w.shape, ", "))));
  Sizes out{1, w.shape[0] / 2, x.shape.back(), x.dtype, has_bias, keeps_h};
  for (std::size_t axis = 0; axis + 1 < x.shape.size(); ++axis) out.rows *= x.shape[axis];
  expect(call.inputs()[1], x.dtype, {2 * out.hidden, out.width});
  if (has_bias) expect(call.inputs()[2], x.dtype, {2 * out.hidden});
  return out;
}

void add_operands(Call& call, nb::handle x, nb::handle w, nb::handle b) {
  call.add_input("x", x);
  call.add_input("w", w);
  if (!b.is_none()) call.add_input("b", b);
}

GegluOnDevice planned(const Call& call, const Sizes& sizes) {
  return value_of(GegluOnDevice::make(call.device()->number(), sizes));
}

// y, and h where it is kept.
nb::tuple forward(nb::handle x, nb::handle w, nb::handle b, bool keeps_h) {
  Call call;
  add_operands(call, x, w, b);
  const Sizes sizes = sizes_of(call, !b.is_none(), keeps_h);
  const GegluOnDevice layer = planned(call, sizes);
  std::vector<std::int64_t> shape = call.inputs()[0].type("x").shape;
  shape.back() = sizes.hidden;
  call.add_result({"y", sizes.dtype, shape}, nb::none());
  if (keeps_h) call.add_result({"h", sizes.dtype, {sizes.rows, 2 * sizes.hidden}}, nb::none());
  const GegluOnDevice::Forward arrays{read(call, 0), read(call, 1), sizes.has_bias ? read(call, 2) : nullptr,
                                      call.views()[0].data, keeps_h ? call.views()[1].data : nullptr};
  queue(call, layer, arrays, layer.forward_scratch_bytes());
  return nb::make_tuple(call.result(0), keeps_h ? call.result(1) : nb::none());
}

// dx, dw, and db where there is b.
nb::tuple backward(nb::handle dy, nb::handle x, nb::handle w, nb::handle b, nb::handle h) {
  Call call;
  add_operands(call, x, w, b);
  const Sizes sizes = sizes_of(call, !b.is_none(), !h.is_none());
  const std::size_t gradient = call.inputs().size();
  call.add_input("dy", dy);
  std::vector<std::int64_t> shape = call.inputs()[0].type("x").shape;
  const std::vector<std::int64_t> of_x = shape;
  shape.back() = sizes.hidden;
  expect(call.inputs()[gradient], sizes.dtype, shape);
  if (sizes.keeps_h) {
    call.add_input("h", h);
    expect(call.inputs()[gradient + 1], sizes.dtype, {sizes.rows, 2 * sizes.hidden});
  }
  const GegluOnDevice layer = planned(call, sizes);
  call.add_result({"dx", sizes.dtype, of_x}, nb::none());
  call.add_result({"dw", sizes.dtype, {2 * sizes.hidden, sizes.width}}, nb::none());
  if (sizes.has_bias) call.add_result({"db", sizes.dtype, {2 * sizes.hidden}}, nb::none());
  const auto written = [&](std::size_t i) { return call.views()[i].data; };
  const GegluOnDevice::Backward arrays{.x = read(call, 0),
                                       .w = read(call, 1),
                                       .b = sizes.has_bias ? read(call, 2) : nullptr,
                                       .dy = read(call, gradient),
                                       .h = sizes.keeps_h ? read(call, gradient + 1) : nullptr,
                                       .dx = written(0),
                                       .dw = written(1),
                                       .db = sizes.has_bias ? written(2) : nullptr};
  queue(call, layer, arrays, layer.backward_scratch_bytes());
  return nb::make_tuple(call.result(0), call.result(1), sizes.has_bias ? call.result(2) : nb::none());
}

}  // namespace

void add_geglu(nb::module_& module) {
  module.def("geglu_forward", forward, nb::arg("x"), nb::arg("w"), nb::arg("b").none(), nb::arg("keeps_h"));
  module.def("geglu_backward", backward, nb::arg("dy"), nb::arg("x"), nb::arg("w"), nb::arg("b").none(),
             nb::arg("h").none());
}

}  // namespace ridge::python
