// If, Loop and Scan: a body counts as often as it runs, if the file determines that. A run that leaves the shapes and
// known values of its state as they were equals all further ones; others are counted one by one, such as those of a
// cache that grows. Where the number of runs or the branch depends on data, the operator is unknown.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/onnx/counter.h"

namespace ridge::onnx {
namespace {

constexpr int max_depth = 16;
constexpr int max_counted_runs = 256;  // Runs of one body that differ
constexpr std::int64_t max_runs = std::int64_t{1} << 32;
constexpr std::int64_t first_scan_opset = 9;  // Earlier ones have an axis of sequences

// Returns the only value of a tensor, or nullopt if it is unknown.
std::optional<double> only_value(const ModelTensor* tensor) {
  if (!tensor || !tensor->values || tensor->values->size() != 1) return std::nullopt;
  return tensor->values->front();
}

bool is_same(const ModelTensor& a, const ModelTensor& b) {
  return a.shape == b.shape && a.type == b.type && a.values == b.values;
}

Error body_error(const ModelNode& node, const std::string& message) {
  const std::string name = printable_name(node.name);
  return input_error(fmt::format("{}{}: {}", printable_name(node.op), name.empty() ? "" : " '" + name + "'", message),
                     "run onnx.shape_inference, or export the model with fixed sizes");
}

Result<const Graph*> find_body(const ModelNode& node, std::string_view attribute) {
  const Attribute* const found = node.find_attribute(attribute);
  if (!found || !found->graph) return body_error(node, fmt::format("expected a body '{}', found none", attribute));
  return found->graph.get();
}

}  // namespace

Status ModelCounter::count_bodies(const ModelNode& node, const Scope& scope, int depth) {
  const auto before = std::tuple(out_, rows_, live_);
  Status counted = Done{};
  if (node.op == "If")
    counted = count_branch(node, scope, depth);
  else if (node.op == "Loop")
    counted = count_loop(node, scope, depth);
  else
    counted = count_scan(node, scope, depth);
  if (counted) return Done{};
  std::tie(out_, rows_, live_) = before;
  RIDGE_TRY(inputs, find_inputs(node, scope));
  Operator op(node, model_.opset, std::move(inputs));
  if (!set_declared_shapes(op)) return counted;
  add_work(op, false);
  store_results(node, scope, op);
  return Done{};
}

Status ModelCounter::count_branch(const ModelNode& node, const Scope& scope, int depth) {
  RIDGE_TRY(inputs, find_inputs(node, scope));
  const auto condition = only_value(inputs.empty() ? nullptr : inputs.front());
  if (!condition)
    return body_error(node, "expected a condition that the file determines, found one that depends on data");
  RIDGE_TRY(body, find_body(node, *condition != 0 ? "then_branch" : "else_branch"));
  RIDGE_TRY(results, count_body_once({node, *body, scope, depth, 1}, true));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < node.outputs.size()) set_result(node, scope, i, results[i].tensor, results[i].name);
    live_.release(results[i].name);
  }
  release_inputs(node, scope);
  return Done{};
}

// Loop(trip count, condition, state...): the body takes the number of the run, the condition and the state, and returns
// the condition, the state and slices.
Status ModelCounter::count_loop(const ModelNode& node, const Scope& scope, int depth) {
  RIDGE_TRY(inputs, find_inputs(node, scope));
  RIDGE_TRY(body, find_body(node, "body"));
  const auto count = only_value(inputs.empty() ? nullptr : inputs[0]);
  const bool has_condition = inputs.size() > 1 && inputs[1];
  const auto condition = has_condition ? only_value(inputs[1]) : 1.0;
  if (!count || !condition || std::isnan(*count))
    return body_error(node, "expected a number of runs that the file determines, found one that depends on data");
  RepeatedBody repeated{node, *body, scope, depth, 0};
  if (*condition != 0) repeated.runs = static_cast<std::int64_t>(std::clamp(*count, 0.0, 0x1p62));
  repeated.before = {{ModelTensor{{}, int64_type}, {}}, {ModelTensor{{}, bool_type, std::vector{1.0}}, {}}};
  repeated.has_condition = true;
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    if (!inputs[i]) return body_error(node, fmt::format("expected an input {}, found none", i));
    repeated.carried.push_back({*inputs[i], resolve_name(scope, node.inputs[i])});
  }
  return repeat_body(repeated);
}

