// ridge shard: the best shardings of a program, thresholds of mesh sizes, and single collectives.
#include <memory>

#include "ridge/base/string_util.h"
#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/distributed/shard.h"

namespace ridge::cli {
namespace {

struct ShardArgs {
  RequestArgs request_args;
  OutputFormat format;
  ShardOptions options;
  std::string collective, ragged;
  CollectiveRequest request;
  const CLI::App* verb = nullptr;
};

constexpr std::string_view collective_options =
    "--collective --bytes --chips --apart --ragged --compute --on --link --json --csv --md";

// Parses "8/64".
Status parse_ragged(const std::string& text, CollectiveRequest& request) {
  if (text.empty()) return Done{};
  const std::size_t slash = text.find('/');
  const auto destinations = ridge::parse_whole_number(text.substr(0, slash));
  const auto total = slash == std::string::npos ? std::nullopt : ridge::parse_whole_number(text.substr(slash + 1));
  if (!destinations || !total || *total == 0)
    return usage_error("expected TO/OF destinations after --ragged, found '" + text + "'", "--ragged 8/64");
  request.ragged_to = *destinations;
  request.ragged_of = *total;
  return Done{};
}

Result<int> run_collective(ShardArgs& args) {
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--collective", collective_options));
  if (!args.request_args.program.empty()) return usage_error("expected --collective without a PROGRAM");
  args.request.pattern = *parse_pattern(args.collective);
  args.request.chips = args.options.chips;
  RIDGE_TRY_STATUS(parse_ragged(args.ragged, args.request));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(found, api::predict_collective(request.on, request.link, args.request));
  return print_result(args.format, format_collective_time(found), render_json(found), "levels");
}

Result<int> run_shard(ShardArgs& args) {
  if (!args.collective.empty()) return run_collective(args);
  RIDGE_TRY_STATUS(check_required_option(*args.verb, "--bytes --apart --ragged --compute", "--collective"));
  RIDGE_TRY(request, to_request(args.request_args));
  RIDGE_TRY(sharded, api::is_sharded(request));
  if (sharded && args.options.mesh.empty()) {
    const auto open = api::analyze_mesh_sizes(request, args.options.chips);
    const std::string list = args.options.chips == 0 ? "thresholds" : "meshes";
    if (!open) return open.error();
    return print_result(args.format, render_text(*open, text_style()), render_json(*open), list);
  }
  RIDGE_TRY(found, api::find_shardings(request, args.options));
  return print_result(args.format, render_text(found, text_style()), render_json(found), "shardings");
}

void add_collective_options(CLI::App& verb, ShardArgs& args) {
  verb.add_option("--collective", args.collective, "Predict a single collective, without a PROGRAM")
      ->type_name("PATTERN")
      ->check(one_of({"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "gather"}));
  verb.add_option("--bytes", args.request.bytes,
                  "With --collective: bytes of the full array; for all-to-all and all-reduce, bytes on each chip")
      ->type_name("BYTES")
      ->transform(quantity_in("B"));
  verb.add_option("--apart", args.request.chip_stride,
                  "With --collective: stride between participating chips (default: 1)")
      ->type_name("N");
  verb.add_option("--ragged", args.ragged, "With --collective all-to-all: send each row to TO of OF destinations")
      ->type_name("TO/OF");
  verb.add_option("--compute", args.request.compute_s,
                  "With --collective: duration of computation that overlaps it, in chunks")
      ->type_name("SECONDS")
      ->transform(quantity_in("s"));
}

}  // namespace

void add_shard(CLI::App& app, int& code) {
  auto args = std::make_shared<ShardArgs>();
  CLI::App* verb =
      app.add_subcommand("shard", "Find the best shardings of a program over many chips, and their communication");
  verb->footer(
      "Examples:\n"
      "  ridge shard examples/mlp.ridge --chips 8 --on h200 B=4096\n"
      "  ridge shard examples/llama_decoder.ridge --mesh X=8,Y=8 --on tpu_v5p B=512\n"
      "  ridge shard $'w: bf16[D_X, F]   x: bf16[B_X, D]\\ng[D, F] = w\\ny: bf16[B_X, F] = x * g' --on tpu_v5p\n"
      "  ridge shard --collective all-reduce --bytes 1e9 --chips 64 --on h100\n");
  args->verb = verb;
  add_request_options(*verb, args->request_args);
  verb->add_option("--chips", args->options.chips, "Number of chips; searches every mesh of one or two axes")
      ->type_name("N");
  verb->add_option("--mesh", args->options.mesh, "Search only this mesh; chips are adjacent along its last axis")
      ->type_name("X=4,Y=2");
  verb->add_option("--link", args->request_args.link,
                   "Link between chips: a name, or a rate one way (450e9, 450GB/s; default: the first)")
      ->type_name("LINK");
  verb->add_flag("--sustained", args->request_args.sustained, "Use the rates that real programs reach, if known");
  add_collective_options(*verb, *args);
  add_format_options(*verb, args->format, "ridge.shard/1");
  group_options(*verb, {{"Program", "PROGRAM -d --dtype"},
                        {"Machine", "--on --link --sustained"},
                        {"Chips", "--chips --mesh"},
                        {"A single collective", "--collective --bytes --apart --ragged --compute"}});
  verb->callback([args, &code] {
    const Status valid = read_positionals(args->request_args, "shard");
    code = valid ? exit_code_of(run_shard(*args)) : print_error(valid.error());
  });
}

}  // namespace ridge::cli
