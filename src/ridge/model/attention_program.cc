// Attention of a layer, with keys and values in the cache or in a latent vector.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ridge/model/layer_programs.h"

namespace ridge::model {
namespace {

// Returns the condition under which a new token sees a key, or nothing if all see all.
std::string write_mask(const StepSizes& sizes, bool is_sliding, std::string_view keys) {
  const std::int64_t count = count_keys(sizes, is_sliding), earlier = count - sizes.options.new_tokens;
  if (sizes.options.new_tokens == 1) return {};
  const std::string position = earlier == 0 ? "index(S)" : fmt::format("index(S) + {}", earlier);
  const std::string causal = fmt::format("index({}) <= {}", keys, position);
  if (!is_sliding || count <= sizes.config.window) return causal;
  if (sizes.config.has_chunks)
    return fmt::format("({}) * (floor(index({}) / {}) == floor(({}) / {}))", causal, keys, sizes.config.window,
                       position, sizes.config.window);
  return fmt::format("({}) * ({} - index({}) < {})", causal, position, keys, sizes.config.window);
}

// Adds a tensor that several functions compute in turn, the first of which is a product; `{}` is replaced by the
// result so far. The last one has the name.
void add_function_chain(ProgramWriter& out, const StepSizes& sizes, std::string_view name, std::string_view dims,
                        const std::vector<std::string>& functions, bool is_cached) {
  std::string so_far;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const bool is_last = i + 1 == functions.size();
    const std::string expression = fmt::format(fmt::runtime(functions[i]), so_far);
    so_far = is_last ? fmt::format("{}$", name) : fmt::format("{}{}$", name, i);
    if (is_last && is_cached)
      out.add_stored(so_far, sizes.options.cache_dtype, dims, expression);
    else if (i == 0)
      add_product(out, sizes, sizes.matrix, so_far, dims, expression);
    else
      out.add(so_far, dims, expression);
  }
}

std::string write_rotary(const StepSizes& sizes, bool is_sliding, std::string_view dim, bool is_interleaved) {
  const double base = is_sliding ? sizes.config.sliding_rotary_base : sizes.config.rotary_base;
  return fmt::format("rotary({{}}, t over {}{}{})", dim, base > 0 ? fmt::format(", base = {:.0f}", base) : "",
                     is_interleaved ? ", interleaved = 1" : "");
}

// Returns the scores with scale, softcap and mask.
std::string write_scores(const StepSizes& sizes, const std::string& scores, const std::string& scale,
                         const std::string& mask) {
  std::string out = fmt::format("{} * {}", scores, scale);
  if (const double cap = sizes.config.attention_softcap; cap > 0)
    out = fmt::format("{0:.10g} * tanh({1} / {0:.10g})", cap, out);
  return mask.empty() ? out : fmt::format("where({}, {}, -inf)", mask, out);
}

void add_positions(ProgramWriter& out, const StepSizes& sizes) { out.add_input("data", "t", DType::int32, sizes.rows); }

// Heads of a layer on one chip and the names of their dimensions. Layers with heads of their own have their own names.
struct ChipHeads {
  HeadConfig config;
  std::string keys, queries, size, tokens;  // "G", "G, R", "E", "T"
};

ChipHeads add_head_dimensions(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer) {
  const std::string mark = sizes.config.full_heads && !layer.is_sliding ? "1" : "";
  ChipHeads heads{.config = heads_of(sizes.config, layer)};
  const std::int64_t key_heads = sizes.key_heads(heads.config.kv_heads), shared_by = sizes.heads / key_heads;
  heads.keys = "G" + mark;
  heads.queries = shared_by > 1 ? fmt::format("G{0}, R{0}", mark) : heads.keys;
  heads.size = "E" + mark;
  heads.tokens = layer.is_sliding ? "U" : "T";
  out.add_dimension(heads.tokens, count_keys(sizes, layer.is_sliding));
  out.add_dimension(heads.keys, key_heads);
  if (shared_by > 1) out.add_dimension("R" + mark, shared_by);
  out.add_dimension(heads.size, heads.config.size);
  return heads;
}

// Returns the functions from a product to queries or keys: a bias, a norm along the head, rotary positions.
std::vector<std::string> list_functions(const StepSizes& sizes, const LayerConfig& layer, char letter,
                                        const ChipHeads& heads) {
  const ModelConfig& config = sizes.config;
  const bool has_positions = config.learned_positions == 0 && (layer.is_sliding || config.has_positions_in_full);
  const std::string plain_norm = fmt::format("rmsnorm({{}} over {})", heads.size);
  std::vector<std::string> functions;
  if (config.has_qkv_bias && (letter != 'k' || config.has_key_bias))
    functions.push_back(fmt::format("{{}} + b{}$", letter));
  if (letter == 'v') {
    if (config.has_plain_value_norm) functions.push_back(plain_norm);
    return functions;
  }
  if (config.has_qk_norm) functions.push_back(fmt::format("{} * norm{}$", plain_norm, letter));
  if (has_positions) functions.push_back(write_rotary(sizes, layer.is_sliding, heads.size, false));
  if (has_positions && config.has_plain_qk_norm) functions.push_back(plain_norm);
  return functions;
}

// Adds queries, keys and values of the new tokens.
void add_heads(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer, const ChipHeads& heads) {
  const ModelConfig& config = sizes.config;
  const std::string x = add_operand(out, sizes.matrix, "h$", sizes.rows_and("D"));
  for (const char letter : {'q', 'k', 'v'}) {
    const std::string dims = fmt::format("{}, {}", letter == 'q' ? heads.queries : heads.keys, heads.size);
    std::vector<std::string> functions = list_functions(sizes, layer, letter, heads);
    if (letter != 'v' || heads.config.has_values) {
      out.add_parameter(fmt::format("w{}$", letter), sizes.matrix, "D, " + dims);
      functions.insert(functions.begin(), fmt::format("{} * w{}$", x, letter));
    } else {
      functions.insert(functions.begin(), "k0$");  // Values are the keys before their norm
    }
    if (config.has_qkv_bias && (letter != 'k' || config.has_key_bias))
      out.add_parameter(fmt::format("b{}$", letter), sizes.parameter, dims);
    if (config.has_qk_norm && letter != 'v')
      out.add_parameter(fmt::format("norm{}$", letter), sizes.parameter, heads.size);
    add_function_chain(out, sizes, std::string(1, letter), sizes.rows_and(dims), functions, letter != 'q');
  }
  if (!config.has_output_gate) return;
  const std::string dims = heads.queries + ", " + heads.size;
  out.add_parameter("wgate$", sizes.matrix, "D, " + dims);
  add_product(out, sizes, sizes.matrix, "go$", sizes.rows_and(dims), x + " * wgate$");
}

void add_grouped_attention(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer) {
  const ChipHeads heads = add_head_dimensions(out, sizes, layer);
  out.begin_module("query, key, value");
  add_norm(out, sizes, "h$", "x$", "1");
  add_heads(out, sizes, layer, heads);
  out.begin_module("attention");
  for (const char* name : {"keys$", "values$"})
    out.add_input("cache", name, sizes.options.cache_dtype,
                  fmt::format("B, {}, {}, {}", heads.tokens, heads.keys, heads.size));
  const std::string pairs = fmt::format("{}, {}", sizes.rows_and(heads.queries), heads.tokens);
  const std::string scale = fmt::format("rsqrt(size({}))", heads.size);
  const std::string mask = write_mask(sizes, layer.is_sliding, heads.tokens);
  out.add("s$", pairs, "q$ * keys$");
  out.add("p$", pairs, fmt::format("softmax({} over {})", write_scores(sizes, "s$", scale, mask), heads.tokens));
  const std::string dims = sizes.rows_and(heads.queries + ", " + heads.size);
  std::string result = "a$";
  out.add(result, dims, "p$ * values$");
  out.begin_module("attention output");
  if (sizes.config.has_output_gate) {
    result = "ag$";
    out.add(result, dims, "a$ * sigmoid(go$)");
  }
  const std::string a = add_operand(out, sizes.matrix, result, dims);
  out.add_parameter("wo$", sizes.matrix, fmt::format("{}, {}, D", heads.queries, heads.size));
  add_product(out, sizes, sizes.matrix, "o$", sizes.rows_and("D"), a + " * wo$");
}

// Adds queries, from the input or through a latent vector of their own, and the latent vector of keys and values.
void add_latent_vectors(ProgramWriter& out, const StepSizes& sizes) {
  const LatentConfig& latent = *sizes.config.latent;
  const std::string x = add_operand(out, sizes.matrix, "h$", sizes.rows_and("D"));
  std::string queries = x, from = "D";
  if (latent.query_rank > 0) {
    out.add_dimension("Q", latent.query_rank);
    out.add_parameter("wl$", sizes.matrix, "D, Q");
    add_product(out, sizes, sizes.matrix, "l$", sizes.rows_and("Q"), x + " * wl$");
    add_norm(out, sizes, "ln$", "l$", "q", "Q");
    queries = add_operand(out, sizes.matrix, "ln$", sizes.rows_and("Q"));
    from = "Q";
  }
  out.add_parameter("wq$", sizes.matrix, from + ", H, N");
  out.add_parameter("wqr$", sizes.matrix, from + ", H, P");
  out.add_parameter("wc$", sizes.matrix, "D, L");
  out.add_parameter("wcr$", sizes.matrix, "D, P");
  add_product(out, sizes, sizes.matrix, "q$", sizes.rows_and("H, N"), queries + " * wq$");
  const std::string rotary = write_rotary(sizes, false, "P", true);
  add_function_chain(out, sizes, "qr", sizes.rows_and("H, P"), {queries + " * wqr$", rotary}, false);
  add_product(out, sizes, sizes.matrix, "c0$", sizes.rows_and("L"), x + " * wc$");
  out.add_parameter("normc$", sizes.parameter, "L");
  out.add_stored("c$", sizes.options.cache_dtype, sizes.rows_and("L"), "rmsnorm(c0$ over L) * normc$");
  add_function_chain(out, sizes, "cr", sizes.rows_and("P"), {x + " * wcr$", rotary}, true);
}

// True if the context has more tokens than the indexer chooses.
bool chooses_tokens(const StepSizes& sizes) {
  return sizes.config.indexer && count_keys(sizes, false) > sizes.config.indexer->chosen;
}

// Adds the indexer, which scores the tokens of the context with few small heads. Its result at$ names the best of them.
void add_indexer(ProgramWriter& out, const StepSizes& sizes) {
  const IndexerConfig& indexer = *sizes.config.indexer;
  out.add_dimension("HI", indexer.heads);
  out.add_dimension("EI", indexer.head_size);
  out.begin_module("indexer");
  const std::string x = add_operand(out, sizes.matrix, "h$", sizes.rows_and("D"));
  const std::string queries = add_operand(out, sizes.matrix, "ln$", sizes.rows_and("Q"));
  out.add_parameter("wiq$", sizes.matrix, "Q, HI, EI");
  out.add_parameter("wik$", sizes.matrix, "D, EI");
  out.add_parameter("wiw$", sizes.parameter, "D, HI");
  for (const char* norm : {"normi$", "shifti$"}) out.add_parameter(norm, sizes.parameter, "EI");
  add_product(out, sizes, sizes.matrix, "iq$", sizes.rows_and("HI, EI"), queries + " * wiq$");
  add_product(out, sizes, sizes.matrix, "ik0$", sizes.rows_and("EI"), x + " * wik$");
  out.add_stored("ik$", sizes.options.cache_dtype, sizes.rows_and("EI"), "layernorm(ik0$ over EI) * normi$ + shifti$");
  out.add("iw$", sizes.rows_and("HI"), "h$ * wiw$");
  out.add_input("cache", "indexed$", sizes.options.cache_dtype, "B, T, EI");
  out.add("is$", sizes.rows_and("HI, T"), "iq$ * indexed$");
  out.add("ir$", sizes.rows_and("HI, T"), "relu(is$)");
  out.add("ix$", sizes.rows_and("T"), "ir$ * iw$");
  if (!chooses_tokens(sizes)) return;
  const std::string mask = write_mask(sizes, false, "T");
  out.add_dimension("KI", indexer.chosen);
  if (!mask.empty()) out.add("im$", sizes.rows_and("T"), fmt::format("where({}, ix$, -inf)", mask));
  const std::string scores = mask.empty() ? "ix$" : "im$";
  out.add("at$", sizes.rows_and("KI"), fmt::format("topk({} over T)", scores));
  if (!mask.empty()) out.add("best$", sizes.rows_and("KI"), fmt::format("gather({}, at$ over T)", scores));
}

// Few new tokens: the queries take over the matrix of keys, and the result that of values, so that all heads read the
// latent vectors. Many new tokens: keys and values of all heads are computed from the latent vectors once.
// A token's own choice of tokens is read as latent vectors.
bool absorbs_matrices(const StepSizes& sizes) {
  if (chooses_tokens(sizes)) return true;
  const LatentConfig& latent = *sizes.config.latent;
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double tokens = d(sizes.options.new_tokens), context = d(sizes.options.context), pairs = tokens * context;
  const double matrices = d(latent.rank) * (d(latent.nope_size) + d(latent.value_size));
  const double absorbed = pairs * (2 * d(latent.rank) + d(latent.rope_size)) + tokens * matrices;
  const double separate = pairs * d(latent.nope_size + latent.rope_size + latent.value_size) + context * matrices;
  return absorbed <= separate;
}

void add_latent_attention(ProgramWriter& out, const StepSizes& sizes) {
  const LatentConfig& latent = *sizes.config.latent;
  for (const auto& [name, size] : std::vector<std::pair<const char*, std::int64_t>>{{"T", count_keys(sizes, false)},
                                                                                    {"H", sizes.heads},
                                                                                    {"L", latent.rank},
                                                                                    {"N", latent.nope_size},
                                                                                    {"P", latent.rope_size},
                                                                                    {"J", latent.value_size}})
    out.add_dimension(name, size);
  out.begin_module("query, key, value");
  add_norm(out, sizes, "h$", "x$", "1");
  add_latent_vectors(out, sizes);
  const bool absorbs = absorbs_matrices(sizes);
  out.add_input("cache", "latents$", sizes.options.cache_dtype, "B, T, L");
  out.add_input("cache", "positions$", sizes.options.cache_dtype, "B, T, P");
  out.add_parameter("wk$", sizes.matrix, "L, H, N");
  out.add_parameter("wv$", sizes.matrix, "L, H, J");
  if (sizes.config.indexer) add_indexer(out, sizes);
  out.begin_module("attention");
  std::string tokens = "T", latents = "latents$", positions = "positions$", mask = write_mask(sizes, false, "T");
  if (chooses_tokens(sizes)) {
    tokens = "KI";
    out.add("lc$", sizes.rows_and("KI, L"), "gather(latents$, at$ over T)");
    out.add("lp$", sizes.rows_and("KI, P"), "gather(positions$, at$ over T)");
    latents = "lc$";
    positions = "lp$";
    if (!mask.empty()) mask = "best$ > -inf";
  }
  if (absorbs) {
    out.add("qk$", sizes.rows_and("H, L"), "q$ * wk$");
  } else {
    out.add("k$", "B, T, H, N", "latents$ * wk$");
    out.add("v$", "B, T, H, J", "latents$ * wv$");
  }
  const std::string pairs = sizes.rows_and("H, " + tokens);
  out.add("s$", pairs, absorbs ? "qk$ * " + latents : "q$ * k$");
  out.add("sr$", pairs, "qr$ * " + positions);
  const std::string scale = fmt::format("{:.6g}", 1 / std::sqrt(static_cast<double>(sizes.config.head_size)));
  out.add("p$", pairs, fmt::format("softmax({} over {})", write_scores(sizes, "(s$ + sr$)", scale, mask), tokens));
  if (absorbs) out.add("al$", sizes.rows_and("H, L"), "p$ * " + latents);
  out.add("a$", sizes.rows_and("H, J"), absorbs ? "al$ * wv$" : "p$ * v$");
  out.begin_module("attention output");
  const std::string a = add_operand(out, sizes.matrix, "a$", sizes.rows_and("H, J"));
  out.add_parameter("wo$", sizes.matrix, "H, J, D");
  add_product(out, sizes, sizes.matrix, "o$", sizes.rows_and("D"), a + " * wo$");
}

// Adds attention to the encoder's results, from yx$ to its result with a bias. Keys and values are in the cache.
std::string add_cross_attention(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer) {
  const ChipHeads heads = add_head_dimensions(out, sizes, layer);
  const std::string queries = fmt::format("{}, {}", heads.queries, heads.size);
  out.add_dimension("AX", sizes.config.audio->vectors);
  out.begin_module("cross attention");
  add_norm(out, sizes, "hx$", "yx$", "x");
  const std::string x = add_operand(out, sizes.matrix, "hx$", sizes.rows_and("D"));
  out.add_parameter("wxq$", sizes.matrix, "D, " + queries);
  out.add_parameter("bxq$", sizes.parameter, queries);
  add_product(out, sizes, sizes.matrix, "xq0$", sizes.rows_and(queries), x + " * wxq$");
  out.add("xq$", sizes.rows_and(queries), "xq0$ + bxq$");
  for (const char* name : {"xkeys$", "xvalues$"})
    out.add_input("cache", name, sizes.options.cache_dtype, fmt::format("B, AX, {}, {}", heads.keys, heads.size));
  const std::string pairs = sizes.rows_and(heads.queries + ", AX");
  out.add("xs$", pairs, "xq$ * xkeys$");
  out.add("xp$", pairs, fmt::format("softmax(xs$ * rsqrt(size({})) over AX)", heads.size));
  out.add("xa$", sizes.rows_and(queries), "xp$ * xvalues$");
  const std::string a = add_operand(out, sizes.matrix, "xa$", sizes.rows_and(queries));
  out.add_parameter("wxo$", sizes.matrix, queries + ", D");
  out.add_parameter("bxo$", sizes.parameter, "D");
  add_product(out, sizes, sizes.matrix, "xo$", sizes.rows_and("D"), a + " * wxo$");
  return "xo$ + bxo$";
}

void add_recurrent(ProgramWriter& out, const StepSizes& sizes, Mixer mixer) {
  out.begin_module(mixer == Mixer::gated_delta ? "query, key, value" : "mamba input");
  add_norm(out, sizes, "h$", "x$", "1");
  if (mixer == Mixer::gated_delta) return add_gated_delta(out, sizes);
  mixer == Mixer::mamba1 ? add_mamba1(out, sizes) : add_mamba2(out, sizes);
}

}  // namespace

