// Matrix products. A multiply-add counts as 2 FLOPs, and a bias is the first summand, so that it adds none.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {
namespace {

// Shapes of a product of stacks of matrices, as NumPy's matmul: a vector becomes a matrix of one row or column.
struct MatmulShape {
  Shape result;
  std::int64_t summed = 1;
};

Result<MatmulShape> find_matmul_shape(const Operator& op, Shape a, Shape b) {
  if (a.empty() || b.empty())
    return op.error(
        fmt::format("expected operands of at least one axis, found {} and {}", format_shape(a), format_shape(b)));
  const bool is_row = a.size() == 1, is_column = b.size() == 1;
  if (is_row) a.insert(a.begin(), 1);
  if (is_column) b.push_back(1);
  const std::int64_t summed = a.back();
  if (summed != b[b.size() - 2])
    return op.error(fmt::format("expected equal sizes to sum over, found {} in {} and {} in {}", summed,
                                format_shape(a), b[b.size() - 2], format_shape(b)));
  RIDGE_TRY(batch, broadcast_shapes(op, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  if (!is_row) batch.push_back(a[a.size() - 2]);
  if (!is_column) batch.push_back(b.back());
  return MatmulShape{std::move(batch), summed};
}

Status define_matmul_of(Operator& op, const ModelTensor& a, const ModelTensor& b, Shape left, Shape right, int type) {
  RIDGE_TRY(shape, find_matmul_shape(op, std::move(left), std::move(right)));
  RIDGE_TRY_STATUS(op.set_contraction(a, b));
  RIDGE_TRY_STATUS(op.set_output(0, shape.result, type));
  op.flops = multiply_counts(2 * count_elements(shape.result), shape.summed);
  return Done{};
}

Status define_matmul(Operator& op) {
  RIDGE_TRY(a, op.input(0));
  RIDGE_TRY(b, op.input(1));
  return define_matmul_of(op, *a, *b, a->shape, b->shape, a->type);
}

// com.microsoft's product with transposed operands.
Status define_fused_matmul(Operator& op) {
  RIDGE_TRY(a, op.input(0));
  RIDGE_TRY(b, op.input(1));
  Shape left = a->shape, right = b->shape;
  if (op.integer("transA", 0) != 0 && left.size() > 1) std::swap(left[left.size() - 1], left[left.size() - 2]);
  if (op.integer("transB", 0) != 0 && right.size() > 1) std::swap(right[right.size() - 1], right[right.size() - 2]);
  return define_matmul_of(op, *a, *b, std::move(left), std::move(right), a->type);
}

Status define_integer_matmul(Operator& op) {
  RIDGE_TRY(a, op.input(0));
  RIDGE_TRY(b, op.input(1));
  return define_matmul_of(op, *a, *b, a->shape, b->shape, int32_type);
}

// Operands: a, its scale and zero point, b, its scale and zero point, the result's scale and zero point.
Status define_quantized_matmul(Operator& op) {
  RIDGE_TRY(a, op.input(0));
  RIDGE_TRY(b, op.input(3));
  return define_matmul_of(op, *a, *b, a->shape, b->shape, a->type);
}

// com.microsoft's product with weights of 2 to 8 bits: [N, K] in blocks, converted to the type of `a`.
Status define_packed_matmul(Operator& op) {
  RIDGE_TRY(a, op.input(0));
  const std::int64_t n = op.integer("N", 0), k = op.integer("K", 0);
  if (n < 1 || n > max_axis_size || a->shape.empty() || k != a->shape.back())
    return op.error(fmt::format("expected N of at least 1 and K equal to the last size of {}, found N = {}, K = {}",
                                format_shape(a->shape), n, k));
  return define_matmul_of(op, *a, *a, a->shape, {k, n}, a->type);
}

Status define_gemm(Operator& op) {
  RIDGE_TRY(a, op.input(0));
  RIDGE_TRY(b, op.input(1));
  if (a->shape.size() != 2 || b->shape.size() != 2)
    return op.error(fmt::format("expected matrices, found {} and {}", format_shape(a->shape), format_shape(b->shape)));
  return define_fused_matmul(op);
}

// Sizes of the labels of an einsum equation.
struct EinsumLabels {
  std::map<char, std::int64_t> sizes;
  Shape batch;  // Sizes of the ellipsis
};

// Returns the equation without blanks.
std::string strip_blanks(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ') out += c;
  return out;
}

// Reads the sizes of one operand's term "...ij".
Status read_einsum_term(const Operator& op, const std::string& term, const Shape& shape, EinsumLabels& labels) {
  const std::size_t ellipsis = term.find("...");
  const std::size_t named = ellipsis == std::string::npos ? term.size() : term.size() - 3;
  if (ellipsis == std::string::npos ? named != shape.size() : named > shape.size())
    return op.error(fmt::format("expected {} axes for the term '{}', found {}", named, term, format_shape(shape)));
  std::size_t at = 0;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (i == ellipsis) {
      const std::size_t count = shape.size() - named;
      RIDGE_TRY(both, broadcast_shapes(op, labels.batch,
                                       Shape(shape.begin() + static_cast<std::ptrdiff_t>(at),
                                             shape.begin() + static_cast<std::ptrdiff_t>(at + count))));
      labels.batch = std::move(both);
      at += count;
      i += 2;
      continue;
    }
    const auto [found, is_new] = labels.sizes.try_emplace(term[i], shape[at]);
    if (!is_new && found->second == 1) found->second = shape[at];
    if (found->second != shape[at] && shape[at] != 1)
      return op.error(fmt::format("expected one size of '{}', found {} and {}", term[i], found->second, shape[at]));
    ++at;
  }
  return Done{};
}

// Returns the result's term if the equation has none: the labels that occur once, in alphabetical order.
std::string implied_result(const std::string& operands) {
  std::string out = operands.find("...") == std::string::npos ? "" : "...";
  for (char c = 'A'; c <= 'z'; ++c)
    if (std::count(operands.begin(), operands.end(), c) == 1) out += c;
  return out;
}

Count count_labels(const EinsumLabels& labels, const std::string& terms) {
  Count out = terms.find("...") == std::string::npos ? 1 : count_elements(labels.batch);
  for (const auto& [label, size] : labels.sizes)
    if (terms.find(label) != std::string::npos) out = multiply_counts(out, size);
  return out;
}

// Multiplies the operands from left to right; after each product, labels that nothing needs are summed.
Count count_einsum_flops(const EinsumLabels& labels, const std::vector<std::string>& terms, const std::string& result) {
  Count out = 0;
  std::string left = terms.front();
  if (terms.size() == 1)
    return count_labels(labels, left) == count_labels(labels, result) ? 0 : count_labels(labels, left);
  for (std::size_t i = 1; i < terms.size(); ++i) {
    std::string needed = result;
    for (std::size_t later = i + 1; later < terms.size(); ++later) needed += terms[later];
    const std::string both = left + terms[i];
    std::string kept = both.find("...") == std::string::npos ? "" : "...";
    for (const auto& [label, size] : labels.sizes)
      if (both.find(label) != std::string::npos && needed.find(label) != std::string::npos) kept += label;
    const Count all = count_labels(labels, both);
    out = std::min(out + multiply_counts(all == count_labels(labels, kept) ? 1 : 2, all), max_operator_work + 1);
    left = kept;
  }
  return out;
}

Status define_einsum(Operator& op) {
  const std::string equation = strip_blanks(op.text("equation", ""));
  constexpr std::size_t max_equation = 256;
  const std::size_t arrow = equation.find("->");
  const std::string operands = equation.substr(0, arrow);
  const auto is_label = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == ','; };
  const std::string result = arrow == std::string::npos ? implied_result(operands) : equation.substr(arrow + 2);
  if (equation.size() > max_equation || !std::all_of(operands.begin(), operands.end(), is_label) ||
      !std::all_of(result.begin(), result.end(), is_label))
    return op.error("expected an equation of letters, commas, '...' and '->' of at most 256 characters");
  EinsumLabels labels;
  std::vector<std::string> terms;
  for (std::size_t begin = 0; begin <= operands.size();) {
    const std::size_t end = std::min(operands.find(',', begin), operands.size());
    terms.push_back(operands.substr(begin, end - begin));
    RIDGE_TRY(tensor, op.input(terms.size() - 1));
    RIDGE_TRY_STATUS(read_einsum_term(op, terms.back(), tensor->shape, labels));
    begin = end + 1;
  }
  Shape shape;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result.compare(i, 3, "...") == 0) {
      shape.insert(shape.end(), labels.batch.begin(), labels.batch.end());
      i += 2;
    } else if (const auto found = labels.sizes.find(result[i]); found != labels.sizes.end()) {
      shape.push_back(found->second);
    } else {
      return op.error(fmt::format("expected labels of operands in the result, found '{}'", result[i]));
    }
  }
  RIDGE_TRY(first, op.input(0));
  op.flops = count_einsum_flops(labels, terms, result);
  if (terms.size() > 1) RIDGE_TRY_STATUS(op.set_contraction(*first, *op.inputs[1]));
  return op.set_output(0, std::move(shape), first->type);
}

constexpr NamedDefinition product_table[] = {
    {"Einsum", define_einsum},
    {"FusedMatMul", define_fused_matmul},
    {"Gemm", define_gemm},
    {"MatMul", define_matmul},
    {"MatMulInteger", define_integer_matmul},
    {"MatMulNBits", define_packed_matmul},
    {"QLinearMatMul", define_quantized_matmul},
};

}  // namespace

std::span<const NamedDefinition> product_definitions() { return product_table; }

}  // namespace ridge::onnx
