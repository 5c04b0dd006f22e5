// ridge model: parameters, weight bytes and cache bytes of a language model.
#include <memory>

#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/model.h"

namespace ridge::cli {
namespace {

struct ModelArgs {
  std::string config, dtype = "bf16", cache_dtype = "bf16";
  model::CountOptions options;
  OutputFormat format;
  const CLI::App* verb = nullptr;
};

Result<int> run_model(ModelArgs& args) {
  if (!args.options.context) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--batch", "--context"));
  if (args.config.empty()) return usage_error("expected a CONFIG, found none", "ridge model llama_3_8b");
  RIDGE_TRY(weight_dtype, parse_dtype_argument(args.dtype));
  RIDGE_TRY(cache_dtype, parse_dtype_argument(args.cache_dtype));
  args.options.weight_dtype = weight_dtype;
  args.options.cache_dtype = cache_dtype;
  RIDGE_TRY(count, api::count_model(args.config, args.options));
  return print_result(args.format, render_text(count, text_style()), render_json(count), "parts");
}

}  // namespace

void add_model(CLI::App& app, int& code) {
  auto args = std::make_shared<ModelArgs>();
  CLI::App* verb = app.add_subcommand("model", "Count parameters, weight bytes and cache bytes of a language model");
  verb->footer(
      "Examples:\n"
      "  ridge model llama_3_8b\n"
      "  ridge model deepseek_v3 --context 131072 --batch 8\n"
      "  ridge model my_model/config.json --dtype f16 --json\n");
  args->verb = verb;
  verb->add_option("CONFIG", args->config, "Hugging Face config.json, its folder, or a name of models/")->type_name("");
  verb->add_option("--dtype", args->dtype, "Format of weights that the config does not quantize (default: bf16)")
      ->type_name("DTYPE");
  verb->add_option("--cache-dtype", args->cache_dtype, "Format of the cache (default: bf16)")->type_name("DTYPE");
  verb->add_option("--context", args->options.context, "Tokens of a sequence whose cache is counted")->type_name("N");
  verb->add_option("--batch", args->options.batch, "With --context: number of sequences (default: 1)")->type_name("B");
  add_format_options(*verb, args->format, "ridge.model/1");
  group_options(*verb, {{"Model", "CONFIG --dtype"}, {"Cache", "--cache-dtype --context --batch"}});
  verb->callback([args, &code] { code = exit_code_of(run_model(*args)); });
}

}  // namespace ridge::cli
