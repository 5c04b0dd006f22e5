#include "ridge/cli/model_layouts.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/cli/help.h"
#include "ridge/cli/model_training.h"
#include "ridge/cli/option_checks.h"
#include "ridge/program/ranges.h"
#include "ridge/report/layouts/layouts.h"

namespace ridge::cli {
namespace {

// True if the user says which batch the layouts have; without it, the search chooses.
bool chooses_batch(const CLI::App& verb) { return verb.count("--batch") > 0 || verb.count("--rate") > 0; }

}  // namespace

Result<std::vector<std::int64_t>> parse_chips(const std::string& text) {
  const auto range = parse_range("chips=" + text);
  if (!range || range->values.empty())
    return usage_error(fmt::format("expected --chips N, or a range of them, found '{}'", make_printable(text)),
                       "--chips 64, --chips 1..16 or --chips 8,16,32");
  return range->values;
}

bool is_chip_range(const std::string& text) {
  return text.find("..") != std::string::npos && text.find(':') == std::string::npos;
}

void add_layout_options(CLI::App& verb, LayoutArgs& args) {
  verb.add_option(
          "--chips", args.chips,
          "Number of chips, or several (64, 1..16 or 8,16): show throughput against latency of their layouts, or with "
          "--batch or --rate the best layout of each number (default: the layout that --tp, --pp, --ep and --dp "
          "give)")
      ->type_name("N");
  verb.add_flag(
      "--best", args.best,
      "With --chips: rank all layouts at --batch or --rate (default: the best layout of each number of chips)");
  verb.add_option("--svg", args.svg, "With --chips: plot throughput against latency into this file (default: no plot)")
      ->type_name("FILE")
      ->check(name_of("a file"));
}

Status check_layout_options(const CLI::App& verb, const LayoutArgs& args, const std::string& phase) {
  if (args.chips.empty()) return check_required_option(verb, "--best --svg", "--chips");
  if (phase == training_phase)
    return check_combined_options(verb, "--chips with --phase train",
                                  "--dtype --context --batch --on --phase --chips --best --recompute --zero "
                                  "--accumulate --json --csv --md");
  RIDGE_TRY_STATUS(check_combined_options(
      verb, "--chips", "--dtype --cache-dtype --context --batch --on --phase --rate --best --svg --json --csv --md"));
  const bool is_prefill = phase == name(ModelPhase::prefill);
  const bool has_batch = chooses_batch(verb) || args.best;
  if (is_prefill && verb.count("--rate") > 0)
    return usage_error("expected --chips and --rate without --phase prefill: the rate is that of decoding");
  if (is_prefill && !has_batch)
    return usage_error("expected --batch or --best together with --chips and --phase prefill, found none",
                       "without them, the search chooses batches of decoding");
  if (!args.svg.empty() && has_batch)
    return usage_error("expected --svg without --batch, --rate and --best",
                       "it plots throughput against latency, for which the search chooses batches");
  return Done{};
}

Result<int> print_layouts(const LayoutSubject& subject, LayoutRequest request, const LayoutArgs& args,
                          const OutputFormat& format) {
  RIDGE_TRY(chips, parse_chips(args.chips));
  request.chips = chips;
  request.is_chip_range = is_chip_range(args.chips);
  if (!args.best)
    request.selection =
        chooses_batch(subject.verb) ? LayoutSelection::best_of_each_count : LayoutSelection::pareto_front;
  const std::vector<std::string> machines = split_machines(subject.on);
  RIDGE_TRY(rankings, api::rank_layouts(subject.config, request, {machines.begin(), machines.end()}));
  const LayoutReport report{subject.count, request, rankings};
  RIDGE_TRY_STATUS(write_if_requested(args.svg, [&] { return render_svg(report); }));
  return print_result(format, render_text(report, text_style()), render_json(report), "layouts");
}

}  // namespace ridge::cli
