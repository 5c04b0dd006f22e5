#include "ridge/onnx/count.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/base/file.h"
#include "ridge/base/string_util.h"
#include "ridge/onnx/counter.h"

namespace ridge::onnx {

std::string printable_name(std::string_view name) {
  constexpr std::size_t max_name = 80;
  return make_printable(name.substr(0, max_name));
}

namespace {

constexpr int max_function_depth = 16;

// Returns the name of a dimension without a value: its symbol, or "x_0" for axis 0 of x.
std::string dimension_name(const ValueInfo& value, std::size_t axis) {
  const std::string_view symbol = (*value.shape)[axis].symbol;
  return symbol.empty() ? fmt::format("{}_{}", printable_name(value.name), axis) : printable_name(symbol);
}

// Returns the dimensions without a value of the model's inputs, each once.
std::vector<std::string> list_open_dimensions(const Model& model, const std::set<std::string_view>& initializers) {
  std::vector<std::string> out;
  for (const ValueInfo& input : model.inputs) {
    if (!input.shape || initializers.contains(input.name)) continue;
    for (std::size_t i = 0; i < input.shape->size(); ++i)
      if (!(*input.shape)[i].value)
        if (std::string name = dimension_name(input, i); !contains(out, name)) out.push_back(std::move(name));
  }
  return out;
}

Status check_sizes(const std::vector<std::string>& names, const Bindings& sizes) {
  for (const auto& [name, size] : sizes) {
    if (!contains(names, name)) {
      const std::string nearest = find_nearest(name, names);
      return input_error(names.empty() ? fmt::format("expected no sizes, because the file has all, found {}", name)
                                       : fmt::format("expected sizes of {}, found {}", fmt::join(names, ", "), name),
                         nearest.empty() ? "" : fmt::format("did you mean {}?", nearest));
    }
    if (size < 0 || size > max_axis_size)
      return input_error(fmt::format("expected {} from 0 to 2^48, found {}", name, size));
  }
  std::vector<std::string> open;
  for (const std::string& name : names)
    if (!sizes.contains(name)) open.push_back(name);
  if (open.empty()) return Done{};
  std::string options;
  for (const std::string& name : open) options += fmt::format(" -d {}=8", name);
  return input_error(fmt::format("expected a value of {}, because the file has none", fmt::join(open, ", ")),
                     options.substr(1));
}

}  // namespace

Result<ModelTensor> ModelCounter::to_tensor(const ValueInfo& value) const {
  static const ModelNode no_node;
  Operator op(no_node, model_.opset, {});
  op.outputs.resize(1);
  Shape shape;
  for (std::size_t i = 0; i < value.shape->size(); ++i) {
    const AxisSize& axis = (*value.shape)[i];
    const auto size = out_.sizes.find(axis.value ? std::string() : dimension_name(value, i));
    if (!axis.value && size == out_.sizes.end())
      return input_error(
          fmt::format("'{}' has a size without a value: {}", printable_name(value.name), dimension_name(value, i)));
    shape.push_back(axis.value ? *axis.value : size->second);
  }
  const Status valid = op.set_output(0, std::move(shape), value.type);
  if (!valid) return input_error(fmt::format("'{}'{}", printable_name(value.name), valid.error().message));
  return op.outputs[0];
}

Status ModelCounter::add_inputs() {
  std::set<std::string_view> initializers;
  for (const TensorData& data : model_.initializers) initializers.insert(data.name);
  out_.size_names = list_open_dimensions(model_, initializers);
  RIDGE_TRY_STATUS(check_sizes(out_.size_names, out_.sizes));
  RIDGE_TRY_STATUS(add_initializers(model_, Scope(), true));
  for (const ValueInfo& input : model_.inputs) {
    if (initializers.contains(input.name)) continue;
    if (!input.shape)
      return input_error(
          fmt::format("expected a tensor with a shape as input '{}', found none", printable_name(input.name)));
    RIDGE_TRY(tensor, to_tensor(input));
    out_.input_bytes += tensor.bytes();
    tensors_[std::string(input.name)] = std::move(tensor);
  }
  declare_shapes(model_);
  return Done{};
}

// Adds the initializers of a graph. A body that runs again does not count their bytes again.
Status ModelCounter::add_initializers(const Graph& graph, const Scope& scope, bool counts_bytes) {
  for (const TensorData& data : graph.initializers) {
    ValueInfo value{data.name, data.type, std::vector<AxisSize>()};
    for (const std::int64_t size : data.shape) value.shape->push_back({size, {}});
    RIDGE_TRY(tensor, to_tensor(value));
    tensor.is_parameter = true;
    if (static_cast<Count>(data.values.size()) == tensor.elements()) tensor.values = data.values;
    const ElementType type = find_element_type(data.type);
    constexpr int quantized_bits = 8;  // Wider integers are indices and shapes
    const bool is_weight =
        type.kind == ElementKind::floating || (type.bits <= quantized_bits && type.code != bool_type);
    if (is_weight && counts_bytes) out_.parameter_count += tensor.elements();
    if (counts_bytes) out_.parameter_bytes += tensor.bytes();
    tensors_[scope.prefix + std::string(data.name)] = std::move(tensor);
  }
  return Done{};
}

void ModelCounter::declare_shapes(const Graph& graph) {
  for (const ValueInfo& value : graph.others) declared_[value.name] = &value;
  for (const ValueInfo& value : graph.outputs) declared_[value.name] = &value;
}

void ModelCounter::add_readers(const ModelNode& node, const Scope& scope) {
  for_each_read(node, [&](std::string_view name) { live_.add_reader(resolve_name(scope, name)); });
}

void ModelCounter::release_inputs(const ModelNode& node, const Scope& scope) {
  for_each_read(node, [&](std::string_view name) { live_.release(resolve_name(scope, name)); });
}

Status ModelCounter::count_node(const ModelNode& node, const Scope& scope, int depth) {
  if (++calls_ > max_nodes)
    return input_error(fmt::format("expected at most {} operators with those of functions, found more", max_nodes));
  if (const auto function = functions_.find({node.domain, node.op}); function != functions_.end()) {
    if (depth >= max_function_depth)
      return input_error(fmt::format("expected functions nested at most {} levels, found more at {}",
                                     max_function_depth, printable_name(node.op)));
    return inline_function(node, *function->second, scope, depth);
  }
  if (node.domain.empty() && (node.op == "If" || node.op == "Loop" || node.op == "Scan"))
    return count_bodies(node, scope, depth);
  return count_operator(node, scope);
}

// Counts the nodes of a function in place of its call.
Status ModelCounter::inline_function(const ModelNode& node, const FunctionBody& body, const Scope& scope, int depth) {
  Scope inner{fmt::format("{}{}/", scope.prefix, calls_), &node.attributes};
  for (const ModelNode& each : body.nodes) add_readers(each, inner);
  for (const std::string_view output : body.outputs) live_.add_reader(inner.prefix + std::string(output));
  for (std::size_t i = 0; i < std::min(node.inputs.size(), body.inputs.size()); ++i)
    if (const ModelTensor* const tensor = find_tensor(scope, node.inputs[i])) {
      const std::string name = inner.prefix + std::string(body.inputs[i]);
      tensors_[name] = ModelTensor(*tensor);
      live_.add_alias(name, resolve_name(scope, node.inputs[i]));
    }
  for (const ModelNode& each : body.nodes) RIDGE_TRY_STATUS(count_node(bind_attributes(each, inner), inner, depth + 1));
  for (std::size_t i = 0; i < std::min(node.outputs.size(), body.outputs.size()); ++i)
    if (const ModelTensor* const tensor = find_tensor(inner, body.outputs[i])) {
      const std::string name = inner.prefix + std::string(body.outputs[i]);
      set_result(node, scope, i, ModelTensor(*tensor), name);
      live_.release(name);
    }
  release_inputs(node, scope);
  return Done{};
}

// Returns a node of a function's body with the attributes that its call passes.
ModelNode ModelCounter::bind_attributes(const ModelNode& node, const Scope& scope) {
  ModelNode out = node;
  if (!scope.arguments) return out;
  for (Attribute& attribute : out.attributes)
    for (const Attribute& passed : *scope.arguments)
      if (!attribute.referenced.empty() && attribute.referenced == passed.name) {
        const std::string_view name = attribute.name;
        attribute = passed;
        attribute.name = name;
        break;
      }
  std::erase_if(out.attributes, [](const Attribute& attribute) { return !attribute.referenced.empty(); });
  return out;
}

// Sets a result of a node whose memory is that of a tensor of its body.
void ModelCounter::set_result(const ModelNode& node, const Scope& scope, std::size_t output, const ModelTensor& tensor,
                              const std::string& alias_of) {
  if (node.outputs[output].empty()) return;
  const std::string name = scope.prefix + std::string(node.outputs[output]);
  tensors_[name] = tensor;
  live_.add_alias(name, alias_of);
}

// Sets the shapes that the file declares for the results. Error: it declares none for one.
Status ModelCounter::set_declared_shapes(Operator& op) {
  for (std::size_t i = 0; i < op.node.outputs.size(); ++i) {
    if (op.node.outputs[i].empty()) continue;
    const auto found = declared_.find(op.node.outputs[i]);
    const auto tensor = found != declared_.end() && found->second->shape ? to_tensor(*found->second)
                                                                         : Result<ModelTensor>(input_error(""));
    if (!tensor)
      return op.error(fmt::format("expected a known operator, or a shape of its result '{}' in the file, found neither",
                                  printable_name(op.node.outputs[i])),
                      "run onnx.shape_inference, or export the model with fixed sizes");
    op.outputs[i] = *tensor;
  }
  return Done{};
}

Result<std::vector<const ModelTensor*>> ModelCounter::find_inputs(const ModelNode& node, const Scope& scope) const {
  std::vector<const ModelTensor*> inputs;
  for (const std::string_view name : node.inputs) {
    inputs.push_back(name.empty() ? nullptr : find_tensor(scope, name));
    if (name.empty() || inputs.back()) continue;
    return input_error(fmt::format("{} '{}' reads '{}', which nothing before it computes", printable_name(node.op),
                                   printable_name(node.name), printable_name(name)));
  }
  return inputs;
}

Status ModelCounter::count_operator(const ModelNode& node, const Scope& scope) {
  RIDGE_TRY(inputs, find_inputs(node, scope));
  Operator op(node, model_.opset, std::move(inputs));
  const Definition define = find_definition(node.domain, node.op);
  bool is_known = define != nullptr;
  if (define) {
    const Status defined = define(op);
    // Operators of other domains have variants that are counted by their bytes.
    if (!defined && !op.needs_values && !node.domain.empty()) is_known = false;
    if (!defined && !op.needs_values && node.domain.empty()) return defined.error();
    if (!defined && !set_declared_shapes(op)) return defined.error();
    if (!defined && op.has_input(0) && !op.outputs.empty()) set_elements_read(op, 0, op.outputs[0].elements());
    if (defined) fold_constants(op);
  } else {
    RIDGE_TRY_STATUS(set_declared_shapes(op));
  }
  const bool is_arithmetic_of_shapes = !op.outputs.empty() && op.outputs[0].values.has_value();
  if (op.is_view || is_arithmetic_of_shapes)
    out_.views += repeat_;
  else
    add_work(op, is_known);
  store_results(node, scope, op);
  return Done{};
}

namespace {

// Returns the name of a row: the operator, and the shapes of both factors, else of the largest operand or result.
std::string row_name(const Operator& op) {
  std::string out = printable_name(op.node.op);
  const Shape* shape = op.outputs.empty() ? nullptr : &op.outputs[0].shape;
  for (const ModelTensor* const each : op.inputs)
    if (each && (!shape || each->elements() > count_elements(*shape))) shape = &each->shape;
  if (op.contraction && op.has_input(0) && op.inputs.size() > 1) {
    const std::size_t second = op.node.op.starts_with("QLinear") ? 3 : 1;
    out += " " + format_shape(op.inputs[0]->shape);
    if (op.has_input(second)) out += " * " + format_shape(op.inputs[second]->shape);
  } else if (shape) {
    out += " " + format_shape(*shape);
  }
  return out;
}

}  // namespace

void ModelCounter::add_work(const Operator& op, bool is_known) {
  OperatorWork work{.name = row_name(op), .contraction = op.contraction, .math = op.math, .flops = op.flops};
  work.costly = op.costly;
  std::set<std::string_view> seen;
  std::string key = work.name;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.has_input(i) || !seen.insert(op.node.inputs[i]).second) continue;
    work.bytes_in += op.read[i].value_or(op.inputs[i]->bytes());
    key += fmt::format("|{} {}", op.inputs[i]->type, format_shape(op.inputs[i]->shape));
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    if (!op.node.outputs[i].empty()) work.bytes_out += op.outputs[i].bytes();
  key += fmt::format("|{} {} {}", static_cast<double>(work.flops), static_cast<double>(work.bytes_in),
                     static_cast<double>(work.bytes_out));
  if (!is_known) {
    const std::string name =
        (op.node.domain.empty() ? "" : printable_name(op.node.domain) + ".") + printable_name(op.node.op);
    auto found =
        std::find_if(out_.unknown.begin(), out_.unknown.end(), [&](const auto& each) { return each.name == name; });
    if (found == out_.unknown.end()) found = out_.unknown.insert(found, UnknownOperator{name});
    found->calls += repeat_;
    found->bytes += repeat_ * (work.bytes_in + work.bytes_out);
  }
  if (work.bytes_in + work.bytes_out == 0) return;
  const auto [row, is_new] = rows_.try_emplace(std::move(key), out_.operators.size());
  work.calls = repeat_;
  if (is_new)
    out_.operators.push_back(std::move(work));
  else
    out_.operators[row->second].calls += repeat_;
}

