#include "ridge/distributed/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/roofline/sizes/levels.h"

namespace ridge {
namespace {

constexpr std::array<std::pair<Pattern, std::string_view>, 5> names{{{Pattern::all_gather, "all-gather"},
                                                                     {Pattern::reduce_scatter, "reduce-scatter"},
                                                                     {Pattern::all_reduce, "all-reduce"},
                                                                     {Pattern::all_to_all, "all-to-all"},
                                                                     {Pattern::gather, "gather"}}};
constexpr std::int64_t most_chips = 1 << 20;
constexpr double most_bytes = 0x1p60;

Collective as_collective(Pattern pattern) {
  switch (pattern) {
    case Pattern::reduce_scatter: return Collective::reduce_scatter;
    case Pattern::all_reduce: return Collective::all_reduce;
    case Pattern::all_to_all: return Collective::all_to_all;
    case Pattern::all_gather:
    case Pattern::gather: break;
  }
  return Collective::all_gather;
}

// A chip that gets everything has all of its links for that.
void to_one_chip(std::vector<LevelTime>& levels, const Network& network, const CollectiveRequest& asked) {
  const double each = asked.bytes / static_cast<double>(asked.chips);
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const std::int64_t outside = asked.chips - inside;
    inside *= levels[i].members;
    levels[i].bytes = each * static_cast<double>(i == 0 ? inside - 1 : outside);
    if (i == 0 && network.topology == Topology::ring)
      levels[i].rate = network.rate * static_cast<double>(network.links);
  }
}

std::optional<double> number_of(const Machine& machine, const char* key) {
  const auto found = machine.numbers.find(key);
  return found == machine.numbers.end() ? std::nullopt : std::optional(found->second.value);
}

// The faster of two ways, each of which waits first.
Sending faster(Sending a, Sending b) { return a.sending_s + a.wait_s <= b.sending_s + b.wait_s ? a : b; }

std::optional<Sending> library_pairs(const Machine& machine, double waits, double sent) {
  const auto narrow = number_of(machine, "collective_pair_narrow_rate"),
             wide = number_of(machine, "collective_pair_wide_rate"),
             late = number_of(machine, "collective_pair_wide_s");
  if (!narrow || !wide || !late) return std::nullopt;
  return faster({sent / *narrow, waits}, {sent / *wide, waits + *late});
}

// As collective.h says; on one level alone, for which libraries were timed.
std::optional<Sending> library_sending(const Machine& machine, const CollectiveRequest& asked) {
  const auto call = number_of(machine, "collective_call_s"), step = number_of(machine, "collective_step_s"),
             narrow = number_of(machine, "collective_narrow_rate"), wide = number_of(machine, "collective_wide_rate"),
             late = number_of(machine, "collective_wide_s"), copy = number_of(machine, "collective_copy_rate");
  if (!call || !step || !narrow || !wide || !late || !copy || asked.pattern == Pattern::gather) return std::nullopt;
  const double n = static_cast<double>(asked.chips), V = asked.bytes;
  const double passes = asked.pattern == Pattern::all_reduce ? 2 : 1, sent = passes * V * (n - 1) / n;
  if (asked.pattern == Pattern::all_to_all) return library_pairs(machine, *call + *step, sent);
  const double waits = *call + passes * (n - 1) * *step;
  const Sending ring = faster({sent / *narrow, waits}, {sent / *wide + V / n / *copy, waits + *late});
  const auto adds = number_of(machine, "collective_switch_rate"), node = number_of(machine, "host_chips");
  const bool whole_node = adds && node && asked.chips == std::llround(*node);
  if (asked.pattern != Pattern::all_reduce || !whole_node) return ring;
  return faster(ring, {V / *adds, waits + *late});
}

Pattern pattern_of(Collective kind) {
  switch (kind) {
    case Collective::all_gather: return Pattern::all_gather;
    case Collective::reduce_scatter: return Pattern::reduce_scatter;
    case Collective::all_reduce: return Pattern::all_reduce;
    case Collective::all_to_all:
    case Collective::permute: break;  // one message to one other device
  }
  return Pattern::all_to_all;
}

void overlap(CollectiveTime& out) {
  const Beside beside{.math_s = out.asked.compute_s, .sending_s = out.sending_s, .wait_s = out.latency_s};
  const Chunks best = best_chunks(beside, most_chunks);
  out.chunks_pay_above_s = 2 * out.latency_s;
  out.overlapped_s = best.seconds;
  out.chunks = best.count;
}

// Bytes of V over the whole chips, small.
std::optional<SmallMessages> small_of(const Transfer& transfer, const Network& network) {
  std::vector<SmallMessages> found;
  add_small_messages(found, transfer, network);
  if (found.empty()) return std::nullopt;
  found.front().over = {};
  return found.front();
}

std::optional<Error> refused(const CollectiveRequest& asked) {
  if (!(asked.bytes >= 1 && asked.bytes <= most_bytes))
    return usage_error(fmt::format("expected 1 to 2^60 bytes of a collective, found {}", asked.bytes), "--bytes 1e9");
  if (asked.chips < 2 || asked.chips > most_chips || asked.apart < 1 || asked.apart > most_chips)
    return usage_error(fmt::format("expected 2 to {} chips, {} to {} apart, found {} and {}", most_chips, 1, most_chips,
                                   asked.chips, asked.apart),
                       "--chips 64");
  if (asked.of != 0 && (asked.pattern != Pattern::all_to_all || asked.to < 1 || asked.to > asked.of))
    return usage_error(fmt::format("expected a ragged all-to-all, to 1 to {} of {}, found {} to {}", asked.of, asked.of,
                                   name(asked.pattern), asked.to),
                       "--collective all-to-all --ragged 8/64");
  return std::nullopt;
}

}  // namespace

