// Writes what parse_machine reads: parse(print(machine)) is the machine again, to the last bit of every number.
#include <fmt/format.h>

#include <span>

#include "ridge/machine/keys.h"
#include "ridge/machine/machine.h"

namespace ridge {
namespace {

std::string quoted(std::string_view text) {
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

std::string line(std::string_view key, const Sourced& number, std::string_view unit) {
  std::string out = fmt::format("{} = {{ value = {}, unit = \"{}\", source = {}, read = {}", key, number.value, unit,
                                quoted(number.source), number.read_on);
  if (number.origin != Origin::datasheet) out += fmt::format(", origin = \"{}\"", name(number.origin));
  if (!number.note.empty()) out += ", note = " + quoted(number.note);
  return out + " }\n";
}

std::string peaks(const Machine& machine, Unit unit) {
  std::string all, one_core, sustained;
  for (const Peak& peak : machine.peaks) {
    if (peak.unit != unit) continue;
    const std::string_view rate = rate_unit(info(peak.dtype).integer);
    all += line(name(peak.dtype), peak.rate, rate);
    if (peak.one_core) one_core += line(name(peak.dtype), *peak.one_core, rate);
    if (peak.sustained) sustained += line(name(peak.dtype), *peak.sustained, rate);
  }
  std::string out;
  if (!all.empty()) out += fmt::format("\n[{}]\n{}", name(unit), all);
  if (!one_core.empty()) out += fmt::format("\n[{}.one_core]\n{}", name(unit), one_core);
  if (!sustained.empty()) out += fmt::format("\n[{}.sustained]\n{}", name(unit), sustained);
  return out;
}

std::string level(const MemoryLevel& memory) {
  std::string out = fmt::format("\n[memory.{}]\n", memory.name);
  if (memory.bandwidth) out += line("bandwidth", *memory.bandwidth, "B/s");
  if (memory.capacity) out += line("capacity", *memory.capacity, "B");
  const auto part = [&](std::string_view which, const std::optional<Sourced>& bandwidth) {
    if (bandwidth) out += fmt::format("\n[memory.{}.{}]\n{}", memory.name, which, line("bandwidth", *bandwidth, "B/s"));
  };
  part("one_core", memory.one_core_bandwidth);
  part("sustained", memory.sustained);
  return out;
}

std::string printed(const Link& link) {
  std::string out = fmt::format("\n[link.{}]\n{}", link.name, line("bandwidth", link.bandwidth, "B/s"));
  if (link.count) out += line("count", *link.count, "1");
  if (link.latency) out += line("latency", *link.latency, "s");
  if (link.topology) out += fmt::format("topology = {}\n", quoted(name(*link.topology)));
  if (link.sustained)
    out += fmt::format("\n[link.{}.sustained]\n{}", link.name, line("bandwidth", *link.sustained, "B/s"));
  return out;
}

std::string table(std::string_view name, std::span<const NumberKey> keys,
                  const std::map<std::string, Sourced>& numbers) {
  if (numbers.empty()) return "";
  std::string out = fmt::format("\n[{}]\n", name);
  for (const NumberKey& known : keys)
    if (const auto found = numbers.find(std::string(known.key)); found != numbers.end())
      out += line(known.key, found->second, known.unit);
  return out;
}

}  // namespace

std::string print_machine(const Machine& machine) {
  std::string out = fmt::format("name = {}\ntitle = {}\n", quoted(machine.name), quoted(machine.title));
  if (!machine.kernels.empty()) out += fmt::format("kernels = {}\n", quoted(machine.kernels));
  out += peaks(machine, Unit::matrix) + peaks(machine, Unit::vector);
  for (const MemoryLevel& memory : machine.memory) out += level(memory);
  for (const Link& link : machine.links) out += printed(link);
  return out + table("numbers", number_keys, machine.numbers) + table("plan", plan_keys, machine.plan);
}

}  // namespace ridge
