// ridge model: parameters, memory, programs and times of a language model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "ridge/base/file.h"
#include "ridge/base/string_util.h"
#include "ridge/cli/help.h"
#include "ridge/cli/model_layouts.h"
#include "ridge/cli/model_training.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/model.h"

namespace ridge::cli {
namespace {

struct ModelArgs {
  std::string config, serving, dtype = "bf16", cache_dtype = "bf16", on, html, phase = "decode", library = "ridge",
                               engine = "vllm";
  model::CountOptions counts;
  std::optional<std::int64_t> tensor_parallel, layer, output_tokens, images, image_size;
  std::optional<double> rate, price;
  TrainingArgs training;
  std::optional<std::int64_t> speculate;
  std::optional<double> acceptance;
  std::string draft;
  std::int64_t expert_parallel = 1, data_parallel = 1, pipeline_parallel = 1;
  bool plan = false, print = false, serve = false;
  std::vector<DType> formats;  // Formats that `dtype` lists
  LayoutArgs layouts;
  OutputFormat format;
  const CLI::App* verb = nullptr;
};

// Returns the value with this name, which the option's check has accepted.
template <class Values> auto find_named(const Values& values, const std::string& text) {
  return *std::find_if(values.begin(), values.end(), [&](auto value) { return text == name(value); });
}

constexpr std::array phases{ModelPhase::prefill, ModelPhase::decode};
constexpr std::array libraries{KernelLibrary::ridge, KernelLibrary::cublaslt};

template <class Values> CLI::Validator one_named(const Values& values, std::vector<std::string> others = {}) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name(value));
  names.insert(names.end(), others.begin(), others.end());
  return one_of(names);
}

Status check_serving(const ModelArgs& args) {
  if (!args.serve) return check_required_option(*args.verb, "--output-tokens --engine --serving", "--serve");
  if (!args.output_tokens)
    return usage_error("expected --output-tokens together with --serve, found none", "--serve --output-tokens 1024");
  if (args.phase == "prefill") return usage_error("expected --serve without --phase prefill");
  if (args.rate || args.expert_parallel > 1 || args.data_parallel > 1 || args.pipeline_parallel > 1)
    return usage_error("expected --serve without --rate, --pp, --ep and --dp",
                       "served times were fitted with --tp alone");
  return Done{};
}

Status check_rate(const ModelArgs& args) {
  if (args.rate && !(*args.rate > 0 && *args.rate < 1e9))
    return usage_error(fmt::format("expected --rate above 0 and below 1e9 tokens/s, found {}", *args.rate));
  if (args.rate && args.counts.batch != 1)
    return usage_error("expected --rate without --batch: it chooses the batch", "remove --batch or --rate");
  return Done{};
}

Status check_speculation(const ModelArgs& args) {
  if (!args.speculate) return check_required_option(*args.verb, "--acceptance --draft", "--speculate");
  if (!args.acceptance)
    return usage_error("expected --acceptance together with --speculate, found none",
                       "the share of draft tokens that are accepted: --acceptance 0.7");
  if (args.phase == "prefill") return usage_error("expected --speculate without --phase prefill");
  if (args.rate || args.serve) return usage_error("expected --speculate without --rate and --serve");
  return Done{};
}

// Several formats are compared in one table.
Status check_formats(const ModelArgs& args) {
  if (args.dtype.find(',') == std::string::npos) return Done{};
  if (args.on.empty() || !args.layouts.chips.empty() || !args.html.empty() || args.phase == training_phase)
    return usage_error(
        fmt::format("expected several formats of --dtype together with --on, without --chips, --html and "
                    "--phase train, found --dtype {}",
                    make_printable(args.dtype)),
        "give one format");
  return Done{};
}

// Refuses a name that occurs twice: two equal rows would look like two answers.
Status check_distinct(std::string_view what, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin() + static_cast<std::ptrdiff_t>(i) + 1, names.end(), names[i]) != names.end())
      return usage_error(fmt::format("expected each {} once, found {} twice", what, names[i]));
  return Done{};
}

