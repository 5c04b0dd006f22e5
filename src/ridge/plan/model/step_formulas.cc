#include "ridge/plan/model/step_formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/model/audio_program.h"
#include "ridge/model/program.h"
#include "ridge/model/vision_program.h"
#include "ridge/program/load.h"
#include "ridge/program/weights.h"
#include "ridge/roofline/memory.h"
#include "ridge/roofline/sizes/formulas.h"
#include "ridge/roofline/sizes/region_formulas.h"

namespace ridge {
namespace {

constexpr std::int64_t max_formula_chips = 64;
constexpr std::int64_t max_formula_context = std::int64_t{1} << 24;

// Returns the contexts up to which the programs of a phase differ from those of longer ones: tokens of a window, whose
// mask they leave out, and tokens of which an indexer chooses none.
std::vector<std::int64_t> list_context_limits(const model::ModelConfig& config, ModelPhase phase) {
  std::vector<std::int64_t> out;
  if (config.window > 0 && phase == ModelPhase::prefill) out.push_back(config.window);
  if (config.indexer) out.push_back(config.indexer->chosen);
  return out;
}

// Returns the tokens of a chunk of a recurrence; 0 without chunks.
std::int64_t count_chunk_tokens(const model::ModelConfig& config) {
  const bool has_chunks = config.recurrent && !has_mixer(config, model::Mixer::mamba1);
  return has_chunks ? config.recurrent->chunk : 0;
}

// Returns a context up to the limit, or one beyond all limits if it is 0. Chunks of a recurrence are full, or all but
// the last one.
std::int64_t choose_sample_context(const model::ModelConfig& config, std::int64_t limit, bool has_rest) {
  if (limit > 0) return limit;
  const std::int64_t chosen = config.indexer ? config.indexer->chosen : 0;
  const std::int64_t context =
      std::max<std::int64_t>({64, 4 * config.window, 4 * chosen, 2 * count_chunk_tokens(config)}) + (has_rest ? 1 : 0);
  return config.learned_positions > 0 ? std::min(context, config.learned_positions) : context;
}

Result<model::ModelPrograms> write_sample(const model::ModelConfig& config, ModelPhase phase,
                                          const model::CountOptions& options, std::int64_t chips,
                                          std::int64_t limit = 0, bool has_rest = false) {
  const std::int64_t context = choose_sample_context(config, limit, has_rest);
  return model::write_programs(config, {.weight_dtype = options.weight_dtype,
                                        .cache_dtype = options.cache_dtype,
                                        .batch = 2,
                                        .new_tokens = phase == ModelPhase::prefill ? context : 1,
                                        .context = context,
                                        .layout = {.tensor = chips}});
}

Result<CollectiveFormula> count_collective(std::size_t part, const std::string& text) {
  RIDGE_TRY(loaded, load_program(text, DType::bf16));
  RIDGE_TRY(sizes, loaded.program.bind_sizes({}));
  CollectiveFormula out{part, count_work(loaded.program, sizes).front().transfers.front()};
  for (const auto& [name, value] : sizes)
    if (!contains(step_size_names, name)) out.transfer.bytes = out.transfer.bytes.substitute(name, value);
  return out;
}

// Adds sizes and collectives of a phase.
Status add_phase(const model::ModelPrograms& programs, std::vector<CollectiveFormula>& collectives, Bindings& sizes) {
  for (std::size_t i = 0; i < programs.parts.size(); ++i) {
    RIDGE_TRY(loaded, load_program(programs.parts[i].text, DType::bf16));
    RIDGE_TRY(bound, loaded.program.bind_sizes({}));
    sizes.insert(bound.begin(), bound.end());
    for (const std::string& text : programs.parts[i].collectives) {
      RIDGE_TRY(collective, count_collective(i, text));
      collectives.push_back(std::move(collective));
    }
  }
  return Done{};
}

Result<ChipFormulas> size_chips(const model::ModelConfig& config, const model::CountOptions& options,
                                std::int64_t chips) {
  RIDGE_TRY(prefill, write_sample(config, ModelPhase::prefill, options, chips));
  RIDGE_TRY(decode, write_sample(config, ModelPhase::decode, options, chips));
  ChipFormulas out{.chips = chips, .prefill_notes = prefill.notes, .decode_notes = decode.notes};
  // The page says itself which contexts are too long.
  for (std::vector<std::string>* notes : {&out.prefill_notes, &out.decode_notes})
    std::erase_if(*notes, [](const std::string& note) { return note.starts_with("the context of "); });
  RIDGE_TRY_STATUS(add_phase(prefill, out.prefill_collectives, out.sizes));
  RIDGE_TRY_STATUS(add_phase(decode, out.decode_collectives, out.sizes));
  return out;
}

// Returns every number of chips that divides the model, with all of its sizes.
Result<std::vector<ChipFormulas>> list_chips(const model::ModelConfig& config, const model::CountOptions& options) {
  std::vector<ChipFormulas> out;
  for (std::int64_t chips = 1; chips <= max_formula_chips; ++chips) {
    auto one = size_chips(config, options, chips);
    if (!one && chips == 1) return one.error();
    if (one) out.push_back(*std::move(one));
  }
  return out;
}

// Returns the names of sizes that follow from the number of chips, and leaves only these in `chips`. A program that
// divides key heads so far that each has one query head has no size R.
std::vector<std::string> keep_free_sizes(std::vector<ChipFormulas>& chips) {
  std::set<std::string> names;
  for (const ChipFormulas& each : chips)
    for (const auto& [name, value] : each.sizes) {
      const auto first = chips.front().sizes.find(name);
      if (first == chips.front().sizes.end() || first->second != value) names.insert(name);
    }
  for (const auto& [name, value] : chips.front().sizes)
    for (const ChipFormulas& each : chips)
      if (!each.sizes.contains(name)) names.insert(name);
  for (const char* const name : step_size_names) names.erase(name);
  for (ChipFormulas& each : chips) {
    Bindings kept;
    for (const std::string& name : names) kept[name] = each.sizes.contains(name) ? each.sizes.at(name) : 1;
    each.sizes = std::move(kept);
  }
  return {names.begin(), names.end()};
}

// Returns the bytes that a module reads of inputs with this use, each once.
Polynomial count_read_bytes(const Program& program, const std::vector<Work>& work, const std::vector<int>& statements,
                            InputUse use) {
  std::map<int, Polynomial> bytes;  // By tensor; its statements read the same amount
  for (const int statement : statements)
    for (const TensorRead& read : work[statement].reads)
      if (program.tensors[read.tensor].declared_use == use) bytes[read.tensor] = read.amount;
  Polynomial out;
  for (const auto& tensor : bytes) out += tensor.second;
  return out;
}

std::vector<UnitFormula> list_units(const std::vector<Work>& work, const std::vector<int>& statements) {
  std::vector<UnitFormula> out;
  for (const int statement : statements) {
    const Work& one = work[statement];
    const auto is_same = [&](const UnitFormula& unit) {
      return unit.contraction == one.contraction && unit.math == one.math;
    };
    auto unit = std::find_if(out.begin(), out.end(), is_same);
    if (unit == out.end()) unit = out.insert(out.end(), {one.contraction, one.math});
    unit->flops += one.flops;
    if (one.math != DType::f64) add_calls(unit->calls, one.calls);
  }
  return out;
}

// Adds the bytes in memory: those of parameters and cache, and of what else is live while each module runs.
void add_memory(const Program& program, bool shares_embedding, const KernelGroups& groups, PartFormula& out) {
  const InputUses uses = find_input_uses(program);
  Polynomial inputs;
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.role != TensorRole::input || uses.of_tensor[t] == InputUse::activation) continue;
    const Polynomial bytes = stored_bytes(program, tensor);
    inputs += bytes;
    if (shares_embedding && tensor.name == "embedding") continue;  // The embedding's program has it
    (uses.of_tensor[t] == InputUse::parameter ? out.parameters : out.cache) += bytes;
  }
  for (const Polynomial& live : list_live_bytes(program, groups)) {
    Polynomial activations = live - inputs;
    if (!contains(out.activations, activations)) out.activations.push_back(std::move(activations));
  }
}

