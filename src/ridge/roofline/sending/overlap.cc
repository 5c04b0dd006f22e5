#include "ridge/roofline/sending/overlap.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/text.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/roofs.h"

namespace ridge {
namespace {

constexpr std::int64_t most_size = std::int64_t{1} << 40;

bool adds(const Transfer& t) { return t.kind == Collective::all_reduce || t.kind == Collective::reduce_scatter; }

// A product, the tensor that moves beside it, and the statement that moves it.
struct Pair {
  std::size_t product = 0, mover = 0;
  int tensor = 0;
  bool before = false;
};

class Pairs {
 public:
  Pairs(const Program& program, const Explanation& explanation) : program_(program), ops_(explanation.ops) {}

  std::vector<Pair> all() const {
    std::vector<Pair> out;
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      if (ops_[s].work.transfers.empty()) continue;
      const Statement& statement = program_.statements[s];
      if (product(s))
        out.push_back({s, s, statement.result(), false});
      else if (const auto& e = std::get<Expression>(statement.op); e.nodes.size() == 1)
        if (const auto found = beside(s, e)) out.push_back(*found);
    }
    return out;
  }

 private:
  bool product(std::size_t s) const { return std::holds_alternative<Contraction>(program_.statements[s].op); }

  // Addends are added up behind the product that made them; what else moves does so before the one that reads it.
  std::optional<Pair> beside(std::size_t s, const Expression& copy) const {
    const std::optional<std::size_t> maker = made_by(copy.nodes[0].tensor), reader = read_by(copy.result);
    const bool sums = std::any_of(ops_[s].work.transfers.begin(), ops_[s].work.transfers.end(), adds);
    if (maker && (sums || !reader)) return Pair{*maker, s, copy.nodes[0].tensor, false};
    if (reader) return Pair{*reader, s, copy.result, true};
    return std::nullopt;
  }

  std::optional<std::size_t> made_by(int tensor) const {
    for (std::size_t s = 0; s < program_.statements.size(); ++s)
      if (product(s) && program_.statements[s].result() == tensor) return s;
    return std::nullopt;
  }
  std::optional<std::size_t> read_by(int tensor) const {
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      const auto* product = std::get_if<Contraction>(&program_.statements[s].op);
      if (product && (product->left == tensor || product->right == tensor)) return s;
    }
    return std::nullopt;
  }

  const Program& program_;
  const std::vector<Prediction>& ops_;
};

// The largest dimension of the tensor that the product keeps; chunks along what it sums would add to one result.
std::string chunked_along(const Program& program, const Contraction& product, int tensor, const Bindings& sizes) {
  std::string out;
  for (const Axis& axis : program.tensors[static_cast<std::size_t>(tensor)].axes) {
    const bool summed =
        std::find(product.contracted.begin(), product.contracted.end(), axis.dim) != product.contracted.end();
    const bool grouped = product.grouped && (axis.dim == product.grouped->dim || axis.dim == product.grouped->group);
    if (!axis.named() || summed || grouped || !sizes.contains(axis.dim)) continue;
    if (out.empty() || sizes.at(axis.dim) > sizes.at(out)) out = axis.dim;
  }
  return out;
}

bool has_dim(const Tensor& tensor, const std::string& dim) {
  return std::any_of(tensor.axes.begin(), tensor.axes.end(), [&](const Axis& a) { return a.dim == dim; });
}

void add_memory(Beside& beside, const Program& program, const Contraction& product, const std::string& dim,
                const Explanation& e) {
  std::vector<int> tensors{product.left, product.right, product.result};
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  const auto bandwidth = e.machine.bandwidth();
  for (const int t : tensors) {
    const Tensor& tensor = program.tensors[static_cast<std::size_t>(t)];
    const double bytes = stored_bytes(program, tensor, e.dims).real({e.dims.begin(), e.dims.end()});
    (has_dim(tensor, dim) ? beside.moved_s : beside.kept_s) += bandwidth ? bytes / bandwidth->value : 0;
  }
}

