#include <fmt/format.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/program/bindings.h"
#include "ridge/report/compare.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/small_reports.h"
#include "ridge/report/steps.h"

namespace ridge::cli {
namespace {

struct ExplainArgs {
  RequestArgs request_args;
  ReportOutput output;
  std::string table, against, claim, tile, crossover;
  bool steps = false, chain = false;
  std::optional<double> send;
  std::int64_t hops = 1;
  std::vector<std::string> costs;
  LinesRequest lines;
  std::vector<std::string> leading_dims;
  const CLI::App* verb = nullptr;
};

// Options that each mode of the verb accepts.
constexpr std::string_view program_options = "-d --dtype --on";
constexpr std::string_view count_options =
    "-d --dtype --on --split --link --memory --sustained --weights --narrow --fuse --layers --flops --bytes";

constexpr std::string_view bare_options =
    "--flops --bytes --on --dtype --memory --sustained --plan --steps --check --against --all --json --csv --md --svg "
    "--html --roofs";

std::string join_options(std::string_view first, std::string_view more) { return fmt::format("{} {}", first, more); }

Result<int> print_table_rows(const ExplainArgs& args) {
  const std::string supported =
      join_options("-d --dtype --on --split --link --memory --sustained --weights --narrow --fuse --layers",
                   "--plan --no-fuse --library --json");
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--table", supported));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(csv, read_file(args.table));
  RIDGE_TRY(rows, parse_table(csv, args.table));
  RIDGE_TRY(reports, api::explain_each(request, rows));
  std::string lines;
  for (const Report& report : reports) lines += render_json(report, true);
  return print_result(lines);
}

// Explains the program, or bare FLOPs and bytes without a program.
Result<api::AnsweredRequest> answer_request(const RequestArgs& request_args) {
  if (request_args.flops || request_args.bytes) {
    RIDGE_TRY(work, bare_work(request_args));
    auto report = api::explain(work);
    return report ? Result(api::AnsweredRequest{{}, *std::move(report)}) : report.error();
  }
  RIDGE_TRY(request, to_request(request_args));
  auto report = api::explain(request);
  return report ? Result(api::AnsweredRequest{request, *std::move(report)}) : report.error();
}

// Returns one report for each machine.
Result<std::vector<api::AnsweredRequest>> answer_on_machines(RequestArgs request_args,
                                                             const std::vector<std::string>& machines) {
  std::vector<api::AnsweredRequest> out;
  request_args.on = machines.front();
  if (request_args.flops || request_args.bytes) {
    for (const std::string& machine : machines) {
      request_args.on = machine;
      RIDGE_TRY(answer, answer_request(request_args));
      out.push_back(std::move(answer));
    }
    return out;
  }
  RIDGE_TRY(request, to_request(request_args));
  RIDGE_TRY(reports, api::explain_on(request, {machines.begin(), machines.end()}));
  for (std::size_t i = 0; i < reports.size(); ++i) {
    request.on = machines[i];
    out.push_back({request, std::move(reports[i])});
  }
  return out;
}

Result<int> print_ranking(const ExplainArgs& args, const std::vector<std::string>& machines) {
  const std::string supported = join_options(count_options, "--json --csv --md --html");
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--on " + args.request_args.on, supported));
  RIDGE_TRY(answers, answer_on_machines(args.request_args, machines));
  std::vector<Report> reports;
  for (const api::AnsweredRequest& answer : answers) reports.push_back(answer.report);
  std::erase_if(answers, [](const api::AnsweredRequest& each) { return !each.report.unavailable.empty(); });
  RIDGE_TRY_STATUS(write_page(args.output.html, [&] { return api::make_page(answers); }));
  if (args.output.json) return print_result(render_ranking_json(reports));
  if (args.output.csv || args.output.md)
    return print_result(ranking_table(reports, number_style(args.output)), ranking_right_aligned, args.output);
  return print_result(render_ranking_text(reports, text_style()));
}

Result<Report> make_report(const RequestArgs& request_args) {
  auto answered = answer_request(request_args);
  return answered ? Result(std::move(answered->report)) : answered.error();
}

// Explains both sides of --against. Between two machines, launches are left out if only one has them on record.
Result<std::vector<api::AnsweredRequest>> answer_both(const ExplainArgs& args) {
  RIDGE_TRY(first, answer_request(args.request_args));
  RIDGE_TRY(second, answer_request(with_alternative(args.request_args, args.against)));
  const bool has_launch = first.report.explanation.total.launch_s > 0;
  if (has_launch != (second.report.explanation.total.launch_s > 0))
    return answer_on_machines(args.request_args, {args.request_args.on, args.against});
  return std::vector{std::move(first), std::move(second)};
}

Result<int> print_comparison(const ExplainArgs& args) {
  const std::string supported = join_options(count_options, "--json --csv --md --html");
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--against", supported));
  RIDGE_TRY(both, answer_both(args));
  const Report &first = both.front().report, &second = both.back().report;
  RIDGE_TRY_STATUS(write_page(args.output.html, [&] { return api::make_page(both); }));
  if (args.output.json) return print_result(render_comparison_json(first, second));
  const int code = print_result(comparison_table(first, second, number_style(args.output)),
                                {false, false, true, true, true}, args.output);
  if (code != 0 || args.output.csv || args.output.md) return code;
  return print_result(comparison_notes(first, second));
}

Result<int> print_steps(const ExplainArgs& args) {
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--steps", join_options(count_options, "--md")));
  RIDGE_TRY(report, make_report(args.request_args));
  return print_result(render_steps(report, args.output.md));
}

Result<int> print_claim_check(const ExplainArgs& args) {
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--check", join_options(count_options, "--json")));
  RIDGE_TRY(report, make_report(args.request_args));
  RIDGE_TRY(check_result, check_claim(report.explanation, args.claim));
  const int code = print_result(args.output.json ? render_json(check_result) : render_text(check_result));
  if (code != 0) return code;
  return check_result.right ? 0 : static_cast<int>(ErrorKind::finding);
}

Result<int> print_cache_lines(const ExplainArgs& args) {
  const std::string supported = join_options(program_options, "--ld --line-bytes --json --csv --md");
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--lines", supported));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(leading_dims, parse_assignments(args.leading_dims));
  LinesRequest tiles = args.lines;
  tiles.leading = leading_dims;
  RIDGE_TRY(found, api::count_cache_lines(request, tiles));
  return print_result(lines_table(found), {false, true, true, false, true, true, true, true, true, true, true, true},
                      args.output, render_lines_json(found), "operands");
}

Result<int> print_chains(const ExplainArgs& args) {
  const std::string supported = join_options(program_options, "--cost --memory --sustained --json --csv --md");
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--chain", supported));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(function_costs, parse_function_costs(args.costs));
  RIDGE_TRY(found, api::compare_chains(request, function_costs));
  return print_result(chain_table(found), {false, true, false}, args.output, render_chains_json(found), "chains");
}

Result<int> print_tile_waves(const ExplainArgs& args) {
  const std::string supported = join_options(program_options, "--json --csv --md");
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--tile", supported));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(found, api::count_tile_waves(request, args.tile));
  return print_result(tile_waves_table(found), {false, true, true, true, true, true, true}, args.output,
                      render_tile_waves_json(found), "ops");
}

Result<int> print_crossover(const ExplainArgs& args) {
  const std::string supported = join_options(program_options, "--sustained --link --memory --json");
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--between", supported));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(found, api::find_crossover(request, args.crossover));
  return print_result(args.output.json ? render_json(found) : render_text(found));
}

Result<int> print_transfer(const ExplainArgs& args) {
  const RequestArgs& request_args = args.request_args;
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--send", "--on --link --hops --json"));
  if (!request_args.program.empty()) return usage_error("expected --send without a PROGRAM");
  RIDGE_TRY(request, to_request(request_args));
  RIDGE_TRY(found, api::predict_transfer(request.on, request.link, *args.send, args.hops));
  return print_result(args.output.json ? render_json(found) : describe_point_to_point(found) + "\n");
}

Result<int> print_file(const ExplainArgs& args) {
  constexpr std::string_view supported = "-d --on --memory --sustained --json --csv --md --svg --roofs";
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "a .onnx file", supported));
  RIDGE_TRY_STATUS(check_one_machine(args.request_args.on, "a .onnx file"));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(report, api::explain_file(request));
  return print_report(report, args.output, request);
}

