#include "ridge/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace ridge {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<int>::max();

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  std::int64_t value = 0;
  if (std::istringstream(first_line(path)) >> value) return value;
  return std::nullopt;
}

// The folders of the groups that bind this process through `controller`, under every name that its hierarchy is mounted
// by. A container often sees the host's path in /proc/self/cgroup but its own folder at the mount's root, so the walk
// goes on to the root whether or not the folders on the way exist.
std::vector<std::string> groups_of(const std::string& root, const std::string& controller) {
  std::vector<std::string> folders;
  const auto walk = [&](const std::string& mount, std::string path) {
    folders.push_back(mount);
    for (; path.size() > 1; path.erase(path.rfind('/'))) {
      folders.push_back(mount + path);
      if (path.rfind('/') == std::string::npos) break;
    }
  };
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" or "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      walk(mount, path);
      walk(mount + "/unified", path);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      walk(mount + "/" + controller, path);
      if (controllers != controller) walk(mount + "/" + controllers, path);
    }
  }
  return folders;
}

std::int64_t quotient_up(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return no_limit;
  return quota / period + (quota % period != 0 ? 1 : 0);
}

std::int64_t core_limit_in(const std::string& folder) {
  std::int64_t quota = 0, period = 0;
  if (std::istringstream v2(first_line(folder + "/cpu.max")); v2 >> quota >> period) return quotient_up(quota, period);
  return quotient_up(number_in(folder + "/cpu.cfs_quota_us").value_or(-1),
                     number_in(folder + "/cpu.cfs_period_us").value_or(0));
}

std::int64_t cache_in(const std::string& folder) {
  std::ifstream stat(folder + "/memory.stat");
  std::string key;
  for (std::int64_t value = 0; stat >> key >> value;)
    if (key == "inactive_file") return std::max<std::int64_t>(0, value);
  return 0;
}

std::optional<std::int64_t> memory_left_in(const std::string& folder) {
  auto limit = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
  if (!limit || !used) {
    limit = number_in(folder + "/memory.limit_in_bytes");
    used = number_in(folder + "/memory.usage_in_bytes");
  }
  if (!limit || !used || *limit < 0) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - cache_in(folder)));
}

}  // namespace

std::vector<int> affinity() {
  std::vector<int> cpus;
  for (int size = 1024; size <= 1 << 20; size *= 2) {  // the kernel refuses a mask smaller than its own
    cpu_set_t* set = CPU_ALLOC(size);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    const bool is_known = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; is_known && i < size; ++i)
      if (CPU_ISSET_S(i, bytes, set)) cpus.push_back(i);
    CPU_FREE(set);
    if (is_known) break;
  }
  return cpus;
}

int cores_under_quota(const std::string& root, int cores) {
  std::int64_t limit = no_limit;
  for (const std::string& folder : groups_of(root, "cpu")) limit = std::min(limit, core_limit_in(folder));
  return static_cast<int>(std::clamp<std::int64_t>(limit, 1, std::max(cores, 1)));
}

int usable_cores() {
  static const int cores = cores_under_quota("", static_cast<int>(affinity().size()));
  return cores;
}

std::optional<std::int64_t> memory_left_in_groups(const std::string& root) {
  std::optional<std::int64_t> least;
  for (const std::string& folder : groups_of(root, "memory"))
    if (const auto left = memory_left_in(folder); left && (!least || *left < *least)) least = left;
  return least;
}

}  // namespace ridge
