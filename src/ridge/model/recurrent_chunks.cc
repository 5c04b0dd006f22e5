// Linear attention and Mamba for several new tokens. Tokens S are divided into SC chunks of SL; SK names the same
// tokens of a chunk in pairs of tokens. Sources: Yang 2024 (chunks of the delta rule, arXiv 2406.06484), Yang 2025
// (its decay, arXiv 2412.06464), Dao 2024 (Mamba-2, arXiv 2405.21060).
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/model/recurrent_program.h"

namespace ridge::model {
namespace {

std::int64_t chunk_size(const StepSizes& sizes) {
  return std::min(sizes.options.new_tokens, sizes.config.recurrent->chunk);
}

// True if the sequences have earlier tokens, whose state the new ones continue.
bool continues_state(const StepSizes& sizes) { return sizes.options.context > sizes.options.new_tokens; }

// Adds the state before the new tokens in the format of activations, in which products multiply, and returns its name.
std::string add_start(ProgramWriter& out, const StepSizes& sizes, const std::string& state) {
  if (state_dtype(sizes) == sizes.activation) return "state$";
  out.add_stored("start$", sizes.activation, "B, " + state, "state$");
  return "start$";
}

// True if the last chunk has elements after the last token.
bool has_rest(const StepSizes& sizes) { return sizes.options.new_tokens % chunk_size(sizes) != 0; }

// Adds the dimensions of chunks and which token each of their elements is. The last chunk may have more elements than
// tokens; they repeat the last token.
void add_chunk_dimensions(ProgramWriter& out, const StepSizes& sizes) {
  const std::int64_t tokens = sizes.options.new_tokens, size = chunk_size(sizes);
  out.add_dimension("SC", ceil_div(tokens, size));
  for (const char* name : {"SL", "SK"}) {
    out.add_dimension(name, size);
    out.add_indices(fmt::format("at{}$", name), fmt::format("SC, {}", name),
                    fmt::format("min(size({0}) * index(SC) + index({0}), size(S) - 1)", name));
  }
  out.add_indices("same$", "SL", "index(SL)");
  if (has_rest(sizes)) out.add_indices("valid$", "SC, SK", "(size(SK) * index(SC) + index(SK) < size(S))");
}

// Adds nameSL$ or nameSK$: a tensor of the tokens by chunks.
void add_by_chunks(ProgramWriter& out, const std::string& name, const std::string& within, const std::string& dims,
                   const std::string& tokens = "ST") {
  out.add(fmt::format("{}{}$", name, within), fmt::format("B, SC, {}, {}", within, dims),
          fmt::format("gather({}$, at{}$ over {})", name, within, tokens));
}

// Adds nameSK$, a rate of the tokens by chunks. Elements after the last token have the rate 0, so that they change no
// state.
void add_rate_by_chunks(ProgramWriter& out, const StepSizes& sizes, const std::string& name, const std::string& dims) {
  if (!has_rest(sizes)) return add_by_chunks(out, name, "SK", dims, "S");
  out.add(fmt::format("{}all$", name), "B, SC, SK, " + dims, fmt::format("gather({}$, atSK$ over S)", name));
  out.add(fmt::format("{}SK$", name), "B, SC, SK, " + dims, fmt::format("{}all$ * valid$", name));
}

// Adds read$, what each token reads of the state, from an expression of the chunks' elements.
void add_reads(ProgramWriter& out, const StepSizes& sizes, const std::string& dims, const std::string& expression) {
  const std::string chunks = "B, SC, SL, " + dims;
  out.add(has_rest(sizes) ? "readall$" : "reads$", chunks, expression);
  if (has_rest(sizes)) {
    out.add("validSL$", "SC, SL", "gather(valid$, same$ over SK)");
    out.add("reads$", chunks, "readall$ * validSL$");
  }
  out.add("read$", sizes.rows_and(dims), "scatter(reads$, atSL$ over S)");
}

// Adds the decays of a chunk from their logarithms logdecaySK$: sums up to each token, sumSK$ and sumSL$, and to the
// end.
void add_decays(ProgramWriter& out, const std::string& heads) {
  out.add("sumSK$", "B, SC, SK, " + heads, "cumsum(logdecaySK$ over SK)");
  out.add("sumSL$", "B, SC, SL, " + heads, "gather(sumSK$, same$ over SK)");
  out.add("end$", "B, SC, " + heads, "sum(where(index(SK) == size(SK) - 1, sumSK$, 0) over SK)");
  out.add("fade$", "B, SC, " + heads, "exp(end$)");
}

// Adds the chain of states over the chunks, from what each chunk adds, added$: entering$ is the state before each
// chunk, next$ the one after the last token.
void add_state_chain(ProgramWriter& out, const StepSizes& sizes, const std::string& state) {
  const std::string chunks = "B, SC, " + state;
  std::string added = "added$", start = "0";
  if (continues_state(sizes)) {
    start = add_start(out, sizes, state);
    out.add("first$", chunks, fmt::format("added$ + where(index(SC) == 0, fade$ * {}, 0)", start));
    added = "first$";
  }
  out.add("states$", chunks, fmt::format("scan(fade$ * states$ + {} over SC)", added));
  // Indices of a gather have other dimensions than the one that they index: SP are the chunks again.
  out.add_dimension("SP", ceil_div(sizes.options.new_tokens, chunk_size(sizes)));
  out.add_indices("before$", "SP", "max(index(SP) - 1, 0)");
  out.add_indices("again$", "SC", "index(SC)");
  out.add("before1$", "B, SP, " + state, "gather(states$, before$ over SC)");
  out.add("earlier$", chunks, "gather(before1$, again$ over SP)");
  out.add("entering$", chunks, fmt::format("where(index(SC) > 0, earlier$, {})", start));
  out.add_replacing("next$", state_dtype(sizes), "B, " + state, "state$",
                    "sum(where(index(SC) == size(SC) - 1, states$, 0) over SC)");
}

}  // namespace

void add_windows(ProgramWriter& out, const StepSizes& sizes, const std::string& name, const std::string& dims) {
  out.add_dimension("SW", sizes.config.recurrent->conv_size);
  out.add_dimension("ST", sizes.options.new_tokens);
  if (!out.has_result("seen$")) {
    out.add_indices("seen$", "ST, SW", "max(index(ST) - index(SW), 0)");
    out.add_indices("kept$", "ST, SW", "max(min(size(WL) + index(ST) - index(SW), size(WL) - 1), 0)");
  }
  const std::string windows = "B, ST, SW, " + dims;
  out.add_parameter(fmt::format("conv{}$", name), sizes.parameter, "SW, " + dims);
  out.add(fmt::format("{}new$", name), windows, fmt::format("gather({}0$, seen$ over S)", name));
  out.add(fmt::format("{}old$", name), windows, fmt::format("gather(past{}$, kept$ over WL)", name));
  out.add(fmt::format("{}window$", name), windows,
          fmt::format("where(index(SW) <= index(ST), {0}new$, {0}old$)", name));
  out.add(fmt::format("{}1$", name), "B, ST, " + dims, fmt::format("{0}window$ * conv{0}$", name));
  std::string sum = fmt::format("{}1$", name);
  if (sizes.config.recurrent->has_conv_bias) {
    out.add_parameter(fmt::format("cb{}$", name), sizes.parameter, dims);
    sum += fmt::format(" + cb{}$", name);
  }
  out.add(fmt::format("{}2$", name), "B, ST, " + dims, fmt::format("silu({})", sum));
}

// With the state H before a chunk, the rate b and the decay g of a token since then, the values that a chunk writes
// solve
//   (1 + A) u = b v - A' k H,   A_ij = b_i g_i / g_j (k_i k_j) for j < i.
// The substitution takes the FLOPs of a product with A, which the program has.
void add_delta_chunks(ProgramWriter& out, const StepSizes& sizes) {
  const std::string heads = "GL, RL", keys = "GL, NL", values = "GL, RL, JL", of_chunk = "B, SC, ";
  add_chunk_dimensions(out, sizes);
  out.add("rate$", sizes.rows_and(heads), "sigmoid(b0$)");
  out.add("logdecay$", sizes.rows_and(heads), "-exp(alog$) * softplus(a0$ + dt$)");
  for (const char* name : {"rate", "logdecay"}) add_rate_by_chunks(out, sizes, name, heads);
  for (const char* name : {"qn", "kn"}) add_by_chunks(out, name, "SL", keys);
  add_by_chunks(out, "kn", "SK", keys);
  add_by_chunks(out, "v2", "SK", values);
  add_by_chunks(out, "v2", "SL", values);
  add_decays(out, heads);
  out.add("rateSL$", of_chunk + "SL, " + heads, "gather(rateSK$, same$ over SK)");
  const std::string pairs = of_chunk + "GL, RL, SL, SK";
  out.add("kk$", of_chunk + "GL, SL, SK", "knSL$ * knSK$");
  out.add("solve$", pairs, "where(index(SK) < index(SL), kk$ * exp(sumSL$ - sumSK$) * rateSL$, 0)");
  out.add("write$", of_chunk + "SK, " + values, "rateSK$ * v2SK$");
  out.add("erase$", of_chunk + "SK, GL, RL, NL", "rateSK$ * exp(sumSK$) * knSK$");
  out.add("write1$", of_chunk + "SL, " + values, "solve$ * write$");
  out.add("erase1$", of_chunk + "SL, GL, RL, NL", "solve$ * erase$");
  out.add("write2$", of_chunk + "SL, " + values, "rateSL$ * v2SL$ - write1$");
  out.add("erase2$", of_chunk + "SL, GL, RL, NL", "rateSL$ * exp(sumSL$) * knSL$ - erase1$");
  out.add_indices("back$", "SK", "index(SK)");
  out.add("kept2$", of_chunk + "SK, " + values, "gather(write2$, back$ over SL)");
  out.add("faded$", of_chunk + "SK, " + values, "exp(end$ - sumSK$) * kept2$");
  out.add("added$", of_chunk + "GL, RL, NL, JL", "knSK$ * faded$");
  add_state_chain(out, sizes, "GL, RL, NL, JL");
  out.add("erased$", of_chunk + "SL, " + values, "erase2$ * entering$");
  out.add("delta$", of_chunk + "SL, " + values, "write2$ - erased$");
  out.add("deltaSK$", of_chunk + "SK, " + values, "gather(delta$, back$ over SL)");
  out.add("qk$", of_chunk + "GL, SL, SK", "qnSL$ * knSK$");
  out.add("pairs$", pairs, "where(index(SK) <= index(SL), qk$ * exp(sumSL$ - sumSK$), 0)");
  out.add("read1$", of_chunk + "SL, " + values, "pairs$ * deltaSK$");
  out.add("read2$", of_chunk + "SL, " + values, "qnSL$ * entering$");
  add_reads(out, sizes, values, "read1$ + exp(sumSL$) * read2$");
}

void add_mamba2_chunks(ProgramWriter& out, const StepSizes& sizes) {
  const std::string heads = "GM, RM", channels = "GM, RM, PM", vectors = "GM, NM", of_chunk = "B, SC, ";
  add_chunk_dimensions(out, sizes);
  add_rate_by_chunks(out, sizes, "step", heads);
  out.add("logdecaySK$", of_chunk + "SK, " + heads, "-exp(alog$) * stepSK$");
  add_by_chunks(out, "xm2", "SK", channels);
  add_by_chunks(out, "bm2", "SK", vectors);
  add_by_chunks(out, "cm2", "SL", vectors);
  add_decays(out, heads);
  out.add("cb$", of_chunk + "GM, SL, SK", "cm2SL$ * bm2SK$");
  out.add("pairs$", of_chunk + "GM, RM, SL, SK",
          "where(index(SK) <= index(SL), cb$ * exp(sumSL$ - sumSK$) * stepSK$, 0)");
  out.add("read1$", of_chunk + "SL, " + channels, "pairs$ * xm2SK$");
  out.add("faded$", of_chunk + "SK, " + channels, "exp(end$ - sumSK$) * stepSK$ * xm2SK$");
  out.add("added$", of_chunk + "GM, RM, PM, NM", "faded$ * bm2SK$");
  add_state_chain(out, sizes, "GM, RM, PM, NM");
  out.add("read2$", of_chunk + "SL, " + channels, "cm2SL$ * entering$");
  add_by_chunks(out, "xm2", "SL", channels);
  add_reads(out, sizes, channels, "read1$ + exp(sumSL$) * read2$ + skip$ * xm2SL$");
}

void add_mamba1_scan(ProgramWriter& out, const StepSizes& sizes) {
  const std::string state = "B, ST, IM, NM";
  out.add("decay$", state, "exp(-exp(alog$) * step$)");
  std::string added = "step$ * xm2$ * bm$";
  if (continues_state(sizes))
    added += fmt::format(" + where(index(ST) == 0, decay$ * {}, 0)", add_start(out, sizes, "IM, NM"));
  out.add("added$", state, added);
  out.add("states$", state, "scan(decay$ * states$ + added$ over ST)");
  out.add("reads$", "B, ST, IM", "states$ * cm$");
  out.add("skipped$", "B, ST, IM", "reads$ + skip$ * xm2$");
  out.add_indices("order$", "S", "index(S)");
  out.add("read$", sizes.rows_and("IM"), "gather(skipped$, order$ over ST)");
  out.add_replacing("next$", state_dtype(sizes), "B, IM, NM", "state$",
                    "sum(where(index(ST) == size(ST) - 1, states$, 0) over ST)");
}

}  // namespace ridge::model
