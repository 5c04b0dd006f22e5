#include "ridge/measure/probe.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "ridge/base/file.h"
#include "ridge/machine/system.h"
#include "ridge/measure/function_timing.h"
#include "ridge/measure/work_log.h"
#include "ridge/pool/peak.h"
#include "ridge/run/memory.h"

namespace ridge {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr double function_time_fraction = 0.05;  // Each function is timed for this part of another quantity's time

// Anonymous memory on 2 MiB pages where the system grants them, so that TLB misses do not lower the measured bandwidth.
class ProbeBuffer {
 public:
  explicit ProbeBuffer(std::size_t bytes) : bytes_(bytes) {
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(mapped);
    madvise(mapped, bytes, MADV_HUGEPAGE);
  }
  ~ProbeBuffer() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  ProbeBuffer(const ProbeBuffer&) = delete;
  ProbeBuffer& operator=(const ProbeBuffer&) = delete;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

// Worker's part of a buffer, in whole KiB because the loops step by 256 bytes.
struct BufferPart {
  std::size_t begin, bytes;
};
BufferPart part_of_worker(std::size_t bytes, int cores, int worker) {
  const std::size_t each = bytes / static_cast<std::size_t>(cores) / 1024 * 1024;
  return {each * static_cast<std::size_t>(worker), each};
}

struct ProbedQuantity {
  std::string name, unit;
  int cores;
  std::function<double(int worker)> do_work;  // Works for about 0.1 ms and returns the amount of work
};

// Cuts every worker's part of a buffer into pieces and returns them in turn, so that a step is short and no piece is
// still in a cache when its turn comes again.
class BufferPieces {
 public:
  BufferPieces(std::size_t bytes, int cores) : bytes_(bytes), cores_(cores), turns_(static_cast<std::size_t>(cores)) {}
  BufferPart next(int worker) {
    const BufferPart part = part_of_worker(bytes_, cores_, worker);
    const std::size_t each = std::min(piece_bytes, part.bytes);
    const std::size_t turn = turns_[worker].value++ % (part.bytes / each);
    return {part.begin + turn * each, each};
  }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  struct alignas(64) Turn {  // a cache line of its own
    std::size_t value = 0;
  };
  std::size_t bytes_;
  int cores_;
  std::vector<Turn> turns_;
};

struct ProbeRun {
  double rate;       // units of work per second
  double cpu_share;  // fraction of the cores' time that the system gave to the probe, at most 1
};

// Every thread repeats its step until the time is over. The rate is that of the best window, because no program may
// exceed a roof.
ProbeRun run_quantity(const ProbedQuantity& quantity, double seconds) {
  constexpr double window_fraction = 0.002;
  std::vector<WorkLog> logs(static_cast<std::size_t>(quantity.cores));
  std::atomic<double> cpu_seconds{0};
  const Timer timer;
  pool::run_concurrently(quantity.cores, [&](int worker) {
    const double start = thread_cpu_seconds();
    WorkLog log(timer.seconds());
    double now = 0;
    do {
      const double work = quantity.do_work(worker);
      now = timer.seconds();
      log.add(now, work);
    } while (now < seconds);
    logs[static_cast<std::size_t>(worker)] = std::move(log);
    cpu_seconds += thread_cpu_seconds() - start;
  });
  return {find_largest_rate(logs, window_fraction * seconds), cpu_seconds / (timer.seconds() * quantity.cores)};
}

std::function<double(int)> make_arithmetic_work(void (*loop)(std::int64_t), std::int64_t flop) {
  constexpr std::int64_t rounds = 10'000;  // 24 instructions each: about 0.1 ms
  return [=](int) {
    loop(rounds);
    return static_cast<double>(rounds * flop);
  };
}

std::string cache_name(const CacheProperties& cache) { return fmt::format("l{} read", cache.level); }

// Returns how many bytes each core reads repeatedly so that one cache serves the reads: half of its share. Returns 0 if
// the next smaller cache holds as much, because the two levels cannot be distinguished then.
std::size_t resident_bytes_per_core(const std::vector<CacheProperties>& caches, std::size_t level, int cores) {
  const double resident_bytes = caches[level].bytes / std::min(caches[level].threads_per_cache, cores) / 2;
  const bool is_indistinguishable = level > 0 && resident_bytes <= caches[level - 1].bytes;
  return is_indistinguishable ? 0 : static_cast<std::size_t>(resident_bytes) / 1024 * 1024;
}

void add_cache_quantities(std::vector<ProbedQuantity>& list, const pool::PeakLoops& loops, const ProbeBuffer& buffer,
                          const std::vector<CacheProperties>& caches, int cores) {
  for (std::size_t level = 0; level < caches.size(); ++level) {
    const BufferPart mine = part_of_worker(buffer.bytes(), cores, 0);
    const std::size_t bytes = std::min(resident_bytes_per_core(caches, level, cores), mine.bytes);
    if (bytes == 0) continue;
    const std::size_t times = (std::size_t{8} << 20) / bytes + 1;  // about 0.1 ms
    list.push_back({cache_name(caches[level]), "B/s", cores, [&loops, &buffer, cores, bytes, times](int worker) {
                      const std::byte* const from = buffer.data() + part_of_worker(buffer.bytes(), cores, worker).begin;
                      for (std::size_t i = 0; i < times; ++i) loops.read(from, bytes);
                      return static_cast<double>(times) * static_cast<double>(bytes);
                    }});
  }
}

std::vector<ProbedQuantity> list_quantities(const pool::PeakLoops& loops, const ProbeBuffer& buffer,
                                            const SystemProperties& properties) {
  const int all = properties.cores;
  std::vector<ProbedQuantity> list;
  for (const int cores : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1}) {
    list.push_back({"f32", "FLOP/s", cores, make_arithmetic_work(loops.f32, loops.f32_flop_per_round)});
    if (loops.bf16 != nullptr)
      list.push_back({"bf16", "FLOP/s", cores, make_arithmetic_work(loops.bf16, loops.bf16_flop_per_round)});
    const auto read_pieces = std::make_shared<BufferPieces>(buffer.bytes(), cores);
    list.push_back({"read", "B/s", cores, [&loops, &buffer, read_pieces](int worker) {
                      const BufferPart mine = read_pieces->next(worker);
                      loops.read(buffer.data() + mine.begin, mine.bytes);
                      return static_cast<double>(mine.bytes);
                    }});
    const auto copy_pieces = std::make_shared<BufferPieces>(buffer.bytes() / 2, cores);
    list.push_back({"copy", "B/s", cores, [&loops, &buffer, copy_pieces](int worker) {
                      const std::size_t half = buffer.bytes() / 2;
                      const BufferPart mine = copy_pieces->next(worker);
                      loops.copy(buffer.data() + half + mine.begin, buffer.data() + mine.begin, mine.bytes);
                      return 2 * static_cast<double>(mine.bytes);  // read and written
                    }});
    add_cache_quantities(list, loops, buffer, properties.caches, cores);
  }
  return list;
}

std::string describe_cores(int cores) { return cores == 1 ? "one core" : fmt::format("{} cores", cores); }

// Returns a note if other programs took part of the time, because the measured roofs are then too low.
std::string busy_note(double share) {
  if (share > 0.95) return "";
  return fmt::format("the system gave the probe {:.0f} % of the time: close other programs and probe again",
                     100 * share);
}

Error stopped_error() { return absent_error("the probe was stopped; nothing was written"); }

// Measures all quantities, and functions, in rounds, so that a disturbance of some seconds affects one run of each
// quantity and not all runs of one. A short run before the first round raises clocks and wakes threads.
Result<std::vector<ProbeLine>> measure_quantities(const std::vector<ProbedQuantity>& list, const pool::PeakLoops& loops,
                                                  const ProbeOptions& options) {
  std::vector<std::vector<double>> rates(list.size()), shares(list.size()), costs;
  ProbeProgress progress{.done = 0, .total = options.runs * static_cast<int>(list.size() + 1), .quantity = {}};
  const auto report_progress = [&](std::string_view what) {  // Returns false if the probe is to stop
    progress.quantity = what;
    return !options.progress || options.progress(progress);
  };
  for (int run = 0; run < options.runs; ++run) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!report_progress(fmt::format("{}, {}", list[i].name, describe_cores(list[i].cores)))) return stopped_error();
      if (run == 0) run_quantity(list[i], 0.1 * options.seconds);
      const ProbeRun found = run_quantity(list[i], options.seconds);
      rates[i].push_back(found.rate);
      shares[i].push_back(found.cpu_share);
      ++progress.done;
    }
    if (!report_progress("functions, one core")) return stopped_error();
    costs.push_back(measure_function_costs(function_time_fraction * options.seconds, loops));
    ++progress.done;
  }
  report_progress({});
  std::vector<ProbeLine> lines;
  for (std::size_t i = 0; i < list.size(); ++i)
    lines.push_back({list[i].name, list[i].unit, list[i].cores, compute_statistics(rates[i]),
                     busy_note(compute_statistics(shares[i]).median)});
  for (ProbeLine& line : make_cost_lines(costs)) lines.push_back(std::move(line));
  return lines;
}

