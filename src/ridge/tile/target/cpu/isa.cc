#include "ridge/tile/target/cpu/isa.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ridge::tile::cpu {
namespace {

#if defined(__x86_64__)
std::uint64_t saved_state() {  // which registers the operating system saves on a switch: XCR0
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

Isa ask_cpu() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const auto all = [](unsigned word, std::initializer_list<int> bits) {
    return std::all_of(bits.begin(), bits.end(), [word](int bit) { return (word >> bit & 1) != 0; });
  };
  if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, {12, 27, 28, 29})) return Isa::plain;  // FMA, OSXSAVE, AVX, F16C
  const std::uint64_t state = saved_state();
  if ((state & 0x6) != 0x6) return Isa::plain;                                      // xmm, ymm
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !all(b, {5})) return Isa::plain;  // AVX2
  if ((state & 0xe0) != 0xe0 || !all(b, {16, 17, 30, 31})) return Isa::avx2;        // masks, zmm; F, DQ, BW, VL
  const bool vnni = all(c, {11});
  const bool has_bf16 = a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && all(a, {5});
  return vnni && has_bf16 ? Isa::avx512_bf16 : Isa::avx512;
}
#else
Isa ask_cpu() { return Isa::plain; }
#endif

struct Current {
  IsaChoice choice = choose_isa(detected_isa(), std::getenv("RIDGE_ISA"));
  std::atomic<Isa> isa{choice.isa};
};
Current& current() {
  static Current c;
  return c;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::int64_t number_in(const std::string& path, std::int64_t otherwise) {
  std::int64_t value = 0;
  return std::istringstream(first_line(path)) >> value ? value : otherwise;
}

constexpr std::int64_t no_limit = std::numeric_limits<int>::max();

std::int64_t quotient_up(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return no_limit;
  return quota / period + (quota % period != 0 ? 1 : 0);
}

std::int64_t limit_in(const std::string& folder) {
  std::int64_t quota = 0, period = 0;
  if (std::istringstream v2(first_line(folder + "/cpu.max")); v2 >> quota >> period) return quotient_up(quota, period);
  return quotient_up(number_in(folder + "/cpu.cfs_quota_us", -1), number_in(folder + "/cpu.cfs_period_us", 0));
}

// A container often sees the host's path in /proc/self/cgroup but its own folder at the mount's root, so the walk goes
// on to the root whether or not the folders on the way exist.
std::int64_t limit_along(const std::string& mount, std::string path) {
  std::int64_t limit = limit_in(mount);
  for (; path.size() > 1; path.erase(path.rfind('/'))) {
    limit = std::min(limit, limit_in(mount + path));
    if (path.rfind('/') == std::string::npos) break;
  }
  return limit;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string word; std::getline(list, word, ',');)
    if (word == "cpu") return true;
  return false;
}

std::optional<std::int64_t> bytes_in(const std::string& path) {  // "48K", "32M"
  std::int64_t value = 0;
  char unit = 0;
  std::istringstream text(first_line(path));
  if (!(text >> value) || value <= 0 || value > (std::int64_t{1} << 20)) return std::nullopt;
  text >> unit;
  return unit == 'K' ? value << 10 : unit == 'M' ? value << 20 : unit == 'G' ? value << 30 : value;
}

}  // namespace

std::string_view name(Isa isa) {
  constexpr std::string_view names[] = {"plain", "avx2", "avx512", "avx512_bf16"};
  return names[static_cast<int>(isa)];
}

Isa detected_isa() {
  static const Isa found = ask_cpu();
  return found;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> all;
  for (int i = 0; i <= static_cast<int>(detected_isa()); ++i) all.push_back(static_cast<Isa>(i));
  return all;
}

IsaChoice choose_isa(Isa detected, const char* override_name) {
  const std::string_view wanted = override_name == nullptr ? "" : override_name;
  if (wanted.empty()) return {detected};
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (wanted != name(isa)) continue;
    if (isa <= detected) return {isa};
    return {detected, "expected RIDGE_ISA to name an instruction set of this CPU, found '" + std::string(wanted) +
                          "'; the CPU has at most " + std::string(name(detected))};
  }
  return {detected, "expected RIDGE_ISA to be plain, avx2, avx512 or avx512_bf16, found '" + std::string(wanted) + "'"};
}

Isa isa() { return current().isa.load(std::memory_order_relaxed); }

std::optional<std::string> isa_refusal() {
  const std::string& refusal = current().choice.refusal;
  return refusal.empty() ? std::nullopt : std::optional(refusal);
}

bool use_isa(Isa isa) {
  if (isa > detected_isa()) return false;
  current().isa.store(isa, std::memory_order_relaxed);
  return true;
}

std::vector<int> affinity() {
  std::vector<int> cpus;
  for (int size = 1024; size <= 1 << 20; size *= 2) {  // the kernel refuses a mask smaller than its own
    cpu_set_t* set = CPU_ALLOC(size);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    const bool told = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; told && i < size; ++i)
      if (CPU_ISSET_S(i, bytes, set)) cpus.push_back(i);
    CPU_FREE(set);
    if (told) break;
  }
  return cpus;
}

int cores_under_quota(const std::string& root, int cores) {
  std::int64_t limit = no_limit;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" or "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      limit = std::min({limit, limit_along(mount, path), limit_along(mount + "/unified", path)});
    } else if (names_cpu(controllers)) {
      limit = std::min({limit, limit_along(mount + "/cpu", path), limit_along(mount + "/" + controllers, path)});
    }
  }
  return static_cast<int>(std::clamp<std::int64_t>(limit, 1, std::max(cores, 1)));
}

int usable_cores() {
  static const int cores = cores_under_quota("", static_cast<int>(affinity().size()));
  return cores;
}

Caches caches_under(const std::string& root) {
  Caches found;
  for (int i = 0; i < 8; ++i) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const std::string type = first_line(folder + "/type");
    const std::optional<std::int64_t> size = bytes_in(folder + "/size");
    if (!size || type == "Instruction") continue;
    const std::int64_t level = number_in(folder + "/level", 0);
    if (level == 1) found.l1d = *size;
    if (level == 2) found.l2 = *size;
    if (level == 3) found.l3 = *size;
  }
  return found;
}

const Caches& caches() {
  static const Caches found = caches_under("");
  return found;
}

}  // namespace ridge::tile::cpu
