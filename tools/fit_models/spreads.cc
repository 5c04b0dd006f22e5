#include "fit_models/spreads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "fit_models/epilogues.h"
#include "fit_models/rewrite.h"
#include "ridge/base/check.h"
#include "ridge/base/file.h"
#include "ridge/base/portable_math.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/library_model.h"

namespace ridge::fit {
namespace {

using namespace ops;
using Json = nlohmann::json;

Result<Json> read_json(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  Json out = Json::parse(*text, nullptr, false);
  if (out.is_discarded()) return input_error(fmt::format("'{}' is not valid JSON", path));
  return out;
}

void read_passes(const Json& geglu, Results& to) {
  for (const Json& row : geglu["rows"])
    if (row.contains("dh_db_us"))
      to.passes.push_back({row["n"].get<double>() * row["f"].get<double>(), 1e-6 * row["dh_db_us"].get<double>()});
}

// Shapes are outer, heads, key heads, rows, keys, width, causal; the layout is [outer, rows, heads, width].
AttentionProblem attention_of(const Json& shape) {
  const auto at = [&](std::size_t i) { return shape[i].get<std::int64_t>(); };
  AttentionProblem p{.outer = at(0), .heads = at(1), .key_heads = at(2), .rows = at(3), .keys = at(4), .width = at(5)};
  if (shape[6].get<bool>()) p.high = p.keys - p.rows;
  p.q = p.o = {p.rows * p.heads * p.width, p.width, p.heads * p.width};
  p.k = p.v = {p.keys * p.key_heads * p.width, p.width, p.key_heads * p.width};
  return p;
}
void read_attention(const Json& result, Results& to) {
  for (const Json& row : result["rows"])
    to.attention.push_back({cuda::fold_heads(attention_of(row["shape"])), row["config"].get<int>(),
                            row["parts"].get<std::int64_t>(), 1e-6 * row["us"]["ridge"].get<double>()});
}

// Shapes are outer, heads, key heads, rows, width, causal.
void read_attention_backward(const Json& result, Results& to) {
  for (const Json& row : result["rows"]) {
    const Json& x = row["shape"];
    const Json shape = {x[0], x[1], x[2], x[3], x[3], x[4], x[5]};
    AttentionBackwardProblem all{.forward = attention_of(shape)};
    all.dout = all.dq = all.forward.q;
    all.dk = all.dv = all.forward.k;
    to.attention_backward.push_back({all, 1e-6 * row["us"]["ridge"].get<double>()});
  }
}

// Returns the call of a row of `ridge bench matmul`. Operands are packed, in the order that `op` says for A and B.
Result<MatmulCall> read_call(const Json& row) {
  const auto size = [&](const char* key) { return row[key].get<std::int64_t>(); };
  const auto op = row["op"].get<std::string>();
  const std::int64_t m = size("m"), n = size("n"), k = size("k");
  const auto dtype = parse_dtype(row["dtype"].get<std::string>()), out = parse_dtype(row["out"].get<std::string>());
  if (!dtype || !out) return input_error(fmt::format("unknown dtype {} or {}", row["dtype"].dump(), row["out"].dump()));
  const auto layout = [&](DType of, bool transposed, std::int64_t rows, std::int64_t cols) {
    return MatrixLayout{of, transposed ? 1 : cols, transposed ? rows : 1, rows * cols};
  };
  MatmulCall call;
  call.problem = {1,
                  {m, n, k},
                  layout(*dtype, op == "tn" || op == "tt", m, k),
                  layout(*dtype, op == "linear" || op == "tt", k, n),
                  layout(*out, false, m, n)};
  return call;
}

// Reads the times of plans with register loads. Rows have the times of several plans in `tuned`.
Status read_register_loads(const Json& result, std::vector<TimedRegisterLoads>& to) {
  for (const Json& row : result["rows"])
    for (const Json& plan : row["tuned"]) {
      RIDGE_TRY(call, read_call(row));
      TimedRegisterLoads x{.call = call, .choice = {}, .measured_s = plan["measured_s"].get<double>()};
      x.choice.splits = plan["split"].get<std::int64_t>();
      for (int config = 0; config < static_cast<int>(cuda::register_loads_configs.size()); ++config)
        for (const bool swap : {false, true})
          if (plan["kernel"] == cuda::register_loads_name(config, swap)) {
            x.choice.config = config;
            x.choice.swap = swap;
            to.push_back(x);
          }
    }
  return Done{};
}

// Reads the times of plans of tiles without copies. Kernels for groups have the names of others.
Status read_tiles(const Json& result, std::vector<TimedTiles>& to) {
  constexpr tile::SplitMode split_modes[] = {tile::SplitMode::split_k, tile::SplitMode::cluster_split_k,
                                             tile::SplitMode::stream_k, tile::SplitMode::cooperative_split_k};
  for (const Json& row : result["rows"])
    for (const Json& plan : row["tuned"]) {
      RIDGE_TRY(call, read_call(row));
      TimedTiles x{.call = call, .choice = {}, .measured_s = plan["measured_s"].get<double>()};
      x.choice.split.splits = plan["split"].get<int>();
      for (const tile::SplitMode split_mode : split_modes)
        if (plan["split_mode"] == cuda::describe_split(split_mode).name) x.choice.split.split_mode = split_mode;
      for (int config = 0; config < static_cast<int>(sm90_kernel_configs.size()); ++config)
        if (plan["copies"] == 0 && plan["kernel"] == config_name(config) && !sm90_kernel_configs[config].grouped) {
          x.choice.config = config;
          to.push_back(x);
        }
    }
  return Done{};
}

double cosines(int count) { return function_cost("cos").first_call + function_cost("cos").repeated_call * (count - 1); }

// Returns instructions per element, counted like the models of rows and chains (ops/rows/model.cc, ops/chain/model.cc).
double instructions_of(const std::string& kernel, bool rough) {
  const auto one = [&](const char* name) {
    return rough ? function_cost(name).approximate_call : function_cost(name).first_call;
  };
  if (kernel.starts_with("cos_")) return cosines(std::stoi(kernel.substr(4)));
  if (kernel == "softmax") return 4 + one("exp");
  if (kernel == "gelu") return one("gelu");
  return kernel == "silu_gate" ? one("silu") + 1 : 3;
}
void read_streams(const Json& streams, const Json& repeats, Results& to) {
  const double elements = streams["elements"].get<double>(), repeated = repeats["elements"].get<double>();
  for (const Json& row : streams["rows"])
    to.streams.push_back({row["bytes"].get<double>(),
                          elements * instructions_of(row["kernel"].get<std::string>(), row["dtype"] != "f32"),
                          row["ridge"]["median_s"].get<double>()});
  for (const Json& row : repeats["rows"])
    to.streams.push_back({row["fused"]["bytes"].get<double>(), repeated * cosines(row["repeats"].get<int>()),
                          row["fused"]["measured_s"]["median"].get<double>()});
}

// cuBLASLt's best of eight, predicted with an H200's numbers.
Status read_library(const Json& result, const std::string& on, Results& to) {
  auto machine = find_machine(on);
  if (!machine) return machine.error();
  for (const NamedLibraryNumber& x : library_numbers) machine->numbers.erase(std::string(x.key));
  const auto library = find_library_model(*machine, DType::bf16);
  if (!library) return library.error();
  for (const Json& row : result["rows"]) {
    const auto size = [&](const char* key) { return row[key].get<double>(); };
    const double seconds =
        estimate_library_seconds({1, size("m"), size("n"), size("k")}, library->machine, library->numbers);
    if (row["dtype"] != "e4m3") to.library.push_back(row["best_s"]["median"].get<double>() / seconds);
  }
  return Done{};
}

struct Percentiles {
  double low = 1, middle = 1, high = 1;
};
Percentiles percentiles(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1) + 0.5)];
  };
  return {at(0.05), at(0.5), at(0.95)};
}

