// What a transfer sends on each level of a network, from the inside out; all levels are at work at once.
#pragma once

#include <string>
#include <vector>

#include "ridge/roofline/network.h"

namespace ridge {

struct LevelWork {
  std::string link;
  std::int64_t members = 1;  // that it joins here: devices, then groups of them
  Polynomial sent = {};      // B, of each device
  double rate = 0;           // B/s of a device, one way
};
std::vector<LevelWork> levels_of(const Transfer& transfer, const Network& network);

}  // namespace ridge
