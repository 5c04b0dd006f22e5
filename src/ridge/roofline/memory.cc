#include "ridge/roofline/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ridge/roofline/sizes/lives.h"
#include "ridge/roofline/sizes/parts.h"
#include "ridge/roofline/work.h"

namespace ridge {

std::vector<Life> lives(const Program& program) {
  const int last = static_cast<int>(program.statements.size()) - 1;
  std::vector<Life> out(program.tensors.size());
  for (std::size_t t = 0; t < out.size(); ++t) out[t].end = program.tensors[t].role == Role::intermediate ? -1 : last;
  for (int s = 0; s <= last; ++s) {
    const Statement& statement = program.statements[static_cast<std::size_t>(s)];
    Life& made = out[static_cast<std::size_t>(statement.result())];
    made.begin = s;
    made.end = std::max(made.end, s);
    for (const int operand : operands(statement)) {
      Life& read = out[static_cast<std::size_t>(operand)];
      read.end = std::max(read.end, s);
    }
  }
  return out;
}

namespace {

constexpr std::size_t most_statements = 2000;  // above, the tensors are listed, not what is held at once
constexpr std::size_t most_fitted = 256;       // above, it is not asked what would still fit

std::optional<double> real(const Polynomial& count, const Bindings& sizes) {
  if (!count.exact() || !count.all_in(sizes)) return std::nullopt;
  return count.real({sizes.begin(), sizes.end()});
}

// What a kernel makes and nobody else reads: it is never stored.
std::vector<int> kept_inside(const Program& program, const std::vector<int>& group) {
  std::vector<int> out;
  if (group.size() < 2) return out;
  const Moved moved = moved_by(program, group);
  for (const int s : group) {
    const int result = program.statements[static_cast<std::size_t>(s)].result();
    if (std::find(moved.written.begin(), moved.written.end(), result) == moved.written.end()) out.push_back(result);
  }
  return out;
}

// Bytes held while each kernel runs: a statement, or a group of them.
class Held {
 public:
  Held(const Program& program, const Groups& groups, std::vector<Polynomial> bytes)
      : lives_(lives(program)), bytes_(std::move(bytes)), kernels_(groups.size()) {
    std::vector<int> kernel(program.statements.size());
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const int s : groups[g]) kernel[static_cast<std::size_t>(s)] = static_cast<int>(g);
    for (Life& life : lives_) {
      life.begin = life.begin < 0 ? -1 : kernel[static_cast<std::size_t>(life.begin)];
      life.end = std::max(life.begin, kernel[static_cast<std::size_t>(life.end)]);
    }
  }

  Polynomial at(std::size_t at) const {
    Polynomial out;
    const int kernel = static_cast<int>(at);
    for (std::size_t t = 0; t < bytes_.size(); ++t)
      if (lives_[t].begin <= kernel && kernel <= lives_[t].end) out += bytes_[t];
    return out;
  }

  struct Peak {
    std::size_t kernel = 0;
    double bytes = 0;
  };
  // None: some size has no value.
  std::optional<Peak> peak(const Bindings& sizes) const {
    const std::map<std::string, double> real(sizes.begin(), sizes.end());
    std::vector<double> change(kernels_ + 1);
    double held = 0;
    for (std::size_t t = 0; t < bytes_.size(); ++t) {
      if (!bytes_[t].exact() || !bytes_[t].all_in(sizes)) return std::nullopt;
      const double bytes = bytes_[t].real(real);
      (lives_[t].begin < 0 ? held : change[static_cast<std::size_t>(lives_[t].begin)]) += bytes;
      change[static_cast<std::size_t>(lives_[t].end + 1)] -= bytes;
    }
    Peak out;
    for (std::size_t k = 0; k < kernels_; ++k) {
      held += change[k];
      if (held > out.bytes) out = {k, held};
    }
    return out;
  }

