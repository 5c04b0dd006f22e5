#include "ridge/plan/pass_pipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/plan/shape.h"

namespace ridge {
namespace {

constexpr std::int64_t max_tiles = 1 << 16;
constexpr double nanosecond = 1e-9;

std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t ticks(double seconds) {
  return static_cast<std::int64_t>(std::ceil(std::min(seconds / nanosecond, 1e15)));
}

// The use of a tensor by the pass. Stage 0 loads, stage i + 1 computes statement i of the pass, the last stage stores.
struct Held {
  std::int64_t bytes = 0;
  bool rows = false, inner = false;  // true if the tensor has that dimension
  bool entering = false, leaving = false;
  bool used = false;
  std::int64_t from = 0;   // stage that computes it; 0 for an input
  std::int64_t first = 0;  // first and last stage that read it; 0 if none does
  std::int64_t last = 0;
  bool weight() const { return entering && !rows; }
};

class PassMapper {
 public:
  PassMapper(const PassSetting& setting, const Pass& pass) : set_(setting), pass_(pass) {}

  Result<MappedPass> map() {
    out_.rows = pass_.rows;
    if (!pass_.rows.empty()) out_.extent = set_.dims.at(pass_.rows);
    if (const Status s = hold(); !s) return s.error();
    if (const Status s = choose_tile(); !s) return s.error();
    find_loops();
    if (const Status s = lay_out(); !s) return s.error();
    if (const Status s = clock(); !s) return s.error();
    return std::move(out_);
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(pass_.statements.size()); }
  std::int64_t last_stage() const { return count() + 1; }
  const Statement& statement(std::int64_t stage) const {
    return set_.program.statements[static_cast<std::size_t>(pass_.statements[static_cast<std::size_t>(stage - 1)])];
  }
  double flops(std::int64_t stage) const {
    return set_.flops[static_cast<std::size_t>(pass_.statements[static_cast<std::size_t>(stage - 1)])];
  }
  const Tensor& result(std::int64_t stage) const {
    return set_.program.tensors[static_cast<std::size_t>(statement(stage).result())];
  }
  Held& held(int tensor) { return held_[static_cast<std::size_t>(tensor)]; }
  static bool has(const Tensor& t, const std::string& dim) {
    return std::any_of(t.axes.begin(), t.axes.end(), [&](const Axis& a) { return a.dim == dim; });
  }

  Status hold() {
    for (const Tensor& t : set_.program.tensors) {
      const auto sized = shape(t, set_.dims);
      if (!sized) return sized.error();
      Held h;
      h.bytes =
          static_cast<std::int64_t>(std::ceil(static_cast<double>(elements(*sized)) * bytes_per_element(t.dtype)));
      h.rows = pass_.rows.empty() || has(t, pass_.rows);
      h.inner = !set_.inner.empty() && set_.inner != pass_.rows && has(t, set_.inner);
      if (h.bytes > std::int64_t{1} << 40)
        return input_error(
            fmt::format("expected tensors of at most 2^40 bytes to simulate, found {} of '{}'", h.bytes, t.name),
            "use smaller sizes");
      held_.push_back(h);
    }
    for (std::int64_t stage = 1; stage <= count(); ++stage) {
      for (const int operand : operands(statement(stage))) {
        Held& h = held(operand);
        if (h.from == 0) h.entering = true;
        if (h.first == 0) h.first = stage;
        h.last = stage;
        h.used = true;
      }
      Held& h = held(statement(stage).result());
      h.from = stage;
      h.used = true;
    }
    find_leaving();
    return Done{};
  }

  // Marks results that are outputs of the program or that another pass reads.
  void find_leaving() {
    std::vector<bool> here(set_.program.statements.size(), false);
    for (const int s : pass_.statements) here[static_cast<std::size_t>(s)] = true;
    for (std::int64_t stage = 1; stage <= count(); ++stage)
      held(statement(stage).result()).leaving = result(stage).role == Role::output;
    for (std::size_t s = 0; s < here.size(); ++s)
      if (!here[s])
        for (const int operand : operands(set_.program.statements[s]))
          if (held(operand).from > 0) held(operand).leaving = true;
  }

  Status choose_tile() {
    std::int64_t largest = 1;  // largest bytes of a row of any tensor
    for (const Held& h : held_)
      if (h.used && h.rows) largest = std::max(largest, ceiling(h.bytes, out_.extent));
    while (2 * out_.tile * largest <= set_.fabric.pmu_bytes && 2 * out_.tile <= out_.extent) out_.tile *= 2;
    if (set_.tile > 0) out_.tile = std::min(set_.tile, out_.extent);
    out_.tiles = ceiling(out_.extent, out_.tile);
    if (out_.tiles > max_tiles)
      return input_error(
          fmt::format("expected at most {} tiles to clock, found {} of {} rows", max_tiles, out_.tiles, out_.tile),
          fmt::format("--tile {}", ceiling(out_.extent, max_tiles)));
    return Done{};
  }