// Returns the values that the counts contain: free sizes, then masks and routings. Other sizes are constants.
FlatSizes make_flat_sizes(const Formulas& formulas, const Bindings& sizes, const std::vector<std::string>& free_sizes) {
  Bindings constants;
  for (const auto& [name, value] : sizes)
    if (!contains(free_sizes, name)) constants[name] = value;
  FlatSizes out(free_sizes, std::move(constants));
  for (const SizeFormula& size : formulas.sizes) {
    if (size.formula) out.add_derived_size(size.name, *size.formula);
    if (size.mask) out.add_mask(*size.mask);
  }
  return out;
}

Result<PartFormula> make_part(const model::PartProgram& part, const std::vector<std::string>& free_sizes) {
  RIDGE_TRY(loaded, load_program(part.text, DType::bf16));
  const Program& program = loaded.program;
  RIDGE_TRY(sizes, program.bind_sizes({}));
  RIDGE_TRY(formulas, make_formulas(program, sizes));
  PartFormula out{.name = part.name, .layers = part.count, .sizes = make_flat_sizes(formulas, sizes, free_sizes)};
  KernelGroups groups;
  int statement = 0;
  for (const model::ProgramModule& module : part.modules) {
    groups.emplace_back();
    for (std::size_t i = 0; i < module.results.size(); ++i) groups.back().push_back(statement++);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<int>& group = groups[i];
    const Work whole = group.size() == 1 ? formulas.statements[group.front()]
                                         : count_fused(program, formulas.statements, sizes, group, {}, groups);
    out.modules.push_back(
        {.name = part.modules[i].name,
         .units = list_units(formulas.statements, group),
         .bytes = whole.bytes(),
         .parameter_bytes = count_read_bytes(program, formulas.statements, group, InputUse::parameter),
         .cache_bytes = count_read_bytes(program, formulas.statements, group, InputUse::cache) +
                        count_read_bytes(program, formulas.statements, group, InputUse::state)});
  }
  add_memory(program, part.shares_embedding, groups, out);
  out.slides = sizes.contains("U");
  return out;
}

