// Reasons why statements cannot be one kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/ops/fused/model.h"
#include "ridge/plan/fusion_state.h"
#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

constexpr std::int64_t max_row_bytes = 1 << 20;  // limit on the bytes that a row of a CPU kernel touches; about one L2

class FusionBlockers {
 public:
  explicit FusionBlockers(const FusionState& state) : state_(state) {}

  // Returns why the statements cannot be one kernel.
  Reason find(const std::vector<int>& set) const {
    std::vector<int> products, along, convolutions;
    for (const int s : set) {
      if (state_.sums_across_rows.contains(s) && set.size() > 1 && set != state_.kernel_with(s))
        return fmt::format("{} is a sum across rows, which is a separate kernel", state_.name_of(state_.result_of(s)));
      if (state_.form_of(s) == StatementForm::standalone && set.size() > 1) return standalone_blocker(s);
      if (state_.form_of(s) == StatementForm::product) (state_.is_row_sum(s, set) ? along : products).push_back(s);
      if (state_.form_of(s) == StatementForm::along_dims) along.push_back(s);
      if (state_.form_of(s) == StatementForm::convolution) convolutions.push_back(s);
    }
    if (set.size() > max_kernel_statements)
      return fmt::format("a kernel has at most {} statements", max_kernel_statements);
    if (!convolutions.empty()) {
      if (!along.empty() || !products.empty() || convolutions.size() > 1)
        return "a kernel with a convolution has one convolution and pointwise statements";
      products = convolutions;
    }
    if (!along.empty()) return rows_blocker(set, products, along);
    if (auto why = product_input_blocker(set, products)) return why;
    if (auto why = index_space_blocker(set)) return why;
    if (products.empty()) return chain_limit_blocker(set);
    return convolutions.empty() ? products_blocker(set, products) : convolution_set_blocker(set, convolutions.front());
  }

 private:
  Reason standalone_blocker(int s) const {
    const std::string made = state_.name_of(state_.result_of(s));
    if (state_.is_grouped(s)) return fmt::format("{} is a grouped product, which needs a copy of one operand", made);
    if (state_.is_scaled_product(s))
      return fmt::format("{} is a block-scaled product, which has a separate kernel", made);
    return fmt::format("{} is computed by {}, which has separate kernels", made,
                       routine_name(routine_of(state_.statement_at(s))->kind));
  }

  // Returns a reason if the statements have different index spaces.
  Reason index_space_blocker(const std::vector<int>& set) const {
    const int last = state_.result_of(set.back());
    for (const int s : set) {
      if (state_.index_space(state_.result_of(s)) == state_.index_space(last)) continue;
      return fmt::format("{}{} and {}{} have different dimensions: one would be recomputed many times",
                         state_.name_of(state_.result_of(s)), format_shape(state_.shapes[state_.result_of(s)]),
                         state_.name_of(last), format_shape(state_.shapes[last]));
    }
    return {};
  }

  Reason chain_limit_blocker(const std::vector<int>& set) const {
    if (state_.options.target == Target::cpu || set.size() == 1) return {};
    std::vector<int> results;
    for (const int s : set) results.push_back(state_.result_of(s));
    if (fits_device_chain(join_statements(state_.program, set, results))) return {};
    return "together they need more steps, tensors or registers than a device kernel has";
  }

  // Returns a reason if the same kernel computes an operand of a product.
  Reason product_input_blocker(const std::vector<int>& set, const std::vector<int>& products) const {
    for (const int p : products)
      for (const int t : state_.distinct_operands(p))
        if (state_.uses.writer(t) >= 0 && contains(set, state_.uses.writer(t)))
          return fmt::format("the product reads {} for every tile of {}: it would be recomputed for each tile",
                             state_.name_of(t), state_.name_of(state_.result_of(p)));
    return {};
  }

  // Returns why the products have no fused epilogue in this plan, whatever the kernels of the target can do.
  Reason separate_epilogue_reason(const std::vector<int>& products) const {
    if (!state_.options.fuse_epilogues) return "the library's products have no fused epilogue";
    return find_reason(state_.options.products_without_epilogue, products);
  }

  static Reason find_reason(const std::map<int, std::string>& reasons, const std::vector<int>& products) {
    for (const int p : products)
      if (const auto found = reasons.find(p); found != reasons.end()) return found->second;
    return {};
  }

  Reason products_blocker(const std::vector<int>& set, const std::vector<int>& products) const {
    if (set.size() == 1) return {};
    if (auto why = separate_epilogue_reason(products)) return why;
    if (products.size() > 2) return "a kernel has at most two products";
    if (products.size() == 2)
      if (auto why = find_reason(state_.options.unpaired_products, products)) return why;
    for (const int p : products) {
      const auto& c = std::get<Contraction>(state_.statement_at(p).op);
      if (state_.dtype_of(c.left) == DType::int8 && state_.dtype_of(c.right) == DType::int8)
        return fmt::format("{} sums int8 * int8, which is exact in int32 but not in f32", state_.name_of(c.result));
    }
    const auto groups = find_product_dims(state_.program, state_.shapes, products);
    if (!groups)
      return fmt::format("{} and {} are products without a shared operand",
                         state_.name_of(state_.result_of(products[0])), state_.name_of(state_.result_of(products[1])));
    if (auto why = stride_blocker(set, *groups)) return why;
    return state_.options.target == Target::cuda ? epilogue_blocker(set) : Reason();
  }

