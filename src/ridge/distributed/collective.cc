#include "ridge/distributed/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/roofline/sizes/level_work.h"

namespace ridge {
namespace {

constexpr std::array<std::pair<CollectivePattern, std::string_view>, 5> pattern_names{
    {{CollectivePattern::all_gather, "all-gather"},
     {CollectivePattern::reduce_scatter, "reduce-scatter"},
     {CollectivePattern::all_reduce, "all-reduce"},
     {CollectivePattern::all_to_all, "all-to-all"},
     {CollectivePattern::gather, "gather"}}};
constexpr std::int64_t max_collective_chips = 1 << 20;
constexpr double max_bytes = 0x1p60;

Collective as_collective(CollectivePattern pattern) {
  switch (pattern) {
    case CollectivePattern::reduce_scatter: return Collective::reduce_scatter;
    case CollectivePattern::all_reduce: return Collective::all_reduce;
    case CollectivePattern::all_to_all: return Collective::all_to_all;
    case CollectivePattern::all_gather:
    case CollectivePattern::gather: break;
  }
  return Collective::all_gather;
}

// Sets the levels of a gather: one chip receives everything, over all of its links.
void set_gather_levels(std::vector<LevelTime>& levels, const Network& network, const CollectiveRequest& request) {
  const double each = request.bytes / static_cast<double>(request.chips);
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const std::int64_t outside = request.chips - inside;
    inside *= levels[i].members;
    levels[i].bytes_sent = each * static_cast<double>(i == 0 ? inside - 1 : outside);
    if (i == 0 && network.topology == Topology::ring)
      levels[i].rate = network.rate * static_cast<double>(network.links);
  }
}

std::optional<double> machine_number(const Machine& machine, const char* key) {
  const auto found = machine.numbers.find(key);
  return found == machine.numbers.end() ? std::nullopt : std::optional(found->second.value);
}

// Returns the protocol with the shorter total time.
SendTime choose_faster(SendTime a, SendTime b) {
  return a.transfer_s + a.message_latency_s <= b.transfer_s + b.message_latency_s ? a : b;
}

std::optional<SendTime> library_all_to_all_time(const Machine& machine, double wait_s, double sent_bytes) {
  const auto narrow_rate = machine_number(machine, "collective_pair_narrow_rate"),
             wide_rate = machine_number(machine, "collective_pair_wide_rate"),
             wide_delay_s = machine_number(machine, "collective_pair_wide_s");
  if (!narrow_rate || !wide_rate || !wide_delay_s) return std::nullopt;
  return choose_faster({sent_bytes / *narrow_rate, wait_s}, {sent_bytes / *wide_rate, wait_s + *wide_delay_s});
}

// Returns the fitted time that collective.h describes. Libraries were timed on one link level only.
std::optional<SendTime> library_transfer_time(const Machine& machine, const CollectiveRequest& request) {
  const auto call_s = machine_number(machine, "collective_call_s"),
             step_s = machine_number(machine, "collective_step_s"),
             narrow_rate = machine_number(machine, "collective_narrow_rate"),
             wide_rate = machine_number(machine, "collective_wide_rate"),
             wide_delay_s = machine_number(machine, "collective_wide_s"),
             copy_rate = machine_number(machine, "collective_copy_rate");
  if (!call_s || !step_s || !narrow_rate || !wide_rate || !wide_delay_s || !copy_rate ||
      request.pattern == CollectivePattern::gather)
    return std::nullopt;
  const double n = static_cast<double>(request.chips), V = request.bytes;
  const double passes = request.pattern == CollectivePattern::all_reduce ? 2 : 1, sent_bytes = passes * V * (n - 1) / n;
  if (request.pattern == CollectivePattern::all_to_all)
    return library_all_to_all_time(machine, *call_s + *step_s, sent_bytes);
  const double wait_s = *call_s + passes * (n - 1) * *step_s;
  const SendTime ring = choose_faster({sent_bytes / *narrow_rate, wait_s},
                                      {sent_bytes / *wide_rate + V / n / *copy_rate, wait_s + *wide_delay_s});
  const auto switch_rate = machine_number(machine, "collective_switch_rate"),
             node_chips = machine_number(machine, "host_chips");
  const bool is_full_node = switch_rate && node_chips && request.chips == std::llround(*node_chips);
  if (request.pattern != CollectivePattern::all_reduce || !is_full_node) return ring;
  return choose_faster(ring, {V / *switch_rate, wait_s + *wide_delay_s});
}

CollectivePattern pattern_for(Collective kind) {
  switch (kind) {
    case Collective::all_gather: return CollectivePattern::all_gather;
    case Collective::reduce_scatter: return CollectivePattern::reduce_scatter;
    case Collective::all_reduce: return CollectivePattern::all_reduce;
    case Collective::all_to_all:
    case Collective::permute: break;  // a permutation is one message to one other device
  }
  return CollectivePattern::all_to_all;
}

void add_overlap(CollectiveTime& out) {
  const OverlapTimes overlap_inputs{
      .math_s = out.request.compute_s, .transfer_s = out.sending_s, .message_latency_s = out.latency_s};
  const ChunkChoice best = choose_chunks(overlap_inputs, max_chunks);
  out.min_compute_for_chunks_s = 2 * out.latency_s;
  out.overlapped_s = best.seconds;
  out.chunk_count = best.count;
}

// Returns the times of a small transfer as a tree and as a ring, without its mesh axes.
std::optional<SmallMessages> small_messages_for(const Transfer& transfer, const Network& network) {
  std::vector<SmallMessages> found;
  add_small_messages(found, transfer, network);
  if (found.empty()) return std::nullopt;
  found.front().mesh_axes = {};
  return found.front();
}

Status validate_request(const CollectiveRequest& request) {
  if (!(request.bytes >= 1 && request.bytes <= max_bytes))
    return usage_error(fmt::format("expected 1 to 2^60 bytes of a collective, found {}", request.bytes), "--bytes 1e9");
  if (request.chips < 2 || request.chips > max_collective_chips || request.chip_stride < 1 ||
      request.chip_stride > max_collective_chips)
    return usage_error(fmt::format("expected 2 to {} chips with a stride of {} to {}, found {} and {}",
                                   max_collective_chips, 1, max_collective_chips, request.chips, request.chip_stride),
                       "--chips 64");
  if (request.ragged_of != 0 && (request.pattern != CollectivePattern::all_to_all || request.ragged_to < 1 ||
                                 request.ragged_to > request.ragged_of))
    return usage_error(fmt::format("expected a ragged all-to-all, to 1 to {} of {}, found {} to {}", request.ragged_of,
                                   request.ragged_of, pattern_name(request.pattern), request.ragged_to),
                       "--collective all-to-all --ragged 8/64");
  return Done{};
}

}  // namespace

