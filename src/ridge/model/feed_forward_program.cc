// The feed-forward part of a layer: two or three matrices, or experts that a router chooses.
#include <fmt/format.h>

#include "ridge/model/layer_programs.h"

namespace ridge::model {
namespace {

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
  out.add(
      m, dims,
      config.is_gated ? fmt::format("{}({}) * {}", sizes.function, g, u) : fmt::format("{}({})", sizes.function, u));
  add_layer(std::string(result), add_operand(out, sizes.matrix, m, dims), "down", width, "D");
}

// Adds the chosen experts i$ and their weights e$.
void add_router(ProgramWriter& out, const StepSizes& sizes) {
  const std::string experts = sizes.rows_and("X"), chosen = sizes.rows_and("K");
  const ExpertConfig& config = *sizes.config.experts;
  out.add_parameter("router$", sizes.parameter, "D, X");
  out.add(config.has_router_bias ? "r0$" : "r$", experts, "n$ * router$");
  if (config.has_router_bias) {
    out.add_parameter("brouter$", sizes.parameter, "X");
    out.add("r$", experts, "r0$ + brouter$");
  }
  const std::string& type = sizes.config.model_type;
  const bool chooses_by_logits = type == "mixtral" || type == "gpt_oss";
  std::string choice = "r$";
  if (!chooses_by_logits) {
    choice = "f$";
    out.add("f$", experts, config.has_score_correction ? "sigmoid(r$)" : "softmax(r$ over X)");
  }
  std::string corrected = choice;
  if (config.has_score_correction) {
    corrected = "fc$";
    out.add_parameter("correction$", sizes.parameter, "X");
    out.add("fc$", experts, "f$ + correction$");
  }
  out.add("i$", chosen, fmt::format("topk({} over X)", corrected));
  out.add("e0$", chosen, fmt::format("gather({}, i$ over X)", choice));
  if (chooses_by_logits)
    out.add("e$", chosen, "softmax(e0$ over K)");
  else
    out.add("e$", chosen, config.has_normalized_weights ? "e0$ / sum(e0$ over K)" : "e0$");
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

// Adds the three products of experts on rows x with the features D.
void add_expert_products(ProgramWriter& out, const StepSizes& sizes, const RoutedRows& rows, const std::string& x) {
  add_routed(out, sizes, rows, "g", x, "gate", "D", "M");
  add_routed(out, sizes, rows, "u", x, "up", "D", "M");
  const bool is_clamped = sizes.config.model_type == "gpt_oss";
  const std::string dims = rows.dims + ", M";
  out.add("m$", dims,
          is_clamped ? "(clamp(u$, -7, 7) + 1) * min(g$, 7) * sigmoid(1.702 * min(g$, 7))"
                     : fmt::format("{}(g$) * u$", sizes.function));
  add_routed(out, sizes, rows, "d", add_operand(out, sizes.expert, "m$", dims), "down", "M", "D");
}

// Adds the experts of a chip on rows that all data ranks sent. With balanced routing a chip gets as many rows as it
// sends. The results of its own tokens return as returned$.
std::string add_sent_experts(ProgramWriter& out, const StepSizes& sizes) {
  const ExpertConfig& config = *sizes.config.experts;
  out.add_dimension("A", count_rows(sizes) * config.per_token);
  out.add_dimension("O", 1);
  out.add_dimension("W", sizes.experts);
  out.add_input("data", "sent$", sizes.activation, "A, D");
  out.add_input("data", "j$", DType::int32, "A, O");
  add_expert_products(out, sizes, {"A, O", "j$", "W"}, add_operand(out, sizes.expert, "sent$", "A, D"));
  out.add_input("data", "returned$", sizes.activation, sizes.rows_and("K, D"));
  return "returned$";
}

// Adds router and experts, from n$ to the sum w$ over a token's experts.
void add_experts(ProgramWriter& out, const StepSizes& sizes) {
  const ExpertConfig& config = *sizes.config.experts;
  out.add_dimension("X", config.routed);
  out.add_dimension("K", config.per_token);
  out.add_dimension("M", sizes.expert_width);
  out.begin_module("router");
  add_norm(out, sizes, "n$", "y$", "2");
  add_router(out, sizes);
  if (config.shared > 0) {
    out.add_dimension("Z", sizes.shared_width);
    out.begin_module("shared experts");
    add_network(out, sizes, add_operand(out, sizes.matrix, "n$", sizes.rows_and("D")), "Z", "s", "ws$");
  }
  out.begin_module("experts");
  std::string results = "d$";
  if (sizes.sends_rows_to_experts())
    results = add_sent_experts(out, sizes);
  else
    add_expert_products(out, sizes, {sizes.rows_and("K"), "i$", "X"},
                        add_operand(out, sizes.expert, "n$", sizes.rows_and("D")));
  out.add("w$", sizes.rows_and("D"), results + " * e$");
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

void add_feed_forward(ProgramWriter& out, const StepSizes& sizes, bool has_experts, std::string_view result) {
  const std::string dims = sizes.rows_and("D");
  if (has_experts) {
    add_experts(out, sizes);
  } else {
    out.add_dimension("F", sizes.feed_forward);
    out.begin_module("feed-forward");
    add_norm(out, sizes, "n$", "y$", "2");
    add_network(out, sizes, add_operand(out, sizes.matrix, "n$", dims), "F", "", "w$");
  }
  std::string sum = has_experts && sizes.config.experts->shared > 0 ? "w$ + ws$" : "w$";
  if (sizes.config.norms_per_layer == 4) {
    add_norm(out, sizes, "wn$", "w$", "4");
    sum = "wn$";
  }
  out.add_stored(result, sizes.activation, dims, "y$ + " + sum);
}

}  // namespace ridge::model
