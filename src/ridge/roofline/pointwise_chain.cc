#include "ridge/roofline/pointwise_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/machine/function_costs.h"
#include "ridge/program/parser.h"

namespace ridge {
namespace {

Polynomial count_elements(const Tensor& tensor) {
  Polynomial count = 1;
  for (const Axis& axis : tensor.axes) count = count * axis.extent();
  return count;
}
Polynomial count_bytes(const Tensor& tensor) {
  const ScaleBlockBits stored = scale_block_bits(tensor.dtype);
  return count_elements(tensor) * Rational(stored.bits, 8 * stored.elements);
}

// Returns the nodes of an elementwise statement, or nullptr for a contraction or work along dimensions.
const std::vector<Node>* find_pointwise_nodes(const Statement& statement) {
  const auto* op = std::get_if<1>(&statement.op);
  if (!op) return nullptr;
  const auto fits = [](const Node& n) {
    return n.kind == Node::Kind::tensor || n.kind == Node::Kind::number || n.kind == Node::Kind::call;
  };
  return std::all_of(op->nodes.begin(), op->nodes.end(), fits) ? &op->nodes : nullptr;
}

bool reads_tensor(const std::vector<Node>& nodes, int tensor) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const Node& n) { return n.kind == Node::Kind::tensor && n.tensor == tensor; });
}

// Returns the length of the run from `first`: only the next statement reads each result. One with a dtype of its own is
// an output of the program, which the chain stores, too.
std::size_t chain_length(const Program& program, std::size_t first) {
  std::size_t length = 1;
  for (std::size_t i = first; i + 1 < program.statements.size(); ++i, ++length) {
    const int result = program.statements[i].result();
    const auto* next = find_pointwise_nodes(program.statements[i + 1]);
    if (!next || !reads_tensor(*next, result)) break;
    if (count_elements(program.tensors[result]) != count_elements(program.tensors[program.statements[i + 1].result()]))
      break;
    std::size_t readers = 0;
    for (const Statement& other : program.statements) {
      if (const auto* nodes = find_pointwise_nodes(other))
        readers += reads_tensor(*nodes, result);
      else if (const auto* contraction = std::get_if<0>(&other.op))
        readers += contraction->left == result || contraction->right == result;
      else
        readers += 2;  // Work along dimensions: its operands are not examined, so the chain ends
    }
    if (readers != 1) break;
  }
  return length;
}

struct ChainCounts {
  Polynomial fused, unfused, elements;  // Bytes, bytes, number of elements
  std::map<std::string, std::pair<std::int64_t, std::int64_t>>
      functions;  // By function name: number of applications, and of those inside `repeat`
  std::vector<std::string> order;
};

// Counts every application of a statement as a kernel of its own, which reads its arguments (an operand at its own
// size, an intermediate at the result's) and writes the result's size in the result's dtype.
void add_statement_counts(const Program& program, const Statement& statement, ChainCounts& counts) {
  const std::vector<Node>& nodes = *find_pointwise_nodes(statement);
  const Polynomial result_bytes = count_bytes(program.tensors[statement.result()]);
  std::vector<bool> varies;
  std::vector<Polynomial> size;
  for (const Node& node : nodes) {
    const bool tensor = node.kind == Node::Kind::tensor;
    varies.push_back(tensor ||
                     std::any_of(node.arguments.begin(), node.arguments.end(), [&](int a) { return varies[a]; }));
    Polynomial value_bytes = varies.back() ? result_bytes : Polynomial();
    size.push_back(tensor ? count_bytes(program.tensors[node.tensor]) : value_bytes);
    if (node.kind != Node::Kind::call || !varies.back()) continue;
    const std::string name(function_info(node.function).name);
    if (!counts.functions.contains(name)) counts.order.push_back(name);
    counts.functions[name].first += node.repeat;
    if (node.repeat > 1) counts.functions[name].second += node.repeat;
    for (const int argument : node.arguments) counts.unfused = counts.unfused + size[argument];
    counts.unfused = counts.unfused + result_bytes + result_bytes * 2 * (node.repeat - 1);
  }
}

