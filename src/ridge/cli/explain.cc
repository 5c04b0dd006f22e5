#include <fmt/format.h>

#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"
#include "ridge/program/bindings.h"
#include "ridge/report/beside.h"
#include "ridge/report/chain.h"
#include "ridge/report/lines.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/questions.h"
#include "ridge/report/steps.h"

namespace ridge::cli {
namespace {

struct Explain {
  Spelled spelled;
  Output output;
  std::string table, against, claim, tile, between;
  bool steps = false, chain = false;
  std::optional<double> send;
  std::int64_t hops = 1;
  std::vector<std::string> costs;
  LinesRequest lines;
  std::vector<std::string> leading;
  const CLI::App* verb = nullptr;
};

// Which options each form of the answer takes beside what says the program and the machine.
constexpr std::string_view program_options = "-d --dtype --on";
constexpr std::string_view count_options =
    "-d --dtype --on --split --link --memory --sustained --weights --fuse --layers --flops --bytes";

constexpr std::string_view bare_options =
    "--flops --bytes --on --dtype --memory --sustained --plan --steps --check --against --all --json --csv --md --svg "
    "--html --roofs";

std::string beside(std::string_view first, std::string_view more) { return fmt::format("{} {}", first, more); }

int explain_rows(const Explain& asked) {
  const std::string takes = beside("-d --dtype --on --split --link --memory --sustained --weights --fuse --layers",
                                   "--plan --no-fuse --library --json");
  if (const auto refused = refuse_beside(*asked.verb, "--table", takes)) return fail(*refused);
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto csv = read_file(asked.table);
  if (!csv) return fail(csv.error());
  const auto rows = parse_table(*csv, asked.table);
  if (!rows) return fail(rows.error());
  const auto reports = api::explain_each(*request, *rows);
  if (!reports) return fail(reports.error());
  std::string lines;
  for (const Report& report : *reports) lines += render_json(report, true);
  return print(lines);
}

// Of bare numbers there is a report without a program.
Result<api::Answered> answer_of(const Spelled& spelled) {
  if (spelled.flops || spelled.bytes) {
    const auto work = bare_work(spelled);
    if (!work) return work.error();
    auto report = api::explain(*work);
    return report ? Result(api::Answered{{}, *std::move(report)}) : report.error();
  }
  const auto request = understood(spelled);
  if (!request) return request.error();
  auto report = api::explain(*request);
  return report ? Result(api::Answered{*request, *std::move(report)}) : report.error();
}

// One answer for each machine.
Result<std::vector<api::Answered>> answers_on(Spelled spelled, const std::vector<std::string>& machines) {
  std::vector<api::Answered> out;
  spelled.on = machines.front();
  if (spelled.flops || spelled.bytes) {
    for (const std::string& machine : machines) {
      spelled.on = machine;
      auto answer = answer_of(spelled);
      if (!answer) return answer.error();
      out.push_back(*std::move(answer));
    }
    return out;
  }
  auto request = understood(spelled);
  if (!request) return request.error();
  auto reports = api::explain_on(*request, {machines.begin(), machines.end()});
  if (!reports) return reports.error();
  for (std::size_t i = 0; i < reports->size(); ++i) {
    request->on = machines[i];
    out.push_back({*request, std::move((*reports)[i])});
  }
  return out;
}

int rank(const Explain& asked, const std::vector<std::string>& machines) {
  const std::string takes = beside(count_options, "--json --csv --md --html");
  if (const auto refused = refuse_beside(*asked.verb, "--on " + asked.spelled.on, takes)) return fail(*refused);
  const auto answers = answers_on(asked.spelled, machines);
  if (!answers) return fail(answers.error());
  std::vector<Report> reports;
  for (const api::Answered& answer : *answers) reports.push_back(answer.report);
  const Status page = write_page(asked.output.html, [&] { return api::page_of(*answers); });
  if (!page) return fail(page.error());
  if (asked.output.json) return print(render_ranking_json(reports));
  if (asked.output.csv || asked.output.md) return print(ranking_table(reports), ranking_right, asked.output);
  return print(render_ranking_text(reports, style()));
}

Result<Report> report_of(const Spelled& spelled) {
  auto answered = answer_of(spelled);
  return answered ? Result(std::move(answered->report)) : answered.error();
}

int side_by_side(const Explain& asked) {
  const std::string takes = beside(count_options, "--json --csv --md --html");
  if (const auto refused = refuse_beside(*asked.verb, "--against", takes)) return fail(*refused);
  const auto first = answer_of(asked.spelled);
  if (!first) return fail(first.error());
  const auto second = answer_of(other_than(asked.spelled, asked.against));
  if (!second) return fail(second.error());
  const Status page = write_page(asked.output.html, [&] { return api::page_of({*first, *second}); });
  if (!page) return fail(page.error());
  if (asked.output.json) return print(render_against_json(first->report, second->report));
  return print(against_table(first->report, second->report), {false, false, true, true, true}, asked.output);
}

int working(const Explain& asked) {
  if (const auto refused = refuse_beside(*asked.verb, "--steps", beside(count_options, "--md"))) return fail(*refused);
  const auto report = report_of(asked.spelled);
  return report ? print(render_steps(*report, asked.output.md)) : fail(report.error());
}

int checked(const Explain& asked) {
  if (const auto refused = refuse_beside(*asked.verb, "--check", beside(count_options, "--json")))
    return fail(*refused);
  const auto report = report_of(asked.spelled);
  if (!report) return fail(report.error());
  const auto verdict = check_claim(report->explanation, asked.claim);
  if (!verdict) return fail(verdict.error());
  const int code = print(asked.output.json ? render_json(*verdict) : render_text(*verdict));
  if (code != 0) return code;
  return verdict->right ? 0 : static_cast<int>(ErrorKind::finding);
}

int in_lines(const Explain& asked) {
  const std::string takes = beside(program_options, "--ld --line-bytes --json --csv --md");
  if (const auto refused = refuse_beside(*asked.verb, "--lines", takes)) return fail(*refused);
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto leading = parse_assignments(asked.leading);
  if (!leading) return fail(leading.error());
  LinesRequest tiles = asked.lines;
  tiles.leading = *leading;
  const auto found = api::lines(*request, tiles);
  if (!found) return fail(found.error());
  if (asked.output.json) return print(render_lines_json(*found));
  return print(lines_table(*found), {false, true, true, false, true, true, true, true, true, true, true, true},
               asked.output);
}

int as_chains(const Explain& asked) {
  const std::string takes = beside(program_options, "--cost --memory --sustained --json --csv --md");
  if (const auto refused = refuse_beside(*asked.verb, "--chain", takes)) return fail(*refused);
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto costs = function_costs(asked.costs);
  if (!costs) return fail(costs.error());
  const auto found = api::chains(*request, *costs);
  if (!found) return fail(found.error());
  if (asked.output.json) return print(render_chains_json(*found));
  return print(chain_table(*found), {false, true, false}, asked.output);
}

int in_tiles(const Explain& asked) {
  const std::string takes = beside(program_options, "--json --csv --md");
  if (const auto refused = refuse_beside(*asked.verb, "--tile", takes)) return fail(*refused);
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto found = api::tile_waves(*request, asked.tile);
  if (!found) return fail(found.error());
  if (asked.output.json) return print(render_tile_waves_json(*found));
  return print(tile_waves_table(*found), {false, true, true, true, true, true, true}, asked.output);
}

int against_statements(const Explain& asked) {
  const std::string takes = beside(program_options, "--sustained --link --memory --json");
  if (const auto refused = refuse_beside(*asked.verb, "--between", takes)) return fail(*refused);
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto found = api::between(*request, asked.between);
  if (!found) return fail(found.error());
  return print(asked.output.json ? render_json(*found) : render_text(*found));
}

int from_chip_to_chip(const Explain& asked) {
  const Spelled& spelled = asked.spelled;
  if (const auto refused = refuse_beside(*asked.verb, "--send", "--on --link --hops --json")) return fail(*refused);
  if (!spelled.program.empty()) return fail(usage_error("expected --send without a PROGRAM"));
  const auto request = understood(spelled);
  if (!request) return fail(request.error());
  const auto found = api::passage(request->on, request->link, *asked.send, asked.hops);
  if (!found) return fail(found.error());
  return print(asked.output.json ? render_json(*found) : text(*found) + "\n");
}

int perform(const Explain& asked) {
  const Spelled& spelled = asked.spelled;
  if (!spelled.plan)
    if (const auto refused = refuse_without(*asked.verb, "--library --no-fuse --why", "--plan")) return fail(*refused);
  if (!asked.send)
    if (const auto refused = refuse_without(*asked.verb, "--hops", "--send")) return fail(*refused);
  if (spelled.flops || spelled.bytes)
    if (const auto refused = refuse_beside(*asked.verb, "--flops", bare_options)) return fail(*refused);
  if (spelled.plan && !spelled.memory.empty())
    return fail(usage_error("expected --memory without --plan: plans are made for the device's own memory"));
  if (!asked.chain)
    if (const auto refused = refuse_without(*asked.verb, "--cost", "--chain")) return fail(*refused);
  if (asked.lines.columns == 0)
    if (const auto refused = refuse_without(*asked.verb, "--ld --line-bytes", "--lines")) return fail(*refused);
  if (!asked.table.empty()) return explain_rows(asked);
  if (asked.send) return from_chip_to_chip(asked);
  if (asked.chain) return as_chains(asked);
  if (asked.lines.columns > 0) return in_lines(asked);
  if (!asked.tile.empty()) return in_tiles(asked);
  if (!asked.between.empty()) return against_statements(asked);
  if (const std::vector<std::string> machines = names_in(spelled.on); machines.size() > 1) return rank(asked, machines);
  if (!asked.claim.empty()) return checked(asked);
  if (!asked.against.empty()) return side_by_side(asked);
  if (asked.steps) return working(asked);
  if (asked.output.all && (asked.output.json || asked.output.csv || asked.output.md))
    return fail(usage_error("expected --all without --json, --csv and --md, which leave nothing out"));
  const auto answered = answer_of(spelled);
  return answered ? deliver(answered->report, asked.output, answered->request) : fail(answered.error());
}

}  // namespace

void add_explain(CLI::App& app, int& code) {
  auto asked = std::make_shared<Explain>();
  CLI::App* verb = app.add_subcommand("explain", "Count a program's work and say what binds it on a machine");
  verb->footer(
      "Examples:\n"
      "  ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e -d B=512 -d D=8192 -d F=8192\n"
      "  ridge explain examples/mlp.ridge --on h100 B=16 --svg mlp.svg\n"
      "  ridge explain examples/mlp.ridge --on h100,h200,b200 B=16\n"
      "  ridge explain examples/mlp.ridge --on h200 --plan\n"
      "  ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e --split D=2 --link 4.5e10 --check 'D > "
      "4378'\n"
      "  ridge explain examples/mlp.ridge --on h100 --against h200\n"
      "  ridge explain --flops 1e12 --bytes 1e9 --on h100\n");
  asked->verb = verb;
  add_request(*verb, asked->spelled);
  verb->add_option("--flops", asked->spelled.flops, "Bare FLOPs instead of a program")->type_name("X");
  verb->add_option("--bytes", asked->spelled.bytes, "Bare bytes, with --flops")->type_name("Y");
  verb->add_option("--split", asked->spelled.split,
                   "Cut a dimension over chips; counts and times are one chip's; a second one over the same chips")
      ->type_name("NAME=CHIPS")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--link", asked->spelled.link,
                   "Link between them: a name, B/s one way, or NAME=B/s, which keeps its topology (default: the first)")
      ->type_name("LINK");
  verb->add_option("--memory", asked->spelled.memory,
                   "Where tensors live: a memory or link of the machine, or B/s (default: its first memory)")
      ->type_name("MEMORY");
  verb->add_option("--weights", asked->spelled.weights, "As if the weights were stored in this dtype")
      ->type_name("DTYPE");
  verb->add_option("--fuse", asked->spelled.fused, "Statements as one kernel, by their results; may be repeated")
      ->type_name("A,B,C")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--layers", asked->spelled.layers, "A model of so many layers like this one: time and memory of all")
      ->type_name("N")
      ->check(whole_number(1, 1 << 20));
  verb->add_option("--table", asked->table, "CSV of dimension values: one line of JSON for each row")
      ->type_name("FILE.csv");
  verb->add_flag(
      "--plan", asked->spelled.plan,
      "What would run on --on h100, h200, cuda or cpu: which statements share a kernel, tile, time, and what lost");
  add_no_fuse(*verb, asked->spelled);
  verb->add_option("--library", asked->spelled.library, "Whose kernels --plan is about: ridge (default) or cublaslt")
      ->check(one_of({"ridge", "cublaslt"}));
  verb->add_flag("--why", asked->spelled.why,
                 "With --plan: what each kernel takes above its roof, by causes that add up");
  verb->add_flag("--all", asked->output.all, "Every formula and threshold");
  verb->add_flag("--steps", asked->steps, "Show the working: formula, numbers put in, result (with --md: Markdown)");
  verb->add_option(
          "--check", asked->claim,
          "Is this right? 'B > 240', 'u.intensity = 2'; exit code 1 where it is not. Quantities: flops, bytes, "
          "intensity, ridge, time_math, time_memory, time_network, time_lower, time_upper, limiter")
      ->type_name("CLAIM");
  verb->add_option("--against", asked->against, "Beside this machine, or this program")->type_name("MACHINE|PROGRAM");
  verb->add_flag("--chain", asked->chain, "Pointwise work fused and unfused: bytes, break-even, launches");
  verb->add_option("--cost", asked->costs, "With --chain: FLOPs that a function takes; may be repeated")
      ->type_name("FUNCTION=FLOPS")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--lines", asked->lines.columns, "Cache lines of every tensor, read in tiles of so many columns")
      ->type_name("COLUMNS")
      ->check(whole_number(1, std::int64_t{1} << 40));
  verb->add_option("--ld", asked->leading, "With --lines: a tensor's leading dimension; may be repeated")
      ->type_name("TENSOR=ELEMENTS")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--line-bytes", asked->lines.line_bytes, "With --lines: a line, in place of the machine's")
      ->type_name("BYTES");
  verb->add_option("--tile", asked->tile, "Tiles and waves of every product, in tiles of this many rows and columns")
      ->type_name("ROWSxCOLUMNS");
  verb->add_option("--between", asked->between,
                   "From which size on some statements cost more than others: 's, o = q, k'")
      ->type_name("STATEMENTS=STATEMENTS");
  verb->add_option("--send", asked->send, "Bytes from one chip of --on to another, without a program")
      ->type_name("BYTES");
  verb->add_option("--hops", asked->hops, "With --send: links on the way (default: 1)")->type_name("N");
  verb->add_flag("--sustained", asked->spelled.sustained,
                 "Compute with the rates that real programs reach, where known");
  add_output(*verb, asked->output);
  verb->callback([asked, &code] {
    const Status sorted = sort_words(asked->spelled, "explain");
    code = sorted ? perform(*asked) : fail(sorted.error());
  });
}

}  // namespace ridge::cli