// Returns the low end, the median and the high end of a kind of loop. A kind has few sites, whose extremes contain a
// new one too rarely: the ends are those of Student's 90 % interval for another value, if it contains the extremes.
std::vector<double> loop_interval(const Results& results, const std::string& kind, const DeviceNumbers& device) {
  constexpr double quantiles[] = {6.314, 2.920, 2.353, 2.132, 2.015};  // By degrees of freedom, from 1
  std::vector<double> all = loop_ratios(results.loops, kind, LoopSites::all, device);
  if (all.empty()) return all;
  std::sort(all.begin(), all.end());
  const double count = static_cast<double>(all.size());
  double mean = 0, squares = 0;
  for (const double ratio : all) mean += base::log(ratio) / count;
  for (const double ratio : all) squares += (base::log(ratio) - mean) * (base::log(ratio) - mean);
  const std::size_t sites = count_loop_sites(results.loops, kind);
  const double quantile = quantiles[std::clamp<std::size_t>(sites, 2, std::size(quantiles) + 1) - 2];
  const double reach = quantile * std::sqrt(squares / (count - 1) * (1 + 1 / static_cast<double>(sites)));
  return {std::min(all.front(), base::exp(mean - reach)), all[all.size() / 2],
          std::max(all.back(), base::exp(mean + reach))};
}