  Reason convolution_set_blocker(const std::vector<int>& set, int convolution) const {
    if (set.size() == 1) return {};
    if (auto why = separate_epilogue_reason({convolution})) return why;
    const auto& e = std::get<Expression>(state_.statement_at(convolution).op);
    const std::vector<int> in = expression_operands(e);
    const std::size_t channels = conv_axes(*e.routine, state_.shapes[in[0]].size()).channels;
    if (state_.shapes[in[0]][channels].extent != state_.shapes[in[1]][channels].extent)
      return fmt::format("{} is a convolution in groups, which has a separate kernel", state_.name_of(e.result));
    const Shape& y = state_.shapes[e.result];
    if (state_.options.target == Target::cpu) return stride_blocker(set, convolution_dims(y, *e.routine));
    if (auto why = stride_blocker(set, channels_last_dims(y, *e.routine))) return why;
    return epilogue_blocker(set);
  }

  // Returns a reason if a tensor of the pointwise statements has no single stride along batch, m or n of the product.
  Reason stride_blocker(const std::vector<int>& set, const ProductDims& dims) const {
    for (const int s : set) {
      if (state_.form_of(s) != StatementForm::pointwise) continue;
      for (const int t : state_.tensors_of(s))
        if (!product_strides(state_.shapes[t], dims))
          return fmt::format("{}{} has no single stride along the product's rows and columns", state_.name_of(t),
                             format_shape(state_.shapes[t]));
    }
    for (const int s : set)
      if (const auto* e = std::get_if<Expression>(&state_.statement_at(s).op))
        for (const Node& node : e->nodes)
          if (is_position(node) &&
              !product_strides({{node.over[0].dim, longest_extent(state_.shapes, node.over[0].dim), 1}}, dims))
            return fmt::format("index({}) has no single stride along the product's rows and columns", node.over[0].dim);
    return {};
  }

  // Returns why the device has no such product with a fused epilogue, or why that would be slower.
  Reason epilogue_blocker(const std::vector<int>& set) const {
    for (const int s : set)
      if (const auto* e = std::get_if<Expression>(&state_.statement_at(s).op))
        for (const Node& node : e->nodes)
          if (is_position(node)) return "no fused epilogue of the device takes index(…)";
    const ops::FusedMatmul fused = make_fused_matmul(state_.program, state_.shapes, make_fusion_group(state_, set));
    if (auto why = ops::cuda::unsupported_reason(fused)) return why;
    return ops::slow_fusion_reason(fused);
  }

  Reason rows_blocker(const std::vector<int>& set, const std::vector<int>& products,
                      const std::vector<int>& along) const {
    if (set.size() == 1) return {};
    const std::string& first = state_.name_of(state_.result_of(along.front()));
    if (!products.empty()) return fmt::format("{} needs full rows, and a product computes one tile at a time", first);
    if (state_.options.target == Target::cuda) return full_rows_blocker(set, first);
    const std::vector<std::string> row_dims = row_block_dimensions(state_.program, set);
    std::int64_t rows = 1, row_bytes = 0;
    for (const std::string& dim : row_dims)
      rows *= ridge::axis_along(state_.shapes[state_.result_of(set.back())], dim).extent;
    if (rows == 1)
      return fmt::format("{} reduces along a dimension, and the statements share no other dimension", first);
    for (const int s : set)
      for (const int t : state_.tensors_of(s))
        row_bytes = saturating_add(row_bytes, count_elements(state_.shapes[t]) / rows * 4);
    if (row_bytes <= max_row_bytes) return {};
    return fmt::format("a row of {} and the adjacent statements takes {}, which exceeds a core's L2", first,
                       format_with_prefix(static_cast<double>(row_bytes), "B"));
  }

  Reason full_rows_blocker(const std::vector<int>& set, const std::string& first) const {
    if (!state_.options.generate_kernels)
      return fmt::format("{} reduces along a dimension, and there is no compiler (NVRTC) to generate a kernel", first);
    std::vector<int> stored;
    for (const int s : set)
      if (!state_.is_internal(s, set)) stored.push_back(state_.result_of(s));
    const JoinedNodes all = join_statements(state_.program, set, stored, true);
    const TrialRowKernelInputs inputs = make_trial_row_kernel_inputs(state_.program, state_.shapes, all.nodes);
    std::vector<ChainResult> results;
    for (const JoinedNodes::StoredNode& one : all.results) results.push_back({one.node, view_of(one.tensor)});
    const LoweredRows rows = lower_full_rows(all.nodes, results, {inputs.views, inputs.sizes});
    if (!rows.fusion_blocker) return {};
    return fmt::format("{} reduces along a dimension: {}", first, rows.fusion_blocker.text());
  }

  View view_of(int tensor) const { return {tensor, state_.dtype_of(tensor), state_.shapes[tensor]}; }

  const FusionState& state_;
};

}  // namespace

Reason find_fusion_blocker(const FusionState& state, const std::vector<int>& set) {
  return FusionBlockers(state).find(set);
}

}  // namespace ridge
