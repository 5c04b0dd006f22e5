// The feed-forward part of a layer: two or three matrices, or experts that a router chooses.
#include <fmt/format.h>

#include <cmath>

#include "ridge/model/layer_programs.h"

namespace ridge::model {
namespace {

std::string apply_function(const StepSizes& sizes, const std::string& x) {
  return fmt::format(fmt::runtime(sizes.function), x);
}

// Adds one network of the width of dimension `width`, from x to the result. `number` distinguishes its tensors.
void add_network(ProgramWriter& out, const StepSizes& sizes, const std::string& x, const std::string& width,
                 const std::string& number, std::string_view result) {
  const ModelConfig& config = sizes.config;
  const std::string dims = sizes.rows_and(width);
  const auto add_layer = [&](const std::string& name, const std::string& operand, const std::string& weights,
                             const std::string& from, const std::string& to) {
    out.add_parameter(fmt::format("{}{}$", weights, number), sizes.matrix, fmt::format("{}, {}", from, to));
    const bool has_bias = config.has_feed_forward_bias;
    const std::string product = has_bias ? name.substr(0, name.size() - 1) + "0$" : name;
    add_product(out, sizes, sizes.matrix, product, sizes.rows_and(to),
                fmt::format("{} * {}{}$", operand, weights, number));
    if (!has_bias) return;
    out.add_parameter(fmt::format("b{}{}$", weights, number), sizes.parameter, to);
    out.add(name, sizes.rows_and(to), fmt::format("{} + b{}{}$", product, weights, number));
  };
  const std::string u = fmt::format("u{}$", number), g = fmt::format("g{}$", number), m = fmt::format("m{}$", number);
  if (config.is_gated) add_layer(g, x, "gate", "D", width);
  add_layer(u, x, "up", "D", width);
  out.add(m, dims, config.is_gated ? apply_function(sizes, g) + " * " + u : apply_function(sizes, u));
  add_layer(std::string(result), add_operand(out, sizes.matrix, m, dims), "down", width, "D");
}

// Rule that chooses and weights a token's experts.
enum class RouterRule {
  softmax_of_chosen,  // The best logits; softmax over them
  sigmoid_of_chosen,  // The best logits; sigmoid of each
  sigmoid_of_all,     // The best of corrected sigmoids
  softmax_of_all
};

RouterRule find_router_rule(const ModelConfig& config) {
  const std::string& type = config.model_type;
  if (type == "mixtral" || type == "gpt_oss") return RouterRule::softmax_of_chosen;
  if (type == "llama4_text") return RouterRule::sigmoid_of_chosen;
  return config.experts->has_score_correction ? RouterRule::sigmoid_of_all : RouterRule::softmax_of_all;
}

// Adds the chosen experts i$ and their weights e$, from the router's input.
void add_router(ProgramWriter& out, const StepSizes& sizes, const std::string& x) {
  const std::string experts = sizes.rows_and("X"), chosen = sizes.rows_and("K");
  const ExpertConfig& config = *sizes.config.experts;
  const RouterRule rule = find_router_rule(sizes.config);
  out.add_parameter("router$", sizes.parameter, "D, X");
  out.add(config.has_router_bias ? "r0$" : "r$", experts, x + " * router$");
  if (config.has_router_bias) {
    out.add_parameter("brouter$", sizes.parameter, "X");
    out.add("r$", experts, "r0$ + brouter$");
  }
  const bool chooses_by_logits = rule == RouterRule::softmax_of_chosen || rule == RouterRule::sigmoid_of_chosen;
  std::string choice = "r$";
  if (!chooses_by_logits) {
    choice = "f$";
    out.add("f$", experts, rule == RouterRule::sigmoid_of_all ? "sigmoid(r$)" : "softmax(r$ over X)");
  }
  std::string corrected = choice;
  if (config.has_score_correction) {
    corrected = "fc$";
    out.add_parameter("correction$", sizes.parameter, "X");
    out.add("fc$", experts, "f$ + correction$");
  }
  out.add("i$", chosen, fmt::format("topk({} over X)", corrected));
  out.add("e0$", chosen, fmt::format("gather({}, i$ over X)", choice));
  std::string weights = config.has_normalized_weights ? "e0$ / sum(e0$ over K)" : "e0$";
  if (chooses_by_logits) weights = rule == RouterRule::softmax_of_chosen ? "softmax(e0$ over K)" : "sigmoid(e0$)";
  if (config.has_dense_part) {
    out.add_parameter("escale$", sizes.parameter, "X");
    out.add("es$", chosen, "gather(escale$, i$ over X)");
    weights += " * es$";
  }
  out.add("e$", chosen, weights);
}

// The rows of the experts on a chip: its own tokens with the experts that they chose, or rows that chips sent, each for
// one expert.
struct RoutedRows {
  std::string dims, indices, experts;  // "B, K", "i$", "X"
};

// Adds a product with the chosen experts, and their bias.
void add_routed(ProgramWriter& out, const StepSizes& sizes, const RoutedRows& rows, const std::string& name,
                const std::string& x, const std::string& weights, const std::string& from, const std::string& to) {
  const std::string dims = rows.dims + ", " + to, &experts = rows.experts;
  out.add_parameter(weights + "$", sizes.expert, fmt::format("{}, {}, {}", experts, to, from));
  const bool has_bias = sizes.config.has_feed_forward_bias;
  add_product(out, sizes, sizes.expert, has_bias ? name + "0$" : name + "$", dims,
              fmt::format("routed({}, {}$, {} over {})", x, weights, rows.indices, experts));
  if (!has_bias) return;
  out.add_parameter(fmt::format("b{}$", weights), sizes.parameter, experts + ", " + to);
  out.add(fmt::format("b{}$", name), dims, fmt::format("gather(b{}$, {} over {})", weights, rows.indices, experts));
  out.add(name + "$", dims, fmt::format("{0}0$ + b{0}$", name));
}

// Adds the products of experts on rows x with the features D.
void add_expert_products(ProgramWriter& out, const StepSizes& sizes, const RoutedRows& rows, const std::string& x) {
  const bool is_gated = sizes.config.is_gated;
  if (is_gated) add_routed(out, sizes, rows, "g", x, "gate", "D", "M");
  add_routed(out, sizes, rows, "u", x, "up", "D", "M");
  const bool is_clamped = sizes.config.model_type == "gpt_oss";
  const std::string dims = rows.dims + ", M";
  const std::string plain = is_gated ? apply_function(sizes, "g$") + " * u$" : apply_function(sizes, "u$");
  out.add("m$", dims, is_clamped ? "(clamp(u$, -7, 7) + 1) * min(g$, 7) * sigmoid(1.702 * min(g$, 7))" : plain);
  add_routed(out, sizes, rows, "d", add_operand(out, sizes.expert, "m$", dims), "down", "M", "D");
}

// Adds a chip's own experts on `rows` rows, which are an input.
void add_own_experts(ProgramWriter& out, const StepSizes& sizes, std::int64_t rows) {
  out.add_dimension("A", rows);
  out.add_dimension("O", 1);
  out.add_dimension("W", sizes.experts);
  out.add_input("data", "sent$", sizes.activation, "A, D");
  out.add_input("data", "j$", DType::int32, "A, O");
  add_expert_products(out, sizes, {"A, O", "j$", "W"}, add_operand(out, sizes.expert, "sent$", "A, D"));
}

// Adds the experts of a chip on rows that all data ranks sent, and the sum w$ of what returns for its own tokens. With
// balanced routing a chip gets as many rows as it sends.
void add_sent_experts(ProgramWriter& out, const StepSizes& sizes) {
  add_own_experts(out, sizes, count_rows(sizes) * sizes.config.experts->per_token);
  out.add_input("data", "returned$", sizes.activation, sizes.rows_and("K, D"));
  out.add("w$", sizes.rows_and("D"), "returned$ * e$");
}

// Adds the experts of the busiest chip, which has all tokens. The sum of its rows to w$, for all tokens, is an input.
void add_busiest_experts(ProgramWriter& out, const StepSizes& sizes) {
  add_own_experts(out, sizes, static_cast<std::int64_t>(std::ceil(bound_busiest_rows(make_routing(sizes)))));
  out.add_input("data", "returned$", sizes.activation, sizes.rows_and("D"));
  out.add("w$", sizes.rows_and("D"), "returned$");
}

// Adds the experts of the rows `x`, to the sum w$ over a token's experts.
void add_chosen_experts(ProgramWriter& out, const StepSizes& sizes, const std::string& x) {
  out.begin_module("experts");
  const std::string chosen = sizes.rows_and("K");
  if (sizes.sends_rows_to_experts()) return add_sent_experts(out, sizes);
  if (sizes.divides_experts_of_all_tokens()) return add_busiest_experts(out, sizes);
  const bool scales_input = find_router_rule(sizes.config) == RouterRule::sigmoid_of_chosen;
  if (scales_input) {  // Llama 4 weights the rows before the experts, not their results
    out.add("xe$", sizes.rows_and("K, D"), x + " * e$");
    add_expert_products(out, sizes, {chosen, "i$", "X"}, add_operand(out, sizes.expert, "xe$", sizes.rows_and("K, D")));
    out.add("w$", sizes.rows_and("D"), "sum(d$ over K)");
    return;
  }
  add_expert_products(out, sizes, {chosen, "i$", "X"}, add_operand(out, sizes.expert, x, sizes.rows_and("D")));
  out.add("w$", sizes.rows_and("D"), "d$ * e$");
}

void add_expert_dimensions(ProgramWriter& out, const StepSizes& sizes) {
  out.add_dimension("X", sizes.config.experts->routed);
  out.add_dimension("K", sizes.config.experts->per_token);
  out.add_dimension("M", sizes.expert_width);
}

// Adds router and experts of the input y. Returns the sum of all experts.
std::string add_experts(ProgramWriter& out, const StepSizes& sizes, const std::string& y) {
  const ExpertConfig& config = *sizes.config.experts;
  add_expert_dimensions(out, sizes);
  out.begin_module("router");
  add_norm(out, sizes, "n$", y, "2");
  add_router(out, sizes, "n$");
  if (config.shared_width > 0) {
    out.add_dimension("Z", sizes.shared_width);
    out.begin_module("shared experts");
    add_network(out, sizes, add_operand(out, sizes.matrix, "n$", sizes.rows_and("D")), "Z", "s", "ws$");
    if (config.has_shared_gate) {
      out.add_parameter("sgate$", sizes.parameter, "D");
      out.add("sg$", sizes.rows, "n$ * sgate$");
    }
  }
  add_chosen_experts(out, sizes, "n$");
  if (config.shared_width == 0) return "w$";
  return config.has_shared_gate ? "w$ + sigmoid(sg$) * ws$" : "w$ + ws$";
}

// Adds a dense network and experts that have norms of their own (Gemma 4). Returns their sum after the last norm.
std::string add_dense_and_experts(ProgramWriter& out, const StepSizes& sizes, const std::string& y) {
  const std::string dims = sizes.rows_and("D");
  add_expert_dimensions(out, sizes);
  out.add_dimension("F", sizes.feed_forward);
  out.begin_module("feed-forward");
  add_norm(out, sizes, "n$", y, "2");
  add_network(out, sizes, add_operand(out, sizes.matrix, "n$", dims), "F", "f", "wf$");
  add_norm(out, sizes, "wfn$", "wf$", "5");
  out.begin_module("router");
  out.add_parameter("rscale$", sizes.parameter, "D");
  out.add("rn$", dims, fmt::format("rmsnorm({} over D) * rscale$ * rsqrt(size(D))", y));
  add_router(out, sizes, "rn$");
  add_norm(out, sizes, "ne$", y, "6");
  add_chosen_experts(out, sizes, "ne$");
  add_norm(out, sizes, "wen$", "w$", "7");
  out.add("both$", dims, "wfn$ + wen$");
  add_norm(out, sizes, "wn$", "both$", "4");
  return "wn$";
}

}  // namespace

void add_norm(ProgramWriter& out, const StepSizes& sizes, std::string_view result, std::string_view x,
              std::string_view number, std::string_view dim) {
  out.add_parameter(fmt::format("norm{}$", number), sizes.parameter, dim);
  const bool has_shift = sizes.config.has_norm_bias;
  if (has_shift) out.add_parameter(fmt::format("shift{}$", number), sizes.parameter, dim);
  out.add(result, sizes.rows_and(dim),
          has_shift ? fmt::format("layernorm({} over {}) * norm{}$ + shift{}$", x, dim, number, number)
                    : fmt::format("rmsnorm({} over {}) * norm{}$", x, dim, number));
}

void add_product(ProgramWriter& out, const StepSizes& sizes, DType weights, std::string_view result,
                 std::string_view dims, std::string_view expression) {
  if (weights == DType::e4m3)
    out.add_stored(result, sizes.activation, dims, expression);
  else
    out.add(result, dims, expression);
}

std::string add_operand(ProgramWriter& out, DType weights, std::string_view x, const std::string& dims) {
  if (weights != DType::e4m3) return std::string(x);
  std::string narrow = fmt::format("{}8$", x.substr(0, x.size() - 1));
  if (!out.has_result(narrow)) out.add_stored(narrow, DType::e4m3, dims, x);
  return narrow;
}

void add_feed_forward(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer, std::string_view result) {
  const std::string dims = sizes.rows_and("D"), y = layer.mixer == Mixer::none ? "x$" : "y$";
  std::string sum = "w$";
  if (layer.has_experts && sizes.config.experts->has_dense_part) {
    sum = add_dense_and_experts(out, sizes, y);
  } else if (layer.has_experts) {
    sum = add_experts(out, sizes, y);
  } else {
    out.add_dimension("F", sizes.feed_forward);
    out.begin_module("feed-forward");
    add_norm(out, sizes, "n$", y, "2");
    add_network(out, sizes, add_operand(out, sizes.matrix, "n$", dims), "F", "", "w$");
  }
  if (sizes.config.norms_per_layer == 4) {
    add_norm(out, sizes, "wn$", "w$", "4");
    sum = "wn$";
  }
  out.add_stored(result, sizes.activation, dims, y + " + " + sum);
}

}  // namespace ridge::model
