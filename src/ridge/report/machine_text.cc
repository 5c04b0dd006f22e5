// A machine's numbers as text: all of them, or those that a report stands on, each with its source.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ridge/machine/keys.h"
#include "ridge/machine/pod.h"
#include "ridge/report/parts/used.h"
#include "ridge/report/words.h"

namespace ridge {
namespace {

std::vector<std::string> source_row(const std::string& what, double value, std::string_view unit, const Sourced& from) {
  std::string source = std::string(name(from.origin));
  if (!from.source.empty()) source += ": " + from.source;
  if (!from.read_on.empty()) source += ", " + from.read_on;
  return {what, engineering(value, unit), source};
}

void add_peaks(Rows& rows, const std::vector<const Peak*>& peaks, bool all) {
  for (const Peak* peak : peaks) {
    const char* unit = info(peak->dtype).integer ? "OP/s" : "FLOP/s";
    rows.push_back(
        source_row(fmt::format("{} {}", name(peak->unit), name(peak->dtype)), peak->rate.value, unit, peak->rate));
    if (all && peak->sustained)
      rows.push_back(source_row("  sustained", peak->sustained->value, unit, *peak->sustained));
  }
}

// What a machine whose numbers are guessed is said to need.
std::string guessed_note(const Machine& machine) {
  switch (where(machine.name)) {
    case Where::cpu: return "guessed, not measured: `ridge probe` measures this machine";
    case Where::cuda: return "guessed, not measured: `ridge probe --on cuda` measures this machine";
    case Where::elsewhere: break;
  }
  return "guessed: nobody vouches for every number above";
}

// "pod of 256 chips", "50.43 PFLOP/s", "matrix bf16; 4.096 TB of hbm at 209.7 TB/s; 256 cores; 32 hosts"
std::vector<std::string> together_row(const Chips& chips) {
  std::vector<std::string> parts;
  if (chips.peak) parts.push_back(fmt::format("{} {}", name(chips.peak->unit), name(chips.peak->dtype)));
  if (chips.memory && chips.memory->capacity)
    parts.push_back(fmt::format("{} of {}", engineering(chips.memory->capacity->value, "B"), chips.memory->name));
  if (chips.memory && chips.memory->bandwidth)
    parts.push_back(fmt::format("{} to it", engineering(chips.memory->bandwidth->value, "B/s")));
  if (chips.cores) parts.push_back(fmt::format("{} cores", grouped(static_cast<long long>(*chips.cores))));
  if (chips.hosts && *chips.hosts > 1)
    parts.push_back(fmt::format("{} hosts", grouped(static_cast<long long>(*chips.hosts))));
  const std::string unit = chips.peak && info(chips.peak->dtype).integer ? "OP/s" : "FLOP/s";
  return {fmt::format("{} of {} chips", chips.what, grouped(static_cast<long long>(chips.chips))),
          chips.peak ? engineering(chips.peak->rate.value, unit) : "-", fmt::format("{}", fmt::join(parts, "; "))};
}

}  // namespace

std::string sources_text(const Explanation& e, const Styled& styled, bool all) {
  Rows rows;
  const std::vector<const Peak*> peaks = used_peaks(e);
  add_peaks(rows, peaks, all);
  if (!e.machine.memory.empty() && e.machine.memory.front().bandwidth) {
    const MemoryLevel& level = e.machine.memory.front();
    rows.push_back(source_row(level.name, level.bandwidth->value, "B/s", *level.bandwidth));
  }
  if (e.total.link && !e.machine.links.empty()) {
    const Link& link = e.machine.links.front();
    rows.push_back(source_row(link.name, link.bandwidth.value, "B/s", link.bandwidth));
  }
  std::string out = "\n" + aligned(rows, {false, true, false});
  if (weakest_origin(e.machine, peaks) == Origin::guessed) out += styled.warn(guessed_note(e.machine)) + "\n";
  return out;
}

std::string render_machine_text(const Machine& machine, const TextStyle& style) {
  const Styled styled(style);
  std::vector<const Peak*> peaks;
  for (const Peak& peak : machine.peaks) peaks.push_back(&peak);
  Rows rows;
  add_peaks(rows, peaks, true);
  for (const MemoryLevel& level : machine.memory) {
    if (level.bandwidth) rows.push_back(source_row(level.name, level.bandwidth->value, "B/s", *level.bandwidth));
    if (level.sustained)
      rows.push_back(source_row(level.name + " sustained", level.sustained->value, "B/s", *level.sustained));
    if (level.capacity) rows.push_back(source_row(level.name + " size", level.capacity->value, "B", *level.capacity));
  }
  for (const Link& link : machine.links) {
    const std::string each = link.count ? fmt::format("{} x {}", link.count->value, link.name) : link.name;
    rows.push_back(source_row(each, link.bandwidth.value, "B/s", link.bandwidth));
    if (link.sustained)
      rows.push_back(source_row(link.name + " sustained", link.sustained->value, "B/s", *link.sustained));
    if (link.topology) rows.push_back({link.name + " topology", std::string(ridge::name(*link.topology)), ""});
    if (link.latency) rows.push_back(source_row(link.name + " latency", link.latency->value, "s", *link.latency));
  }
  for (const auto& [key, number] : machine.numbers) {
    const std::string_view unit = unit_of(key);
    rows.push_back(source_row(key, number.value, unit, number));
    if (unit == "1") rows.back()[1] = fmt::format("{}", number.value);
  }
  if (const auto lanes = all_lanes(machine))
    rows.push_back({"lanes of all cores", grouped(static_cast<long long>(*lanes)), ""});
  for (const Chips& chips : chips_together(machine)) rows.push_back(together_row(chips));
  return styled.bold(machine.name) + "  " + machine.title + "\n" + aligned(rows, {false, true, false});
}

}  // namespace ridge
