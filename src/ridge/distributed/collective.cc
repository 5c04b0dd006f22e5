#include "ridge/distributed/collective.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/roofline/sending/level_work.h"
#include "ridge/roofline/sending/torus.h"

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

// Returns the levels of a collective of V bytes; `part` of them is sent. A gather is to the chip that receives most:
// one at the end of a line, and one of the smallest node.
std::vector<LevelTime> list_levels(const Transfer& unit, const Network& network, const CollectiveRequest& request,
                                   double part) {
  std::vector<LevelTime> out;
  for (const LevelWork& level : count_level_work(unit, network)) {
    const auto sent = level.bytes_sent.as_constant();
    out.push_back({level.link, level.group_size, (sent ? sent->to_double() : 0) * request.bytes * part, level.rate});
    if (request.pattern != CollectivePattern::gather) continue;
    const std::int64_t received = out.size() == 1 ? level.group_size - 1 : request.chips - level.min_devices;
    out.back().bytes_sent = request.bytes * static_cast<double>(received) / static_cast<double>(request.chips);
  }
  return out;
}

std::optional<double> machine_number(const Machine& machine, const char* key) {
  const auto found = machine.numbers.find(key);
  return found == machine.numbers.end() ? std::nullopt : std::optional(found->second.value);
}

void add_overlap(CollectiveTime& out, const LinearTime& time) {
  const OverlapTimes overlap_inputs{.math_s = out.request.compute_s,
                                    .transfer_s = out.request.bytes * time.seconds_per_byte,
                                    .message_latency_s = time.wait_s};
  const ChunkChoice best = choose_chunks(overlap_inputs, max_chunks);
  out.min_compute_for_chunks_s = 2 * time.wait_s;
  out.overlapped_s = best.seconds;
  out.chunk_count = best.count;
}

// Returns the times of a small transfer as a tree and as a ring, without its mesh axes; `part` of the bytes is sent.
std::optional<SmallMessages> small_messages_for(const Transfer& transfer, const Network& network, double part) {
  std::vector<SmallMessages> found;
  add_small_messages(found, transfer, network);
  if (found.empty()) return std::nullopt;
  SmallMessages& out = found.front();
  out.mesh_axes = {};
  out.ring.rate /= part;
  out.tree.rate /= part;
  out.max_tree_bytes /= part;
  return out;
}

// Returns the shape that is faster than one axis of a torus, if there is one: 16 x 16 chips instead of a ring of 256.
std::optional<FasterMesh> find_faster_mesh(const CollectiveTime& time, const Transfer& transfer,
                                           const Network& network) {
  if (network.topology != Topology::ring || network.chip_stride > 1 || time.levels.size() > 1 ||
      time.request.pattern == CollectivePattern::gather)
    return std::nullopt;
  FasterMesh out;
  Network shaped = network;
  Transfer over_all = transfer;
  shaped.mesh.clear();
  over_all.mesh_axes.clear();
  for (const TorusAxis& axis : lay_over_axes(time.request.chips, network.links / 2, network)) {
    out.sizes.push_back(axis.chips);
    shaped.mesh.emplace_back(static_cast<char>('A' + out.sizes.size()), axis.chips);
    over_all.mesh_axes += shaped.mesh.back().first;
  }
  out.time_s = estimate_cost(over_all, shaped).seconds(time.request.bytes);
  return out.sizes.size() > 1 && out.time_s < time.time_s ? std::optional(out) : std::nullopt;
}

