#include "ridge/plan/ranks/chunk_prediction.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/distributed/collective.h"
#include "ridge/ops/fused/cuda.h"
#include "ridge/ops/fused/model.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/model.h"
#include "ridge/plan/plan.h"

namespace ridge::ranks {
namespace {

constexpr double max_launch_ratio = 0.99;  // with a launch per chunk, more chunks must gain at least 1 %
// Consecutive launches take longer than the sum of their predictions. A single kernel is therefore chosen up to 7 %
// above their prediction, if a shard fills at least 0.9 waves; with less, its waiting tiles occupy multiprocessors.
constexpr double single_kernel_tolerance = 1.07, min_wave_fill = 0.9;

// Fraction of a chunk's product time that is added to its remote stores, because both compete. Measured 0.5 on four
// H200 for M x N x K = 8192 x 8192 x 4096, 8192 x 8192 x 8192 and 4096 x 8192 x 8192 (2026-11-27).
constexpr double store_slowdown = 0.5;

class ChunkPredictor {
 public:
  explicit ChunkPredictor(const ChunkRequest& request)
      : request_(request),
        device_(request.device),
        shards_(row_shards(request.schedule, request.pair, request.mesh_device)),
        row_bytes_(row_bytes(request.schedule, request.pair, request.mesh_device)) {}

  Result<ChunkPrediction> predict_best() const {
    ChunkPrediction out;
    RIDGE_TRY(planned,
              request_.make_plan(std::get<ComputeStep>(request_.schedule.steps[request_.pair.compute_step]).program));
    const auto alone = predict_plan_seconds(planned, device_);
    if (!alone) return out;
    out.compute_s = *alone;
    out.sequential_s = *alone + redistribution_seconds();
    ChunkCandidate launches, kernel;
    for (std::int64_t chunks = std::max<std::int64_t>(1, request_.chunk_options.count); chunks <= max_chunks;
         chunks *= 2) {
      RIDGE_TRY(seconds, estimate_launches(chunks));
      if (!seconds) break;
      launches.keep_if_faster(*seconds, chunks);
      if (const auto one = plan_single_kernel(request_, planned, chunks))
        try_single_kernel(kernel, *one, planned, *alone);
      if (request_.chunk_options.count > 0) break;
    }
    if (launches.chunks == 0) return out;
    const double tolerance = kernel.waves < min_wave_fill ? 1 : single_kernel_tolerance;
    out.single_kernel =
        kernel.chunks > 0 && (!request_.pair.is_gather() || kernel.seconds < tolerance * launches.seconds);
    const ChunkCandidate& best = out.single_kernel ? kernel : launches;
    out.chunked_s = best.seconds;
    out.chunks = best.chunks;
    out.stores_remotely = best.stores_remotely;
    out.run_lengths = best.runs;
    if (request_.chunk_options.mode == ChunkOptions::ChunkMode::where_faster &&
        std::min(best.seconds, launches.seconds) >= out.sequential_s)
      out.chunks = 0;
    return out;
  }

 private:
  using OptionalSeconds = Result<std::optional<double>>;  // nullopt: a step has no prediction
  struct ChunkCandidate {
    double seconds = 0, waves = 1;
    std::int64_t chunks = 0;
    bool stores_remotely = false;
    ChunkRunLengths runs = {};
    void keep_if_faster(double other, std::int64_t count) {
      if (chunks == 0 || other < max_launch_ratio * seconds) *this = {other, 1, count};
    }
  };

  OptionalSeconds compute_seconds(const Program& program) const {
    const auto planned = request_.make_plan(program);
    return planned ? OptionalSeconds(predict_plan_seconds(*planned, device_)) : planned.error();
  }

