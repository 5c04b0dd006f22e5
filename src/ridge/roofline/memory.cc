#include "ridge/roofline/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/program/weights.h"
#include "ridge/roofline/sizes/live_ranges.h"
#include "ridge/roofline/sizes/moved_tensors.h"
#include "ridge/roofline/work.h"

namespace ridge {

std::vector<LiveRange> find_live_ranges(const Program& program) {
  const int last = static_cast<int>(program.statements.size()) - 1;
  std::vector<LiveRange> out(program.tensors.size());
  for (std::size_t t = 0; t < out.size(); ++t)
    out[t].end = program.tensors[t].role == TensorRole::intermediate ? -1 : last;
  for (int s = 0; s <= last; ++s) {
    const Statement& statement = program.statements[s];
    LiveRange& result_range = out[statement.result()];
    result_range.begin = s;
    result_range.end = std::max(result_range.end, s);
    for (const int operand : statement_operands(statement)) {
      LiveRange& read = out[operand];
      read.end = std::max(read.end, s);
    }
  }
  return out;
}

namespace {

constexpr std::size_t max_profiled_statements = 2000;  // Larger programs get a list of tensors without a peak
constexpr std::size_t max_solved_statements = 256;     // Larger programs get no largest sizes

std::optional<double> evaluate_real(const Polynomial& count, const Bindings& sizes) {
  if (!count.is_exact() || !count.has_all_values(sizes)) return std::nullopt;
  return count.evaluate_double({sizes.begin(), sizes.end()});
}

// Returns the results of a kernel that no other kernel reads; they are never stored.
std::vector<int> fused_intermediates(const Program& program, const std::vector<int>& group) {
  std::vector<int> out;
  if (group.size() < 2) return out;
  const MovedTensors moved = list_moved_tensors(program, group);
  for (const int s : group) {
    const int result = program.statements[s].result();
    if (!contains(moved.written, result)) out.push_back(result);
  }
  return out;
}

// Live bytes while each kernel (a statement or a group of statements) runs.
class LiveBytes {
 public:
  LiveBytes(const Program& program, const KernelGroups& groups, std::vector<Polynomial> bytes)
      : live_ranges_(find_live_ranges(program)), bytes_(std::move(bytes)), kernels_(groups.size()) {
    std::vector<int> kernel(program.statements.size());
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const int s : groups[g]) kernel[s] = static_cast<int>(g);
    for (LiveRange& range : live_ranges_) {
      range.begin = range.begin < 0 ? -1 : kernel[range.begin];
      range.end = std::max(range.begin, kernel[range.end]);
    }
  }

  Polynomial bytes_at(std::size_t at) const {
    Polynomial out;
    const int kernel = static_cast<int>(at);
    for (std::size_t t = 0; t < bytes_.size(); ++t)
      if (live_ranges_[t].begin <= kernel && kernel <= live_ranges_[t].end) out += bytes_[t];
    return out;
  }

  struct PeakUse {
    std::size_t kernel = 0;
    double bytes = 0;
  };
  // Returns nullopt if a size has no value.
  std::optional<PeakUse> find_peak(const Bindings& sizes) const {
    const std::map<std::string, double> sizes_in_double(sizes.begin(), sizes.end());
    std::vector<double> change(kernels_ + 1);
    double live_bytes = 0;
    for (std::size_t t = 0; t < bytes_.size(); ++t) {
      if (!bytes_[t].is_exact() || !bytes_[t].has_all_values(sizes)) return std::nullopt;
      const double bytes = bytes_[t].evaluate_double(sizes_in_double);
      (live_ranges_[t].begin < 0 ? live_bytes : change[live_ranges_[t].begin]) += bytes;
      change[live_ranges_[t].end + 1] -= bytes;
    }
    PeakUse out;
    for (std::size_t k = 0; k < kernels_; ++k) {
      live_bytes += change[k];
      if (live_bytes > out.bytes) out = {k, live_bytes};
    }
    return out;
  }

