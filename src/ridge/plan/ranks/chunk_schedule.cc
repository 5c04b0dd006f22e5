#include "ridge/plan/ranks/chunk_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ridge/base/contains.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/plan/ranks/communication_schedule.h"

namespace ridge::ranks {
namespace {

constexpr std::int64_t tile_rows = 128, column_multiple = 128;
// Minimum width of a column block: narrower ones are copied slowly. Several scattered ones are sent in one copy.
constexpr std::int64_t min_gathered_columns = 2048, min_scattered_columns = 1024;

const TensorSlot& slot_of(const RankSchedule& schedule, int slot) { return schedule.slots[slot]; }

// True if the dimension is the tensor's first axis (and elements have full bytes), or does not occur in the tensor.
bool has_only_as_rows(const Tensor& tensor, const std::string& dim) {
  if (!has_dim(tensor.axes, dim)) return true;
  const auto count = std::count_if(tensor.axes.begin(), tensor.axes.end(), [&](const Axis& a) { return a.dim == dim; });
  return tensor.axes.front().dim == dim && count == 1 && dtype_bits(tensor.dtype) % 8 == 0 &&
         !is_block_scaled(tensor.dtype);
}

bool has_independent_rows(const Program& program, const Statement& statement, const std::string& dim) {
  if (!has_dim(program.tensors[statement.result()].axes, dim)) return false;
  if (const auto* product = std::get_if<Contraction>(&statement.op))
    return !product->grouped && !contains(product->contracted, dim);
  const auto& e = std::get<Expression>(statement.op);
  return !e.routine && std::all_of(e.nodes.begin(), e.nodes.end(), [&](const Node& node) {
    const bool over = std::any_of(node.over.begin(), node.over.end(), [&](const Axis& a) { return a.dim == dim; });
    return !over && node.kind != Node::Kind::previous;
  });
}

bool has_independent_rows(const Program& program, const std::string& dim) {
  return std::all_of(program.tensors.begin(), program.tensors.end(),
                     [&](const Tensor& t) { return has_only_as_rows(t, dim); }) &&
         std::all_of(program.statements.begin(), program.statements.end(),
                     [&](const Statement& s) { return has_independent_rows(program, s, dim); });
}

// True if the redistribution only changes how the first axis is split, and possibly reduces partial sums.
bool resplits_rows_only(const RedistributionStep& move) {
  Layout before = move.before, after = move.after;
  if (before.mesh_axes.empty()) return false;
  before.mesh_axes.front() = after.mesh_axes.front() = "";
  before.partial_over = after.partial_over = "";
  if (before != after) return false;
  const std::string& from = move.before.mesh_axes.front();
  const std::string& to = move.after.mesh_axes.front();
  switch (*move.collective) {
    case Collective::all_gather: return from == to + move.over && move.before.partial_over == move.after.partial_over;
    case Collective::reduce_scatter: return to == from + move.over && move.after.partial_over.empty();
    case Collective::all_reduce: return to == from && move.after.partial_over.empty();
    default: return false;
  }
}

bool is_read_elsewhere(const RankSchedule& schedule, int slot, const ChunkedPair& pair,
                       const std::vector<int>& stored_tensors) {
  if (contains(stored_tensors, slot)) return true;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    if (i == pair.compute_step || i == pair.redistribution_step) continue;
    if (const auto* redistribution = std::get_if<Redistribution>(&schedule.steps[i])) {
      if (redistribution->from == slot || redistribution->to == slot) return true;
    } else if (const auto& slots = std::get<ComputeStep>(schedule.steps[i]).slots; contains(slots, slot)) {
      return true;
    }
  }
  return false;
}

int find_tensor(const ComputeStep& compute_step, int slot) {  // index in the step's program, or -1
  const auto at = std::find(compute_step.slots.begin(), compute_step.slots.end(), slot);
  return at == compute_step.slots.end() ? -1 : static_cast<int>(at - compute_step.slots.begin());
}

bool ends_in_product(const ComputeStep& compute_step, int tensor) {
  const Statement& last = compute_step.program.statements.back();
  return std::holds_alternative<Contraction>(last.op) && last.result() == tensor;
}

void set_row_count(Program& program, const std::string& dim, std::int64_t rows) {
  for (Dimension& known : program.dims)
    if (known.name == dim) known.value = Polynomial(rows);
}

}  // namespace

