// Cores and memory that this process may use: the affinity mask and the cgroups' CPU quota limit cores, the cgroups'
// memory limit bounds bytes. A container with a quota of 150 ms per 100 ms may use two cores of a 64-core host; a pool
// of 64 threads would be throttled. The limits of all cgroups from the process's own up to the root apply, in cgroup
// versions 1 and 2. Sources: Linux Documentation/admin-guide/cgroup-v2.rst ("cpu.max", "memory.max"),
// cgroup-v1/memory.rst and scheduler/sched-bwc.rst.
//
// `root` is a prefix of the paths in /proc and /sys: "", or a folder that replaces / in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge {

// Returns the number of cores in the affinity mask, limited by the quota (rounded up), at least 1. The first call reads
// it; later calls return the same value.
int usable_cores();
int limit_cores_by_quota(const std::string& root, int cores);
std::vector<int> allowed_cpus();  // CPUs in the calling thread's mask

// Returns the bytes that the process may still allocate before it reaches a cgroup's limit, or nullopt if there is no
// limit. The reclaimable file cache of a cgroup does not count as used.
std::optional<std::int64_t> cgroup_memory_left(const std::string& root = "");

}  // namespace ridge