  // An inner loop: consecutive statements with the inner dimension, none of which reads another's sum over it.
  struct Loop {
    std::int64_t first = 0, last = 0;  // first and last stage
    std::int64_t size() const { return last - first + 1; }
  };

  void find_loops() {
    for (const Held& h : held_) inner_used_ |= h.used && h.inner;
    if (!inner_used_) return;
    out_.inner = set_.inner;
    out_.inner_tile = std::min(set_.inner_tile, set_.dims.at(set_.inner));
    out_.inner_tiles = ceiling(set_.dims.at(set_.inner), out_.inner_tile);
    for (std::int64_t stage = 1; stage <= count(); ++stage) {
      if (!goes_inside(stage)) continue;
      const bool goes_on = !loops_.empty() && loops_.back().last == stage - 1 && !reads_a_sum(stage);
      if (goes_on)
        loops_.back().last = stage;
      else
        loops_.push_back({stage, stage});
    }
  }

  bool goes_inside(std::int64_t stage) {
    return streams(set_.program, statement(stage), set_.inner) != Streams::no || is_online(stage);
  }
  // True for a softmax over the inner dimension that is read only by products that sum over it.
  bool is_online(std::int64_t stage) {
    const auto* e = std::get_if<Expression>(&statement(stage).op);
    if (e == nullptr || e->nodes.back().kind != Node::Kind::along || e->nodes.back().function != Function::softmax)
      return false;
    const int result = statement(stage).result();
    if (!held(result).inner || held(result).leaving) return false;
    for (std::int64_t reader = stage + 1; reader <= count(); ++reader) {
      const auto read = operands(statement(reader));
      if (std::find(read.begin(), read.end(), result) == read.end()) continue;
      if (streams(set_.program, statement(reader), set_.inner) != Streams::sum) return false;
    }
    return true;
  }
  bool reads_a_sum(std::int64_t stage) {
    for (const int operand : operands(statement(stage))) {
      const Held& h = held(operand);
      if (h.from >= loops_.back().first && !h.inner) return true;
    }
    return false;
  }
  const Loop* loop_of(std::int64_t stage) const {
    for (const Loop& loop : loops_)
      if (stage >= loop.first && stage <= loop.last) return &loop;
    return nullptr;
  }
  bool read_inside(const Held& h) const { return inner_used_ && h.weight() && h.inner && loop_of(h.first) != nullptr; }
  bool stored_inside(const Held& h) const {
    const Loop* loop = loop_of(h.from);
    return h.leaving && h.rows && h.inner && loop != nullptr && h.last <= loop->last;
  }

  std::int64_t tile_bytes(const Held& h) const { return h.rows ? ceiling(h.bytes, out_.tiles) : h.bytes; }

  // Places stages and buffers with the weights in the memory units, or without if they do not fit. With one tile, a
  // stage reads its weights when it runs.
  Status lay_out() {
    for (const Held& h : held_) {
      if (!h.used) continue;
      if (read_inside(h))
        out_.inner_bytes += h.bytes * out_.tiles;
      else if (h.weight())
        out_.weight_bytes += h.bytes;
      if ((h.entering && h.rows) || h.leaving) out_.streamed_bytes += h.bytes;
      if (!h.rows && h.from > 0) sum_bytes_ += h.bytes;
    }
    out_.weight_pmus = ceiling(out_.weight_bytes + sum_bytes_, set_.fabric.pmu_bytes);
    for (const bool stay : {true, false}) {
      if (stay && out_.tiles == 1 && out_.weight_bytes > 0) continue;
      out_.weights_stay = stay;
      if (const Status s = place_stages(); !s) return s;
      if (out_.placement.pmus + (stay ? out_.weight_pmus : 0) <= set_.fabric.pmus) break;
    }
    if (out_.weights_stay)
      out_.load_seconds = static_cast<double>(out_.weight_bytes) / set_.fabric.memory_bytes_per_second;
    if (out_.inner.empty()) return Done{};
    return set_pipe(out_.placement, set_.fabric, nested());
  }