// Scan(state..., sequences...): the body takes the state and an element of each sequence, and returns the state and
// slices.
Status ModelCounter::count_scan(const ModelNode& node, const Scope& scope, int depth) {
  RIDGE_TRY(inputs, find_inputs(node, scope));
  RIDGE_TRY(body, find_body(node, "body"));
  if (model_.opset < first_scan_opset)
    return body_error(node, "expected operator set 9 or later, found an earlier one");
  const Operator op(node, model_.opset, inputs);
  const std::int64_t sequences = op.integer("num_scan_inputs", 0);
  if (sequences < 1 || sequences > static_cast<std::int64_t>(inputs.size()))
    return body_error(node, fmt::format("expected num_scan_inputs from 1 to {}, found {}", inputs.size(), sequences));
  const std::size_t states = inputs.size() - static_cast<std::size_t>(sequences);
  const std::vector<std::int64_t> axes = op.integers("scan_input_axes").value_or(std::vector<std::int64_t>());
  RepeatedBody repeated{node, *body, scope, depth, -1};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    RIDGE_TRY(tensor, op.input(i));
    BodyValue value{*tensor, resolve_name(scope, node.inputs[i])};
    if (i < states) {
      repeated.carried.push_back(std::move(value));
      continue;
    }
    RIDGE_TRY(axis, op.axis(i - states < axes.size() ? axes[i - states] : 0, tensor->shape.size()));
    const std::int64_t runs = tensor->shape[axis];
    if (repeated.runs >= 0 && repeated.runs != runs)
      return body_error(node, fmt::format("expected sequences of one length, found {} and {}", repeated.runs, runs));
    repeated.runs = runs;
    value.tensor.shape.erase(value.tensor.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    value.tensor.values.reset();
    repeated.after.push_back(std::move(value));
  }
  return repeat_body(repeated);
}

// Counts the runs and sets the results of the node.
Status ModelCounter::repeat_body(RepeatedBody& r) {
  const std::size_t state = r.carried.size(), first = r.has_condition ? 1 : 0;
  if (r.body.inputs.size() != r.before.size() + state + r.after.size() || r.body.outputs.size() < first + state ||
      r.node.outputs.size() < state)
    return body_error(r.node, "expected a body with an input and a result for each tensor of its state");
  if (r.runs > max_runs || repeat_ > max_runs / std::max<std::int64_t>(r.runs, 1))
    return body_error(r.node, "expected a body that runs at most 2^32 times, found more");
  if (r.runs == 0 && r.node.outputs.size() > state)
    return body_error(r.node, "expected at least one run, because the shape of its slices depends on it, found none");
  bool is_unchanged = false;
  int counted = 0;
  for (std::int64_t done = 0; done < r.runs;) {
    if (++counted > max_counted_runs)
      return body_error(r.node, fmt::format("expected at most {} runs whose sizes or values differ, found {}",
                                            max_counted_runs, r.runs));
    const std::int64_t runs = is_unchanged ? r.runs - done : 1, outside = repeat_;
    repeat_ *= runs;
    auto results = count_body_once(r, done == 0);
    repeat_ = outside;
    if (!results) return results.error();
    done += runs;
    if (r.has_condition) {
      const auto condition = only_value(&results->front().tensor);
      if (!condition)
        return body_error(r.node, "expected a number of runs that the file determines, found a condition on data");
      if (*condition == 0) r.runs = done;
      live_.release(results->front().name);
    }
    is_unchanged = true;
    for (std::size_t i = 0; i < state; ++i) {
      is_unchanged &= is_same(r.carried[i].tensor, (*results)[first + i].tensor);
      if (r.carried[i].is_result) live_.release(r.carried[i].name);
      r.carried[i] = std::move((*results)[first + i]);
    }
    results->erase(results->begin(), results->begin() + static_cast<std::ptrdiff_t>(first + state));
    RIDGE_TRY_STATUS(add_slices(r, *results));
  }
  for (std::size_t i = 0; i < state; ++i) {
    set_result(r.node, r.scope, i, r.carried[i].tensor, r.carried[i].name);
    if (r.carried[i].is_result) live_.release(r.carried[i].name);
  }
  release_inputs(r.node, r.scope);
  return Done{};
}

