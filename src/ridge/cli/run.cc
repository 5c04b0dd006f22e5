// ridge run: runs a program on this CPU, a CUDA device or several ranks.
#include <fmt/format.h>

#include <charconv>
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/compare.h"
#include "ridge/report/timeline.h"

namespace ridge::cli {
namespace {

// Parses options of the form "x=a.npy".
Status parse_file_options(const std::vector<std::string>& given, std::string_view option,
                          std::map<std::string, std::string>& files) {
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return usage_error(fmt::format("expected TENSOR=FILE.npy after {}, found '{}'", option, text),
                         fmt::format("{} x=a.npy", option));
    const std::string tensor = text.substr(0, equals), file = text.substr(equals + 1);
    if (const auto [entry, is_new] = files.emplace(tensor, file); !is_new)
      return usage_error(
          fmt::format("tensor '{}' is given twice after {}, as '{}' and as '{}'", tensor, option, entry->second, file),
          "give each tensor once");
    const auto other =
        std::ranges::find_if(files, [&](const auto& entry) { return entry.first != tensor && entry.second == file; });
    if (option == "--out" && other != files.end())
      return usage_error(
          fmt::format("file '{}' is given twice after {}, for '{}' and for '{}'", file, option, other->first, tensor),
          "write each tensor into its own file");
  }
  return Done{};
}

Status parse_seed(const std::string& text, std::uint64_t& seed) {
  const char* const stop = text.data() + text.size();
  const auto [end, failed] = std::from_chars(text.data(), stop, seed);
  if (failed == std::errc() && end == stop) return Done{};
  return usage_error(fmt::format("expected a whole number from 0 to 2^64 - 1 after --seed, found '{}'", text),
                     "--seed 1");
}

// Parses "2s", "500ms" or "2" (seconds).
Status parse_duration(const std::string& text, std::string_view option, double& seconds) {
  if (text.empty()) return Done{};
  const char* const stop = text.data() + text.size();
  const auto [end, failed] = std::from_chars(text.data(), stop, seconds);
  const std::string unit(end, stop);
  if (failed == std::errc() && (unit.empty() || unit == "s" || unit == "ms")) {
    if (unit == "ms") seconds /= 1000;
    if (seconds > 0 && seconds <= 3600) return Done{};
  }
  return usage_error(fmt::format("expected a time above 0 and at most an hour after {}, found '{}'", option, text),
                     fmt::format("{0} 2s, {0} 500ms", option));
}

Result<int> run_paired_programs(const RunArgs& args, const Request& request) {
  RIDGE_TRY_STATUS(check_combined_options(
      *args.verb, "--against", "-d --dtype --seed --threads --runs --time --no-fuse --json --csv --md --html"));
  RIDGE_TRY(both, api::run_alternating(request, args.against, args.run_request));
  end_progress();
  Request second = request;
  second.program = args.against;
  RIDGE_TRY_STATUS(write_page(args.output.html, [&] {
    return api::make_page({{request, both.first}, {second, both.second}});
  }));
  int code = 0;
  if (args.output.json)
    code = print_result(render_alternating_runs_json(both.first, both.second, both.ratio));
  else if (args.output.csv || args.output.md)
    code = print_result(alternating_runs_table(both.first, both.second, number_style(args.output)),
                        alternating_runs_right_aligned, args.output);
  else
    code = print_result(render_alternating_runs_text(both.first, both.second, both.ratio, text_style()));
  for (const Report* report : {&both.first, &both.second})
    if (code == 0 && report->measured->mismatch) return *report->measured->mismatch;
  return code;
}

Result<int> run_ranks(RunArgs& args, const Request& request) {
  args.ranks.on_abort = [](const Error& error) { (void)print_error(error); };
  if (!args.output.html.empty())
    return usage_error("expected --html without --ranks and --mesh: the page shows runs of one process");
  const auto code = api::run_on_ranks(request, args.run_request, args.ranks, [&](const Report& report) {
    const Timeline& timeline = report.measured->ranks->timeline;
    const Status drawn = write_if_requested(args.trace, [&] { return chrome_trace(timeline, report.title); });
    return drawn ? print_report(report, args.output, request) : print_error(drawn.error());
  });
  return code;
}

}  // namespace

Result<int> run_program(RunArgs& args) {
  RIDGE_TRY_STATUS(read_positionals(args.request_args, "run"));
  RIDGE_TRY_STATUS(parse_file_options(args.in, "--in", args.run_request.in));
  RIDGE_TRY_STATUS(parse_file_options(args.out, "--out", args.run_request.out));
  RIDGE_TRY_STATUS(parse_seed(args.seed, args.run_request.seed));
  if (args.is_tune_given && run_target_of(args.request_args.on) != RunTarget::cuda)
    return usage_error(
        "expected --tune together with --on cuda: it measures plans of matrix products on a CUDA device");
  if (args.is_tune_given)
    args.run_request.tuning = {args.tune > 0 ? Tuning::From::measured : Tuning::From::model, args.tune};
  args.run_request.progress = progress_bar();
  RIDGE_TRY_STATUS(parse_duration(args.time, "--time", args.run_request.seconds));
  RIDGE_TRY_STATUS(parse_duration(args.timeout, "--patience", args.ranks.timeout_s));
  if (args.run_request.passes > 0 && args.run_request.seconds > 0)
    return usage_error("expected either --runs or --time, found both");
  RIDGE_TRY(request, to_request(args.request_args));
  if (!args.against.empty()) return run_paired_programs(args, request);
  // A sharded program runs on ranks without further options. The standard input cannot be read twice.
  RIDGE_TRY(sharded, request.program == "-" ? Result<bool>(false) : api::is_sharded(request));
  const bool needs_ranks = sharded || args.ranks.is_requested() || api::count_launched_ranks() > 1;
  if (!needs_ranks)
    RIDGE_TRY_STATUS(check_required_option(*args.verb, "--trace --patience --spread --in-turn", "--ranks"));
  if (needs_ranks) return run_ranks(args, request);
  RIDGE_TRY(report, api::run(request, args.run_request));
  return print_report(report, args.output, request);
}

}  // namespace ridge::cli