  std::vector<StageWork> works() {
    std::vector<StageWork> stages(static_cast<std::size_t>(count()) + 2);
    stages.front() = {.name = "load", .phase = Phase::load};
    stages.back() = {.name = "store", .phase = Phase::store};
    const double tiles = static_cast<double>(out_.tiles);
    for (std::int64_t s = 1; s <= count(); ++s) {
      StageWork& work = stages[static_cast<std::size_t>(s)];
      work.name = result(s).name;
      work.flops = (flops(s) + rescaling(s)) / tiles;
      if (const auto par = set_.par.find(work.name); par != set_.par.end() && work.flops > 0) work.pcus = par->second;
    }
    return stages;
  }

  // Returns the operations that rescale a sum over an online softmax, once per inner tile.
  double rescaling(std::int64_t stage) {
    if (loop_of(stage) == nullptr) return 0;
    for (const int operand : operands(statement(stage)))
      if (const std::int64_t from = held(operand).from; from > 0 && loop_of(from) == loop_of(stage) && is_online(from))
        return static_cast<double>(held(statement(stage).result()).bytes * 8 / bits(result(stage).dtype)) *
               static_cast<double>(out_.inner_tiles);
    return 0;
  }

  std::int64_t asked_tiles(const Held& h) const {
    if (h.from == 0) return 0;
    const auto asked = set_.buffer.find(result(h.from).name);
    return asked == set_.buffer.end() ? 0 : asked->second;
  }

  Status place_stages() {
    std::vector<StageWork> stages = works();
    const double tiles = static_cast<double>(out_.tiles);
    PlacementOptions options{.iterations = out_.tiles};
    for (const Held& h : held_) {
      if (!h.used) continue;
      const double bytes = static_cast<double>(h.bytes);
      if (h.leaving && h.rows) stages.back().memory_bytes += bytes / tiles;
      if (h.entering && h.rows) stages.front().memory_bytes += bytes / tiles;
      if (h.weight() && (read_inside(h) || !out_.weights_stay))
        stages[static_cast<std::size_t>(h.first)].memory_bytes += bytes;
      const std::int64_t to = h.leaving ? last_stage() : h.last;
      if (h.rows && to > 0) options.skips.push_back({h.from, to, tile_bytes(h), asked_tiles(h)});
    }
    auto placement = place(set_.fabric, stages, options);
    if (!placement) return placement.error();
    if (shorten(*placement, stages)) {
      const Placement balanced = *placement;
      placement = place(set_.fabric, stages, options);
      if (!placement) return placement.error();
      placement->even_interval_seconds = balanced.even_interval_seconds;
      for (std::size_t s = 0; s < stages.size(); ++s)
        placement->stages[s].even_seconds = balanced.stages[s].even_seconds;
    }
    out_.placement = *std::move(placement);
    works_ = std::move(stages);
    // Sums are stored after the last tile.
    for (const Held& h : held_)
      if (h.leaving && !h.rows)
        out_.placement.pipe.overhead += ticks(static_cast<double>(h.bytes) / set_.fabric.memory_bytes_per_second);
    return Done{};
  }

