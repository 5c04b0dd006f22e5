#include "ridge/plan/streaming/metapipe_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/ceil_div.h"
#include "ridge/base/contains.h"
#include "ridge/plan/shape.h"

namespace ridge {
namespace {

constexpr std::int64_t max_tiles = 1 << 16;
constexpr double nanosecond = 1e-9;

std::int64_t to_nanoseconds(double seconds) {
  return static_cast<std::int64_t>(std::ceil(std::min(seconds / nanosecond, 1e15)));
}

// The use of a tensor by the pass. Stage 0 loads, stage i + 1 computes statement i of the pass, the last stage stores.
struct TensorUse {
  std::int64_t bytes = 0;
  bool has_rows = false, has_inner = false;  // true if the tensor has that dimension
  bool is_input = false, is_output = false;
  bool is_used = false;
  std::int64_t producer = 0;      // stage that computes it; 0 for an input
  std::int64_t first_reader = 0;  // first and last stage that read it; 0 if none does
  std::int64_t last_reader = 0;
  bool is_weight() const { return is_input && !has_rows; }
};

class PassMapper {
 public:
  PassMapper(const PassContext& context, const StreamingPass& pass) : context_(context), pass_(pass) {}

  Result<MappedPass> map_pass() {
    out_.streamed_dim = pass_.streamed_dim;
    if (!pass_.streamed_dim.empty()) out_.extent = context_.dims.at(pass_.streamed_dim);
    RIDGE_TRY_STATUS(record_tensor_uses());
    RIDGE_TRY_STATUS(choose_tile());
    find_inner_loops();
    RIDGE_TRY_STATUS(place_pass());
    RIDGE_TRY_STATUS(simulate_pass());
    return std::move(out_);
  }

 private:
  std::int64_t statement_count() const { return static_cast<std::int64_t>(pass_.statements.size()); }
  std::int64_t last_stage() const { return statement_count() + 1; }
  const Statement& statement_at(std::int64_t stage) const {
    return context_.program.statements[pass_.statements[stage - 1]];
  }
  double flops_of(std::int64_t stage) const { return context_.flops[pass_.statements[stage - 1]]; }
  const Tensor& result_of(std::int64_t stage) const { return context_.program.tensors[statement_at(stage).result()]; }
  TensorUse& use_of(int tensor) { return uses_[tensor]; }

  Status record_tensor_uses() {
    for (const Tensor& t : context_.program.tensors) {
      RIDGE_TRY(sized, make_shape(t, context_.dims));
      TensorUse h;
      h.bytes =
          static_cast<std::int64_t>(std::ceil(static_cast<double>(count_elements(sized)) * bytes_per_element(t.dtype)));
      h.has_rows = pass_.streamed_dim.empty() || has_dim(t.axes, pass_.streamed_dim);
      h.has_inner = !context_.inner_dim.empty() && context_.inner_dim != pass_.streamed_dim &&
                    has_dim(t.axes, context_.inner_dim);
      if (h.bytes > std::int64_t{1} << 40)
        return input_error(
            fmt::format("expected tensors of at most 2^40 bytes to simulate, found {} of '{}'", h.bytes, t.name),
            "use smaller sizes");
      uses_.push_back(h);
    }
    for (std::int64_t stage = 1; stage <= statement_count(); ++stage) {
      for (const int operand : statement_operands(statement_at(stage))) {
        TensorUse& h = use_of(operand);
        if (h.producer == 0) h.is_input = true;
        if (h.first_reader == 0) h.first_reader = stage;
        h.last_reader = stage;
        h.is_used = true;
      }
      TensorUse& h = use_of(statement_at(stage).result());
      h.producer = stage;
      h.is_used = true;
    }
    mark_pass_outputs();
    return Done{};
  }

  // Marks results that are outputs of the program or that another pass reads.
  void mark_pass_outputs() {
    std::vector<bool> in_pass(context_.program.statements.size(), false);
    for (const int s : pass_.statements) in_pass[s] = true;
    for (std::int64_t stage = 1; stage <= statement_count(); ++stage)
      use_of(statement_at(stage).result()).is_output = result_of(stage).role == TensorRole::output;
    for (std::size_t s = 0; s < in_pass.size(); ++s)
      if (!in_pass[s])
        for (const int operand : statement_operands(context_.program.statements[s]))
          if (use_of(operand).producer > 0) use_of(operand).is_output = true;
  }