std::optional<ChunkedPair> find_chunked_pair(const RankSchedule& schedule, std::size_t step_index,
                                             const MeshDevice& device, const std::vector<int>& stored_tensors) {
  if (step_index + 1 >= schedule.steps.size()) return std::nullopt;
  const auto* const first = std::get_if<Redistribution>(&schedule.steps[step_index]);
  const std::size_t compute_index = first != nullptr ? step_index + 1 : step_index,
                    redistribution_index = first != nullptr ? step_index : step_index + 1;
  const auto* const compute = std::get_if<ComputeStep>(&schedule.steps[compute_index]);
  const auto* const redistribution = std::get_if<Redistribution>(&schedule.steps[redistribution_index]);
  if (compute == nullptr || redistribution == nullptr || compute->is_empty || !redistribution->move.collective)
    return std::nullopt;
  ChunkedPair out{.compute_step = compute_index,
                  .redistribution_step = redistribution_index,
                  .kind = *redistribution->move.collective,
                  .row_dim = ""};
  if (out.is_gather() != (first != nullptr) || !resplits_rows_only(redistribution->move)) return std::nullopt;
  if (slot_of(schedule, redistribution->from).dtype != slot_of(schedule, redistribution->to).dtype) return std::nullopt;
  if (redistribution->reduce_op != transport::ReduceOp::sum || device.mesh.size(redistribution->move.over) < 2)
    return std::nullopt;
  const int slot = out.is_gather() ? redistribution->to : redistribution->from, tensor = find_tensor(*compute, slot);
  if (tensor < 0 || is_read_elsewhere(schedule, slot, out, stored_tensors)) return std::nullopt;
  const std::vector<Axis>& axes = compute->program.tensors[tensor].axes;
  if (axes.size() < 2 || !axes.front().is_named()) return std::nullopt;
  out.row_dim = axes.front().dim;
  if (!has_independent_rows(compute->program, out.row_dim)) return std::nullopt;
  if (!out.is_gather() && !ends_in_product(*compute, tensor)) return std::nullopt;
  const std::vector<RowShard> shards = row_shards(schedule, out, device);
  if (std::any_of(shards.begin(), shards.end(), [](const RowShard& p) { return p.rows.size() == 0; }))
    return std::nullopt;
  return out;
}

int redistributed_tensor(const RankSchedule& schedule, const ChunkedPair& pair) {
  const auto& redistribution = std::get<Redistribution>(schedule.steps[pair.redistribution_step]);
  return find_tensor(std::get<ComputeStep>(schedule.steps[pair.compute_step]),
                     pair.is_gather() ? redistribution.to : redistribution.from);
}

std::vector<RowShard> row_shards(const RankSchedule& schedule, const ChunkedPair& pair, const MeshDevice& device) {
  const auto& redistribution = std::get<Redistribution>(schedule.steps[pair.redistribution_step]);
  const TensorSlot& full = slot_of(schedule, pair.is_gather() ? redistribution.to : redistribution.from);
  const Mesh& mesh = device.mesh;
  Layout shard_layout = full.layout;
  shard_layout.partial_over = "";
  shard_layout.mesh_axes.front() += redistribution.move.over;
  const std::int64_t begin = shard_box(full.extents, full.layout, mesh, device.index).front().begin;
  std::vector<RowShard> out;
  for (const int other : group_ranks(mesh, redistribution.move.over, device.index)) {
    const AxisRange rows = shard_box(full.extents, shard_layout, mesh, other).front();
    out.push_back({other, {rows.begin - begin, rows.end - begin}});
  }
  return out;
}

Program program_for_rows(const RankSchedule& schedule, const ChunkedPair& pair, std::int64_t rows) {
  Program out = std::get<ComputeStep>(schedule.steps[pair.compute_step]).program;
  set_row_count(out, pair.row_dim, rows);
  return out;
}