Beside beside_of(const Program& program, const Explanation& e, const Pair& pair, const std::string& dim,
                 const SendingOf& sending) {
  Beside out{.math_s = e.ops[pair.product].time_math_s.value_or(0), .launch_s = launch_s(e.machine)};
  add_memory(out, program, std::get<Contraction>(program.statements[pair.product].op), dim, e);
  for (const Transfer& t : e.ops[pair.mover].work.transfers) {
    Transfer counted = t;
    counted.bytes = Polynomial(static_cast<std::int64_t>(t.bytes.real({e.dims.begin(), e.dims.end()})));
    const Sending s = sending(counted);
    out.sending_s += s.sending_s;
    out.wait_s += s.wait_s;
  }
  return out;
}

}  // namespace

double Beside::sent(std::int64_t n) const { return sending_s / static_cast<double>(n) + wait_s; }

double Beside::computed(std::int64_t n) const {
  const auto chunks = static_cast<double>(n);
  return std::max(math_s / chunks, moved_s / chunks + kept_s) + launch_s;
}

double Beside::seconds(std::int64_t n) const {
  const double s = sent(n), c = computed(n);
  return s + c + static_cast<double>(n - 1) * std::max(s, c);
}

bool Beside::chunks_pay() const {
  return computed(1) - computed(2) > wait_s && sending_s / 2 + computed(1) > 2 * computed(2);
}

Chunks best_chunks(const Beside& beside, std::int64_t most) {
  Chunks out{1, beside.seconds(1)};
  for (std::int64_t n = 2; n <= most; ++n)
    if (const double time = beside.seconds(n); time < out.seconds) out = {n, time};
  return out;
}

std::optional<std::int64_t> chunks_pay_from(const Beside& beside, std::int64_t size) {
  const auto pays = [&](std::int64_t at) {
    const double by = static_cast<double>(at) / static_cast<double>(size);
    Beside scaled = beside;
    scaled.math_s *= by;
    scaled.moved_s *= by;
    scaled.sending_s *= by;
    return scaled.chunks_pay();
  };
  if (!pays(most_size)) return std::nullopt;
  std::int64_t below = 1, from = most_size;  // one row is one chunk
  while (from - below > 1) {
    const std::int64_t middle = below + (from - below) / 2;
    (pays(middle) ? from : below) = middle;
  }
  return from;
}

std::vector<Overlap> overlaps(const Program& program, const Explanation& explanation, const SendingOf& sending) {
  std::vector<Overlap> out;
  if (explanation.ops.size() != program.statements.size()) return out;
  for (const Pair& pair : Pairs(program, explanation).all()) {
    const Prediction& product = explanation.ops[pair.product];
    const Prediction& mover = explanation.ops[pair.mover];
    if (!product.time_math_s || !product.time_memory_s || !mover.time_network_s) continue;
    const auto& op = std::get<Contraction>(program.statements[pair.product].op);
    const std::string dim = chunked_along(program, op, pair.tensor, explanation.dims);
    if (dim.empty()) continue;
    Overlap found{.product = product.work.name,
                  .tensor = program.tensors[static_cast<std::size_t>(pair.tensor)].name,
                  .collective = mover.work.collective,
                  .before = pair.before,
                  .dim = dim,
                  .size = explanation.dims.at(dim)};
    found.beside = beside_of(program, explanation, pair, dim, sending);
    found.best = best_chunks(found.beside, std::min(most_chunks, found.size));
    found.pays_from = chunks_pay_from(found.beside, found.size);
    out.push_back(std::move(found));
  }
  return out;
}

Sending sending_by_links(const Transfer& transfer, const Network& network) {
  const auto waits = static_cast<double>(hops(transfer, network));
  return {seconds(transfer, network) - waits * network.latency_s, waits * network.step_s};
}

std::string text(const Overlap& o) {
  std::string out = o.product;
  if (o.before)
    out += fmt::format(" behind {} of {}", o.collective, o.tensor);
  else
    out += fmt::format(" before {}{}", o.tensor == o.product ? "its " : "", o.collective);
  out += fmt::format(": {} in turn", engineering(o.beside.seconds(1), "s"));
  if (o.beside.wait_s == 0) return out + "; what a message waits is not on record";
  if (o.best.count > 1)
    out += fmt::format(", {} in {} chunks along {}", engineering(o.best.seconds, "s"), o.best.count, o.dim);
  if (!o.pays_from) return out + fmt::format("; chunks along {} never pay", o.dim);
  return out + fmt::format("; chunks pay from {} = {} on", o.dim, grouped(*o.pays_from));
}

}  // namespace ridge