// Reads the formats of --dtype and --cache-dtype.
Status read_formats(ModelArgs& args) {
  const std::vector<std::string> formats = split_names(args.dtype);
  std::vector<std::string> names;
  for (const std::string& each : formats.empty() ? std::vector{args.dtype} : formats) {
    RIDGE_TRY(format, parse_dtype_argument(each));
    args.formats.push_back(format);
    names.emplace_back(dtype_name(format));
  }
  RIDGE_TRY_STATUS(check_distinct("format of --dtype", names));
  RIDGE_TRY(cache_dtype, parse_dtype_argument(args.cache_dtype));
  args.counts.weight_dtype = args.formats.front();
  args.counts.cache_dtype = cache_dtype;
  return Done{};
}

Status check_machines(const ModelArgs& args) {
  std::vector<std::string> names = split_names(args.on);
  for (std::string& name : names)
    if (!name.ends_with(".toml")) name = to_lower_case(name);
  return check_distinct("machine of --on", names);
}

Status check_images(const ModelArgs& args) {
  if (!args.images) return check_required_option(*args.verb, "--image-size", "--images");
  if (args.image_size && *args.image_size < 1)
    return usage_error(fmt::format("expected --image-size of at least 1 pixel, found {}", *args.image_size));
  if (args.print)
    return check_combined_options(*args.verb, "--print --images", "--dtype --context --images --image-size --print");
  if (args.phase == training_phase || args.rate || args.serve || args.speculate || !args.layouts.chips.empty())
    return usage_error("expected --images without --phase train, --rate, --serve, --speculate and --chips",
                       "the time of images is added to the time to the first token of the given layout");
  return Done{};
}

Status check_options(ModelArgs& args) {
  if (args.config.empty()) return usage_error("expected a CONFIG, found none", "ridge model llama_3_8b");
  RIDGE_TRY_STATUS(read_formats(args));
  RIDGE_TRY_STATUS(check_machines(args));
  if (!args.counts.context) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--batch --on --print", "--context"));
  if (!args.plan) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--library", "--plan"));
  RIDGE_TRY_STATUS(check_training_options(*args.verb, args.phase, args.training));
  RIDGE_TRY_STATUS(check_formats(args));
  RIDGE_TRY_STATUS(check_images(args));
  if (args.print && args.images) return Done{};
  if (args.print)
    return check_combined_options(*args.verb, "--print",
                                  "--dtype --cache-dtype --context --batch --phase --tp --ep --dp --layer");
  RIDGE_TRY_STATUS(check_required_option(*args.verb, "--layer", "--print"));
  if (args.on.empty())
    return check_required_option(*args.verb,
                                 "--phase --tp --pp --ep --dp --plan --rate --serve --output-tokens --engine --serving "
                                 "--price --speculate --chips --html --images",
                                 "--on");
  RIDGE_TRY_STATUS(check_rate(args));
  RIDGE_TRY_STATUS(check_layout_options(*args.verb, args.layouts, args.phase));
  RIDGE_TRY_STATUS(check_speculation(args));
  if (args.price && !(*args.price >= 0 && *args.price <= 1e9))
    return usage_error(fmt::format("expected --price from 0 to 1e+09, found {:g}", *args.price));
  if (args.price && args.phase == "prefill") return usage_error("expected --price without --phase prefill");
  if (!args.html.empty())
    RIDGE_TRY_STATUS(
        check_combined_options(*args.verb, "--html",
                               "--dtype --cache-dtype --context --batch --on --phase --tp --plan --library --serve "
                               "--output-tokens --engine --serving --images --image-size --json --csv --md"));
  return check_serving(args);
}

