#include "ridge/roofline/sending/overlap.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/roofs.h"

namespace ridge {
namespace {

constexpr std::int64_t max_overlap_size = std::int64_t{1} << 40;

bool reduces_partial_sums(const Transfer& t) {
  return t.kind == Collective::all_reduce || t.kind == Collective::reduce_scatter;
}

// A product, the tensor that is sent before or after it, and the statement that sends it.
struct OverlapPair {
  std::size_t product = 0, collective = 0;
  int tensor = 0;
  bool gathers_operand = false;
};

class OverlapFinder {
 public:
  OverlapFinder(const Program& program, const Explanation& explanation) : program_(program), ops_(explanation.ops) {}

  std::vector<OverlapPair> find_pairs() const {
    std::vector<OverlapPair> out;
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      if (ops_[s].work.transfers.empty()) continue;
      const Statement& statement = program_.statements[s];
      if (is_product(s))
        out.push_back({s, s, statement.result(), false});
      else if (const auto& e = std::get<Expression>(statement.op); e.nodes.size() == 1)
        if (const auto found = find_pair(s, e)) out.push_back(*found);
    }
    return out;
  }

 private:
  bool is_product(std::size_t s) const { return std::holds_alternative<Contraction>(program_.statements[s].op); }

  // Partial sums are reduced after their product; other tensors move before the product that reads them.
  std::optional<OverlapPair> find_pair(std::size_t s, const Expression& copy) const {
    const std::optional<std::size_t> producer = find_producer(copy.nodes[0].tensor), reader = find_reader(copy.result);
    const bool sums = std::any_of(ops_[s].work.transfers.begin(), ops_[s].work.transfers.end(), reduces_partial_sums);
    if (producer && (sums || !reader)) return OverlapPair{*producer, s, copy.nodes[0].tensor, false};
    if (reader) return OverlapPair{*reader, s, copy.result, true};
    return std::nullopt;
  }

  std::optional<std::size_t> find_producer(int tensor) const {
    for (std::size_t s = 0; s < program_.statements.size(); ++s)
      if (is_product(s) && program_.statements[s].result() == tensor) return s;
    return std::nullopt;
  }
  std::optional<std::size_t> find_reader(int tensor) const {
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      const auto* product = std::get_if<Contraction>(&program_.statements[s].op);
      if (product && (product->left == tensor || product->right == tensor)) return s;
    }
    return std::nullopt;
  }

  const Program& program_;
  const std::vector<Prediction>& ops_;
};

// Returns the largest dimension of the tensor that the product keeps; chunks of a summed one would add to one result.
std::string choose_chunk_dim(const Program& program, const Contraction& product, int tensor, const Bindings& sizes) {
  std::string out;
  for (const Axis& axis : program.tensors[tensor].axes) {
    const bool summed = contains(product.contracted, axis.dim);
    const bool grouped = product.grouped && (axis.dim == product.grouped->dim || axis.dim == product.grouped->group);
    if (!axis.is_named() || summed || grouped || !sizes.contains(axis.dim)) continue;
    if (out.empty() || sizes.at(axis.dim) > sizes.at(out)) out = axis.dim;
  }
  return out;
}

void add_memory_times(OverlapTimes& times, const Program& program, const Contraction& product, const std::string& dim,
                      const Explanation& e) {
  std::vector<int> tensors{product.left, product.right, product.result};
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  const auto bandwidth = e.machine.memory_bandwidth();
  for (const int t : tensors) {
    const Tensor& tensor = program.tensors[t];
    const double bytes = stored_bytes(program, tensor, e.dims).evaluate_double({e.dims.begin(), e.dims.end()});
    (has_dim(tensor.axes, dim) ? times.chunked_memory_s : times.repeated_memory_s) +=
        bandwidth ? bytes / bandwidth->value : 0;
  }
}

OverlapTimes estimate_overlap_times(const Program& program, const Explanation& e, const OverlapPair& pair,
                                    const std::string& dim) {
  OverlapTimes out{.math_s = e.ops[pair.product].time_math_s.value_or(0), .launch_s = launch_seconds(e.machine)};
  add_memory_times(out, program, std::get<Contraction>(program.statements[pair.product].op), dim, e);
  for (const Transfer& t : e.ops[pair.collective].work.transfers) {
    const double bytes = t.bytes.evaluate_double({e.dims.begin(), e.dims.end()});
    const LinearTime time = t.cost.limiting_time(bytes);
    out.transfer_s += bytes * time.seconds_per_byte;
    out.message_latency_s += time.wait_s;
  }
  return out;
}

}  // namespace