Result<int> run_explain(const ExplainArgs& args) {
  const RequestArgs& request_args = args.request_args;
  if (api::is_file_of_operators(request_args.program)) return print_file(args);
  if (!request_args.plan) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--library --no-fuse --why", "--plan"));
  if (!args.send) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--hops", "--send"));
  if (request_args.flops || request_args.bytes)
    RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--flops", bare_options));
  if (request_args.plan && !request_args.memory.empty())
    return usage_error("expected --memory without --plan: plans use the device's own memory");
  if (!args.chain) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--cost", "--chain"));
  if (args.lines.columns == 0) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--ld --line-bytes", "--lines"));
  if (!args.table.empty()) return print_table_rows(args);
  if (args.send) return print_transfer(args);
  if (args.chain) return print_chains(args);
  if (args.lines.columns > 0) return print_cache_lines(args);
  if (!args.tile.empty()) return print_tile_waves(args);
  if (!args.crossover.empty()) return print_crossover(args);
  if (split_names(request_args.on).size() > 1) return print_ranking(args, split_machines(request_args.on));
  if (!args.claim.empty()) return print_claim_check(args);
  if (!args.against.empty()) return print_comparison(args);
  if (args.steps) return print_steps(args);
  if (args.output.show_all && (args.output.json || args.output.csv || args.output.md))
    return usage_error("expected --all without --json, --csv and --md, which are always complete");
  RIDGE_TRY(answered, answer_request(request_args));
  return print_report(answered.report, args.output, answered.request);
}