std::string_view name(Pattern pattern) {
  for (const auto& [each, word] : names)
    if (each == pattern) return word;
  return "";
}

std::optional<Pattern> pattern_named(std::string_view word) {
  for (const auto& [each, name] : names)
    if (name == word) return each;
  return std::nullopt;
}

Result<CollectiveTime> collective_time(const Machine& machine, const CollectiveRequest& request) {
  if (auto wrong = refused(request)) return *std::move(wrong);
  auto network = network_of(machine);
  if (!network) return network.error();
  network->mesh = {{'C', request.chips}, {'-', request.apart}};
  CollectiveTime out;
  out.asked = request;
  const double part = request.of == 0 ? 1 : static_cast<double>(request.to) / static_cast<double>(request.of);
  Transfer transfer{as_collective(request.pattern), "C", request.chips, Polynomial(std::int64_t{1} << 40)};
  for (const LevelWork& level : levels_of(transfer, *network)) {
    const auto sent = level.sent.constant();
    out.levels.push_back(
        {level.link, level.members, (sent ? sent->real() : 0) * 0x1p-40 * request.bytes * part, level.rate});
  }
  if (request.pattern == Pattern::gather) to_one_chip(out.levels, *network, request);
  for (const LevelTime& level : out.levels) out.sending_s = std::max(out.sending_s, level.seconds());
  out.latency_s = static_cast<double>(hops(transfer, *network)) * network->latency_s;
  if (out.latency_s > 0) out.latency_bound_below = request.bytes * out.latency_s / out.sending_s;
  if (request.pattern != Pattern::gather) out.small = small_of(transfer, *network);
  if (out.levels.size() == 1 && request.of == 0)
    if (const auto library = library_sending(machine, request)) {
      out.library_s = library->sending_s + library->wait_s;
      if (const auto issue = number_of(machine, "collective_issue_s")) out.issued_s = std::max(*issue, *out.library_s);
    }
  overlap(out);
  return out;
}

// "steps      tree 6 x 816 ns, 12.35 us in all; ring 14, 16.01 us; the tree is faster below 14.69 MB"
static std::string ways_text(const SmallMessages& small, double bytes) {
  std::string when = fmt::format("the tree is faster below {}", engineering(small.tree_below, "B"));
  if (small.always()) when = "the tree is always faster";
  if (small.tree_below == 0) when = "the tree is never faster";
  return fmt::format("steps      ring {} x {}, {} in all; tree {} x {}, {}; {}", small.ring.steps,
                     engineering(small.step_s, "s"), engineering(small.ring_s(bytes), "s"), small.tree.steps,
                     engineering(small.step_s, "s"), engineering(small.tree_s(bytes), "s"), when);
}

std::string text(const CollectiveTime& t) {
  std::string out = fmt::format("{} of {} over {} chips: {}\n", name(t.asked.pattern), engineering(t.asked.bytes, "B"),
                                grouped(t.asked.chips), engineering(t.time_s(), "s"));
  for (const LevelTime& level : t.levels)
    out +=
        fmt::format("  {:<10} joins {}: {} a chip at {}: {}\n", level.link, grouped(level.members),
                    engineering(level.bytes, "B"), engineering(level.rate, "B/s"), engineering(level.seconds(), "s"));
  if (t.latency_bound_below)
    out += fmt::format("  hops       {}; below {} they take longer than sending\n", engineering(t.latency_s, "s"),
                       engineering(*t.latency_bound_below, "B"));
  if (t.small) out += fmt::format("  {}\n", ways_text(*t.small, t.asked.bytes));
  if (t.library_s)
    out += fmt::format("  NCCL       {}, by what was fitted to its timings\n", engineering(*t.library_s, "s"));
  if (t.issued_s && *t.issued_s > *t.library_s)
    out += fmt::format("  issued     {}: a framework's host takes as long to issue a call by itself\n",
                       engineering(*t.issued_s, "s"));
  if (t.asked.compute_s == 0) return out;
  const double in_turn = t.time_s() + t.asked.compute_s;
  out +=
      fmt::format("  with {} of computing: {} in turn", engineering(t.asked.compute_s, "s"), engineering(in_turn, "s"));
  if (t.chunks > 1) out += fmt::format(", {} in {} chunks", engineering(t.overlapped_s, "s"), t.chunks);
  if (t.chunks_pay_above_s == 0) return out + "; what a message waits is not on record\n";
  return out + fmt::format("; chunks pay above {} of computing, twice what a message waits\n",
                           engineering(t.chunks_pay_above_s, "s"));
}

std::optional<Sending> library_sending(const Machine& machine, const Transfer& transfer) {
  const auto bytes = transfer.bytes.constant();
  if (!bytes) return std::nullopt;
  return library_sending(
      machine,
      CollectiveRequest{.pattern = pattern_of(transfer.kind), .bytes = bytes->real(), .chips = transfer.devices});
}

std::optional<double> library_time(const Machine& machine, const Transfer& transfer) {
  const auto parts = library_sending(machine, transfer);
  return parts ? std::optional(parts->sending_s + parts->wait_s) : std::nullopt;
}

}  // namespace ridge