std::vector<AxisRange> split_rows(const AxisRange& rows, std::int64_t chunks) {
  const std::int64_t even = (rows.size() + chunks - 1) / chunks, each = (even + tile_rows - 1) / tile_rows * tile_rows;
  std::vector<AxisRange> out;
  for (std::int64_t at = rows.begin; at < rows.end; at += each) out.push_back({at, std::min(rows.end, at + each)});
  return out;
}

ops::RowWalk plan_row_order(const std::vector<RowShard>& shards, std::size_t position, const RowOrderShape& shape,
                            std::int64_t chunks) {
  const std::int64_t shard_rows = shards.front().rows.size() * shape.rows_per_shard_row,
                     all = shards.back().rows.end * shape.rows_per_shard_row;
  const auto is_uniform = [&](const RowShard& one) { return one.rows.size() * shape.rows_per_shard_row == shard_rows; };
  if (all > ops::RowWalk::unlimited || shard_rows % tile_rows != 0 ||
      !std::all_of(shards.begin(), shards.end(), is_uniform))
    return {};
  std::int64_t rows =
      shape.is_gather ? shard_rows : std::min(shard_rows, ops::cuda::max_scatter_band_rows) / tile_rows * tile_rows;
  while (rows > 0 && (shard_rows % rows != 0 || rows % shape.rows_per_shard_row != 0)) rows -= tile_rows;
  if (rows == 0) return {};
  const std::int64_t column_blocks = std::max<std::int64_t>(1, chunks * rows / shard_rows);
  const std::int64_t even = std::max((shape.columns + column_blocks - 1) / column_blocks,
                                     shape.is_gather ? min_gathered_columns : min_scattered_columns);
  ops::RowWalk out;
  out.rows = static_cast<int>(rows);
  out.shard_rows = static_cast<int>(shard_rows);
  out.total_rows = static_cast<int>(all);
  out.cols = static_cast<int>((even + column_multiple - 1) / column_multiple * column_multiple);
  out.chunks_across = static_cast<int>((shape.columns + out.cols - 1) / out.cols);
  out.chunks_per_shard = static_cast<int>(shard_rows / rows) * out.chunks_across;
  out.first = static_cast<int>(shards[(position + (shape.is_gather ? 0 : 1)) % shards.size()].rows.begin *
                               shape.rows_per_shard_row);
  return out.chunks_per_shard > max_chunks ? ops::RowWalk() : out;
}

namespace {

int wave_of_shard(std::size_t step, double waves) {
  return static_cast<int>((static_cast<double>(step) + 0.5) * waves);
}

// The shards of a wave process their column blocks together, each block when it has arrived for all of them.
double estimate_gather_s(std::size_t ranks, std::size_t column_blocks, const KernelSeconds& s) {
  std::vector<double> arrival(ranks * column_blocks, 0);
  double sent = s.latency;
  for (const ColumnSend& each : order_column_sends(ranks, column_blocks, s.waves_per_shard))
    arrival[each.rank_distance * column_blocks + each.column_block] = sent += s.transfer + s.copy_overhead;
  double computed = 0;
  for (std::size_t first = 0, end = 0; first < ranks; first = end) {
    while (end < ranks && wave_of_shard(end, s.waves_per_shard) == wave_of_shard(first, s.waves_per_shard)) ++end;
    const double each = s.chunk_product * static_cast<double>(end - first),
                 once = each / std::max(1.0, s.waves_per_shard);
    for (std::size_t column_block = 0; column_block < column_blocks; ++column_block) {
      for (std::size_t step = first; step < end; ++step)
        computed = std::max(computed, arrival[step * column_blocks + column_block]);
      computed += once;
    }
    computed += (each - once) * static_cast<double>(column_blocks);
  }
  return computed;
}

// Simulates the single kernel of scattered sums, whose tiles run in waves. Two waves are in flight: one is stored, or
// waits for its partial sums, while the next is multiplied. A chunk is complete when its last wave is stored. A wave
// waits for the partial sums of the last chunk that covers at least half of its tiles; its other tiles do not wait.
// Shards depend on each other, so there are at least as many waves as ranks; several of them may be multiplied
// concurrently.
class ScatterEstimate {
 public:
  ScatterEstimate(std::int64_t ranks, std::int64_t chunks, const ChunkRunLengths& runs, const KernelSeconds& seconds)
      : chunks_(chunks), remote_chunks_((ranks - 1) * chunks), all_chunks_(ranks * chunks), seconds_(seconds) {
    for (const ChunkRun& run : runs.list_runs(static_cast<std::size_t>(ranks), chunks)) {
      const std::int64_t before = static_cast<std::int64_t>(run.shard_position) * chunks;
      runs_.push_back({before + run.chunk_range.begin, before + run.chunk_range.end});
    }
    concurrent_waves_ =
        std::max<std::int64_t>(1, ceil_with_tolerance(seconds_.waves_per_shard * static_cast<double>(ranks)));
    waves_ = std::max(ranks, concurrent_waves_);
  }