Result<int> print_program(const ModelArgs& args) {
  if (args.images) {
    RIDGE_TRY(text, api::write_vision_program(args.config, {.dtype = model::activation_dtype(args.counts.weight_dtype),
                                                            .images = *args.images,
                                                            .image_size = args.image_size.value_or(0)}));
    return print_result(text);
  }
  const bool is_training = args.phase == training_phase;
  const ModelPhase phase = is_training ? ModelPhase::prefill : find_named(phases, args.phase);
  const std::int64_t context = *args.counts.context;
  const model::StepOptions options{
      .weight_dtype = args.counts.weight_dtype,
      .cache_dtype = args.counts.cache_dtype,
      .batch = args.counts.batch,
      .new_tokens = phase == ModelPhase::prefill ? context : 1,
      .context = context,
      .layout = {args.tensor_parallel.value_or(1), args.expert_parallel, args.data_parallel}};
  RIDGE_TRY(text, is_training ? api::write_training_program(args.config, options, args.layer)
                              : api::write_model_program(args.config, options, args.layer));
  return print_result(text);
}

std::optional<PlanRequest> make_plan_request(const ModelArgs& args) {
  if (!args.plan) return std::nullopt;
  return PlanRequest{.library = find_named(libraries, args.library), .count_bytes = false};
}

Result<int> print_training_times(const ModelArgs& args, const model::ModelCount& count) {
  const TrainingRequest request{.counts = args.counts,
                                .tensor_parallel = args.tensor_parallel,
                                .expert_parallel = args.expert_parallel,
                                .data_parallel = args.data_parallel,
                                .pipeline_parallel = args.pipeline_parallel,
                                .price = args.price,
                                .plan = make_plan_request(args)};
  if (!args.layouts.chips.empty())
    return print_training_layouts({*args.verb, args.config, args.on, count}, request, args.training, args.layouts,
                                  args.format);
  return print_training(args.config, request, args.training, split_machines(args.on), count, args.format);
}

Result<ServingRequest> make_serving_request(const ModelArgs& args) {
  ServingRequest out{.output_tokens = *args.output_tokens, .engine = find_named(serving_engines, args.engine)};
  if (args.serving.empty()) return out;
  RIDGE_TRY(text, read_file(args.serving));
  RIDGE_TRY(constants, parse_serving_constants(text, args.serving));
  out.constants = constants;
  out.source = args.serving;
  return out;
}

// Writes the page if it is requested.
Status write_model_page(const ModelArgs& args, const ModelRequest& request, const std::vector<MachineChoice>& machines,
                        const std::vector<ModelOnMachine>& answers) {
  if (args.html.empty()) return Done{};
  RIDGE_TRY(page, api::make_page(args.config, request, machines, answers));
  return write_if_requested(args.html, [&] { return render_page(page); });
}

Result<int> print_times(const ModelArgs& args, const model::ModelCount& count) {
  ModelRequest request{.counts = args.counts,
                       .tensor_parallel = args.tensor_parallel,
                       .expert_parallel = args.expert_parallel,
                       .data_parallel = args.data_parallel,
                       .pipeline_parallel = args.pipeline_parallel,
                       .rate = args.rate};
  request.phase = find_named(phases, args.phase);
  request.price = args.price;
  if (args.speculate) {
    request.speculation = SpeculationRequest{.draft_tokens = *args.speculate, .acceptance = *args.acceptance};
    if (!args.draft.empty()) {
      RIDGE_TRY(draft, api::find_model_config(args.draft));
      request.speculation->draft = std::move(draft);
    }
  }
  if (args.images) request.images = ImageRequest{*args.images, args.image_size.value_or(0)};
  request.plan = make_plan_request(args);
  if (args.serve) {
    RIDGE_TRY(serving, make_serving_request(args));
    request.serving = serving;
  }
  const std::vector<std::string> machines = split_machines(args.on);
  RIDGE_TRY(answers, api::predict_model(args.config, request, {machines.begin(), machines.end()}, args.formats));
  const bool is_table = args.format.csv || args.format.md;
  RIDGE_TRY_STATUS(write_model_page(args, request, {machines.begin(), machines.end()}, answers));
  const std::string text = render_text(count, answers, text_style());
  if (answers.size() > 1 && is_table) return print_result(args.format, text, render_table_json(answers), "machines");
  return print_result(args.format, text, render_json(count, answers), "ops");
}