  Status choose_tile() {
    std::int64_t largest = 1;  // bytes of one row of the tensor with the largest rows
    for (const TensorUse& h : uses_)
      if (h.is_used && h.has_rows) largest = std::max(largest, ceil_div(h.bytes, out_.extent));
    while (2 * out_.tile * largest <= context_.fabric.pmu_bytes && 2 * out_.tile <= out_.extent) out_.tile *= 2;
    if (context_.tile > 0) out_.tile = std::min(context_.tile, out_.extent);
    out_.tiles = ceil_div(out_.extent, out_.tile);
    if (out_.tiles > max_tiles)
      return input_error(
          fmt::format("expected at most {} tiles to clock, found {} of {} rows", max_tiles, out_.tiles, out_.tile),
          fmt::format("--tile {}", ceil_div(out_.extent, max_tiles)));
    return Done{};
  }

  // An inner loop: consecutive statements with the inner dimension, none of which reads another's sum over it.
  struct InnerLoop {
    std::int64_t first = 0, last = 0;  // first and last stage
    std::int64_t size() const { return last - first + 1; }
  };

  void find_inner_loops() {
    for (const TensorUse& h : uses_) inner_used_ |= h.is_used && h.has_inner;
    if (!inner_used_) return;
    out_.inner_dim = context_.inner_dim;
    out_.inner_tile = std::min(context_.inner_tile, context_.dims.at(context_.inner_dim));
    out_.inner_tiles = ceil_div(context_.dims.at(context_.inner_dim), out_.inner_tile);
    for (std::int64_t stage = 1; stage <= statement_count(); ++stage) {
      if (!is_in_inner_loop(stage)) continue;
      const bool extends_loop =
          !inner_loops_.empty() && inner_loops_.back().last == stage - 1 && !reads_inner_loop_sum(stage);
      if (extends_loop)
        inner_loops_.back().last = stage;
      else
        inner_loops_.push_back({stage, stage});
    }
  }

  bool is_in_inner_loop(std::int64_t stage) {
    return stream_mode(context_.program, statement_at(stage), context_.inner_dim) != StreamMode::none ||
           is_online_softmax(stage);
  }
  // True for a softmax over the inner dimension that is read only by products that sum over it.
  bool is_online_softmax(std::int64_t stage) {
    const auto* e = std::get_if<Expression>(&statement_at(stage).op);
    if (e == nullptr || e->nodes.back().kind != Node::Kind::along_dims || e->nodes.back().function != Function::softmax)
      return false;
    const int result = statement_at(stage).result();
    if (!use_of(result).has_inner || use_of(result).is_output) return false;
    for (std::int64_t reader = stage + 1; reader <= statement_count(); ++reader) {
      const auto read = statement_operands(statement_at(reader));
      if (!contains(read, result)) continue;
      if (stream_mode(context_.program, statement_at(reader), context_.inner_dim) != StreamMode::sum) return false;
    }
    return true;
  }
  bool reads_inner_loop_sum(std::int64_t stage) {
    for (const int operand : statement_operands(statement_at(stage))) {
      const TensorUse& h = use_of(operand);
      if (h.producer >= inner_loops_.back().first && !h.has_inner) return true;
    }
    return false;
  }
  const InnerLoop* inner_loop_of(std::int64_t stage) const {
    for (const InnerLoop& loop : inner_loops_)
      if (stage >= loop.first && stage <= loop.last) return &loop;
    return nullptr;
  }
  bool is_loaded_in_inner_loop(const TensorUse& h) const {
    return inner_used_ && h.is_weight() && h.has_inner && inner_loop_of(h.first_reader) != nullptr;
  }
  bool is_stored_in_inner_loop(const TensorUse& h) const {
    const InnerLoop* loop = inner_loop_of(h.producer);
    return h.is_output && h.has_rows && h.has_inner && loop != nullptr && h.last_reader <= loop->last;
  }

  std::int64_t tile_bytes(const TensorUse& h) const { return h.has_rows ? ceil_div(h.bytes, out_.tiles) : h.bytes; }