  double total_seconds(Collective kind) {
    const double each = static_cast<double>(all_chunks_) / static_cast<double>(waves_);  // chunks per wave
    double multiplied = 0, last_stored = 0;
    for (std::int64_t wave = 0; wave < waves_; ++wave) {
      if (wave > 1) multiplied = std::max(multiplied, wave_stored_s_[wave - 2]);
      multiplied += wave_seconds(wave);
      const std::int64_t last =
          std::min(all_chunks_, ceil_with_tolerance((static_cast<double>(wave) + 0.5) * each)) - 1;
      const double ready = last < chunks_ ? 0 : arrival_of(last - chunks_, multiplied);
      double stored = std::max(multiplied, ready);
      if (seconds_.remote_store > 0 && last < remote_chunks_)
        stored = std::max(stored, std::max(last_stored, ready) + seconds_.remote_store * each);
      wave_stored_s_.push_back(stored);
      last_stored = std::max(last_stored, stored);
    }
    if (remote_chunks_ > 0)
      last_stored = wave_stored_s_.back() = std::max(last_stored, arrival_of(remote_chunks_ - 1, last_stored));
    if (kind == Collective::reduce_scatter) return last_stored;
    const auto others = static_cast<double>(all_chunks_ / chunks_ - 1);
    for (; next_run_ < runs_.size(); ++next_run_)
      copied_s_ = std::max(copied_s_, stored_time(runs_[next_run_].end, 0)) + others * copy_seconds(runs_[next_run_]);
    return copied_s_ + seconds_.latency;
  }

 private:
  static std::int64_t ceil_with_tolerance(double x) { return static_cast<std::int64_t>(std::ceil(x * (1 - 1e-9))); }
  double copy_seconds(const AxisRange& run) const {
    return seconds_.copy_overhead + seconds_.transfer * static_cast<double>(run.size());
  }
  double wave_seconds(std::int64_t wave) const {
    const auto done = [&](std::int64_t waves) {
      return ceil_with_tolerance(static_cast<double>(waves * concurrent_waves_) / static_cast<double>(waves_));
    };
    return seconds_.chunk_product * static_cast<double>(all_chunks_) / static_cast<double>(concurrent_waves_) *
           static_cast<double>(done(wave + 1) - done(wave));
  }
  // Returns when all chunks before `end` are stored; `current_s` is the time for the wave that is being multiplied.
  double stored_time(std::int64_t end, double current_s) const {
    const std::int64_t wave =
        ceil_with_tolerance(static_cast<double>(end * waves_) / static_cast<double>(all_chunks_)) - 1;
    return wave < static_cast<std::int64_t>(wave_stored_s_.size()) ? wave_stored_s_[wave] : current_s;
  }
  // Returns when the partial sums of a chunk arrive from the next rank, which runs the same schedule.
  double arrival_of(std::int64_t chunk, double current_s) {
    if (seconds_.remote_store > 0) return stored_time(chunk + 1, current_s) + seconds_.latency;
    for (; next_run_ < runs_.size() && runs_[next_run_].begin <= chunk; ++next_run_)
      copied_s_ = std::max(copied_s_, stored_time(runs_[next_run_].end, current_s)) + copy_seconds(runs_[next_run_]);
    return copied_s_ + seconds_.latency;
  }

