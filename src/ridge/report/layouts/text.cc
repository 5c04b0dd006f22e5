// Layouts as text: the best one in the first line, a table of others, and what was left out.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/language_model/answer_texts.h"
#include "ridge/report/layouts/layouts.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

constexpr std::size_t max_best_rows = 10;

bool is_decoding(const LayoutReport& report) { return report.request.phase == ModelPhase::decode; }

// Returns the layouts of all machines. They are sorted by the ranking's aim if all layouts are listed.
std::vector<LayoutTimes> collect_layouts(const LayoutReport& report,
                                         std::vector<LayoutTimes> LayoutRanking::*list = &LayoutRanking::layouts) {
  std::vector<LayoutTimes> out;
  for (const LayoutRanking& ranking : report.rankings)
    out.insert(out.end(), (ranking.*list).begin(), (ranking.*list).end());
  if (report.request.selection != LayoutSelection::all || report.rankings.size() == 1) return out;
  std::stable_sort(out.begin(), out.end(), [&](const LayoutTimes& a, const LayoutTimes& b) {
    return is_decoding(report) ? a.tokens_per_s_per_chip() > b.tokens_per_s_per_chip() : a.step_s() < b.step_s();
  });
  return out;
}

template <class Value> const LayoutTimes& find_largest(const std::vector<LayoutTimes>& layouts, Value&& value) {
  return *std::max_element(layouts.begin(), layouts.end(),
                           [&](const LayoutTimes& a, const LayoutTimes& b) { return value(a) < value(b); });
}

double count_tokens_per_s(const LayoutTimes& x) { return 1 / x.token_s; }
double count_chip_tokens_per_s(const LayoutTimes& x) { return x.tokens_per_s_per_chip(); }

// "16 x h200 (2 hosts)"
std::string chips_with_hosts(const LayoutTimes& x) { return chips_text(x.machine, x.layout.chips(), x.hosts); }

// Returns why no layout is listed.
std::string absence_line(const LayoutReport& report) {
  const std::string tokens = count_text(*report.request.counts.context, "token");
  const std::vector<LayoutTimes> slow = collect_layouts(report, &LayoutRanking::slow);
  if (!slow.empty()) {
    const LayoutTimes& x = find_largest(slow, count_tokens_per_s);
    return fmt::format("{}: no layout reaches {} tokens/s a sequence of {}; {} on {} comes closest with {}",
                       report.count.name, rate_text(*report.request.rate, 4), tokens, describe_layout(x.layout),
                       chips_with_hosts(x), rate_text(1 / x.token_s));
  }
  const std::vector<LayoutTimes> unfit = collect_layouts(report, &LayoutRanking::unfit);
  const LayoutTimes& x = find_largest(unfit, [](const LayoutTimes& each) { return -each.memory_bytes; });
  return fmt::format("{}: no layout fits with {} of {}; {} on {} needs the least memory, {} a chip", report.count.name,
                     count_text(x.batch, "sequence"), tokens, describe_layout(x.layout), chips_with_hosts(x),
                     format_with_prefix(x.memory_bytes, "B"));
}

// "a token of each of 64 sequences takes 9.1 ms at least, 440 tokens/s a chip"
std::string result_text(const LayoutReport& report, const LayoutTimes& x) {
  const std::string tokens = count_text(x.context, "token"), sequences = count_text(x.batch, "sequence");
  const std::string chip_rate = rate_text(x.tokens_per_s_per_chip()) + " tokens/s a chip";
  if (!is_decoding(report))
    return fmt::format("prefill of {} of {} takes {} at least, {}", sequences, tokens,
                       format_with_prefix(x.step_s(), "s"), chip_rate);
  if (report.request.rate)
    return fmt::format("at most {} with {} tokens/s a sequence ({} of {})", chip_rate,
                       rate_text(*report.request.rate, 4), sequences, tokens);
  return fmt::format("a token of {}{} of {} takes {} at least, {}", x.batch == 1 ? "" : "each of ", sequences, tokens,
                     format_with_prefix(x.step_s(), "s"), chip_rate);
}