void ModelCounter::note_peak(const Operator& op) {
  const Count bytes = out_.parameter_bytes + out_.input_bytes + live_.bytes();
  if (bytes <= out_.peak_bytes) return;
  out_.peak_bytes = bytes;
  out_.peak_operator = op.label();
}

// Keeps the results, notes the peak, and frees what nothing reads any more.
void ModelCounter::store_results(const ModelNode& node, const Scope& scope, Operator& op) {
  const bool is_parameter = op.is_view && op.has_input(0) && op.inputs[0]->is_parameter;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const std::string name = scope.prefix + std::string(node.outputs[i]);
    op.outputs[i].is_parameter = is_parameter;
    if (!op.is_view)
      live_.store(name, op.outputs[i].bytes());
    else if (op.has_input(0))
      live_.add_alias(name, resolve_name(scope, node.inputs[0]));
    tensors_[name] = std::move(op.outputs[i]);
  }
  note_peak(op);
  release_inputs(node, scope);
}

Result<ModelCounts> count_model(const Model& model, const Bindings& sizes) {
  return ModelCounter(model, sizes).count();
}

Result<ModelCounts> count_file(const std::string& path, const Bindings& sizes) {
  RIDGE_TRY(content, read_file(path, max_file_bytes));
  auto model = parse_model(content);
  auto counts = model ? count_model(*model, sizes) : Result<ModelCounts>(model.error());
  if (counts) return counts;
  Error error = counts.error();
  error.message = fmt::format("{}: {}", path, error.message);
  return error;
}

}  // namespace ridge::onnx