  // Places stages and buffers with the weights in the memory units, or without if they do not fit. With one tile, a
  // stage reads its weights when it runs.
  Status place_pass() {
    for (const TensorUse& h : uses_) {
      if (!h.is_used) continue;
      if (is_loaded_in_inner_loop(h))
        out_.inner_bytes += h.bytes * out_.tiles;
      else if (h.is_weight())
        out_.weight_bytes += h.bytes;
      if ((h.is_input && h.has_rows) || h.is_output) out_.streamed_bytes += h.bytes;
      if (!h.has_rows && h.producer > 0) sum_bytes_ += h.bytes;
    }
    out_.weight_pmus = ceil_div(out_.weight_bytes + sum_bytes_, context_.fabric.pmu_bytes);
    for (const bool stay : {true, false}) {
      if (stay && out_.tiles == 1 && out_.weight_bytes > 0) continue;
      out_.weights_resident = stay;
      RIDGE_TRY_STATUS(place_pipeline());
      if (out_.placement.pmus + (stay ? out_.weight_pmus : 0) <= context_.fabric.pmus) break;
    }
    if (out_.weights_resident)
      out_.load_seconds = static_cast<double>(out_.weight_bytes) / context_.fabric.memory_bytes_per_second;
    if (out_.inner_dim.empty()) return Done{};
    return replace_pipe(out_.placement, context_.fabric, make_nested_pipe());
  }

  std::vector<StageWork> make_stage_work() {
    std::vector<StageWork> stages(static_cast<std::size_t>(statement_count()) + 2);
    stages.front() = {.name = "load", .phase = Phase::load};
    stages.back() = {.name = "store", .phase = Phase::store};
    const double tiles = static_cast<double>(out_.tiles);
    for (std::int64_t s = 1; s <= statement_count(); ++s) {
      StageWork& work = stages[s];
      work.name = result_of(s).name;
      work.flops = (flops_of(s) + rescaling_flops(s)) / tiles;
      if (const auto par = context_.par.find(work.name); par != context_.par.end() && work.flops > 0)
        work.pcus = par->second;
    }
    return stages;
  }

  // Returns the operations that rescale a sum over an online softmax, once per inner tile.
  double rescaling_flops(std::int64_t stage) {
    if (inner_loop_of(stage) == nullptr) return 0;
    for (const int operand : statement_operands(statement_at(stage)))
      if (const std::int64_t from = use_of(operand).producer;
          from > 0 && inner_loop_of(from) == inner_loop_of(stage) && is_online_softmax(from))
        return static_cast<double>(use_of(statement_at(stage).result()).bytes * 8 /
                                   dtype_bits(result_of(stage).dtype)) *
               static_cast<double>(out_.inner_tiles);
    return 0;
  }

  std::int64_t requested_buffer_tiles(const TensorUse& h) const {
    if (h.producer == 0) return 0;
    const auto asked = context_.buffer.find(result_of(h.producer).name);
    return asked == context_.buffer.end() ? 0 : asked->second;
  }

  Status place_pipeline() {
    std::vector<StageWork> stages = make_stage_work();
    const double tiles = static_cast<double>(out_.tiles);
    PlacementOptions options{.iterations = out_.tiles};
    for (const TensorUse& h : uses_) {
      if (!h.is_used) continue;
      const double bytes = static_cast<double>(h.bytes);
      if (h.is_output && h.has_rows) stages.back().memory_bytes += bytes / tiles;
      if (h.is_input && h.has_rows) stages.front().memory_bytes += bytes / tiles;
      if (h.is_weight() && (is_loaded_in_inner_loop(h) || !out_.weights_resident))
        stages[h.first_reader].memory_bytes += bytes;
      const std::int64_t to = h.is_output ? last_stage() : h.last_reader;
      if (h.has_rows && to > 0)
        options.skip_buffers.push_back({h.producer, to, tile_bytes(h), requested_buffer_tiles(h)});
    }
    RIDGE_TRY(placement, place_stages(context_.fabric, stages, options));
    if (shorten_fill(placement, stages)) {
      const Placement balanced = placement;
      RIDGE_TRY(shortened, place_stages(context_.fabric, stages, options));
      placement = std::move(shortened);
      placement.even_interval_seconds = balanced.even_interval_seconds;
      for (std::size_t s = 0; s < stages.size(); ++s)
        placement.stages[s].even_seconds = balanced.stages[s].even_seconds;
    }
    out_.placement = std::move(placement);
    stage_work_ = std::move(stages);
    // Sums are stored after the last tile.
    for (const TensorUse& h : uses_)
      if (h.is_output && !h.has_rows)
        out_.placement.pipe.overhead +=
            to_nanoseconds(static_cast<double>(h.bytes) / context_.fabric.memory_bytes_per_second);
    return Done{};
  }

