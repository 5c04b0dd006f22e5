// Lowers statements with functions along dimensions to one device kernel that holds a full row in registers, so that
// pointwise operations before, between and after the functions cause no memory traffic: y = rmsnorm(x + r over D) * w
// reads x, r and w and writes y.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/ops/rows/program.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"

namespace ridge {
namespace {

using ops::ReduceFunction;

// A row of this many columns occupies one multiprocessor, so fewer than `min_long_rows` rows leave most of them idle.
constexpr std::int64_t min_long_row_columns = 16384, min_long_rows = 64;

std::vector<std::string> nontrivial_dim_names(const Shape& shape) {
  std::vector<std::string> out;
  for (const SizedAxis& axis : shape)
    if (axis.extent > 1) out.push_back(axis.dim);
  return out;
}

class FullRowsLowering {
 public:
  FullRowsLowering(const std::vector<Node>& nodes, const std::vector<ChainResult>& results,
                   const RowKernelInputs& inputs)
      : nodes_(nodes), results_(results), inputs_(inputs) {}

  LoweredRows lower_row_program() {
    Reason blocker = set_columns();
    if (!blocker) blocker = set_rows();
    if (!blocker) blocker = check_views();
    if (!blocker) blocker = check_functions();
    if (blocker) return {{}, {}, std::move(blocker)};
    std::vector<std::int64_t> extents;
    for (const std::string& dim : rows_)
      extents.push_back(axis_along(results_[widest_result_].destination.shape, dim).extent);
    builder_ = ops::RowProgramBuilder(std::move(extents), columns_extent_);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      values_.push_back(lower_node(i));
      for (const ChainResult& result : results_)
        if (result.node == i) builder_.store(values_[i], tensor_slot(result.destination));
    }
    LoweredRows out{builder_.finish(), std::move(buffers_), {}};
    if (inputs_.target == Target::cuda) out.fusion_blocker = device_blocker(out.program);
    return out;
  }

 private:
  // Returns why a generated kernel cannot be used. The precompiled softmax and norm kernels take any rows.
  Reason device_blocker(const ops::RowProgram& program) const {
    const Reason reason = idle_reason_ ? idle_reason_ : ops::invalid_reason(program);
    if (!reason) return {};
    const auto known = ops::recognize_row_function(program);
    const bool is_compiled =
        known && known->problem.function <= ops::RowFunction::layernorm && !ops::unsupported_reason(known->problem);
    return is_compiled ? Reason() : reason;
  }

  // Sets `columns_`, along which all functions run, in memory order; returns a reason if the functions differ.
  Reason set_columns() {
    std::vector<std::string> first = inputs_.columns;
    std::sort(first.begin(), first.end());
    for (const Node& node : nodes_) {
      if (node.kind != Node::Kind::along_dims) continue;
      std::vector<std::string> over;
      for (const Axis& axis : node.over) over.push_back(axis_key(axis));
      std::sort(over.begin(), over.end());
      if (first.empty()) first = over;
      if (over != first)
        return fmt::format("it reduces along {} and along {}", fmt::join(first, ", "), fmt::join(over, ", "));
    }
    for (const View* view : all_views()) {
      std::vector<std::string> mine;
      for (const std::string& dim : nontrivial_dim_names(view->shape))
        if (contains(first, dim)) mine.push_back(dim);
      if (mine.size() <= columns_.size()) continue;
      columns_ = mine;
      columns_extent_ = 1;
      for (const std::string& dim : columns_) columns_extent_ *= axis_along(view->shape, dim).extent;
    }
    return {};
  }

  Reason set_rows() {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (nontrivial_dim_names(results_[i].destination.shape).size() >
          nontrivial_dim_names(results_[widest_result_].destination.shape).size())
        widest_result_ = i;
    for (const SizedAxis& axis : results_[widest_result_].destination.shape)
      if (axis.extent > 1 && !contains(columns_, axis.dim)) {
        rows_.push_back(axis.dim);
        rows *= axis.extent;
      }
    for (const ChainResult& result : results_)
      for (const std::string& dim : rows_)
        if (!has_axis(result.destination.shape, dim))
          return fmt::format("{} and {} have different dimensions", format_shape(result.destination.shape),
                             format_shape(results_[widest_result_].destination.shape));
    if (columns_extent_ >= min_long_row_columns && rows < min_long_rows)
      idle_reason_ = fmt::format("{} row{} of {} would leave most multiprocessors idle", rows, rows == 1 ? "" : "s",
                                 columns_extent_);
    return {};
  }

  Reason check_views() const {
    for (const View* view : all_views()) {
      bool any = false;
      for (const std::string& dim : nontrivial_dim_names(view->shape)) {
        any |= contains(columns_, dim);
        if (!contains(columns_, dim) && !contains(rows_, dim))
          return fmt::format("{} has a dimension that is neither of the rows nor of the columns",
                             format_shape(view->shape));
      }
      if (any && merged_stride(view->shape, columns_) != 1)
        return fmt::format("{} is not contiguous along {}", format_shape(view->shape), fmt::join(columns_, ", "));
    }
    return {};
  }

