// Attention in one operator. Only the two products are counted, with a causal mask those of the pairs that it leaves.
// Scores stay on chip.
#include <fmt/format.h>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {
namespace {

struct AttentionSizes {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, depth = 1, value_depth = 1;
};

// Returns the pairs of a query and a key: all, or the lower triangle in which the last query sees all keys.
Count count_pairs(const AttentionSizes& sizes, bool is_causal, std::int64_t past) {
  const Count queries = sizes.queries, keys = sizes.keys;
  if (!is_causal) return multiply_counts(queries, keys);
  Count pairs = 0;  // Query s sees min(s + 1 + past, keys) keys
  const Count growing = std::clamp<Count>(keys - past, 0, queries);
  pairs = growing * past + growing * (growing + 1) / 2;
  return pairs + (queries - growing) * keys;
}

void set_attention_work(Operator& op, const AttentionSizes& sizes, bool is_causal, std::int64_t past) {
  const Count pairs = multiply_counts(count_pairs(sizes, is_causal, past), Count{sizes.batch} * sizes.heads);
  op.flops = multiply_counts(2 * (Count{sizes.depth} + sizes.value_depth), pairs);
}

// Returns [B, H, S, D] of an operand of three or four axes.
Result<Shape> split_heads(const Operator& op, const ModelTensor& tensor, std::int64_t heads) {
  const Shape& shape = tensor.shape;
  if (shape.size() == 4) return shape;
  if (shape.size() == 3 && heads > 0 && shape[2] % heads == 0)
    return Shape{shape[0], heads, shape[1], shape[2] / heads};
  return op.error(
      fmt::format("expected an operand [B, H, S, D], or [B, S, H * D] with the number of heads, found {} "
                  "and {} heads",
                  format_shape(shape), heads));
}

Status define_attention(Operator& op) {
  RIDGE_TRY(q, op.input(0));
  RIDGE_TRY(k, op.input(1));
  RIDGE_TRY(v, op.input(2));
  const std::int64_t heads = op.integer("q_num_heads", 0), kv_heads = op.integer("kv_num_heads", 0);
  RIDGE_TRY(queries, split_heads(op, *q, heads));
  RIDGE_TRY(keys, split_heads(op, *k, kv_heads));
  RIDGE_TRY(values, split_heads(op, *v, kv_heads));
  const std::int64_t past = op.has_input(4) && op.inputs[4]->shape.size() == 4 ? op.inputs[4]->shape[2] : 0;
  const bool is_valid = keys[3] == queries[3] && keys[2] == values[2] && keys[1] == values[1] && keys[1] > 0 &&
                        queries[1] % keys[1] == 0 && keys[0] == queries[0] && values[0] == queries[0];
  if (!is_valid)
    return op.error(
        fmt::format("expected keys and values of the queries' batch, depth and groups of heads, found {}, "
                    "{} and {}",
                    format_shape(queries), format_shape(keys), format_shape(values)));
  AttentionSizes sizes{queries[0], queries[1], queries[2], keys[2] + past, queries[3], values[3]};
  RIDGE_TRY_STATUS(op.set_contraction(*q, *k));
  const Shape result = q->shape.size() == 4 ? Shape{sizes.batch, sizes.heads, sizes.queries, sizes.value_depth}
                                            : Shape{sizes.batch, sizes.queries, sizes.heads * sizes.value_depth};
  RIDGE_TRY_STATUS(op.set_output(0, result, q->type));
  set_attention_work(op, sizes, op.integer("is_causal", 0) != 0, past);
  RIDGE_TRY_STATUS(op.set_output(1, {sizes.batch, keys[1], sizes.keys, sizes.depth}, k->type));
  RIDGE_TRY_STATUS(op.set_output(2, {sizes.batch, keys[1], sizes.keys, sizes.value_depth}, v->type));
  return op.set_output(3, {sizes.batch, sizes.heads, sizes.queries, sizes.keys}, q->type);
}

// com.microsoft's q[B, S, H * D], k and v[B, S, G * D], past keys and values [B, G, P, D]; causal.
Status define_grouped_attention(Operator& op) {
  RIDGE_TRY(q, op.input(0));
  RIDGE_TRY(k, op.input(1));
  const std::int64_t heads = op.integer("num_heads", 0), kv_heads = op.integer("kv_num_heads", heads);
  RIDGE_TRY(queries, split_heads(op, *q, heads));
  RIDGE_TRY(keys, split_heads(op, *k, kv_heads));
  if (queries[3] != keys[3] || queries[0] != keys[0])
    return op.error(fmt::format("expected keys of the queries' batch and depth, found {} and {}", format_shape(queries),
                                format_shape(keys)));
  const std::int64_t past = op.has_input(3) && op.inputs[3]->shape.size() == 4 ? op.inputs[3]->shape[2] : 0;
  AttentionSizes sizes{queries[0], queries[1], queries[2], keys[2] + past, queries[3], queries[3]};
  RIDGE_TRY_STATUS(op.set_contraction(*q, *k));
  RIDGE_TRY_STATUS(op.set_output(0, q->shape, q->type));
  set_attention_work(op, sizes, true, past);
  const Shape cache{sizes.batch, keys[1], sizes.keys, sizes.depth};
  RIDGE_TRY_STATUS(op.set_output(1, cache, k->type));
  return op.set_output(2, cache, k->type);
}

constexpr NamedDefinition attention_table[] = {
    {"Attention", define_attention},
    {"GroupQueryAttention", define_grouped_attention},
};

}  // namespace

std::span<const NamedDefinition> attention_definitions() { return attention_table; }

}  // namespace ridge::onnx