 private:
  std::vector<LiveRange> live_ranges_;
  std::vector<Polynomial> bytes_;
  std::size_t kernels_;
};

// Inputs of a search for the largest value of `dim` at which the peak fits into `capacity` bytes.
struct FitQuery {
  const LiveBytes& live_bytes;
  const std::string& dim;
  double capacity;
  const ThresholdOptions& options;

  std::optional<LiveBytes::PeakUse> peak_at_size(std::int64_t value) const {
    const auto sizes = options.rebind_tensors(dim, value);
    return sizes ? live_bytes.find_peak(*sizes) : std::nullopt;
  }
  bool fits_at(std::int64_t value) const {
    const auto use = peak_at_size(value);
    return use && use->bytes <= capacity;
  }
};

// Live bytes of one kernel as slope*X + rest in a dimension X.
struct LinearBytes {
  Polynomial slope, rest;
  double boundary = 0;  // (capacity - rest)/slope
};

std::optional<LinearBytes> find_linear_bytes(const FitQuery& query, std::size_t kernel, const Bindings& sizes) {
  std::optional<Polynomial> count = query.live_bytes.bytes_at(kernel);
  if (const auto follows = query.options.derived_sizes.find(query.dim); follows != query.options.derived_sizes.end())
    count = substitute_derived_sizes(*count, follows->second);
  if (!count || count->degree_in(query.dim) != 1) return std::nullopt;
  for (const std::string& symbol : count->symbols())
    if (const auto counted = query.options.symbol_dims.find(symbol); counted != query.options.symbol_dims.end())
      if (contains(counted->second, query.dim)) return std::nullopt;
  std::vector<Polynomial> by_power = count->collect_by_power(query.dim);
  const auto slope = evaluate_real(by_power[1], sizes), rest = evaluate_real(by_power[0], sizes);
  if (!slope || !rest || *slope <= 0) return std::nullopt;
  return LinearBytes{std::move(by_power[1]), std::move(by_power[0]), (query.capacity - *rest) / *slope};
}

constexpr double max_searched_size = 0x1p50;

// Solves for the largest size that fits. Bytes are linear in X for each kernel, so the solution for the kernel at the
// peak gives a closer size. Returns nullopt after 8 steps, or if bytes are not linear.
std::optional<Threshold> solve_max_fitting_size(const FitQuery& query, const Bindings& sizes,
                                                const std::vector<std::string>& order) {
  auto peak = query.live_bytes.find_peak(sizes);
  for (int step = 0; step < 8 && peak; ++step) {
    const auto line = find_linear_bytes(query, peak->kernel, sizes);
    if (!line || line->boundary >= max_searched_size) return std::nullopt;
    const std::int64_t value = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(line->boundary)));
    if (value > 0 && !query.fits_at(value)) {
      peak = query.peak_at_size(value);
      continue;
    }
    peak = query.peak_at_size(value + 1);
    if (peak && peak->bytes <= query.capacity) continue;
    Threshold out{.dim = query.dim, .relation = value == 0 ? Relation::never : Relation::at_most};
    if (value == 0) return out;
    const std::string rest = line->rest.is_zero() ? "" : fmt::format(" - ({})", line->rest.to_string(order));
    out.exact = fmt::format("({}{})/({})", query.capacity, rest, line->slope.to_string(order));
    out.value = value;
    out.value_real = line->boundary;
    return out;
  }
  return std::nullopt;
}

// Bisects for the largest size that fits; memory use only grows with a dimension. Returns nullopt if any size fits.
std::optional<Threshold> search_max_fitting_size(const FitQuery& query) {
  std::int64_t low = 0, high = static_cast<std::int64_t>(max_searched_size);
  if (query.fits_at(high)) return std::nullopt;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (query.fits_at(middle) ? low : high) = middle;
  }
  Threshold out{.dim = query.dim, .relation = low == 0 ? Relation::never : Relation::at_most};
  if (low == 0) return out;
  out.value = low;
  out.numerical = true;
  return out;
}

