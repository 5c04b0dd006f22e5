#include "ridge/report/language_model/decoding.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/report/language_model/answer_texts.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::string step_seconds(double seconds) { return format_with_prefix(seconds, "s"); }

// Seconds of a token of each sequence, not as served
double seconds_per_token(const ModelOnMachine& x) {
  return x.speculation ? x.speculation->step.token_s() : x.step_seconds();
}

Json speculation_step_json(const SpeculationStep& x) {
  return {{"draft_tokens", x.draft_tokens},
          {"tokens_per_step", x.tokens},
          {"draft_s", x.draft_s},
          {"verify_s", x.verify_s},
          {"token_s", x.token_s()}};
}

}  // namespace

std::string speculation_text(const ModelOnMachine& x) {
  const Speculation& s = *x.speculation;
  const double seconds = s.step.token_s(), rate = static_cast<double>(x.counts.batch) / seconds;
  return fmt::format("with {}, a token of {}{} takes {}{}, {} times as fast as without: {} tokens/s",
                     count_text(s.step.draft_tokens, "draft token"), x.counts.batch == 1 ? "" : "each of ",
                     count_text(x.counts.batch, "sequence"), step_seconds(seconds), s.is_predicted ? "" : " at least",
                     rate_text(s.plain_s / seconds), rate_text(rate));
}

std::string speculation_details_text(const ModelOnMachine& x) {
  const Speculation& s = *x.speculation;
  const std::string draft = s.draft.empty()
                                ? "the time of the draft tokens is not counted"
                                : fmt::format("{} for the draft tokens of {}", step_seconds(s.step.draft_s), s.draft);
  std::string best = "no number of draft tokens is faster than none";
  if (s.best.draft_tokens > 0)
    best = fmt::format("the fastest is {}{}: {} per token", count_text(s.best.draft_tokens, "draft token"),
                       s.best.draft_tokens == max_searched_draft_tokens ? ", the upper end of the search" : "",
                       step_seconds(s.best.token_s()));
  return fmt::format("a step takes {} to verify {} tokens and yields {} on average ({} accepted); {}; {}",
                     step_seconds(s.step.verify_s), s.step.draft_tokens + 1, format_significant(s.step.tokens, 3),
                     format_percent(s.acceptance), draft, best);
}

Json speculation_json(const Speculation& x) {
  Json out = speculation_step_json(x.step);
  out["acceptance"] = x.acceptance;
  out["is_predicted"] = x.is_predicted;
  out["draft"] = x.draft.empty() ? Json(nullptr) : Json(x.draft);
  out["draft_weight_bytes"] = x.draft_weight_bytes;
  out["draft_cache_bytes"] = x.draft_cache_bytes;
  out["plain_token_s"] = x.plain_s;
  out["speedup"] = x.plain_s / x.step.token_s();
  out["best"] = speculation_step_json(x.best);
  out["notes"] = x.notes;
  return out;
}

TokenCost compute_token_cost(const ModelOnMachine& x) {
  const double chips = static_cast<double>(x.layout.chips());
  const double chip_seconds =
      chips * seconds_per_token(x) / static_cast<double>(x.counts.batch);  // Chip seconds of one token
  TokenCost out;
  if (x.price) out.per_million = *x.price * chip_seconds / 3600 * 1e6;
  if (x.price && x.served) out.served_per_million = *x.price * chips / x.served->tokens_per_s / 3600 * 1e6;
  if (x.power_w) out.joules = *x.power_w * chip_seconds;
  return out;
}

std::string token_cost_text(const ModelOnMachine& x) {
  const TokenCost cost = compute_token_cost(x);
  if (!cost.per_million) return {};
  const bool is_bound = x.speculation ? !x.speculation->is_predicted : !x.decode.predicted_s;
  std::string out = fmt::format("{} per million output tokens{}, decoding alone", rate_text(*cost.per_million),
                                is_bound ? " at least" : "");
  if (cost.served_per_million) out += fmt::format("; {} as served", rate_text(*cost.served_per_million));
  if (cost.joules)
    out += fmt::format("; {} per token with all chips at full power", format_with_prefix(*cost.joules, "J"));
  return out;
}

Json token_cost_json(const ModelOnMachine& x) {
  const TokenCost cost = compute_token_cost(x);
  return {{"price_per_chip_hour", *x.price},
          {"per_million_output_tokens", or_null(cost.per_million)},
          {"served_per_million_output_tokens", or_null(cost.served_per_million)},
          {"joules_per_token", or_null(cost.joules)}};
}

}  // namespace ridge