  OptionalSeconds estimate_launches(std::int64_t chunks) const {
    std::int64_t longest = 0;
    for (const RowShard& shard : shards_) longest = std::max(longest, shard.rows.size());
    const std::vector<AxisRange> cut = split_rows({0, longest}, chunks);
    const auto ranks = static_cast<std::int64_t>(shards_.size()), count = static_cast<std::int64_t>(cut.size());
    const std::int64_t chunk = cut.front().size();
    const bool is_gather = request_.pair.is_gather();
    const RankSchedule& schedule = request_.schedule;
    const auto edge_product = compute_seconds(program_for_rows(schedule, request_.pair, chunk));
    const auto main_product =
        is_gather ? compute_seconds(program_for_rows(schedule, request_.pair, longest)) : edge_product;
    if (!edge_product || !main_product) return (edge_product ? main_product : edge_product).error();
    if (!*edge_product || !*main_product) return std::optional<double>();
    const auto bytes = static_cast<double>(chunk * row_bytes_);
    const double adding = is_gather ? 0 : bytes / device_.memory_bytes_per_s;
    const ChunkSeconds seconds{.main_product = **main_product + adding,
                               .edge_product = **edge_product,
                               .send = send_seconds(bytes),
                               .latency = request_.link_costs.latency_s};
    return std::optional(with_barrier(estimate_chunk_launches_s(request_.pair.kind, ranks, count, seconds)));
  }

  // Steps before a scattered product end before its first chunk is sent; steps after a gathered product start when all
  // rows have arrived. Neither is overlapped.
  void try_single_kernel(ChunkCandidate& best, const SingleKernelPlan& one, const Plan& planned, double alone) const {
    Plan product = planned;
    product.steps = {request_.pair.is_gather() ? planned.steps.front() : planned.steps.back()};
    const auto ranks = static_cast<std::int64_t>(shards_.size()), count = std::int64_t{one.walk.chunks_per_shard};
    const double bytes = static_cast<double>(shards_.front().rows.size() * row_bytes_) / static_cast<double>(count);
    const double other_steps_s = alone - predict_plan_seconds(product, device_).value_or(alone);
    for (const bool stores_remotely : {false, true}) {
      if (stores_remotely && request_.pair.kind != Collective::reduce_scatter) continue;
      const double each = one.seconds / static_cast<double>(ranks * count),
                   transfer = bytes / request_.link_costs.write_bytes_per_s;
      const KernelSeconds times{.chunk_product = each,
                                .remote_store = stores_remotely ? transfer + store_slowdown * each : 0,
                                .transfer = transfer,
                                .copy_overhead = request_.pair.is_gather()
                                                     ? request_.link_costs.copy_overhead_s
                                                     : request_.link_costs.awaited_copy_overhead_s,
                                .latency = request_.link_costs.latency_s,
                                .waves_per_shard = one.waves_per_shard};
      for (const ChunkRunLengths& runs : candidate_run_lengths(stores_remotely, ranks, count)) {
        const double seconds =
            other_steps_s + with_barrier(estimate_single_kernel_s(request_.pair.kind, ranks, count, runs, times));
        if (best.chunks == 0 || seconds < best.seconds)
          best = {seconds, one.waves_per_shard, count, stores_remotely, runs};
      }
    }
  }

  // Returns all combinations of run lengths that are powers of two up to a full shard, for copies by the copy engine.
  std::vector<ChunkRunLengths> candidate_run_lengths(bool stores_remotely, std::int64_t ranks,
                                                     std::int64_t chunks) const {
    const bool copies_sums = !request_.pair.is_gather() && !stores_remotely,
               broadcasts = request_.pair.kind == Collective::all_reduce;
    std::vector<ChunkRunLengths> all{ChunkRunLengths{}};
    const auto vary = [&](std::int64_t ChunkRunLengths::*length) {
      const std::vector<ChunkRunLengths> shorter = all;
      for (std::int64_t max_length = 2; max_length < 2 * chunks; max_length *= 2)
        for (ChunkRunLengths runs : shorter) {
          runs.*length = max_length;
          all.push_back(runs);
        }
    };
    if (copies_sums) vary(&ChunkRunLengths::max_first);
    if (copies_sums && ranks > 3) vary(&ChunkRunLengths::max_middle);
    if (copies_sums && ranks > 2) vary(&ChunkRunLengths::max_last);
    if (broadcasts) vary(&ChunkRunLengths::max_broadcast);
    return all;
  }

