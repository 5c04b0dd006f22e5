// Pure functions from the text of /proc and /sys to facts, and from facts to a guess, so that tests can feed both.
#include "ridge/machine/system.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>

#include "ridge/base/cores.h"

namespace ridge {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

double number_at(std::string_view text) {
  double value = 0;
  const auto begin = std::find_if(text.begin(), text.end(), [](char c) { return c != ' ' && c != '\t' && c != '\n'; });
  std::from_chars(text.data() + (begin - text.begin()), text.data() + text.size(), value);
  return std::isfinite(value) ? value : 0;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n')) text.remove_suffix(1);
  return std::string(text);
}

Sourced guessed(double value, std::string source, const std::string& day) {
  return {.value = value,
          .source = std::move(source),
          .read_on = day,
          .origin = Origin::guessed,
          .note = "not measured: run `ridge probe`"};
}

bool has(const SystemFacts& facts, std::string_view flag) {
  return facts.flags.find(fmt::format(" {} ", flag)) != std::string::npos;
}

}  // namespace

int cores_in_list(std::string_view list) {
  int cores = 0;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view range = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    const std::size_t dash = range.find('-');
    const double first = number_at(range),
                 last = dash == std::string_view::npos ? first : number_at(range.substr(dash + 1));
    if (last >= first && last < 1e5 && !trimmed(range).empty()) cores += static_cast<int>(last - first) + 1;
  }
  return cores;
}