const ProbeLine* find_line(const std::vector<ProbeLine>& lines, std::string_view name, int cores) {
  for (const ProbeLine& line : lines)
    if (line.name == name && line.cores == cores) return &line;
  return nullptr;
}

// Keeps four digits, because the spread of the runs is larger than the fifth.
double round_to_four_digits(double rate) { return std::strtod(fmt::format("{:.4g}", rate).c_str(), nullptr); }

// Returns the largest of the runs: no program may exceed a roof.
SourcedValue to_roof(const ProbeLine& line, std::string source) {
  SourcedValue roof = to_machine_number(line, std::move(source));
  roof.value = round_to_four_digits(line.rate.max);
  roof.note = fmt::format("largest of {} runs, {:.4g} to {:.4g}", line.rate.runs, line.rate.min, line.rate.max);
  if (!line.note.empty()) roof.note += "; " + line.note;
  return roof;
}

Peak make_peak(const std::vector<ProbeLine>& lines, ComputeUnit unit, DType dtype, int all, const std::string& source) {
  // Without an instruction for a narrow dtype, its values are widened and multiplied as f32.
  const std::string_view measured_as = find_line(lines, dtype_name(dtype), 1) != nullptr ? dtype_name(dtype) : "f32";
  const std::string full_source =
      measured_as == dtype_name(dtype) ? source : fmt::format("{}; {} is widened to f32", source, dtype_name(dtype));
  return {unit, dtype, to_roof(*find_line(lines, measured_as, all), full_source),
          to_roof(*find_line(lines, measured_as, 1), full_source)};
}