void add_machine_and_what_if_options(CLI::App& verb, ExplainArgs& args) {
  add_repeated_option(
      verb, "--split", args.request_args.split,
      "Split a dimension over chips; results are one chip's; repeat it for a second dimension over the same chips",
      "NAME=CHIPS");
  verb.add_option("--link", args.request_args.link,
                  "Link between chips: a name, a rate one way (450e9, 450GB/s), or NAME=RATE with the link's topology "
                  "(default: the "
                  "first)")
      ->type_name("LINK");
  verb.add_option("--memory", args.request_args.memory,
                  "Memory of the tensors: a memory or link of the machine, or a rate (3.35e12, 3350GB/s; default: its "
                  "first memory)")
      ->type_name("MEMORY");
  verb.add_option("--weights", args.request_args.weights, "Count the weights as stored in this dtype")
      ->type_name("DTYPE");
  verb.add_option(
          "--narrow", args.request_args.narrow,
          "Count the weights and the tensors that they multiply as stored in this dtype; --weights overrides it "
          "for the weights")
      ->type_name("DTYPE");
  add_repeated_option(verb, "--fuse", args.request_args.fused_groups,
                      "Count these statements, named by results, as one kernel; may be repeated", "A,B,C");
  verb.add_option("--layers", args.request_args.layers,
                  "Number of layers like the program: report time and memory of all")
      ->type_name("N")
      ->check(whole_number_between(1, 1 << 20));
  verb.add_flag("--sustained", args.request_args.sustained, "Use the rates that real programs reach, if known");
}

void add_plan_options(CLI::App& verb, ExplainArgs& args) {
  verb.add_flag("--plan", args.request_args.plan,
                "Plan kernels for --on h100, h200, cuda or cpu: fusion, tiles, times and rejected alternatives");
  add_no_fuse_option(verb, args.request_args);
  verb.add_option("--library", args.request_args.library,
                  "Kernels for --plan: ridge (default), or cublaslt on any GPU of NVIDIA's")
      ->check(one_of({"ridge", "cublaslt"}));
  verb.add_flag("--why", args.request_args.explain_overhead,
                "With --plan: attribute each kernel's time above its bound to causes");
}