// Returns the largest size of each dimension that fits.
std::vector<Threshold> find_capacity_thresholds(const LiveBytes& live, const std::vector<Polynomial>& bytes,
                                                double capacity, const Bindings& sizes, const ThresholdOptions& options,
                                                const std::vector<std::string>& order) {
  std::set<std::string> present;
  for (const Polynomial& each : bytes)
    for (std::string& dim : each.symbols()) present.insert(std::move(dim));
  std::vector<Threshold> out;
  for (const std::string& dim : order) {
    if (!present.contains(dim) && !options.derived_sizes.contains(dim)) continue;
    const FitQuery query{live, dim, capacity, options};
    auto threshold = solve_max_fitting_size(query, sizes, order);
    if (!threshold) threshold = search_max_fitting_size(query);
    if (threshold) out.push_back(*std::move(threshold));
  }
  return out;
}

// The program and how its statements run.
struct MemoryQuery {
  const Program& program;
  const KernelGroups& kernels;
  InputUses uses;
  std::int64_t layers = 1;

  std::vector<Polynomial> list_bytes(const Bindings& sizes) const {
    std::vector<Polynomial> out;
    for (std::size_t t = 0; t < program.tensors.size(); ++t) {
      const Tensor& tensor = program.tensors[t];
      const bool in_each_layer = tensor.role == TensorRole::input && uses.of_tensor[t] != InputUse::activation;
      out.push_back(stored_bytes(program, tensor, sizes) * Rational(in_each_layer ? layers : 1));
      if (tensor.replaced >= 0) out.back() = {};
    }
    for (const std::vector<int>& kernel : kernels)
      for (const int tensor : fused_intermediates(program, kernel)) out[tensor] = {};
    return out;
  }
};

void add_tensors(MemoryUse& memory, const MemoryQuery& query, const Bindings& sizes,
                 const std::vector<Polynomial>& bytes) {
  const Program& program = query.program;
  memory.batch_dims = query.uses.batch_dims;
  Polynomial parameter_bytes;
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    const Polynomial full_bytes = stored_bytes(program, tensor);
    TensorMemory out{tensor.name, tensor.dtype, tensor.role, query.uses.of_tensor[t], bytes[t]};
    out.device_bytes = evaluate_real(bytes[t], sizes);
    if (out.device_bytes) out.all_bytes = *out.device_bytes * static_cast<double>(memory.devices);
    if (const auto once = evaluate_real(full_bytes, sizes); once && out.all_bytes && *once > 0)
      out.copies = *out.all_bytes / *once;
    if (tensor.role == TensorRole::input && out.use == InputUse::parameter) {
      memory.parameters +=
          full_bytes * Rational(8 * scale_block_bits(tensor.dtype).elements, scale_block_bits(tensor.dtype).bits);
      parameter_bytes += full_bytes;
    }
    memory.tensors.push_back(std::move(out));
  }
  memory.parameter_count = evaluate_real(memory.parameters, sizes);
  memory.parameter_bytes = evaluate_real(parameter_bytes, sizes);
}

// True if the statement overwrites every element of `input` with a value that depends on no other of its elements.
bool can_replace(const Program& program, const Statement& statement, int input) {
  const auto* expression = std::get_if<Expression>(&statement.op);
  if (!expression || expression->routine) return false;
  const Tensor &result = program.tensors[expression->result], &replaced = program.tensors[input];
  const auto same_axis = [](const Axis& a, const Axis& b) { return a == b && a.mesh == b.mesh; };
  if (result.role != TensorRole::output || result.replaced >= 0 || result.dtype != replaced.dtype ||
      result.partial != replaced.partial || !std::ranges::equal(result.axes, replaced.axes, same_axis))
    return false;
  const std::vector<int> spaces = find_index_spaces(program.tensors, expression->nodes).space_of_node;
  bool reads = false;
  for (std::size_t i = 0; i < expression->nodes.size(); ++i) {
    const Node& node = expression->nodes[i];
    if (node.kind != Node::Kind::tensor || node.tensor != input) continue;
    if (spaces[i] != 0) return false;
    reads = true;
  }
  return reads;
}

