// Seconds of a collective as a function of its bytes V: those of the links, and no less than a timed library takes.
// A library's time (numbers collective_… of the machine's file, fitted by tools/fit_collectives.py) is a call, a step
// for each device that data passes, and the faster of two protocols. Narrow messages start immediately. Wide messages
// start later and also copy the device's own part. A switch that reduces takes V bytes at its rate.
//   all-gather over n devices:  call + (n - 1)*step + min(V*(n - 1)/n/narrow, delay + V*(n - 1)/n/wide + V/n/copy)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ridge/machine/machine.h"

namespace ridge {

enum class Collective { reduce_scatter, all_reduce, all_to_all, all_gather, permute };
std::string_view name(Collective collective);  // "all-gather"

// Seconds of a transfer of V bytes, linear in V.
struct LinearTime {
  double wait_s = 0, seconds_per_byte = 0;
  double seconds(double bytes) const { return wait_s + bytes * seconds_per_byte; }
};

struct TransferCost {
  LinearTime links = {};
  std::vector<LinearTime> protocols = {};        // The library takes the fastest of its protocols; may be empty
  LinearTime limiting_time(double bytes) const;  // Returns the line that sets the time
  double seconds(double bytes) const { return limiting_time(bytes).seconds(bytes); }
};

struct PairTimes {  // Messages from each device to each other one
  double narrow_rate = 0, wide_rate = 0, wide_delay_s = 0;
};

// Fitted times of a library's collectives on one link level, in s and B/s.
struct LibraryTimes {
  double call_s = 0, step_s = 0, narrow_rate = 0, wide_rate = 0, wide_delay_s = 0, copy_rate = 0;
  std::optional<PairTimes> pairs = {};
  double switch_rate = 0;       // 0 if the switch does not reduce
  std::int64_t node_chips = 0;  // Number of devices for which the switch reduces
};
// Returns nullopt if no library was timed on the machine.
std::optional<LibraryTimes> read_library_times(const Machine& machine);

// Returns the time of each protocol; empty if this collective was not timed. A permutation is one message to one other
// device.
std::vector<LinearTime> list_protocols(const LibraryTimes& library, Collective kind, std::int64_t devices);

}  // namespace ridge
