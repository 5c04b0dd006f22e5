#include "ridge/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace ridge {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<int>::max();

std::string read_first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  std::int64_t value = 0;
  if (std::istringstream(read_first_line(path)) >> value) return value;
  return std::nullopt;
}

// Returns the folders of all cgroups whose `controller` limits this process, for each mount name of the hierarchy. In a
// container /proc/self/cgroup often holds the host's path while the mount's root is the container's own cgroup, so all
// ancestors up to the mount's root are listed, existing or not.
std::vector<std::string> cgroup_folders(const std::string& root, const std::string& controller) {
  std::vector<std::string> folders;
  const auto add_ancestors = [&](const std::string& mount, std::string path) {
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
      add_ancestors(mount, path);
      add_ancestors(mount + "/unified", path);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      add_ancestors(mount + "/" + controller, path);
      if (controllers != controller) add_ancestors(mount + "/" + controllers, path);
    }
  }
  return folders;
}

std::int64_t quota_in_cores(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return no_limit;
  return quota / period + (quota % period != 0 ? 1 : 0);
}

std::int64_t read_core_limit(const std::string& folder) {
  std::int64_t quota = 0, period = 0;
  if (std::istringstream v2(read_first_line(folder + "/cpu.max")); v2 >> quota >> period)
    return quota_in_cores(quota, period);
  return quota_in_cores(read_number(folder + "/cpu.cfs_quota_us").value_or(-1),
                        read_number(folder + "/cpu.cfs_period_us").value_or(0));
}

std::int64_t read_inactive_file_bytes(const std::string& folder) {
  std::ifstream stat(folder + "/memory.stat");
  std::string key;
  for (std::int64_t value = 0; stat >> key >> value;)
    if (key == "inactive_file") return std::max<std::int64_t>(0, value);
  return 0;
}

std::optional<std::int64_t> read_memory_left(const std::string& folder) {
  auto limit = read_number(folder + "/memory.max"), used = read_number(folder + "/memory.current");
  if (!limit || !used) {
    limit = read_number(folder + "/memory.limit_in_bytes");
    used = read_number(folder + "/memory.usage_in_bytes");
  }
  if (!limit || !used || *limit < 0) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - read_inactive_file_bytes(folder)));
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  for (int size = 1024; size <= 1 << 20; size *= 2) {  // the kernel rejects a mask smaller than its own
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

int limit_cores_by_quota(const std::string& root, int cores) {
  std::int64_t limit = no_limit;
  for (const std::string& folder : cgroup_folders(root, "cpu")) limit = std::min(limit, read_core_limit(folder));
  return static_cast<int>(std::clamp<std::int64_t>(limit, 1, std::max(cores, 1)));
}

int usable_cores() {
  static const int cores = limit_cores_by_quota("", static_cast<int>(allowed_cpus().size()));
  return cores;
}

std::optional<std::int64_t> cgroup_memory_left(const std::string& root) {
  std::optional<std::int64_t> min_left;
  for (const std::string& folder : cgroup_folders(root, "memory"))
    if (const auto left = read_memory_left(folder); left && (!min_left || *left < *min_left)) min_left = left;
  return min_left;
}

}  // namespace ridge
