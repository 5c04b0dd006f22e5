#include "fit_models/serving_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "ridge/base/file.h"
#include "ridge/base/fitted_file.h"
#include "ridge/model/embedded.h"
#include "ridge/plan/model/machine.h"

namespace ridge::fit {
namespace {

using Json = nlohmann::json;

constexpr std::string_view point_columns =
    "model,system,backend,version,precision,concurrency,isl,osl,tp,dp_attention,moe_tp,moe_ep,ttft_ms,tpot_ms";
enum Column : std::uint8_t {
  model_name,
  system_name,
  backend,
  version,
  precision,
  concurrency,
  isl,
  osl,
  tp,
  dp_attention,
  moe_tp,
  moe_ep,
  ttft_ms,
  tpot_ms
};

// The public benchmark whose points name the attention's parallelism draws each length from [0.8 L, L].
constexpr double mean_length = 0.9;

struct ServedModel {
  std::string_view published, shipped;
  bool has_block_scales = false;
};
constexpr ServedModel served_models[] = {{"openai/gpt-oss-120b", "gpt_oss_120b", false},
                                         {"Qwen/Qwen3-235B-A22B-FP8", "qwen3_235b_a22b", true},
                                         {"meta-llama/Llama-3.1-70B", "llama_3_70b", false},
                                         {"deepseek-ai/DeepSeek-R1", "deepseek_v3", true}};

Result<model::ModelConfig> make_config(const std::string& published) {
  const auto known = std::find_if(std::begin(served_models), std::end(served_models),
                                  [&](const ServedModel& each) { return each.published == published; });
  if (known == std::end(served_models)) return input_error(fmt::format("unknown model '{}'", published));
  std::string text;
  for (const EmbeddedModel& each : embedded_models())
    if (each.name == known->shipped) text = std::string(each.json);
  if (known->has_block_scales) {
    Json json = Json::parse(text);
    json["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
    text = json.dump();
  }
  return model::parse_config(text, published, published);
}

struct Row {
  const FittedFile& file;
  const CsvLine& line;
  std::string text(Column column) const { return line.cells[column].text; }
  Result<double> number(Column column) const { return parse_cell(file, line, column); }
};

// True if replicas of the attention divide the requests, which the program of a chip does not state.
bool has_parallel_attention(const Row& row, double chips, double expert_chips) {
  const std::string replicas = row.text(dp_attention);
  return (!replicas.empty() && replicas != "1") || expert_chips > chips;
}

Result<ModelRequest> make_request(const Row& row, std::int64_t chips) {
  RIDGE_TRY(requests, row.number(concurrency));
  RIDGE_TRY(prompt, row.number(isl));
  RIDGE_TRY(output, row.number(osl));
  const double share = row.text(dp_attention).empty() ? 1 : mean_length;
  ModelRequest out;
  out.counts.cache_dtype = DType::e4m3;
  if (row.text(model_name) == "meta-llama/Llama-3.1-70B") out.counts.weight_dtype = DType::e4m3;
  out.counts.batch = static_cast<std::int64_t>(requests);
  out.counts.context = std::llround(share * prompt);
  out.tensor_parallel = chips;
  ServingRequest serving{.output_tokens = std::llround(share * output)};
  for (const ServingEngine engine : serving_engines)
    if (row.text(backend) == name(engine)) serving.engine = engine;
  out.serving = serving;
  return out;
}

// Adds a point, or counts why it is left out.
Status add_point(const Row& row, ServingPoints& out) {
  RIDGE_TRY(division, row.number(tp));
  RIDGE_TRY(expert_columns, row.number(moe_tp));
  RIDGE_TRY(expert_groups, row.number(moe_ep));
  if (has_parallel_attention(row, division, expert_columns * expert_groups)) {
    ++out.parallel_attention;
    return Done{};
  }
  // Points of the public benchmark give the product of both numbers as tp if the same chips divide experts twice.
  const bool is_product = !row.text(dp_attention).empty() && expert_columns > 1 && expert_groups > 1;
  const auto chips = static_cast<std::int64_t>(is_product ? expert_columns : division);
  RIDGE_TRY(config, make_config(row.text(model_name)));
  RIDGE_TRY(request, make_request(row, chips));
  RIDGE_TRY(machine, find_machine(row.text(system_name)));
  RIDGE_TRY(work, count_serving_work(config, request, machine));
  RIDGE_TRY(first_token_ms, row.number(ttft_ms));
  RIDGE_TRY(token_ms, row.number(tpot_ms));
  const std::string configuration = fmt::format("{},{},{},{},{},{}", row.text(model_name), row.text(system_name),
                                                row.text(backend), chips, row.text(isl), row.text(osl));
  const MeasuredServing point{row.line.number, configuration, work, 1e-3 * token_ms, 1e-3 * first_token_ms};
  if (point.token_s < work.decode_s)
    out.impossible.push_back(point.line);
  else
    out.all.push_back(point);
  return Done{};
}

}  // namespace

Result<ServingPoints> read_serving_points(const std::string& path) {
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(file, parse_fitted_file(text, path, point_columns));
  ServingPoints out;
  std::set<std::string> seen;
  for (const CsvLine& line : file.lines) {
    const Row row{file, line};
    std::string measured;
    for (const Column column : {model_name, system_name, backend, concurrency, isl, osl, ttft_ms, tpot_ms})
      measured += row.text(column) + ",";
    if (!seen.insert(measured).second) {
      ++out.repeated;
      continue;
    }
    if (const Status added = add_point(row, out); !added)
      return error_at_cell(added.error(), path, line, line.cells[0]);
  }
  std::stable_sort(out.all.begin(), out.all.end(), [](const MeasuredServing& a, const MeasuredServing& b) {
    return a.configuration < b.configuration;
  });
  return out;
}

}  // namespace ridge::fit