std::string_view pattern_name(CollectivePattern pattern) {
  for (const auto& [each, word] : pattern_names)
    if (each == pattern) return word;
  return "";
}

std::optional<CollectivePattern> parse_pattern(std::string_view word) {
  for (const auto& [each, name] : pattern_names)
    if (name == word) return each;
  return std::nullopt;
}

Result<CollectiveTime> collective_time(const Machine& machine, const CollectiveRequest& request) {
  RIDGE_TRY_STATUS(validate_request(request));
  RIDGE_TRY(network, make_network(machine));
  network.mesh = {{'C', request.chips}, {'-', request.chip_stride}};
  CollectiveTime out;
  out.request = request;
  const double part =
      request.ragged_of == 0 ? 1 : static_cast<double>(request.ragged_to) / static_cast<double>(request.ragged_of);
  Transfer transfer{as_collective(request.pattern), "C", request.chips, Polynomial(std::int64_t{1} << 40)};
  for (const LevelWork& level : count_level_work(transfer, network)) {
    const auto sent_bytes = level.bytes_sent.as_constant();
    out.levels.push_back({level.link, level.group_size,
                          (sent_bytes ? sent_bytes->to_double() : 0) * 0x1p-40 * request.bytes * part, level.rate});
  }
  if (request.pattern == CollectivePattern::gather) set_gather_levels(out.levels, network, request);
  for (const LevelTime& level : out.levels) out.sending_s = std::max(out.sending_s, level.transfer_seconds());
  out.latency_s = static_cast<double>(count_hops(transfer, network)) * network.latency_s;
  if (out.latency_s > 0) out.latency_bound_max_bytes = request.bytes * out.latency_s / out.sending_s;
  if (request.pattern != CollectivePattern::gather) out.small_messages = small_messages_for(transfer, network);
  if (out.levels.size() == 1 && request.ragged_of == 0)
    if (const auto library = library_transfer_time(machine, request)) {
      out.library_s = library->transfer_s + library->message_latency_s;
      if (const auto issue = machine_number(machine, "collective_issue_s"))
        out.host_issued_s = std::max(*issue, *out.library_s);
    }
  add_overlap(out);
  return out;
}

