#include "ridge/machine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ridge {

std::string_view origin_name(Origin origin) {
  switch (origin) {
    case Origin::datasheet: return "datasheet";
    case Origin::derived: return "derived";
    case Origin::measured: return "measured";
    case Origin::guessed: return "guessed";
  }
  return "datasheet";
}

std::string_view topology_name(Topology topology) {
  switch (topology) {
    case Topology::ring: return "ring";
    case Topology::switched: return "switch";
    case Topology::direct: return "direct";
  }
  return "ring";
}

std::string_view unit_name(ComputeUnit unit) { return unit == ComputeUnit::matrix ? "matrix" : "vector"; }

const Peak* Machine::find_peak(ComputeUnit unit, DType dtype) const {
  for (const Peak& p : peaks)
    if (p.unit == unit && p.dtype == dtype) return &p;
  return nullptr;
}

Result<const Peak*> Machine::contraction_peak(DType dtype) const {
  for (const ComputeUnit unit : {ComputeUnit::matrix, ComputeUnit::vector})
    if (const Peak* found = find_peak(unit, dtype)) return found;
  const ComputeUnit unit = dtype == DType::f32 ? ComputeUnit::vector : ComputeUnit::matrix;
  std::string matrix;
  for (const Peak& p : peaks)
    if (p.unit == ComputeUnit::matrix) matrix += (matrix.empty() ? "" : ", ") + std::string(ridge::dtype_name(p.dtype));
  if (find_peak(ComputeUnit::vector, DType::f32)) matrix += (matrix.empty() ? "" : ", ") + std::string("f32");
  return input_error(fmt::format("machine '{}' has no {} peak for {}; expected one of {}", name, ridge::unit_name(unit),
                                 ridge::dtype_name(dtype), matrix.empty() ? "(none is known)" : matrix),
                     fmt::format("choose a dtype or a machine that has one, or add {} under [{}] in a machine file",
                                 ridge::dtype_name(dtype), ridge::unit_name(unit)));
}

Result<ByteRate> Machine::memory_bandwidth() const {
  if (memory.empty())
    return input_error(fmt::format("machine '{}' has no memory", name), "add bandwidth under [memory.dram]");
  if (!memory.front().bandwidth)
    return input_error(fmt::format("machine '{}' has no bandwidth for its memory '{}'", name, memory.front().name),
                       fmt::format("add bandwidth under [memory.{}]", memory.front().name));
  return ByteRate{memory.front().bandwidth->value};
}

Machine limit_to_threads(Machine machine, int threads) {
  bool scaled = false, unknown = false;
  const auto limit = [&](SourcedValue& all, const std::optional<SourcedValue>& one) {
    if (!one) {
      unknown = true;
      return;
    }
    const double value = threads * one->value;
    if (value >= all.value) return;
    scaled = true;
    all = *one;
    all.value = value;
    if (threads > 1) all.source = fmt::format("{} x one core: {}", threads, one->source);
  };
  for (Peak& peak : machine.peaks) limit(peak.rate, peak.one_core);
  for (MemoryLevel& level : machine.memory)
    if (level.bandwidth) limit(*level.bandwidth, level.one_core_bandwidth);
  const auto cores = machine.numbers.find("cores");
  if (cores != machine.numbers.end() && threads >= cores->second.value)
    unknown = false;  // with a thread for each core the rates of all cores apply
  const std::string thread_text = threads == 1 ? "one core" : fmt::format("{} threads", threads);
  if (unknown)
    machine.title += fmt::format(", {}; numbers without a single-core value are those of all cores", thread_text);
  else if (scaled)
    machine.title += ", " + thread_text;
  return machine;
}

Machine with_sustained_rates(Machine machine) {
  bool replaced = false;
  const auto replace_rate = [&](SourcedValue& rate, const std::optional<SourcedValue>& sustained) {
    if (!sustained) return;
    rate = *sustained;
    replaced = true;
  };
  for (Peak& peak : machine.peaks) replace_rate(peak.rate, peak.sustained);
  for (MemoryLevel& level : machine.memory)
    if (level.bandwidth) replace_rate(*level.bandwidth, level.sustained);
  for (Link& link : machine.links) replace_rate(link.bandwidth, link.sustained);
  machine.title += replaced ? ", sustained rates" : ", no sustained rates known";
  return machine;
}

static SourcedValue rate_from_option(double rate) {
  SourcedValue out;
  out.value = rate;
  out.source = "--link";
  return out;
}

static std::optional<double> parse_bytes_per_s(const std::string& text) {
  double rate = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, rate);
  const bool read = status == std::errc{} && rest == end && rate >= 1e-30 && rate <= 1e30;
  return read ? std::optional(rate) : std::nullopt;
}

// Drops the times of a library's collectives, which were measured on another link.
static void forget_library_times(Machine& machine) {
  std::erase_if(machine.numbers, [](const auto& number) { return number.first.starts_with("collective_"); });
}

Result<Machine> with_link(Machine machine, const LinkChoice& link) {
  std::string found;
  if (const ByteRate* rate = std::get_if<ByteRate>(&link)) {
    if (rate->value >= 1e-30 && rate->value <= 1e30) {
      machine.links.insert(machine.links.begin(), {.name = "link", .bandwidth = rate_from_option(rate->value)});
      forget_library_times(machine);
      return machine;
    }
    found = fmt::format("{}", rate->value);
  } else {
    found = std::get<std::string>(link);
    const std::size_t equals = found.find('=');
    const auto stated = equals == std::string::npos ? std::nullopt : parse_bytes_per_s(found.substr(equals + 1));
    const auto named = std::find_if(machine.links.begin(), machine.links.end(),
                                    [&](const Link& l) { return l.name == found.substr(0, equals); });
    if (named != machine.links.end() && (stated || equals == std::string::npos)) {
      if (stated || named != machine.links.begin()) forget_library_times(machine);
      if (stated) named->bandwidth = rate_from_option(*stated);
      std::rotate(machine.links.begin(), named, named + 1);
      return machine;
    }
  }
  std::string names;
  for (const Link& each : machine.links) names += (names.empty() ? "" : ", ") + each.name;
  return usage_error(
      fmt::format("expected a rate in B/s, one way, or a link of {} after --link, found '{}'", machine.name, found),
      names.empty() ? "--link 4.5e10" : fmt::format("it has {}", names));
}

}  // namespace ridge
