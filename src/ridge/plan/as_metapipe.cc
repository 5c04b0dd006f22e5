#include "ridge/plan/as_metapipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/plan/shape.h"
#include "ridge/roofline/work.h"

namespace ridge {
namespace {

constexpr std::int64_t max_tiles = 1 << 16;

// What the mapping needs of a tensor. Stage 0 loads, stage i + 1 is statement i, the last one stores.
struct Held {
  std::int64_t bytes = 0;
  bool has_rows = false;
  std::int64_t from = 0;  // the stage that makes it
  std::int64_t to = 0;    // the last one that reads it; 0: nobody does
  bool input = false, output = false;
};

class Mapper {
 public:
  Mapper(const Program& program, const Fabric& fabric, const MappingOptions& options)
      : program_(program), fabric_(fabric), options_(options) {}

  Result<MappedProgram> map(const Bindings& given) {
    if (const Status s = check(); !s) return s.error();
    if (auto refused = refuse_sharded(program_, "simulate")) return *std::move(refused);
    auto dims = program_.bind(given);
    if (!dims) return dims.error();
    if (const Status s = find_rows(); !s) return s.error();
    if (const Status s = hold(*dims); !s) return s.error();
    if (const Status s = count_work(*dims); !s) return s.error();
    if (const Status s = choose_tile(); !s) return s.error();
    if (const Status s = lay_out(); !s) return s.error();
    call();
    return std::move(mapped_);
  }

 private:
  std::int64_t last_stage() const { return static_cast<std::int64_t>(program_.statements.size()) + 1; }

  Status check() const {
    if (options_.layers < 1 || options_.layers > 1 << 20)
      return usage_error(fmt::format("expected 1 to {} layers, found {}", 1 << 20, options_.layers));
    if (options_.tile < 0)
      return usage_error(fmt::format("expected a tile of at least 1 row, found {}", options_.tile));
    if (!(options_.sync_seconds >= 0) || !(options_.sync_seconds < 1e6))
      return usage_error(
          fmt::format("expected seconds of at least 0 for a call's synchronisation, found {}", options_.sync_seconds));
    return Done{};
  }

  // An error at a statement, with its text.
  static Error at(const Statement& statement, std::string message, std::string hint) {
    Error error = input_error(std::move(message), std::move(hint));
    error.source = "program";
    error.span = {statement.span.line, statement.span.column, static_cast<int>(statement.text.size())};
    error.line_text = statement.text;
    if (statement.span.column > 1) error.line_text.insert(0, static_cast<std::size_t>(statement.span.column - 1), ' ');
    return error;
  }

  const Tensor& tensor(int index) const { return program_.tensors[static_cast<std::size_t>(index)]; }

  Status find_rows() {
    const Statement& last = program_.statements.back();
    for (const Axis& axis : tensor(last.result()).axes)
      if (axis.named() && mapped_.rows.empty()) mapped_.rows = axis.dim;
    if (mapped_.rows.empty())
      return at(last, fmt::format("'{}' has no dimension to stream tiles along", tensor(last.result()).name),
                "a result with rows becomes a metapipeline");
    for (const Statement& s : program_.statements)
      if (!has_rows(s.result()))
        return at(
            s,
            fmt::format("'{}' lacks the dimension {} along which tiles stream", tensor(s.result()).name, mapped_.rows),
            "put such statements into a program of their own");
    return Done{};
  }

  bool has_rows(int index) const {
    const auto& axes = tensor(index).axes;
    return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.dim == mapped_.rows; });
  }

