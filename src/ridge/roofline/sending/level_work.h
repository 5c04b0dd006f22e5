// Bytes that a transfer sends on each level of a network, from the inside out; all levels send concurrently. Nodes may
// have unequal numbers of its devices: 9 chips on nodes of 8 are groups of 8 and 1, and the ninth chip alone sends and
// receives all that leaves or enters its node.
#pragma once

#include <string>
#include <vector>

#include "ridge/roofline/network.h"

namespace ridge {

struct LevelWork {
  std::string link;
  std::int64_t group_size = 1;   // Number of members that the level joins: devices, then groups of them
  Polynomial bytes_sent = {};    // Counted per device, that of the smallest group
  double rate = 0;               // B/s of a device, one way
  std::int64_t min_devices = 1;  // Devices of the smallest member
};
std::vector<LevelWork> count_level_work(const Transfer& transfer, const Network& network);

// Returns the number of hops of the last byte over the first link.
std::int64_t count_hops(const Transfer& transfer, const Network& network);

// Groups into which a level's reach divides the devices of a transfer.
struct DeviceGroups {
  std::int64_t count = 1;        // D
  std::int64_t min_devices = 1;  // Devices of the smallest group
  std::int64_t max_devices = 1;  // Devices of the largest one
  std::int64_t max_members = 1;  // Groups of the preceding level that one group contains, at most
};
// Returns the groups of the first link and of each further level that the transfer needs. Of several collectives along
// the same mesh axes, those with the slowest groups count.
std::vector<DeviceGroups> group_devices(const Transfer& transfer, const Network& network);

}  // namespace ridge
