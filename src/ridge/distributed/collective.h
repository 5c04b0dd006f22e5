// A collective by itself: how long it takes on a machine's links, and what a library that was measured there takes.
//   T = V*(n - 1)/n over the links' rate, and the hops, of an all-gather; levels as in roofline/network.h
// What a library adds (numbers collective_… of the machine's file, fitted by tools/fit_collectives.py): a call, a step
// for each device it passes, and then the faster of two ways: narrow messages that begin at once, wide ones that begin
// later and copy a device's own part as well; where a switch adds up, V bytes at its rate.
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

enum class Pattern { all_gather, reduce_scatter, all_reduce, all_to_all, gather };
std::string_view name(Pattern pattern);  // "all-gather"; gather: everything to one chip
std::optional<Pattern> pattern_named(std::string_view word);

struct CollectiveRequest {
  Pattern pattern = Pattern::all_gather;
  double bytes = 0;        // V: the whole array; of an all-to-all and an all-reduce what each chip has
  std::int64_t chips = 1;  // that take part
  std::int64_t apart = 1;  // a chip takes part, so many do not: apart = 8 is one of each node of 8
  // Of an all-to-all: a chip's rows go to `to` of every `of` destinations only; 0: to all.
  std::int64_t to = 0, of = 0;
  double compute_s = 0;  // what may run meanwhile, in chunks; 0: nothing
};

struct LevelTime {
  std::string link;
  std::int64_t members = 1;  // chips, or groups of them, that it joins here
  double bytes = 0;          // that a chip sends there
  double rate = 0;           // B/s of a chip
  double seconds() const { return bytes / rate; }
};

struct CollectiveTime {
  CollectiveRequest asked;
  std::vector<LevelTime> levels;  // from the inside out; all at once, the slowest decides
  double latency_s = 0;           // of the hops
  double sending_s = 0;
  std::optional<double> library_s = {};  // none: nothing was fitted for this machine
  // The same issued by the host of a framework, call by call: no faster than that host; none: not timed.
  std::optional<double> issued_s = {};
  std::optional<SmallMessages> small = {};  // tree or ring; none: a torus, or a step that is not on record
  // Bytes up to which hops take longer than sending; none: the latency is not on record.
  std::optional<double> latency_bound_below = {};
  // With computing beside it, in `chunks` pieces: the first piece is computed, or sent, alone.
  std::int64_t chunks = 1;
  double overlapped_s = 0;
  double chunks_pay_above_s = 0;  // of computing: with less beside it, one piece is fastest
  double time_s() const { return sending_s + latency_s; }
};

// Errors of kind usage: bytes not above 0, chips outside 1 to 2^20, `to` above `of`; the machine has no link.
Result<CollectiveTime> collective_time(const Machine& machine, const CollectiveRequest& request);
std::string text(const CollectiveTime& time);

// What the library that was timed on a machine takes for a transfer; none: no library was.
std::optional<double> library_time(const Machine& machine, const Transfer& transfer);
// The same in parts: of chunks of a transfer each waits, and they share its sending. None likewise.
std::optional<Sending> library_sending(const Machine& machine, const Transfer& transfer);

}  // namespace ridge