 private:
  std::vector<Life> lives_;
  std::vector<Polynomial> bytes_;
  std::size_t kernels_;
};

bool holds_tokens(const Tensor& tensor, const std::set<std::string>& dims) {
  return std::any_of(tensor.axes.begin(), tensor.axes.end(), [&](const Axis& a) { return dims.contains(a.dim); });
}

// Along which a statement takes a softmax.
std::vector<std::string> weighed_along(const Statement& statement) {
  std::vector<std::string> out;
  if (const auto* expression = std::get_if<Expression>(&statement.op))
    for (const Node& node : expression->nodes)
      if (node.kind == Node::Kind::along && node.function == Function::softmax)
        for (const Axis& axis : node.over) out.push_back(axis.dim);
  return out;
}

// o[S, E] = p[S, T] * v[T, E] behind p = softmax(s over T): T are places of a cache where v has none of the tokens that
// ask. A router's o[B, D] = p[B, E] * z[B, E, D] has them, so that its experts' weights stay weights.
void add_places(const Program& program, std::set<std::string>& tokens) {
  for (const Statement& weights : program.statements)
    for (const std::string& dim : weighed_along(weights))
      for (const Statement& statement : program.statements) {
        const auto* sum = std::get_if<Contraction>(&statement.op);
        if (!sum || (sum->left != weights.result() && sum->right != weights.result())) continue;
        const int values = sum->left == weights.result() ? sum->right : sum->left;
        const bool summed = std::find(sum->contracted.begin(), sum->contracted.end(), dim) != sum->contracted.end();
        if (summed && !holds_tokens(program.tensors[static_cast<std::size_t>(values)], tokens)) tokens.insert(dim);
      }
}

std::set<std::string> token_dims(const Program& program) {
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role != Role::input || tensor.axes.empty()) continue;
    std::set<std::string> out;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, tensor.axes.size() - 1); ++i)
      if (tensor.axes[i].named()) out.insert(tensor.axes[i].dim);
    add_places(program, out);
    for (const Dimension& dim : program.dims)  // T = S
      for (const std::string& other : std::set<std::string>(out))
        if (dim.value && *dim.value == Polynomial::symbol(other)) out.insert(dim.name);
    return out;
  }
  return {};
}

// What decides how large a dimension may be.
struct Room {
  const Held& held;
  const std::string& dim;
  double capacity;
  const Ways& ways;

  std::optional<Held::Peak> peak(std::int64_t value) const {
    const auto sizes = ways.rebind(dim, value);
    return sizes ? held.peak(*sizes) : std::nullopt;
  }
  bool fits(std::int64_t value) const {
    const auto there = peak(value);
    return there && there->bytes <= capacity;
  }
};

// Held by one kernel: slope*X + rest, where that is all.
struct Linear {
  Polynomial slope, rest;
  double boundary = 0;  // (capacity - rest)/slope
};

std::optional<Linear> linear(const Room& room, std::size_t kernel, const Bindings& sizes) {
  std::optional<Polynomial> count = room.held.at(kernel);
  if (const auto follows = room.ways.followers.find(room.dim); follows != room.ways.followers.end())
    count = written_out(*count, follows->second);
  if (!count || count->degree(room.dim) != 1) return std::nullopt;
  for (const std::string& symbol : count->symbols())
    if (const auto counted = room.ways.counted.find(symbol); counted != room.ways.counted.end())
      if (std::find(counted->second.begin(), counted->second.end(), room.dim) != counted->second.end())
        return std::nullopt;
  std::vector<Polynomial> by_power = count->collect(room.dim);
  const auto slope = real(by_power[1], sizes), rest = real(by_power[0], sizes);
  if (!slope || !rest || *slope <= 0) return std::nullopt;
  return Linear{std::move(by_power[1]), std::move(by_power[0]), (room.capacity - *rest) / *slope};
}

constexpr double largest_size = 0x1p50;

// What is held is the largest of straight lines, so that the line at one size leads to a size nearer by.
std::optional<Threshold> solved(const Room& room, const Bindings& sizes, const std::vector<std::string>& order) {
  auto at = room.held.peak(sizes);
  for (int step = 0; step < 8 && at; ++step) {
    const auto line = linear(room, at->kernel, sizes);
    if (!line || line->boundary >= largest_size) return std::nullopt;
    const std::int64_t value = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(line->boundary)));
    if (value > 0 && !room.fits(value)) {
      at = room.peak(value);
      continue;
    }
    at = room.peak(value + 1);
    if (at && at->bytes <= room.capacity) continue;
    Threshold out{.dim = room.dim, .relation = value == 0 ? Relation::never : Relation::at_most};
    if (value == 0) return out;
    const std::string rest = line->rest.zero() ? "" : fmt::format(" - ({})", line->rest.text(order));
    out.exact = fmt::format("({}{})/({})", room.capacity, rest, line->slope.text(order));
    out.value = value;
    out.value_real = line->boundary;
    return out;
  }
  return std::nullopt;
}

