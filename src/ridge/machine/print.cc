// Prints machines for `parse_machine`, which reads back an equal machine with identical bits of every number.
#include <fmt/format.h>

#include <span>

#include "ridge/machine/keys.h"
#include "ridge/machine/machine.h"

namespace ridge {
namespace {

std::string quote_toml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out + '"';
}

std::string format_number_line(std::string_view key, const SourcedValue& number, std::string_view unit) {
  std::string out = fmt::format("{} = {{ value = {}, unit = \"{}\", source = {}, read = {}", key, number.value, unit,
                                quote_toml(number.source), number.read_on);
  if (number.origin != Origin::datasheet) out += fmt::format(", origin = \"{}\"", origin_name(number.origin));
  if (!number.note.empty()) out += ", note = " + quote_toml(number.note);
  return out + " }\n";
}

std::string print_peaks(const Machine& machine, ComputeUnit unit) {
  std::string all, one_core, sustained;
  for (const Peak& peak : machine.peaks) {
    if (peak.unit != unit) continue;
    const std::string_view rate = rate_unit(dtype_info(peak.dtype).is_integer);
    all += format_number_line(dtype_name(peak.dtype), peak.rate, rate);
    if (peak.one_core) one_core += format_number_line(dtype_name(peak.dtype), *peak.one_core, rate);
    if (peak.sustained) sustained += format_number_line(dtype_name(peak.dtype), *peak.sustained, rate);
  }
  std::string out;
  if (!all.empty()) out += fmt::format("\n[{}]\n{}", unit_name(unit), all);
  if (!one_core.empty()) out += fmt::format("\n[{}.one_core]\n{}", unit_name(unit), one_core);
  if (!sustained.empty()) out += fmt::format("\n[{}.sustained]\n{}", unit_name(unit), sustained);
  return out;
}

std::string print_level(const MemoryLevel& memory) {
  std::string out = fmt::format("\n[memory.{}]\n", memory.name);
  if (memory.bandwidth) out += format_number_line("bandwidth", *memory.bandwidth, "B/s");
  if (memory.capacity) out += format_number_line("capacity", *memory.capacity, "B");
  const auto part = [&](std::string_view which, const std::optional<SourcedValue>& bandwidth) {
    if (bandwidth)
      out +=
          fmt::format("\n[memory.{}.{}]\n{}", memory.name, which, format_number_line("bandwidth", *bandwidth, "B/s"));
  };
  part("one_core", memory.one_core_bandwidth);
  part("sustained", memory.sustained);
  return out;
}

std::string print_link(const Link& link) {
  std::string out = fmt::format("\n[link.{}]\n{}", link.name, format_number_line("bandwidth", link.bandwidth, "B/s"));
  if (link.count) out += format_number_line("count", *link.count, "1");
  if (link.latency) out += format_number_line("latency", *link.latency, "s");
  if (link.topology) out += fmt::format("topology = {}\n", quote_toml(topology_name(*link.topology)));
  if (link.sustained)
    out += fmt::format("\n[link.{}.sustained]\n{}", link.name, format_number_line("bandwidth", *link.sustained, "B/s"));
  return out;
}

std::string print_numbers(std::string_view name, std::span<const NumberKey> keys,
                          const std::map<std::string, SourcedValue>& numbers) {
  if (numbers.empty()) return "";
  std::string out = fmt::format("\n[{}]\n", name);
  for (const NumberKey& known : keys)
    if (const auto found = numbers.find(std::string(known.key)); found != numbers.end())
      out += format_number_line(known.key, found->second, known.unit);
  return out;
}

}  // namespace

std::string print_machine(const Machine& machine) {
  std::string out = fmt::format("name = {}\ntitle = {}\n", quote_toml(machine.name), quote_toml(machine.title));
  if (!machine.kernels.empty()) out += fmt::format("kernels = {}\n", quote_toml(machine.kernels));
  out += print_peaks(machine, ComputeUnit::matrix) + print_peaks(machine, ComputeUnit::vector);
  for (const MemoryLevel& memory : machine.memory) out += print_level(memory);
  for (const Link& link : machine.links) out += print_link(link);
  return out + print_numbers("numbers", number_keys, machine.numbers) +
         print_numbers("plan", plan_keys, machine.plan_numbers);
}

}  // namespace ridge
