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

// Adds queries, keys and values of the new tokens: a product each, a bias, a norm along the head, rotary positions.
void add_heads(ProgramWriter& out, const StepSizes& sizes, bool is_sliding, const std::string& query_dims) {
  const ModelConfig& config = sizes.config;
  const std::string key_dims = "G, E", x = add_operand(out, sizes.matrix, "h$", sizes.rows_and("D"));
  for (const char letter : {'q', 'k', 'v'}) {
    const std::string& dims = letter == 'q' ? query_dims : key_dims;
    out.add_parameter(fmt::format("w{}$", letter), sizes.matrix, "D, " + dims);
    std::vector<std::string> functions{fmt::format("{} * w{}$", x, letter)};
    if (config.has_qkv_bias) {
      out.add_parameter(fmt::format("b{}$", letter), sizes.parameter, dims);
      functions.push_back(fmt::format("{{}} + b{}$", letter));
    }
    if (config.has_qk_norm && letter != 'v') {
      out.add_parameter(fmt::format("norm{}$", letter), sizes.parameter, "E");
      functions.push_back(fmt::format("rmsnorm({{}} over E) * norm{}$", letter));
    }
    if (config.learned_positions == 0 && letter != 'v')
      functions.push_back(write_rotary(sizes, is_sliding, "E", false));
    add_function_chain(out, sizes, std::string(1, letter), sizes.rows_and(dims), functions, letter != 'q');
  }
}

void add_grouped_attention(ProgramWriter& out, const StepSizes& sizes, bool is_sliding) {
  const std::int64_t shared_by = sizes.heads / sizes.kv_heads, count = count_keys(sizes, is_sliding);
  const std::string keys = is_sliding ? "U" : "T", heads = shared_by > 1 ? "G, R" : "G";
  out.add_dimension(keys, count);
  out.add_dimension("G", sizes.kv_heads);
  if (shared_by > 1) out.add_dimension("R", shared_by);
  out.add_dimension("E", sizes.config.head_size);
  out.begin_module("query, key, value");
  add_norm(out, sizes, "h$", "x$", "1");
  add_heads(out, sizes, is_sliding, heads + ", E");
  out.begin_module("attention");
  for (const char* name : {"keys$", "values$"})
    out.add_input("cache", name, sizes.options.cache_dtype, fmt::format("B, {}, G, E", keys));
  const std::string pairs = fmt::format("{}, {}", sizes.rows_and(heads), keys);
  out.add("s$", pairs, "q$ * keys$");
  out.add("p$", pairs,
          fmt::format("softmax({} over {})",
                      write_scores(sizes, "s$", "rsqrt(size(E))", write_mask(sizes, is_sliding, keys)), keys));
  out.add("a$", sizes.rows_and(heads + ", E"), "p$ * values$");
  out.begin_module("attention output");
  const std::string a = add_operand(out, sizes.matrix, "a$", sizes.rows_and(heads + ", E"));
  out.add_parameter("wo$", sizes.matrix, heads + ", E, D");
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

// Few new tokens: the queries take over the matrix of keys, and the result that of values, so that all heads read the
// latent vectors. Many new tokens: keys and values of all heads are computed from the latent vectors once.
bool absorbs_matrices(const StepSizes& sizes) {
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
  out.begin_module("attention");
  if (absorbs) {
    out.add("qk$", sizes.rows_and("H, L"), "q$ * wk$");
  } else {
    out.add("k$", "B, T, H, N", "latents$ * wk$");
    out.add("v$", "B, T, H, J", "latents$ * wv$");
  }
  const std::string pairs = sizes.rows_and("H, T");
  out.add("s$", pairs, absorbs ? "qk$ * latents$" : "q$ * k$");
  out.add("sr$", pairs, "qr$ * positions$");
  const std::string scale = fmt::format("{:.6g}", 1 / std::sqrt(static_cast<double>(sizes.config.head_size)));
  out.add("p$", pairs,
          fmt::format("softmax({} over T)", write_scores(sizes, "(s$ + sr$)", scale, write_mask(sizes, false, "T"))));
  if (absorbs) out.add("al$", sizes.rows_and("H, L"), "p$ * latents$");
  out.add("a$", sizes.rows_and("H, J"), absorbs ? "al$ * wv$" : "p$ * v$");
  out.begin_module("attention output");
  const std::string a = add_operand(out, sizes.matrix, "a$", sizes.rows_and("H, J"));
  out.add_parameter("wo$", sizes.matrix, "H, J, D");
  add_product(out, sizes, sizes.matrix, "o$", sizes.rows_and("D"), a + " * wo$");
}

}  // namespace

std::int64_t count_keys(const StepSizes& sizes, bool is_sliding) {
  const StepOptions& o = sizes.options;
  const std::int64_t earlier = o.context - o.new_tokens;
  return o.new_tokens + (is_sliding ? std::min(earlier, sizes.config.window - 1) : earlier);
}

void add_attention(ProgramWriter& out, const StepSizes& sizes, bool is_sliding) {
  if (sizes.config.learned_positions == 0) add_positions(out, sizes);
  if (sizes.config.latent)
    add_latent_attention(out, sizes);
  else
    add_grouped_attention(out, sizes, is_sliding);
  std::string result = "o$";
  if (sizes.config.has_output_bias) {
    out.add_parameter("bo$", sizes.parameter, "D");
    result = "o$ + bo$";
  }
  if (sizes.config.norms_per_layer == 4) {
    add_norm(out, sizes, "on$", "o$", "3");
    result = "on$";
  }
  out.add("y$", sizes.rows_and("D"), "x$ + " + result);
}

}  // namespace ridge::model