// No loop measures int8, so its rate is derived. AVX512_VNNI multiplies four int8 values where f32 has one; without it,
// two instructions multiply and add two. An int8 AMX tile takes the cycles of a bf16 tile and holds twice the values.
Peak make_int8_peak(const std::vector<ProbeLine>& lines, int all, const std::string& source, Isa isa) {
  const bool tiles = isa >= Isa::amx, native = isa >= Isa::avx512_bf16;
  double times = 1;
  std::string derived = "; as f32";
  if (native) {
    times = 4;
    derived = "; four times f32";
  }
  if (tiles) {
    times = 2;
    derived = "; twice bf16";
  }
  Peak peak = make_peak(lines, ComputeUnit::matrix, tiles ? DType::bf16 : DType::f32, all, source + derived);
  peak.dtype = DType::int8;
  for (SourcedValue* rate : {&peak.rate, &*peak.one_core}) rate->value *= times;
  return peak;
}

SourcedValue make_bandwidth(const std::vector<ProbeLine>& lines, int cores) {
  const ProbeLine &read = *find_line(lines, "read", cores), &copy = *find_line(lines, "copy", cores);
  return read.rate.max >= copy.rate.max
             ? to_roof(read, "ridge probe, reading")
             : to_roof(copy, "ridge probe, copying with non-temporal stores, read and written");
}

// Replaces the single guessed cache level by the measured levels.
void add_cache_levels(Machine& machine, const std::vector<ProbeLine>& lines, const SystemProperties& properties) {
  for (const CacheProperties& cache : properties.caches) {
    const ProbeLine *one = find_line(lines, cache_name(cache), 1),
                    *all = find_line(lines, cache_name(cache), properties.cores);
    if (!one || !all) continue;
    std::erase_if(machine.memory, [](const MemoryLevel& level) { return level.name == "cache"; });
    MemoryLevel level{.name = fmt::format("l{}", cache.level), .bandwidth = {}, .capacity = {}};
    level.bandwidth = to_roof(*all, "ridge probe, reading");
    level.one_core_bandwidth = to_roof(*one, "ridge probe, reading");
    level.capacity = {.value = cache.bytes * std::ceil(static_cast<double>(properties.cores) / cache.threads_per_cache),
                      .source = "the operating system",
                      .read_on = today_utc(),
                      .origin = Origin::measured,
                      .note = {}};
    machine.memory.push_back(std::move(level));
  }
}