// By bisection: what is held only grows with a dimension. None: any size fits.
std::optional<Threshold> searched(const Room& room) {
  std::int64_t low = 0, high = static_cast<std::int64_t>(largest_size);
  if (room.fits(high)) return std::nullopt;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (room.fits(middle) ? low : high) = middle;
  }
  Threshold out{.dim = room.dim, .relation = low == 0 ? Relation::never : Relation::at_most};
  if (low == 0) return out;
  out.value = low;
  out.numerical = true;
  return out;
}

std::vector<Polynomial> bytes_of(const Program& program, const Groups& kernels, const Bindings& sizes) {
  std::vector<Polynomial> out;
  for (const Tensor& tensor : program.tensors) out.push_back(stored_bytes(program, tensor, sizes));
  for (const std::vector<int>& kernel : kernels)
    for (const int tensor : kept_inside(program, kernel)) out[static_cast<std::size_t>(tensor)] = {};
  return out;
}

void add_tensors(Memory& memory, const Program& program, const Bindings& sizes, const std::vector<Polynomial>& bytes) {
  const std::set<std::string> tokens = token_dims(program);
  memory.token_dims = {tokens.begin(), tokens.end()};
  Polynomial parameter_bytes;
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    const Polynomial whole = stored_bytes(program, tensor);
    TensorMemory out{tensor.name, tensor.dtype, tensor.role, false, bytes[t]};
    out.parameter = tensor.role == Role::input && !tokens.empty() && !holds_tokens(tensor, tokens);
    out.device_bytes = real(bytes[t], sizes);
    if (out.device_bytes) out.all_bytes = *out.device_bytes * static_cast<double>(memory.devices);
    if (const auto once = real(whole, sizes); once && out.all_bytes && *once > 0) out.copies = *out.all_bytes / *once;
    if (out.parameter) {
      memory.parameters += whole * Rational(8 * stored_bits(tensor.dtype).elements, stored_bits(tensor.dtype).bits);
      parameter_bytes += whole;
    }
    memory.tensors.push_back(std::move(out));
  }
  memory.parameter_count = real(memory.parameters, sizes);
  memory.parameter_bytes = real(parameter_bytes, sizes);
}

std::int64_t devices_in(const Program& program, const Bindings& sizes) {
  std::int64_t out = 1;
  for (const MeshAxis& axis : program.mesh)
    if (const auto size = sizes.find(axis.name); size != sizes.end()) out *= size->second;
  return out;
}

}  // namespace

Memory memory_of(const Program& program, const Machine& machine, const Bindings& sizes, const Ways& ways,
                 const std::vector<std::string>& order, const Groups& groups) {
  Memory out{.devices = devices_in(program, sizes)};
  const Groups kernels = groups.empty() ? apart(program) : groups;
  const std::vector<Polynomial> bytes = bytes_of(program, kernels, sizes);
  add_tensors(out, program, sizes, bytes);
  if (!machine.memory.empty()) out.level = machine.memory.front().name;
  if (!machine.memory.empty() && machine.memory.front().capacity) out.capacity = machine.memory.front().capacity->value;
  if (program.statements.empty() || program.statements.size() > most_statements) return out;
  const Held held(program, kernels, bytes), once(program, kernels, bytes_of(program, kernels, {}));
  const auto peak = held.peak(sizes), all = once.peak(sizes);
  if (peak) {
    const auto last = static_cast<std::size_t>(kernels[peak->kernel].back());
    out.peak_at = program.tensors[static_cast<std::size_t>(program.statements[last].result())].name;
    out.peak = held.at(peak->kernel);
    out.peak_bytes = peak->bytes;
  } else if (program.statements.size() == 1) {
    out.peak = held.at(0);
  }
  if (!peak || !out.capacity) return out;
  if (all) out.chips = std::ceil(all->bytes / *out.capacity);
  std::set<std::string> there;
  for (const Polynomial& each : bytes)
    for (std::string& dim : each.symbols()) there.insert(std::move(dim));
  if (program.statements.size() > most_fitted || !ways.rebind) return out;
  for (const std::string& dim : order) {
    if (!there.contains(dim) && !ways.followers.contains(dim)) continue;
    const Room room{held, dim, *out.capacity, ways};
    auto fits = solved(room, sizes, order);
    if (!fits) fits = searched(room);
    if (fits) out.fits.push_back(*std::move(fits));
  }
  return out;
}

}  // namespace ridge