// Adds the results that consist of a slice of each run. They are live from the first run on.
Status ModelCounter::add_slices(const RepeatedBody& r, const std::vector<BodyValue>& results) {
  Operator op(r.node, model_.opset, {});
  const std::vector<std::int64_t> axes = op.integers("scan_output_axes").value_or(std::vector<std::int64_t>());
  for (std::size_t i = 0; i < results.size(); ++i) {
    live_.release(results[i].name);
    const std::size_t output = r.carried.size() + i;
    if (output >= r.node.outputs.size() || r.node.outputs[output].empty()) continue;
    Shape shape = results[i].tensor.shape;
    RIDGE_TRY(axis, op.axis(i < axes.size() ? axes[i] : 0, shape.size() + 1));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), r.runs);
    RIDGE_TRY_STATUS(op.set_output(output, std::move(shape), results[i].tensor.type));
    const std::string name = r.scope.prefix + std::string(r.node.outputs[output]);
    if (const auto found = tensors_.find(name);
        found != tensors_.end() && found->second.shape != op.outputs[output].shape)
      return body_error(r.node, "expected slices of one shape, found another one in a later run");
    live_.store(name, op.outputs[output].bytes());
    tensors_[name] = std::move(op.outputs[output]);
  }
  return Done{};
}

// Counts the nodes of a body in a scope of its own, and returns its results, each with a reader that is not released.
Result<std::vector<ModelCounter::BodyValue>> ModelCounter::count_body_once(const RepeatedBody& r, bool is_first) {
  if (r.depth >= max_depth || ++calls_ > max_nodes)
    return body_error(r.node, fmt::format("expected bodies nested at most {} levels with {} operators, found more",
                                          max_depth, max_nodes));
  const Scope inner{fmt::format("{}{}/", r.scope.prefix, calls_), r.scope.arguments, &r.scope};
  RIDGE_TRY_STATUS(add_initializers(r.body, inner, is_first));
  if (is_first) declare_shapes(r.body);
  std::size_t at = 0;
  for (const auto* part : {&r.before, &r.carried, &r.after})
    for (const BodyValue& value : *part) {
      const std::string name = inner.prefix + std::string(r.body.inputs[at++].name);
      tensors_[name] = value.tensor;
      if (!value.name.empty()) live_.add_alias(name, value.name);
    }
  for (const ModelNode& node : r.body.nodes) add_readers(node, inner);
  for (const ValueInfo& output : r.body.outputs) live_.add_reader(resolve_name(inner, output.name));
  for (const ModelNode& node : r.body.nodes)
    RIDGE_TRY_STATUS(count_node(bind_attributes(node, inner), inner, r.depth + 1));
  std::vector<BodyValue> out;
  for (const ValueInfo& output : r.body.outputs) {
    const ModelTensor* const tensor = find_tensor(inner, output.name);
    if (!tensor)
      return body_error(
          r.node, fmt::format("expected its body to compute '{}', found no such result", printable_name(output.name)));
    out.push_back({*tensor, resolve_name(inner, output.name), true});
  }
  return out;
}

}  // namespace ridge::onnx
