// Pure functions from the content of /proc and /sys to properties, and from these to a machine, so that they can be
// tested.
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
#include "ridge/base/string_util.h"

namespace ridge {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

double leading_number(std::string_view text) {
  double value = 0;
  const auto begin = std::find_if(text.begin(), text.end(), [](char c) { return c != ' ' && c != '\t' && c != '\n'; });
  std::from_chars(text.data() + (begin - text.begin()), text.data() + text.size(), value);
  return std::isfinite(value) ? value : 0;
}

constexpr const char* system_source = "the operating system";
SourcedValue make_guess(double value, std::string source, const std::string& day) {
  return {.value = value,
          .source = std::move(source),
          .read_on = day,
          .origin = Origin::guessed,
          .note = "not measured: run `ridge probe`"};
}

bool has_flag(const SystemProperties& properties, std::string_view flag) {
  return properties.flags.find(fmt::format(" {} ", flag)) != std::string::npos;
}

}  // namespace

int cores_in_list(std::string_view list) {
  int cores = 0;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view range = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    const std::size_t dash = range.find('-');
    const double first = leading_number(range),
                 last = dash == std::string_view::npos ? first : leading_number(range.substr(dash + 1));
    if (last >= first && last < 1e5 && !trim_blanks(range).empty()) cores += static_cast<int>(last - first) + 1;
  }
  return cores;
}

