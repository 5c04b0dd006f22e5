// Lowers statements with functions along dimensions to one device kernel that holds a full row in registers, so that
// pointwise operations before, between and after the functions cause no memory traffic: y = rmsnorm(x + r over D) * w
// reads x, r and w and writes y.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ridge/ops/rows/program.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

using ops::ReduceFunction;

// Rows of at least this length occupy a multiprocessor each, so fewer than `min_long_rows` leave most of them idle.
constexpr std::int64_t long_row = 16384, least_long_rows = 64;

std::vector<std::string> long_dims(const Shape& shape) {
  std::vector<std::string> out;
  for (const SizedAxis& axis : shape)
    if (axis.extent > 1) out.push_back(axis.dim);
  return out;
}

bool contains(const std::vector<std::string>& dims, const std::string& dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

class WholeRows {
 public:
  WholeRows(const std::vector<Node>& nodes, const std::vector<ChainResult>& results, const RowLeaves& leaves)
      : nodes_(nodes), results_(results), leaves_(leaves) {}

  LoweredRows lower() {
    Why trouble = find_columns();
    if (!trouble) trouble = find_rows();
    if (!trouble) trouble = check_views();
    if (!trouble) trouble = check_functions();
    if (trouble) return {{}, {}, *std::move(trouble)};
    std::vector<std::int64_t> extents;
    for (const std::string& dim : rows_) extents.push_back(along(results_[widest_].to.shape, dim).extent);
    builder_ = ops::RowBuilder(std::move(extents), columns_extent_);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      values_.push_back(value(i));
      for (const ChainResult& result : results_)
        if (result.node == i) builder_.store(values_[i], tensor(result.to));
    }
    LoweredRows out{builder_.take(), std::move(buffers_), ""};
    if (leaves_.target == Target::cuda) out.fault = fault_on_device(out.program);
    return out;
  }

 private:
  using Why = std::optional<std::string>;

  // Returns why a generated kernel cannot be used. The precompiled softmax and norm kernels take any rows.
  std::string fault_on_device(const ops::RowProgram& program) const {
    const Why why = idle_ ? idle_ : ops::find_fault(program);
    if (!why) return "";
    const auto known = ops::known_rows(program);
    const bool is_compiled =
        known && known->problem.function <= ops::RowFunction::layernorm && !ops::refuse(known->problem);
    return is_compiled ? "" : *why;
  }

  // Sets `columns_`, along which all functions run, in memory order; returns a reason if the functions differ.
  Why find_columns() {
    std::vector<std::string> first = leaves_.columns;
    std::sort(first.begin(), first.end());
    for (const Node& node : nodes_) {
      if (node.kind != Node::Kind::along) continue;
      std::vector<std::string> over;
      for (const Axis& axis : node.over) over.push_back(axis.named() ? axis.dim : std::to_string(axis.literal));
      std::sort(over.begin(), over.end());
      if (first.empty()) first = over;
      if (over != first)
        return fmt::format("it reduces along {} and along {}", fmt::join(first, ", "), fmt::join(over, ", "));
    }
    for (const View* view : views()) {
      std::vector<std::string> mine;
      for (const std::string& dim : long_dims(view->shape))
        if (contains(first, dim)) mine.push_back(dim);
      if (mine.size() <= columns_.size()) continue;
      columns_ = mine;
      columns_extent_ = 1;
      for (const std::string& dim : columns_) columns_extent_ *= along(view->shape, dim).extent;
    }
    return std::nullopt;
  }

  Why find_rows() {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (long_dims(results_[i].to.shape).size() > long_dims(results_[widest_].to.shape).size()) widest_ = i;
    for (const SizedAxis& axis : results_[widest_].to.shape)
      if (axis.extent > 1 && !contains(columns_, axis.dim)) {
        rows_.push_back(axis.dim);
        rows *= axis.extent;
      }
    for (const ChainResult& result : results_)
      for (const std::string& dim : rows_)
        if (!has(result.to.shape, dim))
          return fmt::format("{} and {} have different dimensions", text(result.to.shape),
                             text(results_[widest_].to.shape));
    if (columns_extent_ >= long_row && rows < least_long_rows)
      idle_ = fmt::format("{} row{} of {} would leave most multiprocessors idle", rows, rows == 1 ? "" : "s",
                          columns_extent_);
    return std::nullopt;
  }

  Why check_views() const {
    for (const View* view : views()) {
      bool any = false;
      for (const std::string& dim : long_dims(view->shape)) {
        any |= contains(columns_, dim);
        if (!contains(columns_, dim) && !contains(rows_, dim))
          return fmt::format("{} has a dimension that is neither of the rows nor of the columns", text(view->shape));
      }
      if (any && merged_stride(view->shape, columns_) != 1)
        return fmt::format("{} is not contiguous along {}", text(view->shape), fmt::join(columns_, ", "));
    }
    return std::nullopt;
  }

  // Returns a reason if the argument of a function lacks a row dimension, along which it would be recomputed.
  Why check_functions() const {
    std::vector<std::set<std::string>> seen(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const int argument : nodes_[i].arguments) seen[i].merge(std::set(seen[static_cast<std::size_t>(argument)]));
      if (leaves_.views[i])
        for (const std::string& dim : long_dims(leaves_.views[i]->shape)) seen[i].insert(dim);
      if (nodes_[i].kind != Node::Kind::along) continue;
      for (const std::string& dim : rows_)
        if (!seen[i].contains(dim))
          return fmt::format("the reduction along {} would be recomputed for each {}", fmt::join(columns_, ", "), dim);
    }
    return std::nullopt;
  }

  std::vector<const View*> views() const {
    std::vector<const View*> out;
    for (const auto& view : leaves_.views)
      if (view) out.push_back(&*view);
    for (const ChainResult& result : results_) out.push_back(&result.to);
    return out;
  }

  int value(std::size_t i) {
    const Node& node = nodes_[i];
    if (leaves_.views[i]) return loaded(*leaves_.views[i]);
    if (node.kind == Node::Kind::along) return function(node);
    const ops::ChainStep step =
        chain_step(node, leaves_.sizes, [&](int argument) { return values_[static_cast<std::size_t>(argument)]; });
    if (step.op == ops::ChainOp::constant) return builder_.constant(step.constant);
    return builder_.apply(step.op, step.a, step.b, step.c, step.repeat);
  }

  int function(const Node& node) {
    const int x = values_[static_cast<std::size_t>(node.arguments[0])];
    constexpr auto epsilon = static_cast<float>(norm_epsilon);
    switch (node.function) {
      case Function::softmax: return builder_.whole(ops::RowFunction::softmax, x);
      case Function::rmsnorm: return builder_.whole(ops::RowFunction::rmsnorm, x, epsilon);
      case Function::layernorm: return builder_.whole(ops::RowFunction::layernorm, x, epsilon);
      case Function::mean: return builder_.along(ReduceFunction::mean, x);
      case Function::max: return builder_.along(ReduceFunction::max, x);
      case Function::min: return builder_.along(ReduceFunction::min, x);
      default: return builder_.along(ReduceFunction::sum, x);
    }
  }

  int loaded(const View& view) {
    const int t = tensor(view);
    while (loads_.size() <= static_cast<std::size_t>(t)) loads_.push_back(-1);
    int& load = loads_[static_cast<std::size_t>(t)];
    if (load < 0) load = builder_.load(t);
    return load;
  }

  int tensor(const View& view) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i] == view.buffer) return static_cast<int>(i);
    ops::ChainTensor out{view.dtype, {}};
    for (const std::string& dim : rows_) out.strides.push_back(along(view.shape, dim).stride);
    out.strides.push_back(merged_stride(view.shape, columns_).value_or(0));
    buffers_.push_back(view.buffer);
    return builder_.tensor(std::move(out));
  }

  const std::vector<Node>& nodes_;
  const std::vector<ChainResult>& results_;
  const RowLeaves& leaves_;
  std::vector<std::string> columns_, rows_;
  std::int64_t columns_extent_ = 1;
  Why idle_ = {};           // reason if the rows are too few for a device
  std::size_t widest_ = 0;  // index of the result with the most dimensions
  ops::RowBuilder builder_{{}, 1};
  std::vector<int> values_, buffers_, loads_;  // value of each node; buffer and load of each tensor
};

}  // namespace