Result<int> run_model(ModelArgs& args) {
  RIDGE_TRY_STATUS(check_options(args));
  RIDGE_TRY(count, api::count_model(args.config, args.counts));
  if (args.print) return print_program(args);
  if (!args.layouts.chips.empty() && args.phase != training_phase) {
    LayoutRequest request{.counts = args.counts, .phase = find_named(phases, args.phase), .rate = args.rate};
    return print_layouts({*args.verb, args.config, args.on, count}, std::move(request), args.layouts, args.format);
  }
  if (!args.on.empty())
    return args.phase == training_phase ? print_training_times(args, count) : print_times(args, count);
  return print_result(args.format, render_text(count, text_style()), render_json(count), "parts");
}

}  // namespace

void add_model(CLI::App& app, int& code) {
  auto args = std::make_shared<ModelArgs>();
  CLI::App* verb = app.add_subcommand("model", "Count a language model; predict its prefill and decoding on machines");
  verb->footer(
      "Examples:\n"
      "  ridge model llama_3_8b\n"
      "  ridge model llama_3_70b --context 8192 --batch 16 --on h100,h200\n"
      "  ridge model llama_3_70b --context 8192 --rate 50 --on h100,h200,b200\n"
      "  ridge model llama_3_70b --context 8192 --batch 256 --on h200 --chips 64 --best\n"
      "  ridge model llama_3_70b --context 8192 --on h100,h200,b200 --chips 1..16 --svg front.svg\n"
      "  ridge model llama_3_70b --context 1024 --batch 64 --on h200 --tp 4 --serve --output-tokens 1024\n"
      "  ridge model llama_3_70b --context 8192 --on h100 --speculate 4 --acceptance 0.7 --draft llama_3_2_1b\n"
      "  ridge model llama_3_8b --phase train --context 8192 --batch 256 --on h100 --dp 64 --zero 3 --tokens 15T\n"
      "  ridge model my_model/config.json --dtype f16 --json\n"
      "  ridge model qwen3_8b --context 4096 --print --layer 0 | ridge explain - --on h200\n");
  args->verb = verb;
  verb->add_option(
          "CONFIG", args->config,
          "A Hugging Face config.json, the folder that has it, or the name of a shipped config, such as llama_3_8b")
      ->type_name("");
  verb->add_option("--dtype", args->dtype,
                   "Format of the weights that the config does not quantize (default: bf16); with --on, several "
                   "formats, separated "
                   "by commas, are compared")
      ->type_name("DTYPE");
  verb->add_option("--cache-dtype", args->cache_dtype, "Format of the cache of keys and values (default: bf16)")
      ->type_name("DTYPE");
  verb->add_option("--context", args->counts.context,
                   "Tokens of each sequence: of its prompt, and of its cache when a token is decoded (default: none, "
                   "and neither "
                   "the cache's size nor times are given)")
      ->type_name("N");
  verb->add_option("--batch", args->counts.batch,
                   "With --context: number of sequences that are computed together (default: 1)")
      ->type_name("B");
  verb->add_option(
          "--on", args->on,
          "Machines whose times are predicted, separated by commas (default: none, so that there are no times)")
      ->type_name("MACHINE")
      ->check(name_of("a machine"));
  verb->add_option("--phase", args->phase,
                   "What is computed: all tokens of the prompts, one token of each sequence, or a training step "
                   "(default: decode)")
      ->check(one_named(phases, {std::string(training_phase)}))
      ->type_name("PHASE");
  verb->add_option(
          "--tp", args->tensor_parallel,
          "Chips that divide the heads and the columns of each layer (default: the fewest chips that hold the model)")
      ->type_name("N");
  verb->add_option("--pp", args->pipeline_parallel,
                   "Number of stages of consecutive layers, each on chips of its own (default: 1)")
      ->type_name("N");
  verb->add_option("--ep", args->expert_parallel, "Number of chips among which whole experts are divided (default: 1)")
      ->type_name("N");
  verb->add_option("--dp", args->data_parallel,
                   "Number of ranks that divide the sequences, each with all weights (default: 1)")
      ->type_name("N");
  verb->add_option("--rate", args->rate,
                   "Tokens per second that each sequence must get; the chips and the batch with the most tokens per "
                   "second and chip "
                   "are searched (default: no search)")
      ->type_name("R");
  add_layout_options(*verb, args->layouts);
  verb->add_flag("--plan", args->plan,
                 "Plan kernels and predict their times, in addition to the bound (default: the bound alone)");
  verb->add_option("--library", args->library, "With --plan: whose kernels multiply matrices (default: ridge)")
      ->check(one_named(libraries))
      ->type_name("NAME");
  verb->add_flag("--serve", args->serve,
                 "Predict the times of an engine that serves --batch requests at a time (default: no engine)");
  verb->add_option("--output-tokens", args->output_tokens,
                   "With --serve, which needs it: number of tokens that each request receives")
      ->type_name("N");
  verb->add_option("--engine", args->engine, "With --serve: which engine serves (default: vllm)")
      ->check(one_named(serving_engines))
      ->type_name("NAME");
  verb->add_option("--serving", args->serving,
                   "With --serve: file with the engine's constants (default: the built-in ones)")
      ->type_name("FILE");
  verb->add_option("--speculate", args->speculate,
                   "Number of draft tokens of each sequence that a step of decoding verifies, 1 to 64 (default: no "
                   "draft tokens)")
      ->type_name("K");
  verb->add_option("--acceptance", args->acceptance,
                   "With --speculate, which needs it: probability from 0 to 1 that a draft token is accepted")
      ->type_name("A");
  verb->add_option(
          "--draft", args->draft,
          "With --speculate: model that proposes the tokens on the same chips (default: none, and the time of draft "
          "tokens counts as 0)")
      ->type_name("CONFIG");
  verb->add_option("--images", args->images,
                   "Number of images of each prompt, whose time is added to that of the first token; with --print, "
                   "their program is "
                   "printed (default: no images)")
      ->type_name("N");
  verb->add_option("--image-size", args->image_size,
                   "With --images: number of pixels along a side of each image (default: the config's)")
      ->type_name("N");
  add_training_options(*verb, args->training);
  verb->add_option("--price", args->price,
                   "Price of one chip for an hour, in any currency, from which costs are computed (default: no costs)")
      ->type_name("P");
  verb->add_flag("--print", args->print,
                 "Print the program of the phase instead of counts and times (default: no program)");
  verb->add_option("--layer", args->layer,
                   "With --print: number of the only layer to print, counted from 0 (default: all layers)")
      ->type_name("N");
  add_format_options(*verb, args->format, "ridge.model/1");
  verb->add_option("--html", args->html,
                   "Write an interactive page with sliders, plots and tables into this file (default: no page)")
      ->type_name("FILE")
      ->check(name_of("a file"));
  group_options(*verb, {{"Model", "CONFIG --dtype --cache-dtype --context --batch"},
                        {"Machines", "--on --phase --tp --pp --ep --dp --rate --plan --library --price"},
                        {"Images", "--images --image-size"},
                        {"Layouts", "--chips --best --svg"},
                        {"Serving", "--serve --output-tokens --engine --serving"},
                        {"Speculative decoding", "--speculate --acceptance --draft"},
                        {"Training", "--recompute --zero --accumulate --tokens --utilisation"},
                        {"Program", "--print --layer"},
                        {"Output", "--html"}});
  verb->callback([args, &code] { code = exit_code_of(run_model(*args)); });
}

}  // namespace ridge::cli
