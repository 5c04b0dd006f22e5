#include "ridge/model/audio_program.h"

#include <fmt/format.h>

#include "ridge/model/activations.h"
#include "ridge/model/count.h"
#include "ridge/model/encoder_layers.h"

namespace ridge::model {
namespace {

constexpr std::int64_t max_clips = 1 << 24;

// Adds the convolutions over three frames. The first one reads its windows, as they are stored; the second one takes
// every other window of what the first one computes.
void add_convolutions(ProgramWriter& out, const AudioConfig& audio, const EncoderSizes& sizes) {
  const auto call = [&](const std::string& x) { return fmt::format(fmt::runtime(sizes.function), x); };
  out.begin_module("audio convolutions");
  for (const auto& [name, size] :
       {std::pair{"FR", 2 * audio.vectors}, {"CV", 3 * audio.bins}, {"V", audio.width}, {"KW", std::int64_t{3}}})
    out.add_dimension(name, size);
  out.add_input("data", "frames", sizes.dtype, "IM, FR, CV");
  for (const auto& [name, dims] : {std::pair{"conv1", "CV, V"}, {"bias1", "V"}, {"conv2", "KW, V, W"}, {"bias2", "W"}})
    out.add_parameter(name, sizes.dtype, dims);
  out.add_parameter("positions", sizes.dtype, "NP, W");
  out.add("c0", "IM, FR, V", "frames * conv1");
  out.add("c1", "IM, FR, V", "c0 + bias1");
  out.add_stored("c2", sizes.dtype, "IM, FR, V", call("c1"));
  out.add_indices("at", "NP, KW", "min(2 * index(NP) + index(KW), size(FR) - 1)");
  out.add("windows", "IM, NP, KW, V", "gather(c2, at over FR)");
  out.add("d0", "IM, NP, W", "windows * conv2");
  out.add("d1", "IM, NP, W", "d0 + bias2");
  out.add_stored("x", sizes.dtype, "IM, NP, W", call("d1") + " + positions");
}

// Adds the keys and values of one layer of the language model.
void add_cross_keys(ProgramWriter& out, const ModelConfig& config, const EncoderSizes& sizes, DType cache) {
  out.begin_module("keys and values of sounds");
  out.add_dimension("G", config.kv_heads);
  out.add_dimension("E", config.head_size);
  for (const auto& [name, dims] : {std::pair{"wxk", "W, G, E"}, {"wxv", "W, G, E"}, {"bxv", "G, E"}})
    out.add_parameter(name, sizes.dtype, dims);
  out.add_stored("xk", cache, "IM, NP, G, E", "x * wxk");
  out.add("xv0", "IM, NP, G, E", "x * wxv");
  out.add_stored("xv", cache, "IM, NP, G, E", "xv0 + bxv");
}

template <class Add>
PartProgram write_part(const EncoderSizes& sizes, const char* name, std::int64_t count, bool has_input, Add&& add) {
  ProgramWriter out;
  add_encoder_rows(out, sizes);
  if (has_input) out.add_input("data", "x", sizes.dtype, "IM, NP, W");
  add(out);
  return {.name = name, .count = count, .text = out.text(), .modules = out.modules()};
}

}  // namespace

Result<ModelPrograms> write_audio_programs(const ModelConfig& config, const StepOptions& formats, std::int64_t clips) {
  if (!config.audio) return input_error(fmt::format("{}: expected an audio encoder, found none", config.name));
  const AudioConfig& audio = *config.audio;
  if (clips < 1 || clips > max_clips)
    return usage_error(fmt::format("expected from 1 to {} clips, found {}", max_clips, clips));
  RIDGE_TRY(function, find_activation(audio.activation, config.name));
  const EncoderSizes sizes{.name = "audio",
                           .dtype = activation_dtype(formats.weight_dtype),
                           .inputs = clips,
                           .vectors = audio.vectors,
                           .width = audio.width,
                           .heads = audio.heads,
                           .feed_forward = audio.feed_forward,
                           .function = function,
                           .has_key_bias = false};
  ModelPrograms out;
  out.parts.push_back(write_part(sizes, "audio convolutions", 1, false,
                                 [&](ProgramWriter& writer) { add_convolutions(writer, audio, sizes); }));
  out.parts.push_back(write_part(sizes, "audio layer", audio.layers, true,
                                 [&](ProgramWriter& writer) { add_encoder_layer(writer, sizes, "x", "z"); }));
  out.parts.push_back(write_part(sizes, "audio norm", 1, true, [&](ProgramWriter& writer) {
    writer.begin_module("audio norm");
    add_encoder_norm(writer, sizes, "h", "x", "f");
  }));
  out.parts.push_back(
      write_part(sizes, "keys and values of sounds", std::ssize(config.layers), true,
                 [&](ProgramWriter& writer) { add_cross_keys(writer, config, sizes, formats.cache_dtype); }));
  return out;
}

}  // namespace ridge::model