  std::int64_t chunks_, remote_chunks_, all_chunks_, concurrent_waves_ = 1, waves_ = 1;
  KernelSeconds seconds_;
  std::vector<AxisRange> runs_ = {};
  std::size_t next_run_ = 0;                // the next run to be copied
  double copied_s_ = 0;                     // when the last copy ends
  std::vector<double> wave_stored_s_ = {};  // when each wave is stored
};

}  // namespace

std::vector<ChunkRun> ChunkRunLengths::list_runs(std::size_t ranks, std::int64_t chunks) const {
  std::vector<ChunkRun> out;
  for (std::size_t step = 0; step < ranks; ++step) {
    std::int64_t max_length = max_middle;
    if (step == 0) max_length = max_first;
    if (step > 0 && step + 2 == ranks) max_length = max_last;
    if (step + 1 == ranks) max_length = max_broadcast;
    std::int64_t each = step == 0 && ranks > 1 ? 1 : max_length;
    for (std::int64_t at = 0; at < chunks; at = out.back().chunk_range.end) {
      out.push_back({step, {at, std::min(chunks, at + each)}});
      each = std::min(max_length, 2 * each);
    }
  }
  return out;
}

void assign_flags(ops::ScatteredRows& rows, const std::vector<ChunkRun>& runs) {
  for (std::size_t run_index = 0; run_index < runs.size(); ++run_index)
    for (std::int64_t j = runs[run_index].chunk_range.begin; j < runs[run_index].chunk_range.end; ++j) {
      const auto chunk = runs[run_index].shard_position * static_cast<std::size_t>(rows.chunks_per_shard) +
                         static_cast<std::size_t>(j);
      rows.merged_flags[chunk] = static_cast<std::uint8_t>(chunk - run_index);
    }
}

std::vector<ColumnSend> order_column_sends(std::size_t ranks, std::size_t column_blocks, double waves) {
  std::vector<ColumnSend> out;
  for (std::size_t step = 1; step < ranks; ++step)
    for (std::size_t column_block = 0; column_block < column_blocks; ++column_block)
      out.push_back({step, column_block});
  std::stable_sort(out.begin(), out.end(), [&](const ColumnSend& x, const ColumnSend& y) {
    return std::pair(wave_of_shard(x.rank_distance, waves), x.column_block) <
           std::pair(wave_of_shard(y.rank_distance, waves), y.column_block);
  });
  return out;
}

double estimate_single_kernel_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const ChunkRunLengths& runs,
                                const KernelSeconds& seconds) {
  if (kind == Collective::all_gather)
    return estimate_gather_s(static_cast<std::size_t>(ranks), static_cast<std::size_t>(chunks), seconds);
  return ScatterEstimate(ranks, chunks, runs, seconds).total_seconds(kind);
}

double estimate_chunk_launches_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const ChunkSeconds& s) {
  double computed = 0, copied = kind == Collective::all_gather ? s.latency : 0;
  if (kind == Collective::all_gather) {
    computed = s.main_product;
    for (std::int64_t step = 1; step + 1 < ranks; ++step) {
      copied += s.send * static_cast<double>(chunks);
      computed = std::max(computed, copied) + s.main_product;
    }
    for (std::int64_t i = 0; i < chunks; ++i) {
      copied += s.send;
      computed = std::max(computed, copied) + s.edge_product;
    }
    return computed;
  }
  std::vector<double> arrival(chunks, 0), done = arrival;
  for (std::int64_t step = 0; step < ranks; ++step)
    for (std::size_t j = 0; j < arrival.size(); ++j) {
      done[j] = computed = std::max(computed, arrival[j]) + (step == 0 ? s.edge_product : s.main_product);
      if (step + 1 == ranks) continue;
      copied = std::max(copied, computed) + s.send;
      arrival[j] = copied + s.latency;
    }
  if (kind == Collective::reduce_scatter) return computed;
  for (const double sum : done) copied = std::max(copied, sum) + s.send * static_cast<double>(ranks - 1);
  return std::max(computed, copied + s.latency);
}

}  // namespace ridge::ranks
