// Linear attention and Mamba: a short convolution, and a recurrence whose state takes the place of keys and values.
// This file has the products before and after it, and the recurrence of one new token; recurrent_chunks.cc has that of
// several. Sources: Yang 2025 (gated delta rule, arXiv 2412.06464), Gu 2023 (Mamba, arXiv
// 2312.00752), Dao 2024 (Mamba-2, arXiv 2405.21060).
#include <fmt/format.h>

#include "ridge/model/recurrent_program.h"

namespace ridge::model {
namespace {

// Adds a product of the layer's input, and its bias if the mixer has biases.
void add_projection(ProgramWriter& out, const StepSizes& sizes, const std::string& name, const std::string& dims) {
  const std::string x = add_operand(out, sizes.matrix, "h$", sizes.rows_and("D"));
  const bool has_bias = sizes.config.recurrent->has_bias;
  out.add_parameter(fmt::format("w{}$", name), sizes.matrix, "D, " + dims);
  const std::string product = has_bias ? fmt::format("{}p$", name) : fmt::format("{}0$", name);
  add_product(out, sizes, sizes.matrix, product, sizes.rows_and(dims), fmt::format("{} * w{}$", x, name));
  if (!has_bias) return;
  out.add_parameter(fmt::format("b{}$", name), sizes.parameter, dims);
  out.add(fmt::format("{}0$", name), sizes.rows_and(dims), fmt::format("{0}p$ + b{0}$", name));
}

// Adds the convolution of a channel over its last tokens: earlier ones, which are kept, and the new one. The result is
// the name with a 2.
void add_convolution(ProgramWriter& out, const StepSizes& sizes, const std::string& name, const std::string& dims) {
  out.add_dimension("WL", sizes.config.recurrent->conv_size - 1);
  out.add_input("state", fmt::format("past{}$", name), sizes.activation, "B, WL, " + dims);
  if (sizes.options.new_tokens > 1) return add_windows(out, sizes, name, dims);
  out.add_parameter(fmt::format("conv{}$", name), sizes.parameter, "WL, " + dims);
  out.add_parameter(fmt::format("tap{}$", name), sizes.parameter, dims);
  std::string sum = fmt::format("{0}1$ + {0}0$ * tap{0}$", name);
  if (sizes.config.recurrent->has_conv_bias) {
    out.add_parameter(fmt::format("cb{}$", name), sizes.parameter, dims);
    sum += fmt::format(" + cb{}$", name);
  }
  out.add(fmt::format("{}1$", name), sizes.rows_and(dims), fmt::format("past{0}$ * conv{0}$", name));
  out.add(fmt::format("{}2$", name), sizes.rows_and(dims), fmt::format("silu({})", sum));
}

// Adds read$, what a token reads of the state. It has the format of activations, as what follows multiplies in it, even
// if the state is kept in a wider one.
void add_read(ProgramWriter& out, const StepSizes& sizes, const std::string& dims, std::string_view expression) {
  out.add_stored("read$", sizes.activation, sizes.rows_and(dims), expression);
}

void add_result(ProgramWriter& out, const StepSizes& sizes, const std::string& x, const std::string& dims,
                std::string_view module) {
  const bool has_bias = sizes.config.recurrent->has_bias;
  out.begin_module(module);
  const std::string operand = add_operand(out, sizes.matrix, x, sizes.rows_and(dims));
  out.add_parameter("wo$", sizes.matrix, dims + ", D");
  add_product(out, sizes, sizes.matrix, has_bias ? "op$" : "o$", sizes.rows_and("D"), operand + " * wo$");
  if (!has_bias) return;
  out.add_parameter("bo$", sizes.parameter, "D");
  out.add("o$", sizes.rows_and("D"), "op$ + bo$");
}

// Adds the norm and the gate of what linear attention reads of its state, and the product after them.
void add_gated_delta_result(ProgramWriter& out, const StepSizes& sizes, const std::string& values) {
  out.add_parameter("normg$", sizes.parameter, "JL");
  out.add("rg$", sizes.rows_and(values), "rmsnorm(read$ * rsqrt(size(NL)) over JL) * normg$ * silu(z0$)");
  add_result(out, sizes, "rg$", values, "attention output");
}

}  // namespace

void add_gated_delta(ProgramWriter& out, const StepSizes& sizes) {
  const RecurrentConfig& config = *sizes.config.recurrent;
  const std::int64_t chips = sizes.options.layout.tensor;
  out.add_dimension("GL", config.groups / chips);
  out.add_dimension("RL", config.heads / config.groups);
  out.add_dimension("NL", config.key_size);
  out.add_dimension("JL", config.value_size);
  const std::string keys = "GL, NL", values = "GL, RL, JL", heads = "GL, RL";
  for (const char* name : {"q", "k"}) add_projection(out, sizes, name, keys);
  for (const char* name : {"v", "z"}) add_projection(out, sizes, name, values);
  for (const char* name : {"wb$", "wa$"}) out.add_parameter(name, sizes.parameter, "D, " + heads);
  out.add("b0$", sizes.rows_and(heads), "h$ * wb$");
  out.add("a0$", sizes.rows_and(heads), "h$ * wa$");
  out.begin_module("linear attention");
  for (const char* name : {"q", "k"}) add_convolution(out, sizes, name, keys);
  add_convolution(out, sizes, "v", values);
  for (const char* name : {"q", "k"})
    out.add(fmt::format("{}n$", name), convolved_rows_and(sizes, keys),
            fmt::format("{0}2$ * rsqrt(sum({0}2$ * {0}2$ over NL) + 1e-6)", name));
  for (const char* name : {"alog$", "dt$"}) out.add_parameter(name, sizes.parameter, heads);
  const DType dtype = state_dtype(sizes);
  const std::string state = "B, GL, RL, NL, JL";
  out.add_input("state", "state$", dtype, state);
  if (sizes.options.new_tokens > 1) {
    add_delta_chunks(out, sizes);
    return add_gated_delta_result(out, sizes, values);
  }
  out.add("decay$", sizes.rows_and(heads), "exp(-exp(alog$) * softplus(a0$ + dt$))");
  // The value replaces what the state returns for the key, in the part that the rate sigmoid(b0$) says.
  out.add("old$", sizes.rows_and(values), "kn$ * state$");
  out.add("delta$", sizes.rows_and(values), "(v2$ - decay$ * old$) * sigmoid(b0$)");
  out.add_replacing("next$", dtype, state, "state$", "decay$ * state$ + kn$ * delta$");
  add_read(out, sizes, values, "qn$ * next$");
  add_gated_delta_result(out, sizes, values);
}

void add_mamba2(ProgramWriter& out, const StepSizes& sizes) {
  const std::string skipped = sizes.options.new_tokens > 1 ? "read$" : "(read$ + skip$ * xm2$)";
  const RecurrentConfig& config = *sizes.config.recurrent;
  out.add_dimension("GM", config.groups / sizes.options.layout.tensor);
  out.add_dimension("RM", config.heads / config.groups);
  out.add_dimension("PM", config.value_size);
  out.add_dimension("NM", config.key_size);
  const std::string heads = "GM, RM", channels = "GM, RM, PM", vectors = "GM, NM";
  for (const char* name : {"z", "x"}) add_projection(out, sizes, std::string(name) + "m", channels);
  for (const char* name : {"b", "c"}) add_projection(out, sizes, std::string(name) + "m", vectors);
  add_projection(out, sizes, "dt", heads);
  out.begin_module("mamba");
  add_convolution(out, sizes, "xm", channels);
  for (const char* name : {"bm", "cm"}) add_convolution(out, sizes, name, vectors);
  for (const char* name : {"alog$", "bias$", "skip$"}) out.add_parameter(name, sizes.parameter, heads);
  out.add("step$", sizes.rows_and(heads), "softplus(dt0$ + bias$)");
  const DType dtype = state_dtype(sizes);
  const std::string state = "B, GM, RM, PM, NM";
  out.add_input("state", "state$", dtype, state);
  if (sizes.options.new_tokens > 1) {
    add_mamba2_chunks(out, sizes);
  } else {
    out.add_replacing("next$", dtype, state, "state$", "exp(-exp(alog$) * step$) * state$ + step$ * xm2$ * bm2$");
    add_read(out, sizes, channels, "next$ * cm2$");
  }
  out.add("rz$", sizes.rows_and(channels), fmt::format("{} * silu(zm0$)", skipped));
  out.add_parameter("normg$", sizes.parameter, channels);
  out.add("rg$", sizes.rows_and(channels), "rmsnorm(rz$ over RM, PM) * normg$");
  add_result(out, sizes, "rg$", channels, "mamba output");
}

void add_mamba1(ProgramWriter& out, const StepSizes& sizes) {
  const std::string skipped = sizes.options.new_tokens > 1 ? "read$" : "(read$ + skip$ * xm2$)";
  const RecurrentConfig& config = *sizes.config.recurrent;
  out.add_dimension("IM", config.heads);
  out.add_dimension("NM", config.key_size);
  out.add_dimension("QM", config.step_rank);
  for (const char* name : {"z", "x"}) add_projection(out, sizes, std::string(name) + "m", "IM");
  out.begin_module("mamba");
  add_convolution(out, sizes, "xm", "IM");
  const std::string x = add_operand(out, sizes.matrix, "xm2$", convolved_rows_and(sizes, "IM"));
  const auto add_small = [&](const std::string& name, const std::string& from, const std::string& operand,
                             const std::string& to) {
    out.add_parameter(fmt::format("w{}$", name), sizes.matrix, fmt::format("{}, {}", from, to));
    add_product(out, sizes, sizes.matrix, name + "$", convolved_rows_and(sizes, to),
                fmt::format("{} * w{}$", operand, name));
  };
  add_small("rank", "IM", x, "QM");
  add_small("bm", "IM", x, "NM");
  add_small("cm", "IM", x, "NM");
  add_small("dt", "QM", add_operand(out, sizes.matrix, "rank$", convolved_rows_and(sizes, "QM")), "IM");
  for (const char* name : {"bias$", "skip$"}) out.add_parameter(name, sizes.parameter, "IM");
  out.add_parameter("alog$", sizes.parameter, "IM, NM");
  out.add("step$", convolved_rows_and(sizes, "IM"), "softplus(dt$ + bias$)");
  const DType dtype = state_dtype(sizes);
  out.add_input("state", "state$", dtype, "B, IM, NM");
  if (sizes.options.new_tokens > 1) {
    add_mamba1_scan(out, sizes);
  } else {
    out.add_replacing("next$", dtype, "B, IM, NM", "state$", "exp(-exp(alog$) * step$) * state$ + step$ * xm2$ * bm$");
    add_read(out, sizes, "IM", "next$ * cm$");
  }
  out.add("rg$", sizes.rows_and("IM"), fmt::format("{} * silu(zm0$)", skipped));
  add_result(out, sizes, "rg$", "IM", "mamba output");
}

}  // namespace ridge::model
