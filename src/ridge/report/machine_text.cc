// A machine's numbers with their sources, as text: all of them, or those that a report uses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ridge/machine/keys.h"
#include "ridge/machine/pod.h"
#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

// Visibility of the notes of numbers in a row.
enum class Notes { hidden, shown };

std::vector<std::string> source_row(const std::string& what, double value, std::string_view unit,
                                    const SourcedValue& from, Notes notes = Notes::shown) {
  std::string source = std::string(origin_name(from.origin));
  if (!from.source.empty()) source += ": " + from.source;
  if (!from.read_on.empty()) source += ", " + from.read_on;
  if (notes == Notes::shown && !from.note.empty()) source += fmt::format(" ({})", from.note);
  return {what, format_with_prefix(value, unit), source};
}

void add_peaks(TextRows& rows, const std::vector<const Peak*>& peaks, bool all) {
  for (const Peak* peak : peaks) {
    const char* unit = dtype_info(peak->dtype).is_integer ? "OP/s" : "FLOP/s";
    rows.push_back(source_row(fmt::format("{} {}", unit_name(peak->unit), dtype_name(peak->dtype)), peak->rate.value,
                              unit, peak->rate, all ? Notes::shown : Notes::hidden));
    if (all && peak->sustained)
      rows.push_back(source_row("  sustained", peak->sustained->value, unit, *peak->sustained));
  }
}

// Returns the note for a machine with guessed numbers.
std::string guessed_note(const Machine& machine) {
  switch (run_target_of(machine.name)) {
    case RunTarget::cpu: return "guessed, not measured: `ridge probe` measures this machine";
    case RunTarget::cuda: return "guessed, not measured: `ridge probe --on cuda` measures this machine";
    case RunTarget::prediction_only: break;
  }
  return "guessed: at least one number above has no source";
}

// "pod of 256 chips", "50.43 PFLOP/s", "matrix bf16; 4.096 TB of hbm; 209.7 TB/s bandwidth; 256 cores; 32 hosts"
std::vector<std::string> chips_row(const ChipGroup& chips) {
  std::vector<std::string> parts;
  if (chips.peak) parts.push_back(fmt::format("{} {}", unit_name(chips.peak->unit), dtype_name(chips.peak->dtype)));
  if (chips.memory && chips.memory->capacity)
    parts.push_back(
        fmt::format("{} of {}", format_with_prefix(chips.memory->capacity->value, "B"), chips.memory->name));
  if (chips.memory && chips.memory->bandwidth)
    parts.push_back(fmt::format("{} bandwidth", format_with_prefix(chips.memory->bandwidth->value, "B/s")));
  if (chips.cores) parts.push_back(fmt::format("{} cores", group_digits(static_cast<long long>(*chips.cores))));
  if (chips.hosts && *chips.hosts > 1)
    parts.push_back(fmt::format("{} hosts", group_digits(static_cast<long long>(*chips.hosts))));
  const std::string unit = chips.peak && dtype_info(chips.peak->dtype).is_integer ? "OP/s" : "FLOP/s";
  return {fmt::format("{} of {} chips", chips.name, group_digits(static_cast<long long>(chips.chips))),
          chips.peak ? format_with_prefix(chips.peak->rate.value, unit) : "-",
          fmt::format("{}", fmt::join(parts, "; "))};
}

// Adds what all cores and all links of a chip have together.
void add_totals(TextRows& rows, const Machine& machine) {
  if (const auto lanes = total_of_cores(machine, "lanes"))
    rows.push_back({"lanes of all cores", group_digits(static_cast<long long>(*lanes)), ""});
  for (const auto& [key, name] : {std::pair{"scratch_bytes", "scratch"}, std::pair{"register_bytes", "registers"}})
    if (const auto bytes = total_of_cores(machine, key))
      rows.push_back({fmt::format("{} of all cores", name), format_with_prefix(*bytes, "B"), ""});
  for (const Link& link : machine.links)
    if (link.count && link.count->value > 1)
      rows.push_back({fmt::format("all {} links, one way", link.name),
                      format_with_prefix(link.count->value * link.bandwidth.value, "B/s"), ""});
}

}  // namespace

std::string sources_text(const Explanation& e, const TextStyler& styled, bool all) {
  TextRows rows;
  const std::vector<const Peak*> peaks = used_peaks(e);
  add_peaks(rows, peaks, all);
  if (!e.machine.memory.empty() && e.machine.memory.front().bandwidth) {
    const MemoryLevel& level = e.machine.memory.front();
    rows.push_back(source_row(level.name, level.bandwidth->value, "B/s", *level.bandwidth, Notes::hidden));
  }
  if (e.total.link_rate && !e.machine.links.empty()) {
    const Link& link = e.machine.links.front();
    rows.push_back(source_row(link.name, link.bandwidth.value, "B/s", link.bandwidth, Notes::hidden));
  }
  std::string out = "\n" + styled.format_rows(rows, {false, true, false}, {"name", "value", "source"});
  if (least_certain_origin(e.machine, peaks) == Origin::guessed)
    out += styled.highlight_warning(guessed_note(e.machine)) + "\n";
  return out;
}

std::string render_machine_text(const Machine& machine, const TextStyle& style) {
  const TextStyler styled(style);
  std::vector<const Peak*> peaks;
  for (const Peak& peak : machine.peaks) peaks.push_back(&peak);
  TextRows rows;
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
    if (link.topology) rows.push_back({link.name + " topology", std::string(ridge::topology_name(*link.topology)), ""});
    if (link.latency) rows.push_back(source_row(link.name + " latency", link.latency->value, "s", *link.latency));
  }
  for (const auto& [key, number] : machine.numbers) {
    const std::string_view unit = unit_of_key(key);
    rows.push_back(source_row(key, number.value, unit, number));
    if (unit == "1") rows.back()[1] = fmt::format("{}", number.value);
  }
  add_totals(rows, machine);
  for (const ChipGroup& chips : list_chip_groups(machine)) rows.push_back(chips_row(chips));
  return styled.bold(machine.name) + "  " + machine.title + "\n" +
         styled.format_rows(rows, {false, true, false}, {"name", "value", "source"});
}

}  // namespace ridge