// Returns the results before the last one that are outputs of the program.
std::vector<int> stored_results(const Program& program, std::size_t first, std::size_t length) {
  std::vector<int> out;
  for (std::size_t i = first; i + 1 < first + length; ++i)
    if (const int t = program.statements[i].result(); program.tensors[t].role == TensorRole::output) out.push_back(t);
  return out;
}

ChainCounts count_chain(const Program& program, std::size_t first, std::size_t length) {
  ChainCounts counts;
  std::vector<int> inputs;
  for (const int t : stored_results(program, first, length))
    counts.fused = counts.fused + count_bytes(program.tensors[t]);
  for (std::size_t i = first; i < first + length; ++i) {
    add_statement_counts(program, program.statements[i], counts);
    for (const Node& node : *find_pointwise_nodes(program.statements[i])) {
      const auto written = [&](int t) {
        for (std::size_t k = first; k < i; ++k)
          if (program.statements[k].result() == t) return true;
        return false;
      };
      if (node.kind == Node::Kind::tensor && !written(node.tensor)) inputs.push_back(node.tensor);
    }
  }
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  const Tensor& result = program.tensors[program.statements[first + length - 1].result()];
  counts.fused = counts.fused + count_bytes(result);
  for (const int t : inputs) counts.fused = counts.fused + count_bytes(program.tensors[t]);
  counts.elements = count_elements(result);
  return counts;
}

// Returns count / elements; no values are needed if every dimension cancels.
Result<double> divide_by_elements(const Polynomial& count, const Polynomial& elements, const Bindings& dims) {
  const auto& [monomial, one] = *elements.terms().begin();
  if (count.terms().size() == 1 && count.terms().begin()->first == monomial)
    return count.terms().begin()->second.to_double() / one.to_double();
  for (const Polynomial* p : {&count, &elements}) RIDGE_TRY_STATUS(p->evaluate(dims));
  const std::map<std::string, double> sizes(dims.begin(), dims.end());
  return count.evaluate_double(sizes) / elements.evaluate_double(sizes);
}

ChainFunction find_function_cost(const std::string& name, std::int64_t applications, const Machine& machine,
                                 DType dtype, const FunctionCosts& costs) {
  if (const auto given = costs.find(name); given != costs.end()) return {name, applications, given->second, "--cost"};
  const auto info = std::ranges::find(function_table, name, &FunctionInfo::name);
  const bool is_known =
      info != function_table.end() && info->has_cost && dtype != DType::f64;  // costs are those of f32
  if (!is_known) return {name, applications, 1, "counted as 1"};
  const SourcedValue known = function_cost(machine, info->function);
  return {name, applications, known.value, known.source};
}

// Returns the applications of the repeated function from which the chain is compute-bound, all else fixed.
std::optional<std::int64_t> find_break_even_repeats(const PointwiseChain& chain, const ChainCounts& counts) {
  const ChainFunction* repeated = nullptr;
  double others = chain.flops;
  for (const ChainFunction& f : chain.functions) {
    if (counts.functions.at(f.name).second == 0) continue;
    if (repeated) return std::nullopt;  // Ambiguous: two functions are repeated
    repeated = &f;
  }
  if (!repeated) return std::nullopt;
  others -= static_cast<double>(counts.functions.at(repeated->name).second) * repeated->cost;
  const double needed = (chain.break_even_flops - others) / repeated->cost;
  if (needed > 9e15) return std::nullopt;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(needed * (1 - 1e-12))));
}

}  // namespace