// Returns the time as a function of the bytes. Libraries were not timed with ragged messages and gathers.
TransferCost request_cost(const CollectiveTime& time, const Transfer& unit, const Network& network) {
  const bool is_timed = time.request.pattern != CollectivePattern::gather && time.request.ragged_of == 0;
  TransferCost out = estimate_cost(unit, network);
  if (!is_timed) out.protocols.clear();
  out.links.seconds_per_byte = time.sending_s / time.request.bytes;
  return out;
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
  network.mesh = {{'C', request.chips}};
  network.chip_stride = request.chip_stride;
  CollectiveTime out;
  out.request = request;
  const double part =
      request.ragged_of == 0 ? 1 : static_cast<double>(request.ragged_to) / static_cast<double>(request.ragged_of);
  const Transfer unit{as_collective(request.pattern), "C", request.chips, Polynomial(1)};
  RIDGE_TRY_STATUS(check_reach(unit, network));
  out.levels = list_levels(unit, network, request, part);
  for (const LevelTime& level : out.levels) out.sending_s = std::max(out.sending_s, level.transfer_seconds());
  const TransferCost cost = request_cost(out, unit, network);
  out.latency_s = cost.links.wait_s;
  out.time_s = cost.seconds(request.bytes);
  if (network.latency_s > 0) out.latency_bound_max_bytes = request.bytes * out.latency_s / out.sending_s;
  if (request.pattern != CollectivePattern::gather) out.small_messages = small_messages_for(unit, network, part);
  if (!cost.protocols.empty()) {
    out.library_s = TransferCost{.protocols = cost.protocols}.seconds(request.bytes);
    if (const auto issue = machine_number(machine, "collective_issue_s"); issue && out.levels.size() == 1)
      out.host_issued_s = std::max(*issue, *out.library_s);
  }
  out.faster_mesh = find_faster_mesh(out, unit, network);
  add_overlap(out, cost.limiting_time(request.bytes));
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
                                format_with_prefix(t.time_s, "s"));
  for (const LevelTime& level : t.levels)
    out += fmt::format("  {:<10} joins {}: {} a chip at {}: {}\n", level.link, group_digits(level.members),
                       format_with_prefix(level.bytes_sent, "B"), format_with_prefix(level.rate, "B/s"),
                       format_with_prefix(level.transfer_seconds(), "s"));
  if (t.latency_bound_max_bytes)
    out += fmt::format("  hops       {}; below {} they take longer than sending\n",
                       format_with_prefix(t.latency_s, "s"), format_with_prefix(*t.latency_bound_max_bytes, "B"));
  if (t.small_messages) out += fmt::format("  {}\n", format_small_messages(*t.small_messages, t.request.bytes));
  if (t.faster_mesh)
    out += fmt::format("  mesh       {} chips are faster than one axis of {}: {}\n",
                       fmt::join(t.faster_mesh->sizes, " x "), group_digits(t.request.chips),
                       format_with_prefix(t.faster_mesh->time_s, "s"));
  if (t.library_s)
    out += fmt::format("  NCCL       {}, fitted to its timings{}\n", format_with_prefix(*t.library_s, "s"),
                       t.levels.size() > 1 ? " in one node, and the steps of a tree beyond" : "");
  if (t.host_issued_s && *t.host_issued_s > *t.library_s)
    out += fmt::format("  issued     {}: a framework's host takes this long to issue a call\n",
                       format_with_prefix(*t.host_issued_s, "s"));
  if (t.request.compute_s == 0) return out;
  const double sequential_s = t.time_s + t.request.compute_s;
  out += fmt::format("  with {} of computation: {} without overlap", format_with_prefix(t.request.compute_s, "s"),
                     format_with_prefix(sequential_s, "s"));
  if (t.chunk_count > 1)
    out += fmt::format(", {} in {} chunks", format_with_prefix(t.overlapped_s, "s"), t.chunk_count);
  if (t.min_compute_for_chunks_s == 0) return out + "; the latency of a message is unknown\n";
  return out + fmt::format("; chunks pay above {} of computation, twice the latency of a message\n",
                           format_with_prefix(t.min_compute_for_chunks_s, "s"));
}

std::optional<double> library_transfer_seconds(const Machine& machine, const Transfer& transfer) {
  const auto bytes = transfer.bytes.as_constant();
  const auto library = read_library_times(machine);
  if (!bytes || !library) return std::nullopt;
  const TransferCost cost{.protocols = list_protocols(*library, transfer.kind, transfer.devices)};
  return cost.protocols.empty() ? std::nullopt : std::optional(cost.seconds(bytes->to_double()));
}

}  // namespace ridge