  // Gives unused compute units to the stages where each shortens the pipeline fill most, while one unit saves at least
  // a thousandth of the total time; with few tiles the fill dominates. Returns true if `stages` changed.
  bool shorten_fill(const Placement& placed, std::vector<StageWork>& stages) const {
    constexpr double min_gain_fraction = 1e-3;
    const double rate = context_.fabric.pcu_flops_per_second;
    double total = placed.interval_seconds * static_cast<double>(out_.tiles - 1);
    std::vector<double> gains(stages.size(), 0);
    std::vector<std::int64_t> units;
    const auto gain = [&](std::size_t s) {
      const double n = static_cast<double>(units[s]);
      return stages[s].flops > 0 && stages[s].pcus == 0 ? stages[s].flops / rate / (n * (n + 1)) : 0;
    };
    for (std::size_t s = 0; s < stages.size(); ++s) {
      units.push_back(placed.stages[s].pcus);
      total += placed.stages[s].seconds;
      gains[s] = gain(s);
    }
    bool any = false;
    for (std::int64_t left = context_.fabric.pcus - placed.pcus; left > 0; --left) {
      const std::size_t best = std::max_element(gains.begin(), gains.end()) - gains.begin();
      if (gains[best] <= min_gain_fraction * total) break;
      total -= gains[best];
      ++units[best];
      gains[best] = gain(best);
      any = true;
    }
    if (any)
      for (std::size_t s = 0; s < stages.size(); ++s)
        if (stages[s].flops > 0) stages[s].pcus = units[s];
    return any;
  }

  // Returns the pipe with nested loops. The time of an inner stage is divided among the inner tiles.
  Metapipe make_nested_pipe() {
    Metapipe pipe;
    pipe.name = out_.placement.fabric;
    pipe.iterations = out_.tiles;
    pipe.overhead = out_.placement.pipe.overhead;
    std::vector<std::int64_t> outer_index(static_cast<std::size_t>(statement_count()) + 2,
                                          0);  // index in the outer loop
    for (std::int64_t s = 0; s <= last_stage(); ++s) {
      const InnerLoop* loop = inner_loop_of(s);
      if (loop != nullptr && s > loop->first) {
        outer_index[s] = static_cast<std::int64_t>(pipe.stages.size()) - 1;
        continue;
      }
      outer_index[s] = static_cast<std::int64_t>(pipe.stages.size());
      pipe.stages.push_back(loop != nullptr ? make_inner_loop(*loop) : make_stage(s));
    }
    double inner_stored = 0;
    for (const TensorUse& h : uses_) {
      if (!h.is_used) continue;
      if (is_stored_in_inner_loop(h)) inner_stored += static_cast<double>(tile_bytes(h));
      // Weights that are neither resident nor of the inner dimension are loaded with the rows.
      if (h.is_weight() && !is_loaded_in_inner_loop(h) && !out_.weights_resident &&
          inner_loop_of(h.first_reader) != nullptr)
        pipe.stages.front().memory_bytes += h.bytes;
      const std::int64_t to = h.is_output && !is_stored_in_inner_loop(h) ? last_stage() : h.last_reader;
      if (!h.has_rows || to == 0) continue;
      const PipeBuffer buffer{outer_index[h.producer], outer_index[to], tile_bytes(h), requested_buffer_tiles(h)};
      if (buffer.producer < buffer.consumer) pipe.buffers.push_back(buffer);
    }
    for (std::size_t s = 1; s < pipe.stages.size(); ++s)  // keep program order even without data
      pipe.buffers.push_back({static_cast<std::int64_t>(s) - 1, static_cast<std::int64_t>(s), 0, 0});
    pipe.stages.back().memory_bytes -= std::llround(inner_stored);
    pipe.stages.back().memory_bytes = std::max<std::int64_t>(0, pipe.stages.back().memory_bytes);
    return pipe;
  }

  PipeStage make_stage(std::int64_t stage) const {
    const std::size_t s = stage;
    PipeStage out;
    out.name = stage_work_[s].name;
    out.phase = stage_work_[s].phase;
    out.depth = ceil_div(to_nanoseconds(out_.placement.stages[s].seconds),
                         inner_loop_of(stage) != nullptr ? out_.inner_tiles : 1);
    out.pcus = out_.placement.stages[s].pcus;
    if (inner_loop_of(stage) == nullptr) out.memory_bytes = static_cast<std::int64_t>(stage_work_[s].memory_bytes);
    return out;
  }