// Returns the formats that the page offers: the requested ones first.
std::vector<model::CountOptions> list_formats(const model::ModelConfig& config, const model::CountOptions& options) {
  std::vector<DType> weights{options.weight_dtype}, caches{options.cache_dtype};
  const auto add = [](std::vector<DType>& all, DType dtype) {
    if (!contains(all, dtype)) all.push_back(dtype);
  };
  add(weights, DType::bf16);
  if (!config.quantization)
    for (const DType dtype : {DType::e4m3, DType::int8, DType::int4}) add(weights, dtype);
  for (const DType dtype : {DType::bf16, DType::e4m3}) add(caches, dtype);
  std::vector<model::CountOptions> out;
  for (const DType weight : weights)
    for (const DType cache : caches) {
      model::CountOptions one = options;
      one.weight_dtype = weight;
      one.cache_dtype = cache;
      if (model::count_model(config, one)) out.push_back(one);
    }
  return out;
}

Result<StepFormulas> make_step(const model::ModelConfig& config, StepFormulas out,
                               const std::vector<std::string>& free_sizes) {
  const model::CountOptions formats{.weight_dtype = out.weight_dtype, .cache_dtype = out.cache_dtype};
  RIDGE_TRY(programs, write_sample(config, out.phase, formats, 1, out.max_context, out.has_rest));
  for (const model::PartProgram& part : programs.parts) {
    RIDGE_TRY(formula, make_part(part, free_sizes));
    // The page counts the pairs of attention in chunks, but no other region.
    if (!config.has_chunks && !replace_regions(formula.sizes))
      return input_error(fmt::format("{}: a condition of its {} has no formula for --html", config.name, part.name),
                         "--json and --csv have the answer for one size");
    out.parts.push_back(std::move(formula));
  }
  return out;
}