// No device exceeds its peaks. So an untimed device is at most as much faster than assumed as the timed devices are
// below their peaks; the interval allows the same factor in the other direction.
std::vector<double> untimed_ratios(const Samples& samples, const Form& form) {
  double least = 1;
  for (std::size_t d = 0; d < samples.devices.size(); ++d) {
    const TimedDevice& t = samples.devices[d].as_timed;
    const DeviceNumbers& n = form.devices[d];
    least = std::min({least, n.busy_clock_hz / t.clock_hz, n.memory_bytes_per_s / t.memory_bytes_per_s});
  }
  return {least, 1, 1 / least};
}

std::vector<double> ratios_of(const std::string& kind, const Samples& samples, const Form& form, const Results& results,
                              const KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  const auto h100 = numbers_of(samples, form, results.h100), h200 = numbers_of(samples, form, results.h200);
  std::vector<double> out;
  if (kind == "streamed")
    for (const TimedStream& x : results.streams)
      out.push_back(x.measured_s / forecast_streamed("", x.bytes, x.instructions, *h200).seconds);
  if (kind == "attention")
    for (const TimedAttention& x : results.attention)
      if (x.parts == 1) out.push_back(x.measured_s / attention_seconds(x, *h100));
  if (kind == "attention")
    for (const char* const timed : {"attention", "split_attention"})
      for (const double ratio : loop_ratios(results.loops, timed, LoopSites::all, *h200)) out.push_back(ratio);
  if (kind == "attention_backward")
    for (const TimedAttentionBackward& x : results.attention_backward)
      out.push_back(x.measured_s / cuda::choose_plan(x.problem, *h100).predicted_s);
  for (const auto& [timed, products] :
       {std::pair{"f32_product", &results.f32_products}, {"unaligned_product", &results.unaligned_products}})
    for (const TimedRegisterLoads& x : kind == timed ? *products : std::vector<TimedRegisterLoads>())
      out.push_back(x.measured_s / cuda::predict_register_loads_seconds(x.call, x.choice, *h200));
  if (kind == "narrow_product")
    for (const TimedTiles& x : results.narrow_products) out.push_back(1 / tiles_ratio(x, form, *h200));
  if (kind == "library_elsewhere") return results.library;
  if (kind == "untimed") return untimed_ratios(samples, form);
  if (out.empty()) return loop_interval(results, kind, *h200);
  return out;
}

}  // namespace

