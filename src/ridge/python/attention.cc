// Attention of training steps, for the operators of ridge.torch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ridge/python/training.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

using Sizes = AttentionOnDevice::Sizes;

struct Shapes {
  std::vector<std::int64_t> of_q, of_k, of_lse;
  Sizes sizes;
};

// Of a call whose first inputs are q, k and v.
Shapes shapes_of(const Call& call, bool causal, double scale) {
  const ArrayType q = call.inputs()[0].type("q"), k = call.inputs()[1].type("k");
  if (!call.device()) raise(input_error("expected 'q' to lie on a CUDA device"));
  if (q.shape.size() < 2 || k.shape.size() != q.shape.size())
    raise(input_error(fmt::format("expected q[..., S, E] and k[..., T, E], found q[{}] and k[{}]",
                                  fmt::join(q.shape, ", "), fmt::join(k.shape, ", "))));
  const std::size_t rank = q.shape.size();
  Shapes out{q.shape, q.shape, {q.shape.begin(), q.shape.end() - 1}, {}};
  out.of_k[rank - 2] = k.shape[rank - 2];
  out.sizes = {1, q.shape[rank - 2], k.shape[rank - 2], q.shape[rank - 1], q.dtype, causal, scale};
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) out.sizes.heads *= q.shape[axis];
  for (const std::size_t i : {1, 2}) expect(call.inputs()[i], q.dtype, out.of_k);
  return out;
}

AttentionOnDevice planned(const Call& call, const Sizes& sizes) {
  return value_of(AttentionOnDevice::make(call.device()->number(), sizes));
}

// o and lse.
nb::tuple forward(nb::handle q, nb::handle k, nb::handle v, bool causal, double scale) {
  Call call;
  call.add_input("q", q);
  call.add_input("k", k);
  call.add_input("v", v);
  const Shapes shapes = shapes_of(call, causal, scale);
  const AttentionOnDevice attention = planned(call, shapes.sizes);
  call.add_result({"o", shapes.sizes.dtype, shapes.of_q}, nb::none());
  call.add_result({"lse", DType::f32, shapes.of_lse}, nb::none());
  const AttentionOnDevice::Forward arrays{read(call, 0), read(call, 1), read(call, 2), call.views()[0].data,
                                          call.views()[1].data};
  queue(call, attention, arrays, attention.forward_scratch_bytes());
  return nb::make_tuple(call.result(0), call.result(1));
}

// dq, dk and dv.
nb::tuple backward(nb::handle dout, nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle lse, bool causal,
                   double scale) {
  Call call;
  call.add_input("q", q);
  call.add_input("k", k);
  call.add_input("v", v);
  call.add_input("o", o);
  call.add_input("dout", dout);
  call.add_input("lse", lse);
  const Shapes shapes = shapes_of(call, causal, scale);
  for (const std::size_t i : {3, 4}) expect(call.inputs()[i], shapes.sizes.dtype, shapes.of_q);
  expect(call.inputs()[5], DType::f32, shapes.of_lse);
  const AttentionOnDevice attention = planned(call, shapes.sizes);
  for (const auto& [name, shape] : {std::pair{"dq", shapes.of_q}, {"dk", shapes.of_k}, {"dv", shapes.of_k}})
    call.add_result({name, shapes.sizes.dtype, shape}, nb::none());
  const auto written = [&](std::size_t i) { return call.views()[i].data; };
  const AttentionOnDevice::Backward arrays{read(call, 0), read(call, 1), read(call, 2), read(call, 3), read(call, 4),
                                           read(call, 5), written(0),    written(1),    written(2)};
  queue(call, attention, arrays, attention.backward_scratch_bytes());
  return nb::make_tuple(call.result(0), call.result(1), call.result(2));
}

}  // namespace

void add_attention(nb::module_& module) {
  module.def("attention_forward", forward, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("causal"),
             nb::arg("scale"));
  module.def("attention_backward", backward, nb::arg("dout"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("o"),
             nb::arg("lse"), nb::arg("causal"), nb::arg("scale"));
}

}  // namespace ridge::python