  PipeStage make_inner_loop(const InnerLoop& loop) {
    Metapipe inner;
    inner.name = fmt::format("along {}", out_.inner_dim);
    inner.iterations = out_.inner_tiles;
    inner.stages.push_back({.name = "load", .phase = Phase::load, .depth = 0, .pcus = 0, .body = {}});
    for (std::int64_t s = loop.first; s <= loop.last; ++s) inner.stages.push_back(make_stage(s));
    PipeStage store{.name = "store", .phase = Phase::store, .depth = 0, .pcus = 0, .body = {}};
    const auto within = [&](std::int64_t stage) { return stage - loop.first + 1; };
    for (const TensorUse& h : uses_) {
      if (!h.is_used) continue;
      const std::int64_t bytes_per_inner_tile = ceil_div(tile_bytes(h), out_.inner_tiles);
      if (is_loaded_in_inner_loop(h) && inner_loop_of(h.first_reader) == inner_loop_of(loop.first)) {
        inner.stages.front().memory_bytes += bytes_per_inner_tile;
        inner.buffers.push_back({0, within(std::min(h.last_reader, loop.last)), bytes_per_inner_tile, 0});
      }
      if (h.producer < loop.first || h.producer > loop.last || !h.has_inner) continue;
      if (is_stored_in_inner_loop(h)) store.memory_bytes += bytes_per_inner_tile;
      const std::int64_t to =
          is_stored_in_inner_loop(h) ? within(loop.last) + 1 : within(std::min(h.last_reader, loop.last));
      if (to > within(h.producer))
        inner.buffers.push_back({within(h.producer), to, bytes_per_inner_tile, requested_buffer_tiles(h)});
    }
    if (store.memory_bytes > 0) inner.stages.push_back(store);
    for (std::size_t s = 1; s < inner.stages.size(); ++s)
      inner.buffers.push_back({static_cast<std::int64_t>(s) - 1, static_cast<std::int64_t>(s), 0, 0});
    PipeStage stage;
    stage.name = inner_loops_.size() == 1 ? inner.name : fmt::format("{} ({})", inner.name, result_of(loop.last).name);
    stage.body.push_back(std::move(inner));
    return stage;
  }

  Status simulate_pass() {
    Placement& p = out_.placement;
    p.pipe = with_schedule(std::move(p.pipe), context_.schedule);
    RIDGE_TRY(run, simulate_metapipe(p.pipe, p.resources));
    out_.run = std::move(run);
    out_.run.timeline.ticks_per_second = 1 / nanosecond;
    RIDGE_TRY(sequential_run, simulate_metapipe(with_schedule(p.pipe, PipeSchedule::sequential), p.resources));
    out_.sequential_ns = sequential_run.cycles;
    return Done{};
  }

  const PassContext& context_;
  const StreamingPass& pass_;
  std::vector<TensorUse> uses_;  // one for each of Program::tensors
  std::vector<InnerLoop> inner_loops_;
  std::vector<StageWork> stage_work_;
  bool inner_used_ = false;
  std::int64_t sum_bytes_ = 0;
  MappedPass out_;
};

// Returns the seconds of one layer's pass.
double pass_seconds(const MappedPass& pass) {
  return pass.load_seconds + static_cast<double>(pass.run.cycles) * nanosecond;
}

}  // namespace

Result<MappedPass> map_pass_to_pipe(const PassContext& context, const StreamingPass& pass) {
  RIDGE_TRY(best, PassMapper(context, pass).map_pass());
  const bool reads_weights_again = best.tiles > 1 && !best.weights_resident && best.weight_bytes > 0;
  if (context.tile > 0 || !reads_weights_again || !best.placement.fits) return best;
  // Tiles that need several memory units are worth it if they save readings of the weights.
  PassContext larger = context;
  for (larger.tile = 2 * best.tile; larger.tile < 2 * best.extent; larger.tile *= 2) {
    auto mapped = PassMapper(larger, pass).map_pass();
    if (!mapped || !mapped->placement.fits) break;
    if (pass_seconds(*mapped) < pass_seconds(best)) best = *std::move(mapped);
  }
  return best;
}

}  // namespace ridge
