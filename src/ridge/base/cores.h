// How much of this computer is ours: cores by the affinity mask and the control groups' quota, memory by the control
// groups' limit. A container with a quota of 150 ms in every 100 ms may keep two cores of a 64-core host busy; a pool
// of 64 threads would be throttled. Every group from the process's own up to the root binds, in version 2 and version 1
// of the interface. Sources: Linux Documentation/admin-guide/cgroup-v2.rst ("cpu.max", "memory.max"),
// cgroup-v1/memory.rst and scheduler/sched-bwc.rst.
//
// `root`, here and below: "" or a folder that stands for /.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge {

// Cores that the process may keep busy: its affinity mask cut to the quota, rounded up. At least 1. Read at the first
// call.
int usable_cores();
int cores_under_quota(const std::string& root, int cores);
std::vector<int> affinity();  // the CPUs of the calling thread's mask

// Bytes that the process may still take before a group's limit stops it; a group's file cache, which can be given back,
// does not count as used. Nothing: no limit is known.
std::optional<std::int64_t> memory_left_in_groups(const std::string& root = "");

}  // namespace ridge