  // Returns a reason if the argument of a function lacks a row dimension, along which it would be recomputed.
  Reason check_functions() const {
    std::vector<std::set<std::string>> seen(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const int argument : nodes_[i].arguments) seen[i].merge(std::set(seen[argument]));
      if (inputs_.views[i])
        for (const std::string& dim : nontrivial_dim_names(inputs_.views[i]->shape)) seen[i].insert(dim);
      if (nodes_[i].kind != Node::Kind::along_dims) continue;
      for (const std::string& dim : rows_)
        if (!seen[i].contains(dim))
          return fmt::format("the reduction along {} would be recomputed for each {}", fmt::join(columns_, ", "), dim);
    }
    return {};
  }

  std::vector<const View*> all_views() const {
    std::vector<const View*> out;
    for (const auto& view : inputs_.views)
      if (view) out.push_back(&*view);
    for (const ChainResult& result : results_) out.push_back(&result.destination);
    return out;
  }

  int lower_node(std::size_t i) {
    const Node& node = nodes_[i];
    if (inputs_.views[i]) return load_view(*inputs_.views[i]);
    if (node.kind == Node::Kind::along_dims) return lower_function(node);
    const ops::ChainStep step = make_chain_step(node, inputs_.sizes, [&](int argument) { return values_[argument]; });
    if (step.op == ops::ChainOp::constant) return builder_.add_constant(step.constant);
    return builder_.apply(step.op, step.a, step.b, step.c, step.repeat);
  }

  int lower_function(const Node& node) {
    const int x = values_[node.arguments[0]];
    constexpr auto epsilon = static_cast<float>(norm_epsilon);
    switch (node.function) {
      case Function::softmax: return builder_.apply_row_function(ops::RowFunction::softmax, x);
      case Function::rmsnorm: return builder_.apply_row_function(ops::RowFunction::rmsnorm, x, epsilon);
      case Function::layernorm: return builder_.apply_row_function(ops::RowFunction::layernorm, x, epsilon);
      case Function::mean: return builder_.reduce_row(ReduceFunction::mean, x);
      case Function::max: return builder_.reduce_row(ReduceFunction::max, x);
      case Function::min: return builder_.reduce_row(ReduceFunction::min, x);
      default: return builder_.reduce_row(ReduceFunction::sum, x);
    }
  }

  int load_view(const View& view) {
    const int t = tensor_slot(view);
    while (loads_.size() <= static_cast<std::size_t>(t)) loads_.push_back(-1);
    int& load = loads_[t];
    if (load < 0) load = builder_.load(t);
    return load;
  }

  int tensor_slot(const View& view) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i] == view.buffer) return static_cast<int>(i);
    ops::ChainTensor out{view.dtype, {}};
    for (const std::string& dim : rows_) out.strides.push_back(axis_along(view.shape, dim).stride);
    out.strides.push_back(merged_stride(view.shape, columns_).value_or(0));
    buffers_.push_back(view.buffer);
    return builder_.add_tensor(std::move(out));
  }

  const std::vector<Node>& nodes_;
  const std::vector<ChainResult>& results_;
  const RowKernelInputs& inputs_;
  std::vector<std::string> columns_, rows_;
  std::int64_t columns_extent_ = 1;
  Reason idle_reason_ = {};        // reason if the rows are too few for a device
  std::size_t widest_result_ = 0;  // index of the result with the most dimensions
  ops::RowProgramBuilder builder_{{}, 1};
  std::vector<int> values_, buffers_, loads_;  // value of each node; buffer and load of each tensor
};

}  // namespace

LoweredRows lower_full_rows(const std::vector<Node>& nodes, const std::vector<ChainResult>& results,
                            const RowKernelInputs& inputs) {
  return FullRowsLowering(nodes, results, inputs).lower_row_program();
}

std::int64_t longest_extent(const std::vector<Shape>& shapes, const std::string& dim) {
  std::int64_t extent = 1;
  for (const Shape& shape : shapes) extent = std::max(extent, axis_along(shape, dim).extent);
  return extent;
}

TrialRowKernelInputs make_trial_row_kernel_inputs(const Program& program, const std::vector<Shape>& shapes,
                                                  const std::vector<Node>& nodes) {
  TrialRowKernelInputs out;
  for (const Node& node : nodes) {
    out.views.emplace_back();
    const std::size_t t = node.tensor;
    if (node.kind == Node::Kind::tensor) out.views.back() = View{node.tensor, program.tensors[t].dtype, shapes[t]};
    if (!is_position(node) && node.kind != Node::Kind::size) continue;
    const std::string& dim = node.over[0].dim;
    if (is_position(node))
      out.views.back() = View{-static_cast<int>(out.views.size()), DType::f32, {{dim, longest_extent(shapes, dim), 1}}};
    else
      out.sizes[dim] = longest_extent(shapes, dim);
  }
  return out;
}

LoweredRows lower_group_as_full_rows(Lowering& to, int group) {
  const FusionGroup& g = to.plan.fusion.groups[group];
  const JoinedNodes all = join_statements(to.program, g.statements, g.results, true);
  const auto all_views = find_leaf_views(to, all.nodes);
  std::vector<ChainResult> results;
  for (const JoinedNodes::StoredNode& stored : all.results) results.push_back({stored.node, to.view_of(stored.tensor)});
  return lower_full_rows(all.nodes, results, {all_views, to.sizes, to.plan.fusion.target});
}

}  // namespace ridge
