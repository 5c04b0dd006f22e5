// Recurrent layers: LSTM, GRU and RNN. Only the products are counted: of each step's input and state with the weights.
// Bytes: weights are read once, as if they stayed on chip for all steps.
#include <fmt/format.h>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {
namespace {

// x[S, B, I], w[directions, gates * H, I], r[directions, gates * H, H]; layout 1 has x[B, S, I].
template <int gates, bool has_cell> Status define_recurrence(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  RIDGE_TRY(w, op.input(1));
  RIDGE_TRY(r, op.input(2));
  const bool is_valid = x->shape.size() == 3 && w->shape.size() == 3 && r->shape.size() == 3 &&
                        w->shape[0] == r->shape[0] && w->shape[1] == gates * r->shape[2] &&
                        r->shape[1] == w->shape[1] && w->shape[2] == x->shape[2];
  if (!is_valid)
    return op.error(
        fmt::format("expected an input [S, B, I] and weights [D, {0} * H, I] and [D, {0} * H, H], found {1}, "
                    "{2} and {3}",
                    gates, format_shape(x->shape), format_shape(w->shape), format_shape(r->shape)));
  const bool batch_first = op.integer("layout", 0) == 1;
  const std::int64_t steps = x->shape[batch_first ? 1 : 0], batch = x->shape[batch_first ? 0 : 1];
  const std::int64_t directions = w->shape[0], hidden = r->shape[2];
  RIDGE_TRY_STATUS(op.set_contraction(*x, *w));
  op.flops = multiply_counts(multiply_counts(2 * Count{steps}, batch), w->elements() + r->elements());
  const Shape last = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  RIDGE_TRY_STATUS(op.set_output(
      0, batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden}, x->type));
  RIDGE_TRY_STATUS(op.set_output(1, last, x->type));
  return has_cell ? op.set_output(2, last, x->type) : Status(Done{});
}

constexpr NamedDefinition recurrent_table[] = {
    {"GRU", define_recurrence<3, false>},
    {"LSTM", define_recurrence<4, true>},
    {"RNN", define_recurrence<1, false>},
};

}  // namespace

std::span<const NamedDefinition> recurrent_definitions() { return recurrent_table; }

}  // namespace ridge::onnx