SystemFacts parse_cpuinfo(std::string_view cpuinfo) {
  SystemFacts facts;
  while (!cpuinfo.empty()) {
    const std::size_t end = cpuinfo.find('\n');
    const std::string_view line = cpuinfo.substr(0, end);
    cpuinfo = end == std::string_view::npos ? std::string_view() : cpuinfo.substr(end + 1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string key = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (key == "model name") facts.model = value;
    if (key == "vendor_id") facts.vendor = value;
    if (key == "cpu family") facts.family = static_cast<int>(std::clamp(number_at(value), 0.0, 1e6));
    if (key == "flags" || key == "Features") facts.flags = " " + value + " ";
    if (key == "cpu MHz") facts.clock_hz = std::max(facts.clock_hz, 1e6 * std::clamp(number_at(value), 0.0, 1e5));
  }
  return facts;
}

SystemFacts read_system() {
  SystemFacts facts = parse_cpuinfo(slurp("/proc/cpuinfo"));
  facts.cores = usable_cores();
  facts.isa = detected_isa();
  const std::string cpu0 = "/sys/devices/system/cpu/cpu0/";
  facts.clock_hz = std::max(facts.clock_hz, 1e3 * number_at(slurp(cpu0 + "cpufreq/cpuinfo_max_freq")));
  for (int i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("{}cache/index{}/", cpu0, i);
    const std::string size = slurp(folder + "size");
    double scale = 1;
    if (size.find('M') != std::string::npos) scale = 1048576;
    if (size.find('K') != std::string::npos) scale = 1024;
    const int sharers = std::max(1, cores_in_list(slurp(folder + "shared_cpu_list")));
    const double caches = std::ceil(static_cast<double>(facts.cores) / sharers);
    facts.last_level_bytes = std::max(facts.last_level_bytes, caches * scale * number_at(size));
    const double level = number_at(slurp(folder + "level"));
    if (level >= 1 && level <= 8 && number_at(size) > 0 && !slurp(folder + "type").starts_with("Instruction"))
      facts.caches.push_back({static_cast<int>(level), scale * number_at(size), sharers});
  }
  std::sort(facts.caches.begin(), facts.caches.end(),
            [](const CacheFacts& a, const CacheFacts& b) { return a.level < b.level; });
  facts.memory_bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return facts;
}

VectorWidth vector_width(const SystemFacts& facts) {
  // Zen 4 (family 25) runs a 512-bit instruction in two halves; Zen 5 and the servers of Intel have two full units.
  if (facts.isa >= Isa::avx512 && facts.vendor == "AuthenticAMD" && facts.family <= 25)
    return {32, "AVX-512 in two halves"};
  if (facts.isa >= Isa::avx512) return {64, "two 512-bit multiply-adds a cycle"};
  if (facts.isa >= Isa::avx2) return {32, "two 256-bit multiply-adds a cycle"};
  if (has(facts, "avx")) return {16, "a 256-bit multiply and a 256-bit add a cycle"};
  if (has(facts, "asimd")) return {16, "two 128-bit multiply-adds a cycle"};
  return {8, "a 128-bit multiply and a 128-bit add a cycle"};
}

Machine guess_cpu(const SystemFacts& facts, const std::string& day) {
  const VectorWidth width = vector_width(facts);
  const double clock = facts.clock_hz > 0 ? facts.clock_hz : 2.5e9;
  const double one = width.flop_per_cycle * clock, all = one * facts.cores;
  const std::string core_words = facts.cores == 1 ? "1 core" : fmt::format("{} cores", facts.cores);
  const std::string formula =
      fmt::format("{} x {:.2f} GHz x {} FLOP a cycle ({})", core_words, clock / 1e9, width.flop_per_cycle, width.why);
  const bool native = facts.isa >= Isa::avx512_bf16, tiles = facts.isa >= Isa::amx;
  const bool pairs = native && facts.vendor != "GenuineIntel";  // there two multiply-adds of f32 are faster
  double factor = 1;
  std::string bf16 = "the f32 guess: bf16 is widened to f32";
  if (pairs) {
    factor = 2;
    bf16 = "twice the f32 guess (AVX512_BF16)";
  }
  if (tiles) {
    factor = 16;
    bf16 = "16 times the f32 guess (AMX: 1024 FLOP a cycle)";
  }

  Machine machine;
  machine.name = "cpu";
  machine.title = fmt::format("{}, {}", facts.model.empty() ? "this CPU" : facts.model, core_words);
  machine.peaks.push_back(
      {Unit::matrix, DType::bf16, guessed(factor * all, bf16, day), guessed(factor * one, bf16, day)});
  const std::string f16 = "the f32 guess: f16 is widened to f32";
  machine.peaks.push_back({Unit::matrix, DType::f16, guessed(all, f16, day), guessed(one, f16, day)});
  double products = 1;
  std::string int8 = "the f32 guess: int8 as pairs of int16";
  if (native) {
    products = 4;
    int8 = "four times the f32 guess (AVX512_VNNI)";
  }
  if (tiles) {
    products = 32;
    int8 = "32 times the f32 guess (AMX)";
  }
  machine.peaks.push_back(
      {Unit::matrix, DType::int8, guessed(products * all, int8, day), guessed(products * one, int8, day)});
  machine.peaks.push_back({Unit::vector, DType::f32, guessed(all, formula, day), guessed(one, formula, day)});
  MemoryLevel dram{.name = "dram", .bandwidth = {}, .capacity = {}};
  dram.bandwidth = guessed(20e9 + 5e9 * (facts.cores - 1), "20 GB/s for one core, 5 GB/s for each further one", day);
  dram.one_core_bandwidth = guessed(20e9, "20 GB/s for one core", day);
  const std::string system = "the operating system";
  if (facts.memory_bytes > 0) dram.capacity = guessed(facts.memory_bytes, system, day);
  machine.memory.push_back(std::move(dram));
  if (facts.last_level_bytes > 0) {
    MemoryLevel cache{.name = "cache", .bandwidth = {}, .capacity = {}};
    cache.capacity = guessed(facts.last_level_bytes, system, day);
    machine.memory.push_back(std::move(cache));
  }
  machine.numbers["cores"] = guessed(facts.cores, "affinity and control group of the process", day);
  machine.numbers["clock_hz"] = guessed(clock, facts.clock_hz > 0 ? system : "the system names no clock: 2.5 GHz", day);
  return machine;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

}  // namespace ridge