// Adds the options that select what is shown.
void add_question_options(CLI::App& verb, ExplainArgs& args) {
  verb.add_flag("--all", args.output.show_all, "Print every formula and threshold");
  verb.add_flag("--steps", args.steps, "Show each calculation: formula, numbers, result (with --md: Markdown)");
  verb.add_option("--check", args.claim,
                  "Check a claim: 'B > 240', 'u.intensity = 2'; exit code 1 if it is wrong. Quantities: flops, bytes, "
                  "intensity, ridge, time_math, time_memory, time_network, time_lower, time_upper, limiter")
      ->type_name("CLAIM");
  verb.add_option("--against", args.against, "Compare with this machine or program")->type_name("MACHINE|PROGRAM");
  verb.add_flag("--chain", args.chain,
                "Compare chains of pointwise statements, fused and unfused: bytes, break-even, launches");
  add_repeated_option(verb, "--cost", args.costs, "With --chain: FLOPs of a function; may be repeated",
                      "FUNCTION=FLOPS");
  verb.add_option("--lines", args.lines.columns, "Count cache lines of each tensor, read in tiles of this many columns")
      ->type_name("COLUMNS")
      ->check(whole_number_between(1, std::int64_t{1} << 40));
  add_repeated_option(verb, "--ld", args.leading_dims, "With --lines: leading dimension of a tensor; may be repeated",
                      "TENSOR=ELEMENTS");
  verb.add_option("--line-bytes", args.lines.line_bytes, "With --lines: size of a cache line (default: the machine's)")
      ->type_name("BYTES")
      ->transform(quantity_in("B"));
  verb.add_option("--tile", args.tile,
                  "Count tiles and waves of each product, with tiles of this many rows and columns")
      ->type_name("ROWSxCOLUMNS");
  verb.add_option("--between", args.crossover,
                  "Find the size from which some statements cost more than others: 's, o = q, k'")
      ->type_name("STATEMENTS=STATEMENTS");
  verb.add_option("--send", args.send, "Time of sending bytes from one chip of --on to another, without a program")
      ->type_name("BYTES")
      ->transform(quantity_in("B"));
  verb.add_option("--hops", args.hops, "With --send: number of links on the path (default: 1)")->type_name("N");
}

}  // namespace

void add_explain(CLI::App& app, int& code) {
  auto args = std::make_shared<ExplainArgs>();
  CLI::App* verb = app.add_subcommand("explain", "Count a program's work and find what limits it on a machine");
  verb->footer(
      "Examples:\n"
      "  ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e -d B=512 -d D=8192 -d F=8192\n"
      "  ridge explain examples/mlp.ridge --on h100 B=16 --svg mlp.svg\n"
      "  ridge explain examples/mlp.ridge --on h100,h200,b200 B=16\n"
      "  ridge explain examples/mlp.ridge --on h200 --plan\n"
      "  ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e --split D=2 --link 4.5e10 --check 'D > "
      "4378'\n"
      "  ridge explain examples/mlp.ridge --on h100 --against h200\n"
      "  ridge explain --flops 1e12 --bytes 1e9 --on h100\n"
      "  ridge explain model.onnx --on h200 batch=8\n");
  args->verb = verb;
  add_request_options(*verb, args->request_args);
  verb->add_option("--flops", args->request_args.flops, "FLOPs, instead of a program")
      ->type_name("X")
      ->transform(quantity_in("FLOP"));
  verb->add_option("--bytes", args->request_args.bytes, "Bytes, with --flops: 1e9, 1GB or 1GiB")
      ->type_name("Y")
      ->transform(quantity_in("B"));
  verb->add_option("--table", args->table, "CSV of dimension values: print one line of JSON for each row")
      ->type_name("FILE.csv");
  add_machine_and_what_if_options(*verb, *args);
  add_plan_options(*verb, *args);
  add_question_options(*verb, *args);
  add_output_options(*verb, args->output);
  group_options(*verb,
                {{"Program", "PROGRAM -d --dtype --flops --bytes --table"},
                 {"Machine", "--on --link --memory --sustained"},
                 {"What if", "--split --weights --narrow --fuse --layers --against"},
                 {"Kernel plan", "--plan --no-fuse --library --why"},
                 {"What to show",
                  "--all --steps --check --chain --cost --lines --ld --line-bytes --tile --between --send --hops"}});
  verb->callback([args, &code] {
    const Status valid = read_positionals(args->request_args, "explain");
    code = valid ? exit_code_of(run_explain(*args)) : print_error(valid.error());
  });
}

}  // namespace ridge::cli