// Returns the formulas of an encoder for each pair of formats. `write` returns its programs for two inputs.
template <class Write>
Result<std::vector<EncoderFormulas>> make_encoder_formulas(const model::ModelConfig& config,
                                                           const std::vector<StepFormulas>& steps, Write&& write) {
  std::vector<EncoderFormulas> out;
  for (const StepFormulas& step : steps) {
    const auto has_formats = [&](const EncoderFormulas& x) {
      return x.weight_dtype == step.weight_dtype && x.cache_dtype == step.cache_dtype;
    };
    if (std::any_of(out.begin(), out.end(), has_formats)) continue;
    const Result<model::ModelPrograms> programs = write(step);
    RIDGE_TRY_STATUS(programs);
    out.push_back({step.weight_dtype, step.cache_dtype, {}});
    for (const model::PartProgram& part : programs->parts) {
      RIDGE_TRY(formula, make_part(part, {"IM"}));
      if (!replace_regions(formula.sizes))
        return input_error(fmt::format("{}: a condition of its {} has no formula for --html", config.name, part.name),
                           "--json and --csv have the answer for one size");
      out.back().parts.push_back(std::move(formula));
    }
  }
  return out;
}

Status add_encoders(const model::ModelConfig& config, const std::optional<std::int64_t>& image_size,
                    ModelFormulas& out) {
  if (image_size) {
    RIDGE_TRY(images, make_encoder_formulas(config, out.steps, [&](const StepFormulas& step) {
                return model::write_vision_programs(
                    config,
                    {.dtype = model::activation_dtype(step.weight_dtype), .images = 2, .image_size = *image_size});
              }));
    out.images = std::move(images);
  }
  if (config.audio) {
    RIDGE_TRY(audio, make_encoder_formulas(config, out.steps, [&](const StepFormulas& step) {
                return model::write_audio_programs(
                    config, {.weight_dtype = step.weight_dtype, .cache_dtype = step.cache_dtype}, 2);
              }));
    out.audio = std::move(audio);
  }
  return Done{};
}

}  // namespace

Result<ModelFormulas> make_model_formulas(const model::ModelConfig& config, const model::CountOptions& options,
                                          const std::optional<std::int64_t>& image_size) {
  ModelFormulas out{.window = config.window,
                    .has_chunks = config.has_chunks,
                    .learned_positions = config.learned_positions,
                    .max_positions = config.max_positions};
  out.recurrent_chunk = count_chunk_tokens(config);
  // The formulas of a recurrence hold if a token sees all of a short convolution.
  if (config.recurrent) out.min_context = std::max(out.min_context, config.recurrent->conv_size);
  out.has_cache = has_mixer(config, model::Mixer::attention);
  out.max_context = config.learned_positions > 0 ? config.learned_positions : max_formula_context;
  RIDGE_TRY(chips, list_chips(config, options));
  out.chips = std::move(chips);
  const std::vector<std::string> by_chips = keep_free_sizes(out.chips);
  out.free_sizes.assign(step_size_names.begin(), step_size_names.end());
  out.free_sizes.insert(out.free_sizes.end(), by_chips.begin(), by_chips.end());
  for (const model::CountOptions& formats : list_formats(config, options))
    for (const ModelPhase phase : {ModelPhase::prefill, ModelPhase::decode}) {
      std::vector<std::int64_t> limits = list_context_limits(config, phase);
      limits.push_back(0);
      for (const std::int64_t limit : limits) {
        if (limit > 0 && limit < out.min_context) continue;
        for (const bool has_rest : {false, true}) {
          if (has_rest && (phase == ModelPhase::decode || out.recurrent_chunk == 0)) continue;
          const StepFormulas empty{phase, limit, has_rest, formats.weight_dtype, formats.cache_dtype, {}};
          RIDGE_TRY(step, make_step(config, empty, out.free_sizes));
          out.steps.push_back(std::move(step));
        }
      }
    }
  RIDGE_TRY_STATUS(add_encoders(config, image_size, out));
  RIDGE_TRY(count, model::count_model(config, options));
  // Elements of mxfp4 contain their scales in the programs.
  const bool has_scales = config.quantization && config.quantization->method != model::QuantizationMethod::mxfp4;
  if (has_scales) out.scale_bytes = static_cast<double>(count.scale_bytes);
  for (const model::PartCount& part : count.parts)
    if (!part.is_in_programs) out.encoder_bytes += static_cast<double>(part.weight_bytes);
  return out;
}

}  // namespace ridge
