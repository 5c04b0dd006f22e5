#include "ridge/model/quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/base/ceil_div.h"
#include "ridge/base/string_util.h"
#include "ridge/model/key_reader.h"

namespace ridge::model {
namespace {

constexpr std::int64_t max_group = 1 << 20;

// Returns the group of a row; -1 in the file means the whole row.
std::int64_t read_group(KeyReader& reader) {
  const std::int64_t group = reader.read_integer("group_size", -1, max_group);
  if (group == 0) reader.fail("group_size", "expected -1 or a positive number, found 0");
  return std::max<std::int64_t>(group, 0);
}

// Fails if the list leaves out other modules than this method does. A name is expected to hold one of `known`.
void check_left_out(KeyReader& reader, const std::vector<std::string>& known) {
  for (const std::string& module : reader.read_texts("modules_to_not_convert"))
    if (std::none_of(known.begin(), known.end(), [&](const std::string& part) { return module.ends_with(part); }))
      reader.fail("modules_to_not_convert",
                  fmt::format("expected only names that end with {}, found '{}'", fmt::join(known, ", "),
                              make_printable(module)),
                  "matrices that this method quantizes otherwise cannot be left out yet");
}

QuantizationConfig read_fp8(KeyReader& reader) {
  QuantizationConfig out{.method = QuantizationMethod::fp8, .bits = 8};
  for (const char* unused : {"activation_scheme", "fmt", "scale_fmt"}) reader.skip(unused);
  const auto block = reader.read_integers("weight_block_size", max_group);
  if (reader.has_key("weight_block_size") && (block.size() != 2 || block[0] == 0 || block[1] == 0)) {
    reader.fail("weight_block_size", fmt::format("expected two positive numbers, found [{}]", fmt::join(block, ", ")));
  } else if (block.size() == 2) {
    out.block_rows = block[0];
    out.block_columns = block[1];
  }
  check_left_out(
      reader, {"lm_head", "embed_tokens", "mlp.gate", "norm", "e_score_correction_bias", "k_norm.bias", "indexers_proj",
               "eh_proj", "shared_expert_gate", "conv1d", "in_proj_ba", "in_proj_a", "in_proj_b", "A_log", "dt_bias"});
  return out;
}

QuantizationConfig read_gptq(KeyReader& reader) {
  QuantizationConfig out{.method = QuantizationMethod::gptq};
  out.bits = reader.read_integer("bits", 2, 8);
  if (out.bits != 2 && out.bits != 4 && out.bits != 8)
    reader.fail("bits", fmt::format("expected 2, 4 or 8, found {}", out.bits));
  out.group = read_group(reader);
  for (const char* unused : {"damp_percent", "desc_act", "static_groups", "sym", "true_sequential",
                             "model_file_base_name", "model_name_or_path", "dataset", "exllama_config", "use_exllama"})
    reader.skip(unused);
  if (const std::string format = reader.read_text_or("checkpoint_format", "gptq"); format != "gptq")
    reader.fail("checkpoint_format", fmt::format("expected gptq, found '{}'", make_printable(format)));
  if (reader.read_flag_or("lm_head", false))
    reader.fail("lm_head", "expected false, found true", "a quantized head is not counted yet");
  return out;
}

QuantizationConfig read_awq(KeyReader& reader) {
  QuantizationConfig out{.method = QuantizationMethod::awq};
  out.bits = reader.read_integer("bits", 4, 4);
  out.group = read_group(reader);
  if (!reader.read_flag_or("zero_point", true))
    reader.fail("zero_point", "expected true, found false", "AWQ without zero points is not counted yet");
  for (const char* unused : {"do_fuse", "exllama_config", "fuse_max_seq_len"}) reader.skip(unused);
  if (const std::string version = to_lower_case(reader.read_text_or("version", "gemm")); version != "gemm")
    reader.fail("version", fmt::format("expected gemm, found '{}'", make_printable(version)));
  check_left_out(reader, {"lm_head", "gate"});
  return out;
}

QuantizationConfig read_bitsandbytes(KeyReader& reader, const ModelConfig& config) {
  const bool is_4bit = reader.read_flag_or("load_in_4bit", false), is_8bit = reader.read_flag_or("load_in_8bit", false);
  for (const char* unused :
       {"_load_in_4bit", "_load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_quant_type", "bnb_4bit_quant_storage",
        "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_threshold"})
    reader.skip(unused);
  if (is_4bit == is_8bit)
    reader.fail("load_in_4bit",
                fmt::format("expected one of load_in_4bit and load_in_8bit, found {}", is_4bit ? "both" : "none"));
  for (const std::string& module : reader.read_texts("llm_int8_skip_modules"))
    if (module != "lm_head")
      reader.fail("llm_int8_skip_modules", fmt::format("expected only 'lm_head', found '{}'", make_printable(module)));
  if (config.experts)
    reader.fail("quant_method", "expected a model without experts for bitsandbytes",
                "which matrices of experts it quantizes depends on its version");
  const bool is_double = reader.read_flag_or("bnb_4bit_use_double_quant", false);
  if (is_8bit) return {.method = QuantizationMethod::int8, .bits = 8};
  return {.method = QuantizationMethod::nf4, .bits = 4, .group = 64, .has_double_quantization = is_double};
}

QuantizationConfig read_mxfp4(KeyReader& reader, const ModelConfig& config) {
  if (config.model_type != "gpt_oss")
    reader.fail("quant_method", fmt::format("expected model_type 'gpt_oss' with mxfp4, found '{}'", config.model_type),
                "its experts alone are quantized; other models are not counted yet");
  check_left_out(reader, {"self_attn", "mlp.router", "embed_tokens", "lm_head"});
  return {.method = QuantizationMethod::mxfp4, .bits = 4, .group = 32, .has_only_experts = true};
}

// True if the list leaves out all matrices but those of experts. It may also leave out none but the head and routers.
bool leaves_out_all_but_experts(KeyReader& reader) {
  const std::vector<std::string> ignored = reader.read_texts("ignore");
  const auto names = [&](std::string_view part) {
    return std::any_of(ignored.begin(), ignored.end(),
                       [&](const std::string& entry) { return entry.find(part) != std::string::npos; });
  };
  const int found = names("self_attn") + names("shared_experts") + names("(gate|up|gate_up|down)_proj");
  for (const std::string& entry : ignored)
    if (entry != "lm_head" && !entry.ends_with("mlp.gate$") && !entry.ends_with("mlp.gate") &&
        !(found == 3 && entry.starts_with("re:.*")))
      reader.fail("ignore",
                  fmt::format("expected lm_head and routers, or all matrices but those of experts, found '{}'",
                              make_printable(entry)),
                  "other matrices cannot be left out yet");
  return found == 3;
}

// Reads compressed-tensors with integers that are packed into 32-bit words, one group of settings for all matrices.
QuantizationConfig read_packed(KeyReader& reader) {
  QuantizationConfig out{.method = QuantizationMethod::packed};
  for (const char* unused : {"kv_cache_scheme", "quantization_status", "global_compression_ratio", "version",
                             "sparsity_config", "transform_config"})
    reader.skip(unused);
  if (const std::string format = reader.read_text("format"); format != "pack-quantized")
    reader.fail("format", fmt::format("expected pack-quantized, found '{}'", make_printable(format)));
  out.has_only_experts = leaves_out_all_but_experts(reader);
  const Json* groups = reader.find_object("config_groups");
  if (groups == nullptr || groups->size() != 1 || !groups->begin()->is_object()) {
    reader.fail("config_groups", "expected one group of settings, found others");
    return out;
  }
  const std::string path = reader.path_of("config_groups") + "." + make_printable(groups->items().begin().key()) + ".";
  KeyReader group(*groups->begin(), reader.source(), path);
  const Json* weights = group.find_object("weights");
  if (weights == nullptr) {
    reader.fail("config_groups", "expected settings of weights, found none");
    return out;
  }
  KeyReader settings(*weights, reader.source(), path + "weights.");
  out.bits = settings.read_integer("num_bits", 4, 8);
  if (out.bits != 4 && out.bits != 8) settings.fail("num_bits", fmt::format("expected 4 or 8, found {}", out.bits));
  if (const std::string type = settings.read_text("type"); type != "int")
    settings.fail("type", fmt::format("expected int, found '{}'", make_printable(type)));
  if (!settings.read_flag_or("symmetric", true))
    settings.fail("symmetric", "expected true, found false", "zero points of this format are not counted yet");
  const std::string strategy = settings.read_text("strategy");
  if (strategy == "group")
    out.group = settings.read_integer("group_size", 1, max_group);
  else if (strategy != "channel")
    settings.fail("strategy", fmt::format("expected group or channel, found '{}'", make_printable(strategy)));
  if (!settings.status()) reader.keep(settings.status().error());
  return out;
}

// Fails if a matrix of the model does not fill the 32-bit words in which GPTQ and AWQ pack weights and zero points.
void check_packing(KeyReader& reader, const QuantizationConfig& quantization, const ModelConfig& config) {
  if (quantization.method != QuantizationMethod::gptq && quantization.method != QuantizationMethod::awq) return;
  const std::int64_t elements = 32 / quantization.bits;
  for (const std::int64_t size : {config.width, config.feed_forward_width, config.heads * config.head_size,
                                  config.kv_heads * config.head_size, config.experts ? config.experts->width : 0})
    if (size % elements != 0)
      reader.fail("bits", fmt::format("expected matrix sides that are multiples of {}, which fill 32 bits, found {}",
                                      elements, size));
}

}  // namespace

Result<QuantizationConfig> read_quantization(const Json& object, const std::string& source, const std::string& prefix,
                                             const ModelConfig& config) {
  KeyReader reader(object, source, prefix);
  const std::string method = reader.read_text("quant_method");
  RIDGE_TRY_STATUS(reader.status());
  QuantizationConfig out;
  if (method == "fp8")
    out = read_fp8(reader);
  else if (method == "gptq")
    out = read_gptq(reader);
  else if (method == "awq")
    out = read_awq(reader);
  else if (method == "bitsandbytes")
    out = read_bitsandbytes(reader, config);
  else if (method == "mxfp4")
    out = read_mxfp4(reader, config);
  else if (method == "compressed-tensors")
    out = read_packed(reader);
  else
    reader.fail("quant_method",
                fmt::format("expected fp8, gptq, awq, mxfp4, bitsandbytes or compressed-tensors, found '{}'",
                            make_printable(method)));
  if (config.model_type == "gpt_oss" && method != "mxfp4")
    reader.fail("quant_method", fmt::format("expected mxfp4 for model_type 'gpt_oss', found '{}'", method),
                "its experts are stored as one tensor, which other methods pack differently");
  if (config.latent && method != "fp8" && !out.has_only_experts)
    reader.fail("quant_method", fmt::format("expected fp8 with latent attention, found '{}'", method),
                "other methods leave out matrices that differ between files");
  check_packing(reader, out, config);
  RIDGE_TRY_STATUS(reader.check_all_read(fmt::format("quant_method '{}'", method)));
  return out;
}

QuantizedBytes count_quantized_bytes(const QuantizationConfig& quantization, std::int64_t rows, std::int64_t columns) {
  const std::int64_t elements = rows * columns;
  const std::int64_t groups = quantization.group > 0 ? ceil_div(columns, quantization.group) : 1;
  const std::int64_t values = ceil_div(elements * quantization.bits, std::int64_t{8});
  switch (quantization.method) {
    case QuantizationMethod::fp8:
      if (quantization.block_rows == 0) return {values, 4};  // one f32
      return {values, 4 * ceil_div(rows, quantization.block_rows) * ceil_div(columns, quantization.block_columns)};
    case QuantizationMethod::gptq:  // f16 scales, packed zero points, and the group of each input as an int32
      return {values, 2 * groups * rows + groups * rows * quantization.bits / 8 + 4 * columns};
    case QuantizationMethod::packed: return {values, 2 * groups * rows};
    case QuantizationMethod::awq:  // f16 scales and packed zero points
      return {values, 2 * groups * rows + groups * rows * quantization.bits / 8};
    case QuantizationMethod::mxfp4: return {ceil_div(rows * columns, std::int64_t{2}), rows * groups};
    case QuantizationMethod::int8: return {values, 4 * rows};  // an f32 per row
    case QuantizationMethod::nf4: {  // an f32 per 64 elements; or a byte, and an f32 per 256 bytes and for their mean
      const std::int64_t scales = ceil_div(elements, quantization.group);
      if (!quantization.has_double_quantization) return {values, 4 * scales};
      return {values, scales + 4 * ceil_div(scales, std::int64_t{256}) + 4};
    }
  }
  return {};
}

std::string describe(const QuantizationConfig& quantization) {
  constexpr std::array<std::string_view, 7> names{
      "fp8", "gptq", "awq", "mxfp4", "bitsandbytes nf4", "bitsandbytes int8", "packed integers"};
  std::string out(names[static_cast<std::size_t>(quantization.method)]);
  if (quantization.method == QuantizationMethod::gptq || quantization.method == QuantizationMethod::packed)
    out += fmt::format(", {} bits", quantization.bits);
  if (quantization.group > 0) out += fmt::format(", groups of {}", quantization.group);
  if (quantization.block_rows > 0)
    out += fmt::format(", blocks of {} x {}", quantization.block_rows, quantization.block_columns);
  if (quantization.has_double_quantization) out += ", scales in 8 bits";
  return out;
}

}  // namespace ridge::model