std::string best_line(const LayoutReport& report, const std::vector<LayoutTimes>& layouts) {
  std::size_t predicted = 0;
  for (const LayoutRanking& x : report.rankings) predicted += x.layouts.size() + x.unfit.size() + x.slow.size();
  const LayoutTimes& best = layouts.front();
  return fmt::format("{} on {}: {} is the best of {}: {}", report.count.name, chips_with_hosts(best),
                     describe_layout(best.layout), count_text(static_cast<std::int64_t>(predicted), "layout"),
                     result_text(report, best));
}

// Returns the layouts with the most tokens per second of a sequence and of a chip, or the fastest prefill.
std::string extremes_line(const LayoutReport& report, const std::vector<LayoutTimes>& layouts) {
  const auto of = [](const LayoutTimes& x) { return describe_chips(x) + ", " + describe_layout(x.layout); };
  const auto [fewest, most] = std::minmax_element(report.request.chips.begin(), report.request.chips.end());
  const std::string range =
      *fewest == *most ? count_text(*most, "chip") : fmt::format("{} to {}", *fewest, count_text(*most, "chip"));
  if (!is_decoding(report)) {
    const LayoutTimes& fastest = find_largest(layouts, [](const LayoutTimes& x) { return -x.step_s(); });
    return fmt::format("{} on {}: {} ({})", report.count.name, range, result_text(report, fastest), of(fastest));
  }
  const LayoutTimes& cheapest = find_largest(layouts, count_chip_tokens_per_s);
  if (report.request.rate)
    return fmt::format("{} on {}: {} on {}", report.count.name, range, result_text(report, cheapest), of(cheapest));
  const LayoutTimes& fastest = find_largest(layouts, count_tokens_per_s);
  const std::string sequences = report.request.selection == LayoutSelection::pareto_front
                                    ? "sequences"
                                    : count_text(report.request.counts.batch, "sequence");
  return fmt::format("{}, {} of {} on {}: at most {} tokens/s a sequence ({}) and {} a chip ({})", report.count.name,
                     sequences, count_text(*report.request.counts.context, "token"), range,
                     rate_text(1 / fastest.token_s), of(fastest), rate_text(cheapest.tokens_per_s_per_chip()),
                     of(cheapest));
}

std::string layouts_table(const LayoutReport& report, const std::vector<LayoutTimes>& layouts, std::size_t rows,
                          const TextStyle& style) {
  const bool has_machines = report.rankings.size() > 1, is_decode = is_decoding(report);
  const bool has_experts = report.count.active_parameters != report.count.parameters;
  const bool has_batches = report.request.rate || report.request.selection == LayoutSelection::pareto_front;
  const bool has_hosts = std::any_of(layouts.begin(), layouts.end(),
                                     [&](const LayoutTimes& x) { return x.hosts != layouts.front().hosts; });
  Cells cells{{}};
  std::vector<bool> right;
  const auto add_column = [&](bool is_shown, const std::string& header, auto&& cell) {
    if (!is_shown) return;
    cells[0].push_back(header);
    right.push_back(header != "machine");
    for (std::size_t i = 0; i < rows; ++i) {
      if (cells.size() == i + 1) cells.emplace_back();
      cells[i + 1].push_back(cell(layouts[i]));
    }
  };
  using Times = LayoutTimes;
  add_column(has_machines, "machine", [](const Times& x) { return x.machine; });
  add_column(true, "chips", [](const Times& x) { return group_digits(x.layout.chips()); });
  add_column(has_hosts, "hosts", [](const Times& x) { return or_dash(x.hosts); });
  add_column(true, "tp", [](const Times& x) { return group_digits(x.layout.tensor); });
  add_column(true, "pp", [](const Times& x) { return group_digits(x.layout.pipeline); });
  add_column(true, "dp", [](const Times& x) { return group_digits(x.layout.data); });
  add_column(has_experts, "ep", [](const Times& x) { return group_digits(x.layout.expert); });
  add_column(has_batches, "sequences", [](const Times& x) { return group_digits(x.batch); });
  add_column(is_decode, "tokens/s a sequence", [](const Times& x) { return rate_text(1 / x.token_s); });
  add_column(true, "tokens/s a chip", [](const Times& x) { return rate_text(x.tokens_per_s_per_chip()); });
  add_column(is_decode, "a token, at least", [](const Times& x) { return format_with_prefix(x.token_s, "s"); });
  add_column(true, is_decode ? "first token, at least" : "prefill, at least",
             [](const Times& x) { return x.first_token_s ? format_with_prefix(*x.first_token_s, "s") : "-"; });
  add_column(true, "network", [](const Times& x) { return format_percent(x.network_share); });
  add_column(true, "memory a chip", [](const Times& x) { return format_with_prefix(x.memory_bytes, "B"); });
  return text_table(
      cells, {.right = right, .omit_first = {"hosts", "a token, at least", "memory a chip", "first token, at least"}},
      style);
}

