// Layouts as JSON.
#include "ridge/report/json_values.h"
#include "ridge/report/layouts/layouts.h"
#include "ridge/report/model.h"

namespace ridge {
namespace {

Json layout_times_json(const LayoutTimes& x) {
  const bool is_decode = x.phase == ModelPhase::decode;
  return {
      {"machine", x.machine},
      {"chips", x.layout.chips()},
      {"hosts", or_null(x.hosts)},
      {"layout", {{"tp", x.layout.tensor}, {"pp", x.layout.pipeline}, {"ep", x.layout.expert}, {"dp", x.layout.data}}},
      {"phase", name(x.phase)},
      {"context_tokens", x.context},
      {"batch", x.batch},
      {"micro_batches", x.micro_batches},
      {"time_s", x.step_s()},
      {"ttft_s", or_null(x.first_token_s)},
      {"tokens_per_s_per_sequence", is_decode ? Json(1 / x.token_s) : Json(nullptr)},
      {"tokens_per_s_per_chip", x.tokens_per_s_per_chip()},
      {"network_share", x.network_share},
      {"memory_bytes", x.memory_bytes},
      {"fits", x.fits},
      {"reaches_rate", x.reaches_rate}};
}

}  // namespace

std::string render_json(const LayoutReport& report) {
  Json out = model_count_json(report.count);
  out["rate_tokens_per_s"] = or_null(report.request.rate);
  out["layouts"] = Json::array();
  for (const LayoutRanking& ranking : report.rankings) {
    if (!ranking.unavailable.empty())
      out["layouts"].push_back({{"machine", ranking.machine}, {"unavailable", ranking.unavailable}});
    for (const auto* list : {&ranking.layouts, &ranking.unfit, &ranking.slow})
      for (const LayoutTimes& x : *list) out["layouts"].push_back(layout_times_json(x));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