Result<Results> read_results(const std::string& root) {
  const auto in = [&](const char* name) { return read_json(root + "/results/" + name); };
  const auto attention = in("h100_attention.json"), backward = in("h100_attention_backward.json"),
             geglu = in("h200_geglu.json"), streams = in("h200_stream.json"), repeats = in("h200_repeats.json"),
             suite = in("h100_matmul_suite.json"), f32_products = in("h200_f32_products.json"),
             unaligned = in("h200_unaligned_products.json"), narrow = in("h200_narrow_products.json"),
             scaled = in("h200_scaled_products.json");
  for (const auto* each :
       {&attention, &backward, &geglu, &streams, &repeats, &suite, &f32_products, &unaligned, &narrow, &scaled})
    if (!*each) return each->error();
  RIDGE_TRY(epilogue_day, read_epilogue_day(root));
  Results out;
  RIDGE_TRY(loops_day, read_loops_day(root));
  out.day = std::max(epilogue_day, loops_day);
  try {
    out.h100 = attention->at("device").get<std::string>();
    out.h200 = streams->at("device").get<std::string>();
    for (const Json* each :
         {&*attention, &*backward, &*streams, &*repeats, &*suite, &*f32_products, &*unaligned, &*narrow, &*scaled})
      out.day = std::max(out.day, each->at("day").get<std::string>());
    read_passes(*geglu, out);
    read_attention(*attention, out);
    read_attention_backward(*backward, out);
    read_streams(*streams, *repeats, out);
    RIDGE_TRY_STATUS(read_register_loads(*f32_products, out.f32_products));
    RIDGE_TRY_STATUS(read_register_loads(*unaligned, out.unaligned_products));
    RIDGE_TRY_STATUS(read_register_loads(*narrow, out.tf32_products));
    RIDGE_TRY_STATUS(read_tiles(*narrow, out.narrow_products));
    RIDGE_TRY_STATUS(read_tiles(*scaled, out.narrow_products));
    if (const Status read = read_library(*suite, "h100", out); !read) return read.error();
    RIDGE_TRY(loops, read_loops(root, out.h200));
    out.loops = std::move(loops);
  } catch (const Json::exception& e) {
    return input_error(fmt::format("a file of '{}/results' has an unexpected format: {}", root, e.what()));
  }
  return out;
}

double tiles_ratio(const TimedTiles& timed, const Form& form, const DeviceNumbers& device) {
  constexpr std::size_t workspace_bytes = std::size_t{1} << 30;
  const auto plan = cuda::make_uncorrected_plan(timed.call, workspace_bytes, device, timed.choice, form.model);
  RIDGE_CHECK(plan, "a timed plan of a narrow product is no plan of this build");
  return plan->plan.predicted_s / timed.measured_s;
}

double pass_seconds(const TimedPass& pass, const KernelConstants& n, const DeviceNumbers& device) {
  return n.gated_pass_launch_cycles / device.clock_hz +
         10 * pass.elements / (n.gated_pass_memory_share * device.memory_bytes_per_s);
}

double attention_seconds(const TimedAttention& x, const DeviceNumbers& device) {
  return cuda::make_plan(x.problem, {x.config, x.parts}, device).predicted_s;
}

Result<DeviceNumbers> numbers_of(const Samples& samples, const Form& form, const std::string& device) {
  for (std::size_t d = 0; d < samples.devices.size(); ++d)
    if (samples.devices[d].as_timed.device == device) return form.devices[d];
  return input_error(fmt::format("results/ has timings of '{}', but there are no timings of products on it", device),
                     "pass all files of data/timings");
}

Status write_spreads(const Samples& samples, const Form& form, const KernelConstants& numbers, const Results& results,
                     const std::string& facts, const std::string& root) {
  const std::string path = root + "/data/models/spreads.csv";
  const auto text = rewritten(path, facts, [&](const std::string& line) {
    auto cells = cells_of(line);
    const Percentiles of = percentiles(ratios_of(cells[0], samples, form, results, numbers));
    cells[1] = fmt::format("{:.2f}", of.low);
    cells[2] = fmt::format("{:.2f}", of.middle);
    cells[3] = fmt::format("{:.2f}", of.high);
    return line_of(cells);
  });
  return text ? write_file(path, *text) : text.error();
}

}  // namespace ridge::fit