// "steps      ring 14 x 816 ns, 16.01 us in all; tree 6 x 816 ns, 12.35 us; the tree is faster below 14.69 MB"
static std::string format_small_messages(const SmallMessages& small_messages, double bytes) {
  std::string when = fmt::format("the tree is faster below {}", format_with_prefix(small_messages.max_tree_bytes, "B"));
  if (small_messages.is_tree_always_faster()) when = "the tree is always faster";
  if (small_messages.max_tree_bytes == 0) when = "the tree is never faster";
  return fmt::format("steps      ring {} x {}, {} in all; tree {} x {}, {}; {}", small_messages.ring.steps,
                     format_with_prefix(small_messages.step_s, "s"),
                     format_with_prefix(small_messages.ring_seconds(bytes), "s"), small_messages.tree.steps,
                     format_with_prefix(small_messages.step_s, "s"),
                     format_with_prefix(small_messages.tree_seconds(bytes), "s"), when);
}

std::string format_collective_time(const CollectiveTime& t) {
  std::string out = fmt::format("{} of {} over {} chips: {}\n", pattern_name(t.request.pattern),
                                format_with_prefix(t.request.bytes, "B"), group_digits(t.request.chips),
                                format_with_prefix(t.time_s(), "s"));
  for (const LevelTime& level : t.levels)
    out += fmt::format("  {:<10} joins {}: {} a chip at {}: {}\n", level.link, group_digits(level.members),
                       format_with_prefix(level.bytes_sent, "B"), format_with_prefix(level.rate, "B/s"),
                       format_with_prefix(level.transfer_seconds(), "s"));
  if (t.latency_bound_max_bytes)
    out += fmt::format("  hops       {}; below {} they take longer than sending\n",
                       format_with_prefix(t.latency_s, "s"), format_with_prefix(*t.latency_bound_max_bytes, "B"));
  if (t.small_messages) out += fmt::format("  {}\n", format_small_messages(*t.small_messages, t.request.bytes));
  if (t.library_s)
    out += fmt::format("  NCCL       {}, fitted to its timings\n", format_with_prefix(*t.library_s, "s"));
  if (t.host_issued_s && *t.host_issued_s > *t.library_s)
    out += fmt::format("  issued     {}: a framework's host takes this long to issue a call\n",
                       format_with_prefix(*t.host_issued_s, "s"));
  if (t.request.compute_s == 0) return out;
  const double sequential_s = t.time_s() + t.request.compute_s;
  out += fmt::format("  with {} of computation: {} without overlap", format_with_prefix(t.request.compute_s, "s"),
                     format_with_prefix(sequential_s, "s"));
  if (t.chunk_count > 1)
    out += fmt::format(", {} in {} chunks", format_with_prefix(t.overlapped_s, "s"), t.chunk_count);
  if (t.min_compute_for_chunks_s == 0) return out + "; the latency of a message is unknown\n";
  return out + fmt::format("; chunks pay above {} of computation, twice the latency of a message\n",
                           format_with_prefix(t.min_compute_for_chunks_s, "s"));
}

std::optional<SendTime> library_transfer_time(const Machine& machine, const Transfer& transfer) {
  const auto bytes = transfer.bytes.as_constant();
  if (!bytes) return std::nullopt;
  return library_transfer_time(
      machine,
      CollectiveRequest{.pattern = pattern_for(transfer.kind), .bytes = bytes->to_double(), .chips = transfer.devices});
}

std::optional<double> library_transfer_seconds(const Machine& machine, const Transfer& transfer) {
  const auto parts = library_transfer_time(machine, transfer);
  return parts ? std::optional(parts->transfer_s + parts->message_latency_s) : std::nullopt;
}

}  // namespace ridge
