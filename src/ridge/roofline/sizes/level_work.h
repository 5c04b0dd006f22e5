// Bytes that a transfer sends on each level of a network, from the inside out; all levels send concurrently.
#pragma once

#include <string>
#include <vector>

#include "ridge/roofline/network.h"

namespace ridge {

struct LevelWork {
  std::string link;
  std::int64_t group_size = 1;  // Number of members that the level joins: devices, then groups of them
  Polynomial bytes_sent = {};   // Counted per device
  double rate = 0;              // B/s of a device, one way
};
std::vector<LevelWork> count_level_work(const Transfer& transfer, const Network& network);

}  // namespace ridge