// Returns sentences about layouts that are not in the table.
std::vector<std::string> list_omissions(const LayoutReport& report, std::size_t listed, std::size_t shown) {
  std::vector<std::string> out;
  if (shown < listed) out.push_back(fmt::format("the best {} of {} layouts; --json and --csv have all", shown, listed));
  if (report.request.selection == LayoutSelection::pareto_front)
    out.emplace_back("no other layout and batch of the same machine gives more tokens/s a sequence and more a chip");
  for (const LayoutRanking& x : report.rankings) {
    if (!x.unavailable.empty()) out.push_back(x.unavailable);
    if (!x.unfit.empty()) {
      const LayoutTimes& least = find_largest(x.unfit, [](const LayoutTimes& each) { return -each.memory_bytes; });
      out.push_back(fmt::format("{}: {} do{} not fit in {}; of these, {} needs the least, {}", x.machine,
                                count_text(std::ssize(x.unfit), "layout"), x.unfit.size() == 1 ? "es" : "",
                                format_with_prefix(x.capacity_bytes.value_or(0), "B"), describe_layout(least.layout),
                                format_with_prefix(least.memory_bytes, "B")));
    }
    if (!x.slow.empty())
      out.push_back(fmt::format("{}: {} {} too slow with one sequence per data rank", x.machine,
                                count_text(std::ssize(x.slow), "layout"), x.slow.size() == 1 ? "is" : "are"));
    if (x.without_link > 0)
      out.push_back(
          fmt::format("{}: no numbers for {}: {}", x.machine, count_text(x.without_link, "layout"), x.link_error));
    if (!x.capacity_bytes && x.unavailable.empty())
      out.push_back(fmt::format("{}: the capacity of its memory is not on record, so all layouts count as if they fit",
                                x.machine));
    if (!x.not_on_record.empty()) out.push_back(not_on_record_text(x.machine, x.not_on_record));
  }
  return out;
}

}  // namespace

std::string describe_layout(const model::ChipLayout& layout) {
  std::string out;
  for (const auto& [option, ranks] :
       {std::pair("--tp", layout.tensor), {"--pp", layout.pipeline}, {"--dp", layout.data}, {"--ep", layout.expert}})
    if (ranks > 1) out += fmt::format("{}{} {}", out.empty() ? "" : " ", option, ranks);
  return out.empty() ? "--tp 1" : out;
}

std::string describe_chips(const LayoutTimes& layout) { return chips_text(layout.machine, layout.layout.chips()); }

std::string render_text(const LayoutReport& report, const TextStyle& style) {
  const std::vector<LayoutTimes> layouts = collect_layouts(report);
  const bool is_ranking = report.request.selection == LayoutSelection::all;
  std::string out;
  const auto add_line = [&](const std::string& line) { out += wrap_words(line, style.line_width, 2) + "\n"; };
  if (layouts.empty())
    add_line(absence_line(report));
  else
    add_line(is_ranking ? best_line(report, layouts) : extremes_line(report, layouts));
  const std::size_t shown = is_ranking ? std::min(layouts.size(), max_best_rows) : layouts.size();
  if (shown > 0) out += layouts_table(report, layouts, shown, style);
  for (const std::string& line : list_omissions(report, layouts.size(), shown)) add_line(line);
  return out;
}

}  // namespace ridge
