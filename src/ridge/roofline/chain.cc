#include "ridge/roofline/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/program/parser.h"

namespace ridge {
namespace {

Polynomial elements(const Tensor& tensor) {
  Polynomial count = 1;
  for (const Axis& axis : tensor.axes) count = count * axis.extent();
  return count;
}
Polynomial bytes(const Tensor& tensor) {
  const StoredBits stored = stored_bits(tensor.dtype);
  return elements(tensor) * Rational(stored.bits, 8 * stored.elements);
}

// Nodes of a statement that is applied element by element; null: a contraction, or work along dimensions.
const std::vector<Node>* pointwise(const Statement& statement) {
  const auto* op = std::get_if<1>(&statement.op);
  if (!op) return nullptr;
  const auto fits = [](const Node& n) {
    return n.kind == Node::Kind::tensor || n.kind == Node::Kind::number || n.kind == Node::Kind::call;
  };
  return std::all_of(op->nodes.begin(), op->nodes.end(), fits) ? &op->nodes : nullptr;
}

bool reads(const std::vector<Node>& nodes, int tensor) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const Node& n) { return n.kind == Node::Kind::tensor && n.tensor == tensor; });
}

// The run of statements from `first` on: each result is read by the next one alone, and is no output.
std::size_t run_length(const Program& program, std::size_t first) {
  std::size_t length = 1;
  for (std::size_t i = first; i + 1 < program.statements.size(); ++i, ++length) {
    const int result = program.statements[i].result();
    const auto* next = pointwise(program.statements[i + 1]);
    if (!next || !reads(*next, result) || program.tensors[result].role != Role::intermediate) break;
    if (elements(program.tensors[result]) != elements(program.tensors[program.statements[i + 1].result()])) break;
    std::size_t readers = 0;
    for (const Statement& other : program.statements) {
      if (const auto* nodes = pointwise(other))
        readers += reads(*nodes, result);
      else if (const auto* contraction = std::get_if<0>(&other.op))
        readers += contraction->left == result || contraction->right == result;
      else
        readers += 2;  // work along dimensions: who reads what is not looked at
    }
    if (readers != 1) break;
  }
  return length;
}

struct Counted {
  Polynomial fused, unfused, elements;                                     // B, B, 1
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> functions;  // applications, of them in repeats
  std::vector<std::string> order;
};

// Of one statement: every application as a kernel of its own, which reads its arguments (an operand at its own size, an
// intermediate at the result's) and writes the result's size in the result's dtype.
void count_statement(const Program& program, const Statement& statement, Counted& counted) {
  const std::vector<Node>& nodes = *pointwise(statement);
  const Polynomial whole = bytes(program.tensors[statement.result()]);
  std::vector<bool> varies;
  std::vector<Polynomial> size;
  for (const Node& node : nodes) {
    const bool tensor = node.kind == Node::Kind::tensor;
    varies.push_back(tensor || std::any_of(node.arguments.begin(), node.arguments.end(),
                                           [&](int a) { return varies[static_cast<std::size_t>(a)]; }));
    Polynomial made = varies.back() ? whole : Polynomial();
    size.push_back(tensor ? bytes(program.tensors[node.tensor]) : made);
    if (node.kind != Node::Kind::call || !varies.back()) continue;
    const std::string name(row(node.function).name);
    if (!counted.functions.contains(name)) counted.order.push_back(name);
    counted.functions[name].first += node.repeat;
    if (node.repeat > 1) counted.functions[name].second += node.repeat;
    for (const int argument : node.arguments)
      counted.unfused = counted.unfused + size[static_cast<std::size_t>(argument)];
    counted.unfused = counted.unfused + whole + whole * 2 * (node.repeat - 1);
  }
}