Machine make_cpu_machine(const std::vector<ProbeLine>& lines, const SystemProperties& properties, Isa isa) {
  Machine machine =
      estimate_cpu_machine(properties, today_utc());  // supplies the title and the values that the system reports
  const std::string source = fmt::format("ridge probe, {} registers", isa_name(isa));
  const auto measured = [&](ComputeUnit unit, DType dtype) {
    return make_peak(lines, unit, dtype, properties.cores, source);
  };
  const auto multiplied_as = [&](DType dtype, Peak peak) {
    for (SourcedValue* rate : {&peak.rate, &*peak.one_core})
      rate->source += fmt::format("; as {}", dtype_name(peak.dtype));
    peak.unit = ComputeUnit::matrix;
    peak.dtype = dtype;
    return peak;
  };
  const Peak bf16 = measured(ComputeUnit::matrix, DType::bf16), f32 = measured(ComputeUnit::vector, DType::f32);
  machine.peaks = {bf16,  // in the order of a machine file
                   multiplied_as(DType::e4m3, bf16),
                   measured(ComputeUnit::matrix, DType::f16),
                   make_int8_peak(lines, properties.cores, source, isa),
                   multiplied_as(DType::tf32, f32),
                   f32};
  machine.memory[0].bandwidth = make_bandwidth(lines, properties.cores);
  machine.memory[0].one_core_bandwidth = make_bandwidth(lines, 1);
  add_cache_levels(machine, lines, properties);
  machine.numbers.erase("clock_hz");  // the reported clock often differs from the actual one
  const auto mark_measured = [](SourcedValue& number) {
    number.origin = Origin::measured;
    number.note.clear();
  };
  for (MemoryLevel& level : machine.memory)
    if (level.capacity) mark_measured(*level.capacity);
  for (auto& [key, number] : machine.numbers) mark_measured(number);
  add_function_costs(machine, lines);
  return machine;
}

}  // namespace

SourcedValue to_machine_number(const ProbeLine& line, std::string source) {
  std::string note = fmt::format("median of {} runs, {:.4g} to {:.4g}", line.rate.runs, line.rate.min, line.rate.max);
  if (!line.note.empty()) note += "; " + line.note;
  return {.value = round_to_four_digits(line.rate.median),
          .source = std::move(source),
          .read_on = today_utc(),
          .origin = Origin::measured,
          .note = std::move(note)};
}

Result<std::string> prepare_machine_path(const std::string& device) {
  Result<std::string> path = measured_machine_path(device);
  if (!path) return path;
  const std::filesystem::path folder = std::filesystem::path(*path).parent_path();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  std::string why = failed ? failed.message() : "";
  if (!failed && access(folder.c_str(), W_OK | X_OK) != 0) why = std::strerror(errno);
  if (why.empty()) return path;
  return input_error(fmt::format("cannot write to the folder '{}': {}", folder.string(), why),
                     "set XDG_DATA_HOME to a folder that can be written");
}

Status write_machine_file(const ProbeReport& report) {
  return write_file(report.path,
                    "# Written by `ridge probe`, which overwrites this file.\n" + print_machine(report.machine));
}

std::size_t choose_probe_buffer_bytes(const ProbeOptions& options, const SystemProperties& properties,
                                      std::optional<std::int64_t> available) {
  double bytes = static_cast<double>(options.buffer_bytes);
  if (options.buffer_bytes == 0)
    bytes = std::min(std::max(8 * properties.last_level_bytes, 128.0 * 1024 * 1024), properties.memory_bytes / 8);
  if (available) bytes = std::min(bytes, static_cast<double>(*available) / 2);
  return std::max<std::size_t>(static_cast<std::size_t>(bytes) / huge_page_bytes, 1) * huge_page_bytes;
}

Result<ProbeReport> probe_cpu(const ProbeOptions& options) {
  RIDGE_CHECK(options.runs > 0, "a probe needs at least one run");
  ProbeReport report;
  if (options.write) {
    RIDGE_TRY(path, prepare_machine_path("cpu"));
    report.path = path;
  }
  const SystemProperties properties = read_system_properties();
  const pool::PeakLoops& loops = pool::peak_loops();
  const ProbeBuffer buffer(choose_probe_buffer_bytes(options, properties, available_bytes()));
  if (buffer.data() == nullptr)
    return absent_error(
        fmt::format("the probe needs {} MB of memory, which is not available", buffer.bytes() / 1'000'000),
        "close other programs and probe again");
  // The threads that read the buffer later write it first: pages that were never written all map to one page of zeros.
  pool::run_concurrently(properties.cores, [&](int worker) {
    const BufferPart mine = part_of_worker(buffer.bytes(), properties.cores, worker);
    std::memset(buffer.data() + mine.begin, worker + 1, mine.bytes);
  });
  RIDGE_TRY(lines, measure_quantities(list_quantities(loops, buffer, properties), loops, options));
  report.lines = lines;
  report.machine = make_cpu_machine(report.lines, properties, loops.isa);
  if (!options.write) return report;
  RIDGE_TRY_STATUS(write_machine_file(report));
  return report;
}

}  // namespace ridge
