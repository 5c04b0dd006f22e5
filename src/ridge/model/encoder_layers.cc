#include "ridge/model/encoder_layers.h"

#include <fmt/format.h>

namespace ridge::model {

void add_encoder_rows(ProgramWriter& out, const EncoderSizes& sizes) {
  out.add_dimension("IM", sizes.inputs);
  out.add_dimension("NP", sizes.vectors);
  out.add_dimension("W", sizes.width);
}

void add_encoder_norm(ProgramWriter& out, const EncoderSizes& sizes, const std::string& result, const std::string& x,
                      const std::string& mark) {
  if (sizes.is_gated) {
    out.add_parameter(fmt::format("norm{}$", mark), sizes.dtype, "W");
    return out.add(result, "IM, NP, W", fmt::format("rmsnorm({0} over W) * norm{1}$", x, mark));
  }
  for (const char* name : {"norm", "shift"}) out.add_parameter(fmt::format("{}{}$", name, mark), sizes.dtype, "W");
  out.add(result, "IM, NP, W", fmt::format("layernorm({0} over W) * norm{1}$ + shift{1}$", x, mark));
}

void add_encoder_linear(ProgramWriter& out, const EncoderSizes& sizes, const std::string& result,
                        const std::string& rows, const std::string& x, const std::string& from, const std::string& to,
                        bool is_stored) {
  out.add_parameter(fmt::format("w{}$", result), sizes.dtype, fmt::format("{}, {}", from, to));
  const std::string dims = fmt::format("{}, {}", rows, to);
  const std::string product = fmt::format("{} * w{}$", x, result);
  if (sizes.is_gated) return out.add(result + "$", dims, product);
  if (result == "k" && !sizes.has_key_bias) return out.add_stored(result + "$", sizes.dtype, dims, product);
  out.add_parameter(fmt::format("b{}$", result), sizes.dtype, to);
  out.add(fmt::format("{}0$", result), dims, product);
  const std::string sum = fmt::format("{0}0$ + b{0}$", result);
  is_stored ? out.add_stored(result + "$", sizes.dtype, dims, sum) : out.add(result + "$", dims, sum);
}

namespace {

// Adds queries, keys and values with norms along the head, those of values without weights.
void add_normalized_heads(ProgramWriter& out, const EncoderSizes& sizes) {
  const std::string dims = "IM, NP, H, E";
  for (const std::string name : {"q", "k", "v"}) {
    add_encoder_linear(out, sizes, name + "0", "IM, NP", "h$", "W", "H, E");
    const std::string norm = fmt::format("rmsnorm({}0$ over E)", name);
    if (name == "v") return out.add_stored("v$", sizes.dtype, dims, norm);
    out.add_parameter(fmt::format("norm{}$", name), sizes.dtype, "E");
    out.add(name + "1$", dims, fmt::format("{} * norm{}$", norm, name));
    out.add_stored(name + "$", sizes.dtype, dims, fmt::format("rotary({}1$, t over E)", name));
  }
}

// Adds attention of all patches to all patches of an image, from q$, k$ and v$ to y$, which includes x.
void add_patch_pairs(ProgramWriter& out, const EncoderSizes& sizes, const std::string& x) {
  out.begin_module(sizes.name + " attention");
  out.add_indices("key$", "KP", "index(KP)");
  out.add("keys$", "IM, KP, H, E", "gather(k$, key$ over NP)");
  out.add("values$", "IM, KP, H, E", "gather(v$, key$ over NP)");
  out.add("s$", "IM, NP, H, KP", "q$ * keys$");
  // Normalized queries and keys have no scale.
  const char* scores = sizes.is_gated ? "softmax(s$ over KP)" : "softmax(s$ * rsqrt(size(E)) over KP)";
  out.add("p$", "IM, NP, H, KP", scores);
  out.add("a$", "IM, NP, H, E", "p$ * values$");
  out.begin_module(sizes.name + " attention output");
  add_encoder_linear(out, sizes, "o", "IM, NP", "a$", "H, E", "W");
  std::string sum = "o$";
  if (sizes.is_gated) {
    add_encoder_norm(out, sizes, "on$", "o$", "3");
    sum = "on$";
  }
  out.add("y$", "IM, NP, W", fmt::format("{} + {}", x, sum));
}

void add_attention(ProgramWriter& out, const EncoderSizes& sizes, const std::string& x) {
  out.add_dimension("KP", sizes.vectors);
  out.add_dimension("H", sizes.heads);
  out.add_dimension("E", sizes.width / sizes.heads);
  out.begin_module(sizes.name + " query, key, value");
  add_encoder_norm(out, sizes, "h$", x, "1");
  const bool turns = sizes.has_rotary;
  if (turns) out.add_input("data", "t", DType::int32, "NP");
  if (sizes.is_gated) {
    add_normalized_heads(out, sizes);
    return add_patch_pairs(out, sizes, x);
  }
  for (const std::string name : {"q", "k", "v"})
    add_encoder_linear(out, sizes, turns && name != "v" ? name + "r" : name, "IM, NP", "h$", "W", "H, E",
                       !turns || name == "v");
  if (turns)
    for (const std::string name : {"q", "k"})
      out.add_stored(name + "$", sizes.dtype, "IM, NP, H, E", fmt::format("rotary({}r$, t over E)", name));
  add_patch_pairs(out, sizes, x);
}

}  // namespace

void add_encoder_layer(ProgramWriter& out, const EncoderSizes& sizes, const std::string& x, const std::string& result) {
  add_attention(out, sizes, x);
  out.begin_module(sizes.name + " feed-forward");
  out.add_dimension("F", sizes.feed_forward);
  add_encoder_norm(out, sizes, "h2$", "y$", "2");
  const bool is_gated = sizes.is_gated;
  if (is_gated) add_encoder_linear(out, sizes, "gate", "IM, NP", "h2$", "W", "F");
  add_encoder_linear(out, sizes, "up", "IM, NP", "h2$", "W", "F");
  const std::string call = fmt::format(fmt::runtime(sizes.function), is_gated ? "gate$" : "up$");
  out.add("g$", "IM, NP, F", is_gated ? call + " * up$" : call);
  add_encoder_linear(out, sizes, "down", "IM, NP", "g$", "F", "W");
  if (is_gated) add_encoder_norm(out, sizes, "dn$", "down$", "4");
  out.add_stored(result, sizes.dtype, "IM, NP, W", is_gated ? "y$ + dn$" : "y$ + down$");
}

}  // namespace ridge::model
