// A product's time along one size: by the plan where the machine has a planner, else by the library's model, in tiles
// of a given size.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/facade.h"
#include "ridge/api/task.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/library.h"

namespace ridge::api {
namespace {

struct Along {
  Request request;
  const Range* range = nullptr;
};

// The one dimension that has several values; the others' are the request's.
Result<Along> along(const SweepRequest& request) {
  Along out{.request = {.program = request.program, .on = request.on.front()}};
  if (!request.dtypes.empty()) out.request.dtype = request.dtypes.front();
  for (const Range& range : request.ranges) {
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

// By the planner's tile, or by the library's model in tiles of this size.
Result<Stripe> stripe_of(const Task& task, const Request& request, const StripesRequest& how) {
  const auto explained = ridge::explain(task.program, task.machine, request.dims, {}, Thresholds::left_out);
  if (!explained) return explained.error();
  const Prediction& first = explained->ops.front();
  Stripe out{.kernel = how.tile, .flops = static_cast<double>(first.flops.value_or(0))};
  const bool has_planner = static_cast<bool>(device_numbers(task.machine)) && !how.is_tile_given;
  if (has_planner) {
    const auto planned = predict(task.program, *explained, {.bytes = false});
    if (!planned) return planned.error();
    const OpPlan& op = planned->kernels.front();
    out.kernel = op.plan.kernel;
    out.predicted_s = planned->predicted_s;
    out.waves = op.plan.waves.value_or(1);
    if (op.facts) out.tiles = op.facts->pieces;
    return out;
  }
  const auto cut = ridge::tile_waves(task.program, task.machine, request.dims, how.tile);
  if (!cut) return cut.error();
  out.tiles = cut->front().tiles;
  out.waves = cut->front().waves;
  if (task.machine.name == "cpu") {
    const auto planned = predict(task.program, *explained, {.bytes = false});
    if (!planned) return planned.error();
    out.predicted_s = planned->predicted_s;
    return out;
  }
  const auto& product = std::get<Contraction>(task.program.statements.front().op);
  const DType dtype = task.program.tensors[static_cast<std::size_t>(product.left)].dtype;
  const auto library = library_on(task.machine, dtype);
  if (!library) return library.error();
  const TileWaves& t = cut->front();
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  const double depth = out.flops / 2 / size(t.batch * t.m * t.n);
  const double seconds = ops::library_seconds({size(t.batch), size(t.m), size(t.n), depth, bits(dtype) / 8.0},
                                              library->machine, library->numbers);
  const ops::Spread& spread = library->spread;
  out.predicted_s = {spread.low * seconds, spread.middle * seconds, spread.high * seconds};
  return out;
}

}  // namespace

Result<Stripes> stripes(const SweepRequest& request, const StripesRequest& how) {
  auto where = along(request);
  if (!where) return where.error();
  const auto task = understood(where->request);
  if (!task) return task.error();
  const bool is_product =
      task->program.statements.size() == 1 && std::holds_alternative<Contraction>(task->program.statements.front().op);
  if (!is_product)
    return usage_error(
        fmt::format("expected one product after --stripes, found {} statements", task->program.statements.size()),
        "ridge sweep 'bf16[M, K] * bf16[K, N] -> bf16[M, N]' --stripes --on h200 M=2048 K=2048 N=1024..4096:64");
  Stripes out{.title = task->title,
              .machine = task->machine.name,
              .machine_title = task->machine.title,
              .dim = where->range->dim};
  if (const auto cores = task->machine.numbers.find("cores"); cores != task->machine.numbers.end())
    out.cores = static_cast<std::int64_t>(cores->second.value);
  std::vector<std::int64_t> sizes = where->range->values;
  std::sort(sizes.begin(), sizes.end());
  for (const std::int64_t size : sizes) {
    where->request.dims[where->range->dim] = size;
    auto row = stripe_of(*task, where->request, how);
    if (!row) return row.error();
    row->size = size;
    if (how.measure) {
      const auto ran = api::run(where->request, {});
      if (!ran) return ran.error();
      row->measured_s = ran->measured->total.time.median;
    }
    out.rows.push_back(*std::move(row));
  }
  name_edges(out);
  return out;
}

}  // namespace ridge::api
