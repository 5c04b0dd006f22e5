// Counts the operators of a model in order: the shapes of their results, their work, and the bytes that are live.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ridge/onnx/count.h"
#include "ridge/onnx/live_bytes.h"
#include "ridge/onnx/operator.h"

namespace ridge::onnx {

std::string printable_name(std::string_view name);  // At most 80 characters, without control characters

// Calls read(name) for each tensor that a node reads, itself or in its bodies, in which a name may occur that is the
// body's own.
template <class Read> void for_each_read(const ModelNode& node, const Read& read) {
  for (const std::string_view input : node.inputs)
    if (!input.empty()) read(input);
  for (const Attribute& attribute : node.attributes)
    if (attribute.graph) {
      for (const ModelNode& each : attribute.graph->nodes) for_each_read(each, read);
      for (const ValueInfo& output : attribute.graph->outputs) read(output.name);
    }
}

// Attributes that calls of a function pass to its nodes.
using Arguments = std::vector<Attribute>;

class ModelCounter {
 public:
  ModelCounter(const Model& model, const Bindings& sizes) : model_(model) { out_.sizes = sizes; }

  Result<ModelCounts> count() {
    RIDGE_TRY_STATUS(add_inputs());
    for (const ModelNode& node : model_.nodes) add_readers(node, Scope());
    for (const ValueInfo& output : model_.outputs) live_.add_reader(std::string(output.name));  // Never freed
    out_.peak_bytes = out_.parameter_bytes + out_.input_bytes;
    for (const FunctionBody& function : model_.functions) functions_[{function.domain, function.name}] = &function;
    Scope scope;
    for (const ModelNode& node : model_.nodes) RIDGE_TRY_STATUS(count_node(node, scope, 0));
    std::stable_sort(out_.unknown.begin(), out_.unknown.end(),
                     [](const UnknownOperator& a, const UnknownOperator& b) { return a.bytes > b.bytes; });
    return std::move(out_);
  }

 private:
  // Names of a body are its own; `prefix` distinguishes the calls. The body of a function reads its own names alone,
  // the body of If, Loop or Scan also those of `outer`.
  struct Scope {
    std::string prefix;
    const Arguments* arguments = nullptr;
    const Scope* outer = nullptr;
  };
  // An operand or a result of a body.
  struct BodyValue {
    ModelTensor tensor;
    std::string name;        // Tensor whose memory it is; empty for a number that the loop makes
    bool is_result = false;  // True if a body computed it, so that its reader is still counted
  };
  // A body that runs several times (bodies.cc). Its inputs are `before`, `carried` and `after`; each run passes
  // `carried` to the next one. Its results are the condition for another run if there is one, `carried`, and slices of
  // results.
  struct RepeatedBody {
    const ModelNode& node;
    const Graph& body;
    const Scope& scope;
    int depth;
    std::int64_t runs;
    std::vector<BodyValue> before = {}, carried = {}, after = {};
    bool has_condition = false;
  };

  Status add_inputs();
  Result<ModelTensor> to_tensor(const ValueInfo& value) const;
  void add_readers(const ModelNode& node, const Scope& scope);
  void release_inputs(const ModelNode& node, const Scope& scope);
  Status count_node(const ModelNode& node, const Scope& scope, int depth);
  Status inline_function(const ModelNode& node, const FunctionBody& body, const Scope& scope, int depth);
  Status count_operator(const ModelNode& node, const Scope& scope);
  Result<std::vector<const ModelTensor*>> find_inputs(const ModelNode& node, const Scope& scope) const;
  static ModelNode bind_attributes(const ModelNode& node, const Scope& scope);
  // Counts If, Loop or Scan (bodies.cc) by its body, or by its bytes if the file does not determine which runs or how
  // often.
  Status count_bodies(const ModelNode& node, const Scope& scope, int depth);
  Status count_branch(const ModelNode& node, const Scope& scope, int depth);
  Status count_loop(const ModelNode& node, const Scope& scope, int depth);
  Status count_scan(const ModelNode& node, const Scope& scope, int depth);
  Status repeat_body(RepeatedBody& repeated);
  Result<std::vector<BodyValue>> count_body_once(const RepeatedBody& repeated, bool is_first);
  Status add_slices(const RepeatedBody& repeated, const std::vector<BodyValue>& results);
  Status add_initializers(const Graph& graph, const Scope& scope, bool counts_bytes);
  void declare_shapes(const Graph& graph);
  void set_result(const ModelNode& node, const Scope& scope, std::size_t output, const ModelTensor& tensor,
                  const std::string& alias_of);
  Status set_declared_shapes(Operator& op);
  void add_work(const Operator& op, bool is_known);
  void store_results(const ModelNode& node, const Scope& scope, Operator& op);
  void note_peak(const Operator& op);

  // Returns the name of a tensor with the prefix of the scope that has it, else that of this scope.
  std::string resolve_name(const Scope& scope, std::string_view name) const {
    for (const Scope* each = &scope; each; each = each->outer)
      if (std::string full = each->prefix + std::string(name); tensors_.contains(full)) return full;
    return scope.prefix + std::string(name);
  }
  const ModelTensor* find_tensor(const Scope& scope, std::string_view name) const {
    const auto found = tensors_.find(resolve_name(scope, name));
    return found == tensors_.end() ? nullptr : &found->second;
  }

  const Model& model_;
  ModelCounts out_;
  std::int64_t repeat_ = 1;  // Number of runs of the body that is being counted
  std::unordered_map<std::string, ModelTensor> tensors_;
  std::map<std::pair<std::string_view, std::string_view>, const FunctionBody*> functions_;
  std::map<std::string_view, const ValueInfo*> declared_;
  std::map<std::string, std::size_t> rows_;  // Index into `operators` by what distinguishes rows
  LiveResults live_;                         // Results that are still read
  std::size_t calls_ = 0;                    // Operators counted, with those of inlined functions
};

}  // namespace ridge::onnx
