// Time of a product along one dimension, predicted by the planner if the machine has one, else by the library's model.
// Tiles and waves are those of the kernel that is predicted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/api/facade.h"
#include "ridge/api/resolve_request.h"
#include "ridge/base/ceil_div.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/library_model.h"

namespace ridge::api {
namespace {

struct SweptDimension {
  Request request;
  const DimensionValues* range = nullptr;
};

// Returns the only dimension with several values; the other dimensions are in the request.
Result<SweptDimension> find_swept_dimension(const SweepRequest& request) {
  if (request.on.size() > 1)
    return usage_error(fmt::format("expected one machine with --stripes, found {}", request.on.size()),
                       fmt::format("--on {}", request.on.front().name()));
  SweptDimension out{.request = {.program = request.program, .on = request.on.front()}};
  if (!request.dtypes.empty()) out.request.dtype = request.dtypes.front();
  for (const DimensionValues& range : request.ranges) {
    if (range.values.size() == 1) {
      out.request.dims[range.dim] = range.values.front();
    } else if (out.range != nullptr) {
      return usage_error(
          fmt::format("expected --stripes along one dimension, found {} and {}", out.range->dim, range.dim),
          fmt::format("-d {}={}", range.dim, range.values.front()));
    } else {
      out.range = &range;
    }
  }
  if (out.range != nullptr) return out;
  return usage_error("expected --stripes along a dimension with several values, found none", "-d N=1024..4096:64");
}

// Predicts one size with the planner, which chooses the tiles. Sets `remark` if the interval is wide for a reason.
Result<Stripe> predict_with_plan(const Program& program, const Explanation& explained, Stripe out,
                                 std::string& remark) {
  RIDGE_TRY(planned, predict_program(program, explained, {.count_bytes = false}));
  const GroupPrediction& op = planned.kernels.front();
  out.kernel = op.plan.kernel;
  out.predicted_s = planned.predicted_s;
  if (!planned.remark.empty()) remark = planned.remark;
  out.waves = op.plan.waves.value_or(1);
  if (!op.properties) return out;
  out.tiles = op.properties->work_items;
  if (!op.plan.waves && op.properties->concurrent_items > 0)
    out.waves = ceil_div(out.tiles, op.properties->concurrent_items);
  return out;
}

// Predicts one size with the library's model: its fastest kernel, or its fastest one of the given tile.
Result<Stripe> predict_with_library(const ResolvedRequest& resolved, const Request& request, const std::string& tile,
                                    Stripe out, std::string& remark) {
  const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
  const std::string counted_tile = tile.empty() ? "256x128" : tile;  // Without a tile, only the product's extents count
  RIDGE_TRY(tiling, ridge::count_tile_waves(resolved.program, resolved.machine, request.dims, counted_tile));
  const TileWaves& t = tiling.front();
  const DType dtype =
      resolved.program.tensors[std::get<Contraction>(resolved.program.statements.front().op).left].dtype;
  RIDGE_TRY(library, find_library_model(resolved.machine, dtype));
  if (!library.is_calibrated) remark = uncalibrated_remark(resolved.machine);
  std::optional<ops::LibraryTile> given;
  if (!tile.empty()) given = {as_double(t.tile_m), as_double(t.tile_n)};
  const double depth = out.flops / 2 / as_double(t.batch * t.m * t.n);
  const ops::LibraryChoice choice =
      ops::choose_library_kernel({as_double(t.batch), as_double(t.m), as_double(t.n), depth, dtype_bits(dtype) / 8.0},
                                 library.machine, library.numbers, given);
  out.kernel = fmt::format("{:g}x{:g}{}", choice.tile.m, choice.tile.n,
                           choice.splits > 1 ? fmt::format(" split-K {:g}", choice.splits) : "");
  out.tiles = std::llround(choice.work_items);
  out.waves = std::llround(choice.waves);
  const ops::PredictionSpread& spread = library.spread;
  out.predicted_s = {spread.low * choice.seconds, spread.middle * choice.seconds, spread.high * choice.seconds};
  return out;
}

Result<Stripe> predict_stripe(const ResolvedRequest& resolved, const Request& request, const StripesRequest& options,
                              std::string& remark) {
  const bool is_cpu = resolved.machine.name == "cpu";
  if (is_cpu && !options.tile.empty())
    return usage_error(
        fmt::format("expected no --tile on cpu, where the plan chooses the tiles, found '{}'", options.tile),
        "leave --tile out");
  RIDGE_TRY(explained, ridge::explain(resolved.program, resolved.machine, request.dims, {}, Thresholds::skipped));
  Stripe out;
  out.flops = static_cast<double>(explained.ops.front().flops.value_or(0));
  if (!is_cpu && !device_numbers(resolved.machine) && !has_library(resolved.machine))
    return usage_error(
        fmt::format("expected --stripes on a GPU of NVIDIA's or on cpu, found --on {}", resolved.machine.name),
        "--on a100_80");
  const bool is_planned = is_cpu || (options.tile.empty() && device_numbers(resolved.machine));
  return is_planned ? predict_with_plan(resolved.program, explained, std::move(out), remark)
                    : predict_with_library(resolved, request, options.tile, std::move(out), remark);
}

}  // namespace

Result<Stripes> predict_stripes(const SweepRequest& request, const StripesRequest& options) {
  RIDGE_TRY(swept, find_swept_dimension(request));
  RIDGE_TRY(resolved, resolve_request(swept.request));
  const bool is_product = resolved.program.statements.size() == 1 &&
                          std::holds_alternative<Contraction>(resolved.program.statements.front().op);
  if (!is_product)
    return usage_error(
        fmt::format("expected one product after --stripes, found {} statements", resolved.program.statements.size()),
        "ridge sweep 'bf16[M, K] * bf16[K, N] -> bf16[M, N]' --stripes --on h200 M=2048 K=2048 N=1024..4096:64");
  Stripes out{.title = resolved.title,
              .machine = resolved.machine.name,
              .machine_title = resolved.machine.title,
              .dim = swept.range->dim};
  if (const auto cores = resolved.machine.numbers.find("cores"); cores != resolved.machine.numbers.end())
    out.cores = static_cast<std::int64_t>(cores->second.value);
  std::vector<std::int64_t> sizes = swept.range->values;
  std::sort(sizes.begin(), sizes.end());
  for (const std::int64_t size : sizes) {
    swept.request.dims[swept.range->dim] = size;
    RIDGE_TRY(row, predict_stripe(resolved, swept.request, options, out.remark));
    row.size = size;
    if (options.measure) {
      RIDGE_TRY(measured, api::run(swept.request, {}));
      row.measured_s = measured.measured->total.time.median;
    }
    out.rows.push_back(std::move(row));
  }
  describe_edges(out);
  return out;
}

}  // namespace ridge::api
