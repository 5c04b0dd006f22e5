#include "ridge/report/model.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"

namespace ridge {
namespace {

using model::CacheCount;
using model::LayerCount;
using model::ModelCount;
using model::PartCount;

std::string readable_bytes(std::int64_t bytes) { return format_with_prefix(static_cast<double>(bytes), "B"); }
std::string readable_count(std::int64_t count) { return format_with_prefix(static_cast<double>(count), ""); }

std::string_view name_cache(const ModelCount& count) {
  if (count.state_bytes_per_sequence == 0) return "cache";
  return count.kv_bytes_per_token == 0 ? "state" : "cache and state";
}

std::string_view name_network(const model::LayerConfig& layer) {
  if (!layer.has_feed_forward) return "none";
  return layer.has_experts ? "experts" : "dense";
}

std::string summary_text(const ModelCount& count, const TextStyle& style) {
  std::string out = fmt::format("{}: {} parameters", count.name, readable_count(count.parameters));
  if (count.active_parameters != count.parameters)
    out += fmt::format(", {} active per token", readable_count(count.active_parameters));
  const std::string_view dtype = dtype_name(count.options.weight_dtype);
  const std::string format =
      count.quantization.empty() ? std::string(dtype) : fmt::format("{} and {}", dtype, count.quantization);
  out += fmt::format("; {} of weights ({})", readable_bytes(count.weight_bytes), format);
  if (count.kv_bytes_per_token > 0)
    out += fmt::format("; {} of cache per token ({})", readable_bytes(count.kv_bytes_per_token),
                       dtype_name(count.options.cache_dtype));
  if (count.state_bytes_per_sequence > 0)
    out += fmt::format("; {} of state per sequence", readable_bytes(count.state_bytes_per_sequence));
  out += "\n";
  if (count.cache_bytes)
    out += fmt::format(
        "{} sequence{} of {} tokens: {} of {}{}\n", group_digits(count.options.batch),
        count.options.batch == 1 ? "" : "s", group_digits(*count.options.context), readable_bytes(*count.cache_bytes),
        name_cache(count),
        *count.unwindowed_cache_bytes == *count.cache_bytes
            ? ""
            : fmt::format("; {} if an engine ignores the windows", readable_bytes(*count.unwindowed_cache_bytes)));
  std::string wrapped;
  for (std::size_t start = 0; start < out.size(); start = out.find('\n', start) + 1)
    wrapped += wrap_words(out.substr(start, out.find('\n', start) - start), style.line_width, 2) + "\n";
  return wrapped;
}

std::string parts_table(const ModelCount& count, const TextStyle& style) {
  const bool has_scales = count.scale_bytes > 0, has_inactive = count.active_parameters != count.parameters;
  Cells cells{{"part", "layers", "parameters"}};
  if (has_inactive) cells[0].emplace_back("active");
  cells[0].emplace_back("weights");
  if (has_scales) cells[0].emplace_back("of these, scales");
  cells[0].emplace_back("config keys");
  const auto add_row = [&](const std::string& name, std::int64_t layers, std::int64_t parameters, std::int64_t active,
                           std::int64_t bytes, std::int64_t scales, const std::string& keys) {
    std::vector<std::string> row{name, layers > 0 ? group_digits(layers) : "", group_digits(parameters)};
    if (has_inactive) row.push_back(group_digits(active));
    row.push_back(readable_bytes(bytes));
    if (has_scales) row.push_back(readable_bytes(scales));
    row.push_back(keys);
    cells.push_back(std::move(row));
  };
  for (const PartCount& part : count.parts)
    add_row(part.name, part.layers, part.parameters, part.active_parameters, part.weight_bytes, part.scale_bytes,
            fmt::format("{}", fmt::join(part.keys, ", ")));
  add_row("total", static_cast<std::int64_t>(count.layers.size()), count.parameters, count.active_parameters,
          count.weight_bytes, count.scale_bytes, "");
  std::vector<bool> right(cells[0].size(), true);
  right.front() = right.back() = false;
  return text_table(cells, {.right = right, .omit_first = {"config keys", "layers"}}, style);
}

std::string caches_table(const ModelCount& count, const TextStyle& style) {
  const bool has_state = count.state_bytes_per_sequence > 0;
  Cells cells{{"attention", "layers", "window", "cache per token"}};
  if (has_state) cells[0].emplace_back("state per sequence");
  if (count.cache_bytes) cells[0].insert(cells[0].end(), {"cache", "cache without windows"});
  for (const CacheCount& cache : count.caches) {
    cells.push_back({cache.kind, group_digits(cache.layers), cache.window > 0 ? group_digits(cache.window) : "",
                     readable_bytes(cache.bytes_per_token)});
    if (has_state) cells.back().push_back(readable_bytes(cache.bytes_per_sequence));
    if (cache.bytes)
      cells.back().insert(cells.back().end(), {readable_bytes(*cache.bytes), readable_bytes(*cache.unwindowed_bytes)});
  }
  return text_table(cells, {.right = {false, true, true, true, true, true, true}, .is_in_csv = false}, style);
}

Json layer_json(const LayerCount& layer) {
  return {{"index", layer.index},
          {"attention", layer.cache == "latent" ? "full" : layer.cache},
          {"feed_forward", name_network(layer.kind)},
          {"parameters", layer.parameters},
          {"active_parameters", layer.active_parameters},
          {"kv_bytes_per_token", layer.cache_bytes_per_token},
          {"state_bytes_per_sequence", layer.state_bytes_per_sequence}};
}

Json memory_json(const ModelCount& count) {
  Json out{{"context_tokens", *count.options.context},
           {"batch", count.options.batch},
           {"weight_bytes", count.weight_bytes},
           {"cache_bytes", *count.cache_bytes},
           {"unwindowed_cache_bytes", *count.unwindowed_cache_bytes},
           {"caches", Json::array()}};
  for (const CacheCount& cache : count.caches)
    out["caches"].push_back({{"kind", cache.kind},
                             {"layers", cache.layers},
                             {"window_tokens", cache.window > 0 ? Json(cache.window) : Json(nullptr)},
                             {"bytes_per_token", cache.bytes_per_token},
                             {"bytes_per_sequence", cache.bytes_per_sequence},
                             {"bytes", *cache.bytes},
                             {"unwindowed_bytes", *cache.unwindowed_bytes}});
  return out;
}

}  // namespace

std::string render_text(const ModelCount& count, const TextStyle& style) {
  std::string out = summary_text(count, style);
  out += "\n" + parts_table(count, style) + "\n" + caches_table(count, style);
  for (const std::string& note : count.notes) out += wrap_words(note, style.line_width) + "\n";
  return out;
}

Json model_count_json(const ModelCount& count) {
  Json out{{"schema", "ridge.model/1"},
           {"name", count.name},
           {"model_type", count.model_type},
           {"parameters", count.parameters},
           {"active_parameters", count.active_parameters},
           {"weight_dtype", dtype_name(count.options.weight_dtype)},
           {"quantization", or_null(std::string_view(count.quantization))},
           {"weight_bytes", count.weight_bytes},
           {"scale_bytes", count.scale_bytes},
           {"cache_dtype", dtype_name(count.options.cache_dtype)},
           {"kv_bytes_per_token", count.kv_bytes_per_token},
           {"state_bytes_per_sequence", count.state_bytes_per_sequence}};
  if (count.cache_bytes) out["memory"] = memory_json(count);
  out["parts"] = Json::array();
  for (const PartCount& part : count.parts)
    out["parts"].push_back({{"name", part.name},
                            {"layers", part.layers},
                            {"parameters", part.parameters},
                            {"active_parameters", part.active_parameters},
                            {"weight_bytes", part.weight_bytes},
                            {"scale_bytes", part.scale_bytes},
                            {"keys", part.keys}});
  out["layers"] = Json::array();
  for (const LayerCount& layer : count.layers) out["layers"].push_back(layer_json(layer));
  out["keys"] = Json::object();
  for (const auto& [number, keys] : count.keys) out["keys"][number] = keys;
  out["notes"] = count.notes;
  return out;
}

std::string render_json(const ModelCount& count) {
  return model_count_json(count).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
