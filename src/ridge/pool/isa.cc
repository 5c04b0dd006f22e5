#include "ridge/pool/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

namespace ridge::pool {
namespace {

bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

Isa limit_to_permitted(Isa isa) { return enable_isa(isa) ? isa : Isa::avx512_bf16; }  // the system must grant AMX

bool is_nonempty(const char* isa) { return isa != nullptr && *isa != '\0'; }

struct IsaState {
  IsaChoice choice = choose_isa(detected_isa(), std::getenv("RIDGE_ISA"));
  std::atomic<Isa> isa{limit_to_permitted(choice.isa)};
  std::atomic<bool> bf16_pairs{is_nonempty(std::getenv("RIDGE_ISA")) || !is_intel()};
};
IsaState& isa_state() {
  static IsaState c;
  return c;
}

std::string read_first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::int64_t read_number(const std::string& path, std::int64_t default_value) {
  std::int64_t value = 0;
  return std::istringstream(read_first_line(path)) >> value ? value : default_value;
}

std::optional<std::int64_t> read_size(const std::string& path) {  // Parses "48K" or "32M".
  std::int64_t value = 0;
  char unit = 0;
  std::istringstream text(read_first_line(path));
  if (!(text >> value) || value <= 0 || value > (std::int64_t{1} << 20)) return std::nullopt;
  text >> unit;
  if (unit == 'K') return value << 10;
  if (unit == 'M') return value << 20;
  if (unit == 'G') return value << 30;
  return value;
}

}  // namespace

IsaRange compiled_isas() { return {Isa::RIDGE_LOWEST_ISA, Isa::RIDGE_HIGHEST_ISA}; }

std::vector<Isa> available_isas() {
  std::vector<Isa> all;
  const Isa max_isa = limit_to_permitted(choose_isa(detected_isa(), std::getenv("RIDGE_ISA")).isa);
  for (int i = static_cast<int>(compiled_isas().lowest); i <= static_cast<int>(max_isa); ++i)
    all.push_back(static_cast<Isa>(i));
  return all;
}

IsaChoice choose_isa(Isa detected, const char* override_name, IsaRange compiled) {
  const std::string lowest(isa_name(compiled.lowest)), highest(isa_name(compiled.highest));
  if (detected < compiled.lowest)
    return {compiled.lowest, "expected a CPU with " + lowest +
                                 ", for which this program's kernels were compiled, found " +
                                 std::string(isa_name(detected)) + "; build it on this CPU, or with -DRIDGE_ISAS=ALL"};
  const Isa best = std::min(detected, compiled.highest);
  const std::string requested = override_name == nullptr ? "" : override_name;
  if (requested.empty()) return {best};
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (requested != isa_name(isa)) continue;
    if (isa > detected)
      return {best, "expected RIDGE_ISA to name an instruction set of this CPU, found '" + requested +
                        "'; the CPU has at most " + std::string(isa_name(detected))};
    if (isa < compiled.lowest || isa > compiled.highest)
      return {best, "expected RIDGE_ISA to name an instruction set that this program was compiled for (" + lowest +
                        " to " + highest + "), found '" + requested + "'; configure with -DRIDGE_ISAS=ALL"};
    return {isa};
  }
  return {best, "expected RIDGE_ISA to be plain, avx2, avx512, avx512_bf16 or amx, found '" + requested + "'"};
}

Isa active_isa() { return isa_state().isa.load(std::memory_order_relaxed); }

Reason isa_override_error() { return isa_state().choice.error; }

bool set_active_isa(Isa isa) {
  if (isa < compiled_isas().lowest || isa > compiled_isas().highest || !enable_isa(isa)) return false;
  isa_state().isa.store(isa, std::memory_order_relaxed);
  set_bf16_pairs(true);
  return true;
}

bool multiplies_bf16_pairs() { return isa_state().bf16_pairs.load(std::memory_order_relaxed); }
void set_bf16_pairs(bool pairs) { isa_state().bf16_pairs.store(pairs, std::memory_order_relaxed); }

bool needs_far_prefetch() { return is_intel(); }

CacheSizes read_cache_sizes(const std::string& root) {
  CacheSizes found;
  for (int i = 0; i < 8; ++i) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const std::string type = read_first_line(folder + "/type");
    const std::optional<std::int64_t> size = read_size(folder + "/size");
    if (!size || type == "Instruction") continue;
    const std::int64_t level = read_number(folder + "/level", 0);
    if (level == 1) found.l1d = *size;
    if (level == 2) found.l2 = *size;
    if (level == 3) found.l3 = *size;
  }
  return found;
}

const CacheSizes& cache_sizes() {
  static const CacheSizes found = read_cache_sizes("");
  return found;
}

Cpu this_cpu() { return {active_isa(), multiplies_bf16_pairs(), cache_sizes()}; }

}  // namespace ridge::pool