Counted count_run(const Program& program, std::size_t first, std::size_t length) {
  Counted counted;
  std::vector<int> inputs;
  for (std::size_t i = first; i < first + length; ++i) {
    count_statement(program, program.statements[i], counted);
    for (const Node& node : *pointwise(program.statements[i])) {
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
  counted.fused = bytes(result);
  for (const int t : inputs) counted.fused = counted.fused + bytes(program.tensors[t]);
  counted.elements = elements(result);
  return counted;
}

// count / elements; without values where every dimension cancels.
Result<double> per_element(const Polynomial& count, const Polynomial& elements, const Bindings& dims) {
  const auto& [monomial, one] = *elements.terms().begin();
  if (count.terms().size() == 1 && count.terms().begin()->first == monomial)
    return count.terms().begin()->second.real() / one.real();
  for (const Polynomial* p : {&count, &elements})
    if (const auto value = p->evaluate(dims); !value) return value.error();
  const std::map<std::string, double> sizes(dims.begin(), dims.end());
  return count.real(sizes) / elements.real(sizes);
}

ChainFunction function_of(const std::string& name, std::int64_t applications, const Machine& machine,
                          const FunctionCosts& costs) {
  if (const auto given = costs.find(name); given != costs.end()) return {name, applications, given->second, "--cost"};
  if (const auto known = machine.numbers.find("cost_" + name); known != machine.numbers.end())
    return {name, applications, known->second.value, known->second.source};
  return {name, applications, 1, "counted as 1"};
}

// From how many applications of the function that is repeated on, everything else staying as it is.
std::optional<std::int64_t> break_even_repeats(const Chain& chain, const Counted& counted) {
  const ChainFunction* repeated = nullptr;
  double others = chain.flops;
  for (const ChainFunction& f : chain.functions) {
    if (counted.functions.at(f.name).second == 0) continue;
    if (repeated) return std::nullopt;  // of two, which one?
    repeated = &f;
  }
  if (!repeated) return std::nullopt;
  others -= static_cast<double>(counted.functions.at(repeated->name).second) * repeated->cost;
  const double wanted = (chain.break_even_flops - others) / repeated->cost;
  if (wanted > 9e15) return std::nullopt;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(wanted * (1 - 1e-12))));
}

}  // namespace

Result<std::vector<Chain>> chains(const Program& program, const Machine& machine, const Bindings& given,
                                  const FunctionCosts& costs) {
  const auto dims = program.bind(given);
  if (!dims) return dims.error();
  const auto bandwidth = machine.bandwidth();
  if (!bandwidth) return bandwidth.error();
  const Peak* peak = machine.pointwise_peak();
  if (!peak)
    return input_error(fmt::format("machine '{}' has no vector peak for f32", machine.name),
                       "choose a machine that has one, or add f32 under [vector] in a machine file");
  const auto launch = machine.numbers.find("launch_s");
  std::vector<Chain> all;
  for (std::size_t first = 0; first < program.statements.size();) {
    if (!pointwise(program.statements[first])) {
      ++first;
      continue;
    }
    const std::size_t length = run_length(program, first);
    const Counted counted = count_run(program, first, length);
    Chain chain;
    chain.name = program.tensors[program.statements[first + length - 1].result()].name;
    for (std::size_t i = first; i < first + length; ++i)
      chain.text += (i == first ? "" : "; ") + program.statements[i].text;
    for (const std::string& name : counted.order) {
      chain.functions.push_back(function_of(name, counted.functions.at(name).first, machine, costs));
      chain.flops += static_cast<double>(chain.functions.back().applications) * chain.functions.back().cost;
      chain.kernels += chain.functions.back().applications;
    }
    const auto fused = per_element(counted.fused, counted.elements, *dims);
    const auto unfused = per_element(counted.unfused, counted.elements, *dims);
    if (!fused) return fused.error();
    if (!unfused) return unfused.error();
    chain.fused_bytes = *fused;
    chain.unfused_bytes = *unfused;
    chain.break_even_flops = peak->rate.value * chain.fused_bytes / bandwidth->value;
    chain.compute_bound = chain.flops >= chain.break_even_flops * (1 - 1e-12);
    chain.break_even_repeats = break_even_repeats(chain, counted);
    if (launch != machine.numbers.end()) {
      chain.launch_s = launch->second.value;
      chain.fused_elements = chain.launch_s * bandwidth->value / chain.fused_bytes;
      if (chain.unfused_bytes > 0)
        chain.unfused_elements =
            static_cast<double>(chain.kernels) * chain.launch_s * bandwidth->value / chain.unfused_bytes;
    }
    all.push_back(std::move(chain));
    first += length;
  }
  if (all.empty())
    return input_error("the program has no pointwise work, so no chain",
                       "ridge explain 'x: f32[N]   y: f32[N] = repeat(64, cos, x)' --chain");
  return all;
}

}  // namespace ridge