LoweredRows lower_whole_rows(const std::vector<Node>& nodes, const std::vector<ChainResult>& results,
                             const RowLeaves& leaves) {
  return WholeRows(nodes, results, leaves).lower();
}

std::int64_t longest(const std::vector<Shape>& shapes, const std::string& dim) {
  std::int64_t extent = 1;
  for (const Shape& shape : shapes) extent = std::max(extent, along(shape, dim).extent);
  return extent;
}

TriedLeaves tried_leaves(const Program& program, const std::vector<Shape>& shapes, const std::vector<Node>& nodes) {
  TriedLeaves out;
  for (const Node& node : nodes) {
    out.views.emplace_back();
    const auto t = static_cast<std::size_t>(node.tensor);
    if (node.kind == Node::Kind::tensor) out.views.back() = View{node.tensor, program.tensors[t].dtype, shapes[t]};
    if (!is_place(node) && node.kind != Node::Kind::size) continue;
    const std::string& dim = node.over[0].dim;
    if (is_place(node))
      out.views.back() = View{-static_cast<int>(out.views.size()), DType::f32, {{dim, longest(shapes, dim), 1}}};
    else
      out.sizes[dim] = longest(shapes, dim);
  }
  return out;
}

LoweredRows whole_rows(Lowering& to, int group) {
  const Group& g = to.plan.fusion.groups[static_cast<std::size_t>(group)];
  const Pointwise all = joined(to.program, g.statements, g.results, true);
  const auto views = leaves(to, all.nodes);
  std::vector<ChainResult> results;
  for (const Pointwise::Stored& stored : all.results) results.push_back({stored.node, to.view(stored.tensor)});
  return lower_whole_rows(all.nodes, results, {views, to.sizes, to.plan.fusion.target});
}

}  // namespace ridge