  Status hold(const Bindings& dims) {
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
      const Tensor& t = program_.tensors[i];
      const auto sized = shape(t, dims);
      if (!sized) return sized.error();
      held_.push_back({static_cast<std::int64_t>(std::ceil(static_cast<double>(elements(*sized)) * bits(t.dtype) / 8)),
                       has_rows(static_cast<int>(i)), 0, 0, t.role == Role::input, t.role == Role::output});
      if (held_.back().bytes > std::int64_t{1} << 40)
        return input_error(fmt::format("expected tensors of at most 2^40 bytes to simulate, found {} of '{}'",
                                       held_.back().bytes, t.name),
                           "use smaller sizes");
    }
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      const std::int64_t stage = static_cast<std::int64_t>(s) + 1;
      for (const int operand : operands(program_.statements[s])) held_[static_cast<std::size_t>(operand)].to = stage;
      held_[static_cast<std::size_t>(program_.statements[s].result())].from = stage;
    }
    for (Held& h : held_)
      if (h.output) h.to = last_stage();
    mapped_.extent = dims.at(mapped_.rows);
    return Done{};
  }

  Status count_work(const Bindings& dims) {
    for (const Work& work : count(program_)) {
      const auto flops = work.flops.evaluate(dims);
      if (!flops) return flops.error();
      const auto bytes = work.bytes().evaluate(dims);
      if (!bytes) return bytes.error();
      flops_.push_back(static_cast<double>(*flops));
      op_bytes_.push_back(static_cast<double>(*bytes));
    }
    return Done{};
  }

  Status choose_tile() {
    std::int64_t largest = 1;  // bytes of a row
    for (const Held& h : held_)
      if (h.has_rows) largest = std::max(largest, (h.bytes + mapped_.extent - 1) / mapped_.extent);
    mapped_.tile = 1;
    while (2 * mapped_.tile * largest <= fabric_.pmu_bytes && 2 * mapped_.tile <= mapped_.extent) mapped_.tile *= 2;
    if (options_.tile > 0) mapped_.tile = std::min(options_.tile, mapped_.extent);
    mapped_.tiles = (mapped_.extent + mapped_.tile - 1) / mapped_.tile;
    if (mapped_.tiles > max_tiles)
      return input_error(fmt::format("expected at most {} tiles to clock, found {} of {} rows", max_tiles,
                                     mapped_.tiles, mapped_.tile),
                         fmt::format("--tile {}", (mapped_.extent + max_tiles - 1) / max_tiles));
    return Done{};
  }

  std::int64_t tile_bytes(const Held& h) const { return (h.bytes + mapped_.tiles - 1) / mapped_.tiles; }

  // Stages and buffers; placed with the weights in the memory units, then, if that does not fit, without.
  Status lay_out() {
    for (const Held& h : held_)
      if (h.input && !h.has_rows) mapped_.weight_bytes += h.bytes;
    mapped_.weight_pmus = (mapped_.weight_bytes + fabric_.pmu_bytes - 1) / fabric_.pmu_bytes;
    for (const bool stay : {true, false}) {
      mapped_.weights_stay = stay;
      if (const Status s = place_stages(); !s) return s.error();
      if (mapped_.placement.pmus + (stay ? mapped_.weight_pmus : 0) <= fabric_.pmus) break;
    }
    auto run = simulate_metapipe(mapped_.placement.pipe, mapped_.placement.resources);
    if (!run) return run.error();
    mapped_.run = *std::move(run);
    mapped_.run.timeline.ticks_per_second = 1e9;
    if (mapped_.weights_stay)
      mapped_.load_seconds = static_cast<double>(mapped_.weight_bytes) / fabric_.memory_bytes_per_second;
    return Done{};
  }

  Status place_stages() {
    std::vector<StageWork> stages(program_.statements.size() + 2);
    stages.front() = {.name = "load", .phase = Phase::load};
    stages.back() = {.name = "store", .phase = Phase::store};
    const double tiles = static_cast<double>(mapped_.tiles);
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      stages[s + 1].name = tensor(program_.statements[s].result()).name;
      stages[s + 1].flops = flops_[s] / tiles;
    }
    PlacementOptions options{.iterations = mapped_.tiles};
    for (const Held& h : held_) {
      StageWork& from = stages[static_cast<std::size_t>(h.from)];
      if (h.output) stages.back().memory_bytes += static_cast<double>(h.bytes) / tiles;
      if (h.input && h.has_rows) from.memory_bytes += static_cast<double>(h.bytes) / tiles;
      if (!h.has_rows && !mapped_.weights_stay && h.to > 0)
        stages[static_cast<std::size_t>(h.to)].memory_bytes += static_cast<double>(h.bytes);
      if (!h.has_rows || h.to == 0) continue;
      if (h.to == h.from + 1)
        from.tile_bytes += tile_bytes(h);
      else
        options.skips.push_back({h.from, h.to, tile_bytes(h), 0});
    }
    auto placement = place(fabric_, stages, options);
    if (!placement) return placement.error();
    mapped_.placement = *std::move(placement);
    return Done{};
  }

  // Bytes without rows that statement s reads.
  double weights_of(std::size_t s) const {
    std::vector<int> read = operands(program_.statements[s]);
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    double bytes = 0;
    for (const int operand : read) {
      const Held& h = held_[static_cast<std::size_t>(operand)];
      if (!h.has_rows) bytes += static_cast<double>(h.bytes);
    }
    return bytes;
  }

  // A call reads the weights that stay before its first tile; kernel by kernel every statement is such a call.
  void call() {
    const double layers = static_cast<double>(options_.layers),
                 peak = static_cast<double>(fabric_.pcus) * fabric_.pcu_flops_per_second;
    const double memory = fabric_.memory_bytes_per_second;
    double unfused_bytes = 0, unfused = 0, streamed = 0;
    for (std::size_t s = 0; s < flops_.size(); ++s) {
      const double own = weights_of(s), compute = flops_[s] / peak;
      const bool stay = own <= static_cast<double>(fabric_.pmus * fabric_.pmu_bytes);
      const double bytes = op_bytes_[s] + (stay ? 0 : own * static_cast<double>(mapped_.tiles - 1));
      unfused_bytes += bytes;
      unfused += stay ? own / memory + std::max(compute, (bytes - own) / memory) : std::max(compute, bytes / memory);
    }
    for (const Held& h : held_)
      if ((h.input || h.output) && h.has_rows) streamed += static_cast<double>(h.bytes);
    const double weights =
        static_cast<double>(mapped_.weight_bytes) * (mapped_.weights_stay ? 1 : static_cast<double>(mapped_.tiles));
    const double pipe = static_cast<double>(mapped_.run.cycles) / 1e9, fused = mapped_.load_seconds + pipe;
    // While a layer computes, as much of the next one's weights loads as there is room for.
    const double room = static_cast<double>(std::max<std::int64_t>(
        0, fabric_.pmus - mapped_.placement.pmus - (mapped_.weights_stay ? mapped_.weight_pmus : 0)));
    const double hidden =
        mapped_.weights_stay ? std::min(1.0, room / std::max(1.0, static_cast<double>(mapped_.weight_pmus))) : 1;
    const double turn = std::max(pipe, (hidden * weights + streamed) / memory) + (1 - hidden) * weights / memory;
    const std::int64_t kernels = options_.layers * static_cast<std::int64_t>(flops_.size());
    mapped_.calling = {{{Calling::kernel_by_kernel, kernels, layers * unfused_bytes, 0, layers * unfused},
                        {Calling::fused, options_.layers, layers * (weights + streamed), 0, layers * fused},
                        {Calling::looped, 1, layers * (weights + streamed), 0, fused + (layers - 1) * turn}}};
    for (CallingTime& c : mapped_.calling) {
      c.sync_seconds = static_cast<double>(c.calls) * options_.sync_seconds;
      c.seconds += c.sync_seconds;
    }
    mapped_.layers = options_.layers;
    mapped_.fabric = std::string(fabric_.name);
  }

  const Program& program_;
  const Fabric& fabric_;
  const MappingOptions& options_;
  std::vector<Held> held_;  // of Program::tensors
  std::vector<double> flops_, op_bytes_;
  MappedProgram mapped_;
};

}  // namespace

Result<MappedProgram> as_metapipe(const Program& program, const Bindings& given, const Fabric& fabric,
                                  const MappingOptions& options) {
  return Mapper(program, fabric, options).map(given);
}

}  // namespace ridge