// Returns the peak of statements from `first`: the vector unit's in f64 if a tensor is, otherwise in f32.
static Result<const Peak*> find_chain_peak(const Program& program, std::size_t first, std::size_t length,
                                           const Machine& machine) {
  DType dtype = DType::f32;
  for (std::size_t i = first; i < first + length; ++i) {
    std::vector<int> tensors = statement_operands(program.statements[i]);
    tensors.push_back(program.statements[i].result());
    for (const int t : tensors)
      if (program.tensors[t].dtype == DType::f64) dtype = DType::f64;
  }
  if (const Peak* peak = machine.pointwise_peak(dtype)) return peak;
  return input_error(
      fmt::format("machine '{}' has no vector peak for {}", machine.name, dtype_name(dtype)),
      fmt::format("choose a machine that has one, or add {} under [vector] in a machine file", dtype_name(dtype)));
}

namespace {

// Adds the elements below which launches of `launch_s` seconds take longer than memory.
void add_launch_limits(PointwiseChain& chain, double launch_s, double bandwidth) {
  chain.launch_s = launch_s;
  chain.fused_elements = launch_s * bandwidth / chain.fused_bytes;
  if (chain.unfused_bytes > 0)
    chain.unfused_elements = static_cast<double>(chain.kernels) * launch_s * bandwidth / chain.unfused_bytes;
}

// Analyzes the chain of `length` statements from `first`. `bandwidth` is the memory's, in bytes per second.
Result<PointwiseChain> analyze_chain(const Program& program, std::size_t first, std::size_t length,
                                     const Machine& machine, const Bindings& sizes, double bandwidth,
                                     const FunctionCosts& costs) {
  const ChainCounts counts = count_chain(program, first, length);
  RIDGE_TRY(peak, find_chain_peak(program, first, length, machine));
  PointwiseChain chain;
  chain.name = program.tensors[program.statements[first + length - 1].result()].name;
  for (std::size_t i = first; i < first + length; ++i)
    chain.text += (i == first ? "" : "; ") + program.statements[i].text;
  for (const std::string& name : counts.order) {
    chain.functions.push_back(find_function_cost(name, counts.functions.at(name).first, machine, peak->dtype, costs));
    chain.flops += static_cast<double>(chain.functions.back().applications) * chain.functions.back().cost;
    chain.kernels += chain.functions.back().applications;
  }
  RIDGE_TRY(fused, divide_by_elements(counts.fused, counts.elements, sizes));
  RIDGE_TRY(unfused, divide_by_elements(counts.unfused, counts.elements, sizes));
  for (const int t : stored_results(program, first, length)) chain.stored.push_back(program.tensors[t].name);
  chain.fused_bytes = fused;
  chain.unfused_bytes = unfused;
  chain.break_even_flops = peak->rate.value * chain.fused_bytes / bandwidth;
  chain.compute_bound = chain.flops >= chain.break_even_flops * (1 - 1e-12);
  chain.break_even_repeats = find_break_even_repeats(chain, counts);
  if (const auto launch = machine.numbers.find("launch_s"); launch != machine.numbers.end())
    add_launch_limits(chain, launch->second.value, bandwidth);
  return chain;
}

}  // namespace

Result<std::vector<PointwiseChain>> analyze_chains(const Program& program, const Machine& machine,
                                                   const Bindings& given, const FunctionCosts& costs) {
  RIDGE_TRY(sizes, program.bind_sizes(given));
  RIDGE_TRY(bandwidth, machine.memory_bandwidth());
  std::vector<PointwiseChain> all;
  for (std::size_t first = 0; first < program.statements.size();) {
    if (!find_pointwise_nodes(program.statements[first])) {
      ++first;
      continue;
    }
    const std::size_t length = chain_length(program, first);
    RIDGE_TRY(chain, analyze_chain(program, first, length, machine, sizes, bandwidth.value, costs));
    all.push_back(std::move(chain));
    first += length;
  }
  if (all.empty())
    return input_error("the program has no pointwise work, so no chain",
                       "ridge explain 'x: f32[N]   y: f32[N] = repeat(64, cos, x)' --chain");
  return all;
}

}  // namespace ridge