  double transfer_seconds(double bytes) const {
    return bytes /
           (request_.pair.is_gather() ? request_.link_costs.read_bytes_per_s : request_.link_costs.write_bytes_per_s);
  }
  double send_seconds(double bytes) const {
    return transfer_seconds(bytes) + (request_.pair.is_gather() ? 0 : request_.link_costs.copy_overhead_s);
  }
  // Adds one barrier per pass: before a rank writes to others (scatter), or until they have read (gather).
  double with_barrier(double seconds) const { return seconds + request_.link_costs.barrier_s; }

  // Returns the measured time, else NCCL's, else an estimate from the link bandwidth.
  double redistribution_seconds() const {
    if (request_.redistribution_s) return *request_.redistribution_s;
    const auto library = nccl_redistribution_s(request_.machine, request_.schedule, request_.mesh_device,
                                               request_.pair.redistribution_step);
    if (library) return *library;
    const auto n = static_cast<double>(shards_.size()),
               passes = request_.pair.kind == Collective::all_reduce ? 2.0 : 1.0;
    const double bytes = static_cast<double>(shards_.back().rows.end * row_bytes_);
    return transfer_seconds(passes * (n - 1) / n * bytes);
  }

  const ChunkRequest& request_;
  const ops::DeviceNumbers& device_;
  std::vector<RowShard> shards_;
  std::int64_t row_bytes_;
};

// Returns the product that one kernel could run for all chunks, still without data and chunks. Returns nullopt if the
// step is not a product or if other steps read the gathered operand.
std::optional<ops::MatmulCall> find_chunked_product(const ChunkRequest& request, const Plan& planned) {
  const auto call_of = [](const PlanStep& step) -> std::optional<ops::MatmulCall> {
    if (const auto* plain = std::get_if<ops::MatmulProblem>(&step.kernel)) return ops::MatmulCall{*plain};
    const auto* const fused = std::get_if<ops::FusedMatmul>(&step.kernel);
    if (fused == nullptr) return std::nullopt;
    const ops::cuda::FusedCall call = ops::cuda::make_fused_call(*fused);
    const auto* const one = std::get_if<ops::MatmulCall>(&call);
    return one != nullptr ? std::optional(*one) : std::nullopt;
  };
  if (!request.pair.is_gather()) {
    const auto* const product = std::get_if<ops::MatmulProblem>(&planned.steps.back().kernel);
    return product != nullptr ? std::optional(ops::MatmulCall{*product}) : std::nullopt;
  }
  const int gathered = redistributed_tensor(request.schedule, request.pair);
  int readers = 0;
  for (const PlanStep& step : planned.steps)
    readers += static_cast<int>(std::count(step.buffers.begin(), step.buffers.end(), gathered));
  const PlanStep& first = planned.steps.front();
  return readers == 1 && first.buffers.front() == gathered ? call_of(first) : std::nullopt;
}

}  // namespace

Result<ChunkPrediction> predict_chunks(const ChunkRequest& request) { return ChunkPredictor(request).predict_best(); }

std::optional<double> nccl_redistribution_s(const Machine& machine, const RankSchedule& schedule,
                                            const MeshDevice& device, std::size_t step_index) {
  const auto& redistribution = std::get<Redistribution>(schedule.steps[step_index]);
  const TensorSlot& slot = schedule.slots[redistribution.from];
  const auto transfer =
      transfer_of_step(redistribution.move, slot.extents, device.mesh, Rational(dtype_bits(slot.dtype), 8));
  return transfer ? ridge::library_transfer_seconds(machine, *transfer) : std::nullopt;
}

std::optional<SingleKernelPlan> plan_single_kernel(const ChunkRequest& request, const Plan& planned,
                                                   std::int64_t chunks) {
  const auto product = find_chunked_product(request, planned);
  if (!product) return std::nullopt;
  const std::vector<RowShard> shards = row_shards(request.schedule, request.pair, request.mesh_device);
  const std::int64_t rows = shards.back().rows.end;
  if (product->problem.size.m % rows != 0) return std::nullopt;
  std::size_t position = 0;
  while (shards[position].rank != request.rank) ++position;
  ops::MatmulCall call = *product;  // assumes operands that are aligned to 256 bytes
  const bool is_gather = request.pair.is_gather();
  const ops::MatrixLayout& a = call.problem.a;
  if (is_gather && (a.row_stride != call.problem.size.k || a.col_stride != 1)) return std::nullopt;
  const RowOrderShape shape{is_gather, is_gather ? call.problem.size.k : call.problem.size.n,
                            call.problem.size.m / rows};
  const ops::RowWalk out = plan_row_order(shards, position, shape, chunks);
  if (out.rows == 0) return std::nullopt;
  // With one chunk per shard the first tiles of a shard would wait for all of the previous shard.
  if (!is_gather && out.chunks_per_shard == 1 && plan_row_order(shards, position, shape, 2).chunks_per_shard > 1)
    return std::nullopt;
  (is_gather ? static_cast<ops::RowWalk&>(call.gathered) : call.scattered) = out;
  const auto plan = ops::cuda::choose_exchanged_rows_plan(call, ops::plan_workspace_bytes, request.device);
  const auto unchunked = ops::forecast(call.problem, request.device);  // prediction without chunks
  if (!plan || !unchunked) return std::nullopt;
  const ops::MatmulConfig& c = ops::sm90_kernel_configs[plan->config];
  const std::int64_t tile_columns = c.n * c.cluster_n, tile_rows = c.m * c.cluster_m;
  const std::int64_t tiles =
      (call.problem.size.n + tile_columns - 1) / tile_columns * (out.shard_rows / tile_rows) * c.cluster();
  return SingleKernelPlan{out, unchunked->spread.middle * plan->predicted_s, static_cast<double>(tiles) / plan->blocks};
}

std::int64_t row_bytes(const RankSchedule& schedule, const ChunkedPair& pair, const MeshDevice& device) {
  const auto& redistribution = std::get<Redistribution>(schedule.steps[pair.redistribution_step]);
  const int slot = pair.is_gather() ? redistribution.to : redistribution.from;
  const ShardBox block = slot_block(schedule, slot, device);
  const DType dtype = schedule.slots[slot].dtype;
  return block.front().size() == 0 ? 0 : count_words(block) / block.front().size() * dtype_bits(dtype) / 8;
}

std::string describe_prediction(const RankSchedule& schedule, const ChunkedPair& pair,
                                const ChunkPrediction& prediction) {
  const auto& redistribution = std::get<Redistribution>(schedule.steps[pair.redistribution_step]);
  const auto& compute = std::get<ComputeStep>(schedule.steps[pair.compute_step]);
  const Statement& last = compute.program.statements.back();
  std::string result = compute.program.tensors[last.result()].name;
  result = result.substr(0, result.find('#'));
  const std::string title = fmt::format("{} and {} over {}", result, name(pair.kind), redistribution.move.over);
  const std::string sequential = format_with_prefix(prediction.sequential_s, "s");
  if (prediction.chunks == 0) return fmt::format("{}: {} predicted in turn", title, sequential);
  std::string scope = (pair.is_gather() ? "the last shard along " : "each shard along ") + pair.row_dim;
  if (prediction.single_kernel) scope = pair.is_gather() ? "each shard, one kernel" : scope + ", one kernel";
  return fmt::format("{}: {} predicted in {} chunk{} of {}, {} in turn", title,
                     format_with_prefix(prediction.chunked_s, "s"), prediction.chunks,
                     prediction.chunks == 1 ? "" : "s", scope, sequential);
}

}  // namespace ridge::ranks
