// A machine's numbers as text: all of them, or those that a report stands on, each with its source.
#include <fmt/format.h>

#include "ridge/machine/keys.h"
#include "ridge/report/used.h"
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
  return styled.bold(machine.name) + "  " + machine.title + "\n" + aligned(rows, {false, true, false});
}

}  // namespace ridge