// Returns the program with all results replacing inputs that can: the last reader of each input.
Program with_replacements(Program program) {
  std::vector<int> last_reader(program.tensors.size(), -1);
  for (std::size_t s = 0; s < program.statements.size(); ++s)
    for (const int operand : statement_operands(program.statements[s])) last_reader[operand] = static_cast<int>(s);
  for (const Tensor& tensor : program.tensors)
    if (tensor.replaced >= 0) last_reader[tensor.replaced] = -1;
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].role != TensorRole::input || last_reader[t] < 0) continue;
    const Statement& statement = program.statements[last_reader[t]];
    if (can_replace(program, statement, static_cast<int>(t)))
      program.tensors[statement.result()].replaced = static_cast<int>(t);
  }
  return program;
}

// Adds the results that could replace inputs, if that lowers the peak.
void add_possible_replacements(MemoryUse& memory, const MemoryQuery& query, const Bindings& sizes) {
  const Program replaced = with_replacements(query.program);
  for (std::size_t t = 0; t < replaced.tensors.size(); ++t)
    if (const int input = replaced.tensors[t].replaced; input >= 0 && query.program.tensors[t].replaced < 0)
      memory.possible_replacements.push_back({replaced.tensors[t].name, replaced.tensors[input].name});
  if (memory.possible_replacements.empty()) return;
  const MemoryQuery other{replaced, query.kernels, query.uses, query.layers};
  const auto peak = LiveBytes(replaced, query.kernels, other.list_bytes(sizes)).find_peak(sizes);
  if (peak && peak->bytes < *memory.peak_bytes)
    memory.replaced_peak_bytes = peak->bytes;
  else
    memory.possible_replacements.clear();
}

std::int64_t count_devices(const Program& program, const Bindings& sizes) {
  std::int64_t out = 1;
  for (const MeshAxis& axis : program.mesh)
    if (const auto size = sizes.find(axis.name); size != sizes.end()) out *= size->second;
  return out;
}

}  // namespace

MemoryUse analyze_memory(const Program& program, const Machine& machine, const Bindings& sizes,
                         const ThresholdOptions& options, const std::vector<std::string>& order,
                         const KernelGroups& groups, std::int64_t layers) {
  MemoryUse out{.devices = count_devices(program, sizes), .layers = layers};
  const KernelGroups kernels = groups.empty() ? unfused_groups(program) : groups;
  const MemoryQuery query{program, kernels, find_input_uses(program), layers};
  const std::vector<Polynomial> bytes = query.list_bytes(sizes);
  add_tensors(out, query, sizes, bytes);
  if (!machine.memory.empty()) out.level = machine.memory.front().name;
  if (!machine.memory.empty() && machine.memory.front().capacity) out.capacity = machine.memory.front().capacity->value;
  if (program.statements.empty() || program.statements.size() > max_profiled_statements) return out;
  const LiveBytes live(program, kernels, bytes), unsharded(program, kernels, query.list_bytes({}));
  const auto peak = live.find_peak(sizes), unsharded_peak = unsharded.find_peak(sizes);
  if (peak) {
    const std::size_t last = kernels[peak->kernel].back();
    out.peak_statement = program.tensors[program.statements[last].result()].name;
    out.peak = live.bytes_at(peak->kernel);
    out.peak_bytes = peak->bytes;
    add_possible_replacements(out, query, sizes);
  } else if (program.statements.size() == 1) {
    out.peak = live.bytes_at(0);
  }
  if (!peak || !out.capacity) return out;
  if (unsharded_peak) out.min_chips = std::ceil(unsharded_peak->bytes / *out.capacity);
  if (program.statements.size() > max_solved_statements || !options.rebind_tensors) return out;
  out.capacity_thresholds = find_capacity_thresholds(live, bytes, *out.capacity, sizes, options, order);
  return out;
}

std::vector<Polynomial> list_live_bytes(const Program& program, const KernelGroups& groups) {
  const MemoryQuery query{program, groups, find_input_uses(program), 1};
  const LiveBytes live(program, groups, query.list_bytes({}));
  std::vector<Polynomial> out;
  for (std::size_t i = 0; i < groups.size(); ++i) out.push_back(live.bytes_at(i));
  return out;
}

}  // namespace ridge