SystemProperties parse_cpuinfo(std::string_view cpuinfo) {
  SystemProperties properties;
  while (!cpuinfo.empty()) {
    const std::size_t end = cpuinfo.find('\n');
    const std::string_view line = cpuinfo.substr(0, end);
    cpuinfo = end == std::string_view::npos ? std::string_view() : cpuinfo.substr(end + 1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string key(trim_blanks(line.substr(0, colon))), value(trim_blanks(line.substr(colon + 1)));
    if (key == "model name") properties.model = value;
    if (key == "vendor_id") properties.vendor = value;
    if (key == "cpu family") properties.family = static_cast<int>(std::clamp(leading_number(value), 0.0, 1e6));
    if (key == "flags" || key == "Features") properties.flags = " " + value + " ";
    if (key == "cpu MHz")
      properties.clock_hz = std::max(properties.clock_hz, 1e6 * std::clamp(leading_number(value), 0.0, 1e5));
  }
  return properties;
}

SystemProperties read_system_properties() {
  SystemProperties properties = parse_cpuinfo(read_text("/proc/cpuinfo"));
  properties.cores = usable_cores();
  properties.isa = detected_isa();
  const std::string cpu0 = "/sys/devices/system/cpu/cpu0/";
  properties.clock_hz =
      std::max(properties.clock_hz, 1e3 * leading_number(read_text(cpu0 + "cpufreq/cpuinfo_max_freq")));
  for (int i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("{}cache/index{}/", cpu0, i);
    const std::string size = read_text(folder + "size");
    double scale = 1;
    if (size.find('M') != std::string::npos) scale = 1048576;
    if (size.find('K') != std::string::npos) scale = 1024;
    const int threads_per_cache = std::max(1, cores_in_list(read_text(folder + "shared_cpu_list")));
    const double caches = std::ceil(static_cast<double>(properties.cores) / threads_per_cache);
    properties.last_level_bytes = std::max(properties.last_level_bytes, caches * scale * leading_number(size));
    const double level = leading_number(read_text(folder + "level"));
    if (level >= 1 && level <= 8 && leading_number(size) > 0 && !read_text(folder + "type").starts_with("Instruction"))
      properties.caches.push_back({static_cast<int>(level), scale * leading_number(size), threads_per_cache});
  }
  std::sort(properties.caches.begin(), properties.caches.end(),
            [](const CacheProperties& a, const CacheProperties& b) { return a.level < b.level; });
  properties.memory_bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return properties;
}

VectorThroughput vector_throughput(const SystemProperties& properties) {
  // Zen 4 (family 25) executes a 512-bit instruction as two halves; Zen 5 and Intel servers have two full units.
  if (properties.isa >= Isa::avx512 && properties.vendor == "AuthenticAMD" && properties.family <= 25)
    return {32, "AVX-512 in two halves"};
  if (properties.isa >= Isa::avx512) return {64, "two 512-bit multiply-adds a cycle"};
  if (properties.isa >= Isa::avx2) return {32, "two 256-bit multiply-adds a cycle"};
  if (has_flag(properties, "avx")) return {16, "a 256-bit multiply and a 256-bit add a cycle"};
  if (has_flag(properties, "asimd")) return {16, "two 128-bit multiply-adds a cycle"};
  return {8, "a 128-bit multiply and a 128-bit add a cycle"};
}

// Guessed peak of products in one dtype: `factor` times that of f32.
struct ProductGuess {
  DType dtype;
  double factor;
  std::string reason;
};
static std::vector<ProductGuess> guess_products(const SystemProperties& properties) {
  const bool native = properties.isa >= Isa::avx512_bf16, tiles = properties.isa >= Isa::amx;
  ProductGuess bf16{DType::bf16, 1, "the f32 guess: bf16 is widened to f32"};
  if (native && properties.vendor != "GenuineIntel")  // on Intel two f32 multiply-adds are faster
    bf16 = {DType::bf16, 2, "twice the f32 guess (AVX512_BF16)"};
  if (tiles) bf16 = {DType::bf16, 16, "16 times the f32 guess (AMX: 1024 FLOP a cycle)"};
  ProductGuess int8{DType::int8, 1, "the f32 guess: int8 as pairs of int16"};
  if (native) int8 = {DType::int8, 4, "four times the f32 guess (AVX512_VNNI)"};
  if (tiles) int8 = {DType::int8, 32, "32 times the f32 guess (AMX)"};
  return {bf16,
          {DType::f16, 1, "the f32 guess: f16 is widened to f32"},
          int8,
          {DType::e4m3, bf16.factor, "the bf16 guess: e4m3 is widened to bf16"},
          {DType::tf32, 1, "the f32 guess: all bits of tf32 are multiplied"}};
}

static std::vector<MemoryLevel> guess_memory(const SystemProperties& properties, const std::string& day) {
  MemoryLevel dram{.name = "dram", .bandwidth = {}, .capacity = {}};
  dram.bandwidth =
      make_guess(20e9 + 5e9 * (properties.cores - 1), "20 GB/s for one core, 5 GB/s for each further one", day);
  dram.one_core_bandwidth = make_guess(20e9, "20 GB/s for one core", day);
  if (properties.memory_bytes > 0) dram.capacity = make_guess(properties.memory_bytes, system_source, day);
  std::vector<MemoryLevel> out{std::move(dram)};
  if (properties.last_level_bytes > 0) {
    MemoryLevel cache{.name = "cache", .bandwidth = {}, .capacity = {}};
    cache.capacity = make_guess(properties.last_level_bytes, system_source, day);
    out.push_back(std::move(cache));
  }
  return out;
}

Machine estimate_cpu_machine(const SystemProperties& properties, const std::string& day) {
  const VectorThroughput width = vector_throughput(properties);
  const double clock = properties.clock_hz > 0 ? properties.clock_hz : 2.5e9;
  const double one = width.flop_per_cycle * clock, all = one * properties.cores;
  const std::string core_words = properties.cores == 1 ? "1 core" : fmt::format("{} cores", properties.cores);
  const std::string formula =
      fmt::format("{} x {:.2f} GHz x {} FLOP a cycle ({})", core_words, clock / 1e9, width.flop_per_cycle, width.why);
  Machine machine;
  machine.name = "cpu";
  machine.title = fmt::format("{}, {}", properties.model.empty() ? "this CPU" : properties.model, core_words);
  for (const ProductGuess& x : guess_products(properties))
    machine.peaks.push_back({ComputeUnit::matrix, x.dtype, make_guess(x.factor * all, x.reason, day),
                             make_guess(x.factor * one, x.reason, day)});
  machine.peaks.push_back(
      {ComputeUnit::vector, DType::f32, make_guess(all, formula, day), make_guess(one, formula, day)});
  machine.memory = guess_memory(properties, day);
  machine.numbers["cores"] = make_guess(properties.cores, "affinity and control group of the process", day);
  machine.numbers["clock_hz"] = make_guess(
      clock, properties.clock_hz > 0 ? system_source : "no clock reported by the system: 2.5 GHz assumed", day);
  return machine;
}

std::string today_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

}  // namespace ridge
