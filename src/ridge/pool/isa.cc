#include "ridge/pool/isa.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ridge::tile::cpu {
namespace {

bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

Isa permitted(Isa isa) { return granted(isa) ? isa : Isa::avx512_bf16; }  // the system must grant AMX

bool is_named(const char* isa) { return isa != nullptr && *isa != '\0'; }

struct Current {
  IsaChoice choice = choose_isa(detected_isa(), std::getenv("RIDGE_ISA"));
  std::atomic<Isa> isa{permitted(choice.isa)};
  std::atomic<bool> pairs{is_named(std::getenv("RIDGE_ISA")) || !is_intel()};
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

std::optional<std::int64_t> bytes_in(const std::string& path) {  // Parses "48K" or "32M".
  std::int64_t value = 0;
  char unit = 0;
  std::istringstream text(first_line(path));
  if (!(text >> value) || value <= 0 || value > (std::int64_t{1} << 20)) return std::nullopt;
  text >> unit;
  if (unit == 'K') return value << 10;
  if (unit == 'M') return value << 20;
  if (unit == 'G') return value << 30;
  return value;
}

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> all;
  const Isa most = permitted(choose_isa(detected_isa(), std::getenv("RIDGE_ISA")).isa);
  for (int i = 0; i <= static_cast<int>(most); ++i) all.push_back(static_cast<Isa>(i));
  return all;
}

IsaChoice choose_isa(Isa detected, const char* override_name) {
  const std::string_view wanted = override_name == nullptr ? "" : override_name;
  if (wanted.empty()) return {detected};
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (wanted != name(isa)) continue;
    if (isa <= detected) return {isa};
    return {detected, "expected RIDGE_ISA to name an instruction set of this CPU, found '" + std::string(wanted) +
                          "'; the CPU has at most " + std::string(name(detected))};
  }
  return {detected,
          "expected RIDGE_ISA to be plain, avx2, avx512, avx512_bf16 or amx, found '" + std::string(wanted) + "'"};
}

Isa isa() { return current().isa.load(std::memory_order_relaxed); }

std::optional<std::string> isa_refusal() {
  const std::string& refusal = current().choice.refusal;
  return refusal.empty() ? std::nullopt : std::optional(refusal);
}

bool use_isa(Isa isa) {
  if (!granted(isa)) return false;
  current().isa.store(isa, std::memory_order_relaxed);
  use_pairs(true);
  return true;
}

bool multiplies_pairs() { return current().pairs.load(std::memory_order_relaxed); }
void use_pairs(bool pairs) { current().pairs.store(pairs, std::memory_order_relaxed); }

bool prefetches_far() { return is_intel(); }

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

Cpu this_cpu() { return {isa(), multiplies_pairs(), caches()}; }

}  // namespace ridge::tile::cpu