double OverlapTimes::chunk_transfer_seconds(std::int64_t n) const {
  return transfer_s / static_cast<double>(n) + message_latency_s;
}

double OverlapTimes::chunk_compute_seconds(std::int64_t n) const {
  const auto chunks = static_cast<double>(n);
  return std::max(math_s / chunks, chunked_memory_s / chunks + repeated_memory_s) + launch_s;
}

double OverlapTimes::total_seconds(std::int64_t n) const {
  const double s = chunk_transfer_seconds(n), c = chunk_compute_seconds(n);
  return s + c + static_cast<double>(n - 1) * std::max(s, c);
}

bool OverlapTimes::is_faster_in_chunks() const {
  return chunk_compute_seconds(1) - chunk_compute_seconds(2) > message_latency_s &&
         transfer_s / 2 + chunk_compute_seconds(1) > 2 * chunk_compute_seconds(2);
}

ChunkChoice choose_chunks(const OverlapTimes& times, std::int64_t max_count) {
  ChunkChoice out{1, times.total_seconds(1)};
  for (std::int64_t n = 2; n <= max_count; ++n)
    if (const double time = times.total_seconds(n); time < out.seconds) out = {n, time};
  return out;
}

std::optional<std::int64_t> min_size_for_chunks(const OverlapTimes& times, std::int64_t size) {
  const auto is_faster = [&](std::int64_t at) {
    const double scale = static_cast<double>(at) / static_cast<double>(size);
    OverlapTimes scaled = times;
    scaled.math_s *= scale;
    scaled.chunked_memory_s *= scale;
    scaled.transfer_s *= scale;
    return scaled.is_faster_in_chunks();
  };
  if (!is_faster(max_overlap_size)) return std::nullopt;
  std::int64_t below = 1, from = max_overlap_size;  // A single row is a single chunk
  while (from - below > 1) {
    const std::int64_t middle = below + (from - below) / 2;
    (is_faster(middle) ? from : below) = middle;
  }
  return from;
}

std::vector<Overlap> find_overlaps(const Program& program, const Explanation& explanation) {
  std::vector<Overlap> out;
  if (explanation.ops.size() != program.statements.size()) return out;
  for (const OverlapPair& pair : OverlapFinder(program, explanation).find_pairs()) {
    const Prediction& product = explanation.ops[pair.product];
    const Prediction& collective = explanation.ops[pair.collective];
    if (!product.time_math_s || !product.time_memory_s || !collective.time_network_s) continue;
    const auto& op = std::get<Contraction>(program.statements[pair.product].op);
    const std::string dim = choose_chunk_dim(program, op, pair.tensor, explanation.dims);
    if (dim.empty()) continue;
    Overlap found{.product = product.work.name,
                  .tensor = program.tensors[pair.tensor].name,
                  .collective = collective.work.collective,
                  .gathers_operand = pair.gathers_operand,
                  .dim = dim,
                  .size = explanation.dims.at(dim)};
    found.times = estimate_overlap_times(program, explanation, pair, dim);
    found.best = choose_chunks(found.times, std::min(max_chunks, found.size));
    found.min_size = min_size_for_chunks(found.times, found.size);
    out.push_back(std::move(found));
  }
  return out;
}

std::string describe_overlap(const Overlap& o) {
  std::string out = o.product;
  if (o.gathers_operand)
    out += fmt::format(" after {} of {}", o.collective, o.tensor);
  else
    out += fmt::format(" before {}{}", o.tensor == o.product ? "its " : "", o.collective);
  out += fmt::format(": {} in sequence", format_with_prefix(o.times.total_seconds(1), "s"));
  if (o.times.message_latency_s == 0) return out + "; the message latency is not on record";
  if (o.best.count > 1)
    out += fmt::format(", {} in {} chunks along {}", format_with_prefix(o.best.seconds, "s"), o.best.count, o.dim);
  if (!o.min_size) return out + fmt::format("; chunks along {} are never faster", o.dim);
  return out + fmt::format("; chunks are faster from {} = {}", o.dim, group_digits(*o.min_size));
}

}  // namespace ridge
