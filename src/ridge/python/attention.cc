// Forward and backward passes of attention, for the operators of ridge.torch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ridge/python/training.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

using Sizes = AttentionOnDevice::Sizes;

struct AttentionShapes {
  std::vector<std::int64_t> q_shape, k_shape, lse_shape;
  Sizes sizes;
};

// Checks and returns the shapes of a call whose first inputs are q, k and v.
AttentionShapes read_shapes(const ArrayCall& call, bool causal, double scale) {
  const ArrayType q = call.inputs()[0].type("q"), k = call.inputs()[1].type("k");
  if (!call.device()) raise_error(input_error("expected 'q' to be on a CUDA device"));
  if (q.shape.size() < 2 || k.shape.size() != q.shape.size())
    raise_error(input_error(fmt::format("expected q[..., S, E] and k[..., T, E], found q[{}] and k[{}]",
                                        fmt::join(q.shape, ", "), fmt::join(k.shape, ", "))));
  const std::size_t rank = q.shape.size();
  AttentionShapes out{q.shape, q.shape, {q.shape.begin(), q.shape.end() - 1}, {}};
  out.k_shape[rank - 2] = k.shape[rank - 2];
  out.sizes = {1, q.shape[rank - 2], k.shape[rank - 2], q.shape[rank - 1], q.dtype, causal, scale};
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) out.sizes.heads *= q.shape[axis];
  for (const std::size_t i : {1, 2}) expect_type(call.inputs()[i], q.dtype, out.k_shape);
  return out;
}

AttentionOnDevice plan_attention(const ArrayCall& call, const Sizes& sizes) {
  return value_or_raise(AttentionOnDevice::make(call.device()->number(), sizes));
}

// Returns o and lse.
nb::tuple attention_forward(nb::handle q, nb::handle k, nb::handle v, bool causal, double scale) {
  ArrayCall call;
  call.add_input("q", q);
  call.add_input("k", k);
  call.add_input("v", v);
  const AttentionShapes shapes = read_shapes(call, causal, scale);
  const AttentionOnDevice attention = plan_attention(call, shapes.sizes);
  call.add_result({"o", shapes.sizes.dtype, shapes.q_shape}, nb::none());
  call.add_result({"lse", DType::f32, shapes.lse_shape}, nb::none());
  const AttentionOnDevice::Forward arrays{input_address(call, 0), input_address(call, 1), input_address(call, 2),
                                          call.output_views()[0].data, call.output_views()[1].data};
  queue_layer(call, attention, arrays, attention.forward_scratch_bytes());
  return nb::make_tuple(call.release_result(0), call.release_result(1));
}

// Returns dq, dk and dv.
nb::tuple attention_backward(nb::handle dout, nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle lse,
                             bool causal, double scale) {
  ArrayCall call;
  call.add_input("q", q);
  call.add_input("k", k);
  call.add_input("v", v);
  call.add_input("o", o);
  call.add_input("dout", dout);
  call.add_input("lse", lse);
  const AttentionShapes shapes = read_shapes(call, causal, scale);
  for (const std::size_t i : {3, 4}) expect_type(call.inputs()[i], shapes.sizes.dtype, shapes.q_shape);
  expect_type(call.inputs()[5], DType::f32, shapes.lse_shape);
  const AttentionOnDevice attention = plan_attention(call, shapes.sizes);
  for (const auto& [name, shape] : {std::pair{"dq", shapes.q_shape}, {"dk", shapes.k_shape}, {"dv", shapes.k_shape}})
    call.add_result({name, shapes.sizes.dtype, shape}, nb::none());
  const auto output = [&](std::size_t i) { return call.output_views()[i].data; };
  const AttentionOnDevice::Backward arrays{input_address(call, 0),
                                           input_address(call, 1),
                                           input_address(call, 2),
                                           input_address(call, 3),
                                           input_address(call, 4),
                                           input_address(call, 5),
                                           output(0),
                                           output(1),
                                           output(2)};
  queue_layer(call, attention, arrays, attention.backward_scratch_bytes());
  return nb::make_tuple(call.release_result(0), call.release_result(1), call.release_result(2));
}

}  // namespace

void add_attention(nb::module_& module) {
  module.def("attention_forward", attention_forward, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("causal"),
             nb::arg("scale"));
  module.def("attention_backward", attention_backward, nb::arg("dout"), nb::arg("q"), nb::arg("k"), nb::arg("v"),
             nb::arg("o"), nb::arg("lse"), nb::arg("causal"), nb::arg("scale"));
}

}  // namespace ridge::python