  // Assigns the units that balancing left unused where they shorten the pipeline fill most, as long as one saves a
  // thousandth of the total time: with few tiles the fill dominates. Sets the units of `stages`; returns true if any.
  bool shorten(const Placement& placed, std::vector<StageWork>& stages) const {
    constexpr double worth = 1e-3;
    const double rate = set_.fabric.pcu_flops_per_second;
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
    for (std::int64_t left = set_.fabric.pcus - placed.pcus; left > 0; --left) {
      const auto best = static_cast<std::size_t>(std::max_element(gains.begin(), gains.end()) - gains.begin());
      if (gains[best] <= worth * total) break;
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
  Metapipe nested() {
    Metapipe pipe;
    pipe.name = out_.placement.fabric;
    pipe.iterations = out_.tiles;
    pipe.overhead = out_.placement.pipe.overhead;
    std::vector<std::int64_t> at(static_cast<std::size_t>(count()) + 2, 0);  // index in the outer loop
    for (std::int64_t s = 0; s <= last_stage(); ++s) {
      const Loop* loop = loop_of(s);
      if (loop != nullptr && s > loop->first) {
        at[static_cast<std::size_t>(s)] = static_cast<std::int64_t>(pipe.stages.size()) - 1;
        continue;
      }
      at[static_cast<std::size_t>(s)] = static_cast<std::int64_t>(pipe.stages.size());
      pipe.stages.push_back(loop != nullptr ? inner_loop(*loop) : leaf(s));
    }
    double inner_stored = 0;
    for (const Held& h : held_) {
      if (!h.used) continue;
      if (stored_inside(h)) inner_stored += static_cast<double>(tile_bytes(h));
      // Weights that are neither resident nor of the inner dimension are loaded with the rows.
      if (h.weight() && !read_inside(h) && !out_.weights_stay && loop_of(h.first) != nullptr)
        pipe.stages.front().memory_bytes += h.bytes;
      const std::int64_t to = h.leaving && !stored_inside(h) ? last_stage() : h.last;
      if (!h.rows || to == 0) continue;
      const PipeBuffer buffer{at[static_cast<std::size_t>(h.from)], at[static_cast<std::size_t>(to)], tile_bytes(h),
                              asked_tiles(h)};
      if (buffer.producer < buffer.consumer) pipe.buffers.push_back(buffer);
    }
    for (std::size_t s = 1; s < pipe.stages.size(); ++s)  // keep program order even without data
      pipe.buffers.push_back({static_cast<std::int64_t>(s) - 1, static_cast<std::int64_t>(s), 0, 0});
    pipe.stages.back().memory_bytes -= std::llround(inner_stored);
    pipe.stages.back().memory_bytes = std::max<std::int64_t>(0, pipe.stages.back().memory_bytes);
    return pipe;
  }

  PipeStage leaf(std::int64_t stage) const {
    const auto s = static_cast<std::size_t>(stage);
    PipeStage out;
    out.name = works_[s].name;
    out.phase = works_[s].phase;
    out.depth = ceiling(ticks(out_.placement.stages[s].seconds), loop_of(stage) != nullptr ? out_.inner_tiles : 1);
    out.pcus = out_.placement.stages[s].pcus;
    if (loop_of(stage) == nullptr) out.memory_bytes = static_cast<std::int64_t>(works_[s].memory_bytes);
    return out;
  }

  PipeStage inner_loop(const Loop& loop) {
    Metapipe inner;
    inner.name = fmt::format("along {}", out_.inner);
    inner.iterations = out_.inner_tiles;
    inner.stages.push_back({.name = "load", .phase = Phase::load, .depth = 0, .pcus = 0});
    for (std::int64_t s = loop.first; s <= loop.last; ++s) inner.stages.push_back(leaf(s));
    PipeStage store{.name = "store", .phase = Phase::store, .depth = 0, .pcus = 0};
    const auto within = [&](std::int64_t stage) { return stage - loop.first + 1; };
    for (const Held& h : held_) {
      if (!h.used) continue;
      const std::int64_t part = ceiling(tile_bytes(h), out_.inner_tiles);
      if (read_inside(h) && loop_of(h.first) == loop_of(loop.first)) {
        inner.stages.front().memory_bytes += part;
        inner.buffers.push_back({0, within(std::min(h.last, loop.last)), part, 0});
      }
      if (h.from < loop.first || h.from > loop.last || !h.inner) continue;
      if (stored_inside(h)) store.memory_bytes += part;
      const std::int64_t to = stored_inside(h) ? within(loop.last) + 1 : within(std::min(h.last, loop.last));
      if (to > within(h.from)) inner.buffers.push_back({within(h.from), to, part, asked_tiles(h)});
    }
    if (store.memory_bytes > 0) inner.stages.push_back(store);
    for (std::size_t s = 1; s < inner.stages.size(); ++s)
      inner.buffers.push_back({static_cast<std::int64_t>(s) - 1, static_cast<std::int64_t>(s), 0, 0});
    PipeStage stage;
    stage.name = loops_.size() == 1 ? inner.name : fmt::format("{} ({})", inner.name, result(loop.last).name);
    stage.body.push_back(std::move(inner));
    return stage;
  }

  Status clock() {
    Placement& p = out_.placement;
    p.pipe = with_schedule(std::move(p.pipe), set_.schedule);
    auto run = simulate_metapipe(p.pipe, p.resources);
    if (!run) return run.error();
    out_.run = *std::move(run);
    out_.run.timeline.ticks_per_second = 1 / nanosecond;
    const auto in_turn = simulate_metapipe(with_schedule(p.pipe, Schedule::sequential), p.resources);
    if (!in_turn) return in_turn.error();
    out_.sequential = in_turn->cycles;
    return Done{};
  }

  const PassSetting& set_;
  const Pass& pass_;
  std::vector<Held> held_;  // one for each of Program::tensors
  std::vector<Loop> loops_;
  std::vector<StageWork> works_;
  bool inner_used_ = false;
  std::int64_t sum_bytes_ = 0;
  MappedPass out_;
};

}  // namespace

Result<MappedPass> pass_pipe(const PassSetting& setting, const Pass& pass) { return PassMapper(setting, pass).map(); }

}  // namespace ridge
