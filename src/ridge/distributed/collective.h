// Time of one collective: on a machine's links, and as fitted to a library's timings on that machine.
//   all-gather: T = V*(n - 1)/n over the links' rate, plus the hops; link levels as in roofline/network.h
// A library's time is that of roofline/sending/transfer_cost.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/sending/overlap.h"
#include "ridge/roofline/sending/small_messages.h"

namespace ridge {

enum class CollectivePattern { all_gather, reduce_scatter, all_reduce, all_to_all, gather };
std::string_view pattern_name(CollectivePattern pattern);  // "all-gather"; a gather sends everything to one chip
std::optional<CollectivePattern> parse_pattern(std::string_view word);

struct CollectiveRequest {
  CollectivePattern pattern = CollectivePattern::all_gather;
  double bytes = 0;              // V: the gathered array; for an all-to-all and an all-reduce, the array of one chip
  std::int64_t chips = 1;        // number of participants
  std::int64_t chip_stride = 1;  // distance between participants: 8 means one chip of each node of 8
  // Ragged all-to-all: a chip's rows go to `ragged_to` of every `ragged_of` destinations. 0 means all destinations.
  std::int64_t ragged_to = 0, ragged_of = 0;
  double compute_s = 0;  // computation to overlap with the collective, in chunks
};

struct LevelTime {
  std::string link;
  std::int64_t members = 1;  // number of chips, or groups of chips, that the level connects
  double bytes_sent = 0;     // B that a chip sends over this level
  double rate = 0;           // B/s for each chip
  double transfer_seconds() const { return bytes_sent / rate; }
};

struct FasterMesh {
  std::vector<std::int64_t> sizes;  // 16 x 16
  double time_s = 0;
};

struct CollectiveTime {
  CollectiveRequest request;
  std::vector<LevelTime> levels;  // innermost first; they run concurrently, so the slowest decides
  double latency_s = 0;           // total latency of the hops, and of the steps beyond the first link
  double sending_s = 0;
  double time_s = 0;                     // the time of the links, and no less than the library takes
  std::optional<double> library_s = {};  // nullopt without fitted library numbers
  // Library time if a framework's host issues each call; at least that host's time for a call. Nullopt if not timed.
  std::optional<double> host_issued_s = {};
  std::optional<SmallMessages> small_messages = {};  // nullopt on a torus or without a known step time
  // Size in bytes up to which the hops take longer than sending; nullopt if the machine's file has no latency.
  std::optional<double> latency_bound_max_bytes = {};
  // Best number of chunks to overlap with computation; the first chunk does not overlap.
  std::int64_t chunk_count = 1;
  double overlapped_s = 0;
  double min_compute_for_chunks_s = 0;         // with less computation than this, one chunk is fastest
  std::optional<FasterMesh> faster_mesh = {};  // a shape of the torus that is faster than one axis
};

// Errors: bytes outside 1 to 2^60, chips outside 2 to 2^20, an invalid ragged fraction; a machine without a link.
Result<CollectiveTime> collective_time(const Machine& machine, const CollectiveRequest& request);
std::string format_collective_time(const CollectiveTime& time);

// Returns the time in s that the library timed on a machine takes for a transfer; nullopt if none was timed.
std::optional<double> library_transfer_seconds(const Machine& machine, const Transfer& transfer);

}  // namespace ridge