std::int64_t count_keys(const StepSizes& sizes, bool is_sliding) {
  const StepOptions& o = sizes.options;
  const std::int64_t earlier = o.context - o.new_tokens;
  if (!is_sliding) return o.context;
  if (sizes.config.has_chunks) return o.new_tokens + earlier % sizes.config.window;
  return o.new_tokens + std::min(earlier, sizes.config.window - 1);
}

void add_mixer(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer, std::string_view result) {
  const ModelConfig& config = sizes.config;
  std::string sum = "o$";
  if (layer.mixer == Mixer::attention) {
    const bool has_positions = config.latent || layer.is_sliding || config.has_positions_in_full;
    if (config.learned_positions == 0 && has_positions) add_positions(out, sizes);
    if (config.latent)
      add_latent_attention(out, sizes);
    else
      add_grouped_attention(out, sizes, layer);
    if (config.has_output_bias) {
      out.add_parameter("bo$", sizes.parameter, "D");
      sum = "o$ + bo$";
    }
  } else {
    add_recurrent(out, sizes, layer.mixer);
  }
  if (config.norms_per_layer >= 4) {
    add_norm(out, sizes, "on$", "o$", "3");
    sum = "on$";
  }
  std::string input = "x$";
  if (config.audio) {
    out.add("yx$", sizes.rows_and("D"), "x$ + " + sum);
    sum = add_cross_attention(out, sizes, layer);
    input = "yx$";
  }
  if (layer.has_feed_forward)
    out.add("y$", sizes.rows_and("D"), input + " + " + sum);
  else
    out.add_stored(result, sizes.activation, sizes.rows_and("D"), "x$ + " + sum);
}

}  // namespace ridge::model
