#include "ridge/simulate/stage_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge {
namespace {

constexpr double ticks_per_second = 1e9;

constexpr std::array<Fabric, 3> catalog{{
    {"plasticine", 64, 64, 262144, 192e9, "f32", 1e9, 51.2e9, 4.096e12,
     "ISCA 2017 and its PIR parameters: 16 lanes x 6 stages x 2 FLOP at 1 GHz a PCU, PMUs of 256 KiB in 16 banks; "
     "scratchpad rate derived as 16 banks x 4 B x 1 GHz x 64; memory 4 x DDR3-1600 from memory, unverified"},
    {"sn10", 640, 640, 524288, 500e9, "bf16", 0, 128e9, 150e12,
     "Hot Chips 33: 640 + 640 units, 320 MiB, 150 TB/s, '>300' TFLOP/s taken as 320; memory 6 channels of DDR4-2667 "
     "derived; clock unpublished"},
    {"sn40l", 1040, 1040, 524288, 613.462e9, "bf16", 0, 1.6e12, 0,
     "Hot Chips 2024: 1040 + 1040 units, 520 MiB, 638 TFLOP/s bf16, HBM 25.6 TB/s over 16 sockets (the paper's notes "
     "say "
     "1.8, the press 2 TB/s); scratchpad rate 'hundreds of TB/s' and clock unpublished"},
}};

Status check_work(const Fabric& fabric, std::span<const StageWork> stages, const PlacementOptions& options) {
  if (stages.empty()) return input_error("expected at least one stage to place, found none");
  if (!(options.compute_efficiency > 0) || options.compute_efficiency > 1)
    return input_error(
        fmt::format("expected an efficiency above 0 and at most 1, found {}", options.compute_efficiency));
  if (fabric.pcus < 1 || fabric.pcus > 1 << 20 || fabric.pmus < 0 || fabric.pmu_bytes < 0)
    return input_error(
        fmt::format("fabric '{}': expected 1 to {} PCUs and PMUs of at least 0 bytes, found {} and {} of {}",
                    fabric.name, 1 << 20, fabric.pcus, fabric.pmus, fabric.pmu_bytes));
  for (const StageWork& s : stages) {
    for (const auto& [what, value] : {std::pair{"FLOPs", s.flops}, {"memory bytes", s.memory_bytes}})
      if (!(value >= 0) || !(value < 1e18))
        return input_error(fmt::format("stage '{}': expected {} from 0 to 1e18, found {}", s.name, what, value));
    for (const auto& [what, value, min_value, max_value] :
         {std::tuple{"tile bytes", s.tile_bytes, 0, std::int64_t{1} << 40},
          {"PCUs at most", s.max_pcus, 0, std::int64_t{1} << 20},
          {"pieces at most", s.max_pieces, 1, std::int64_t{1} << 20},
          {"PCUs", s.pcus, 0, fabric.pcus},
          {"tiles", s.tiles, 0, std::int64_t{1} << 20}})
      if (value < min_value || value > max_value)
        return input_error(fmt::format("stage '{}': expected {} between {} and {}, found {}", s.name, what, min_value,
                                       max_value, value));
    if (s.flops > 0 && !(fabric.pcu_flops_per_second > 0))
      return absent_error(fmt::format("fabric '{}' has no published rate of a PCU", fabric.name));
    if (s.memory_bytes > 0 && !(fabric.memory_bytes_per_second > 0))
      return absent_error(fmt::format("fabric '{}' has no published memory bandwidth", fabric.name));
  }
  return Done{};
}

double iteration_seconds(const StageWork& stage, std::int64_t pcus, double rate) {
  return stage.flops > 0 ? stage.flops / (static_cast<double>(std::max<std::int64_t>(pcus, 1)) * rate) : 0;
}

bool can_add_unit(const StageWork& work, const PlacedStage& placed) {
  return work.flops > 0 && work.pcus == 0 && (work.max_pcus == 0 || placed.pcus < work.max_pcus * work.max_pieces);
}

void add_unit(const StageWork& work, PlacedStage& stage, double rate) {
  ++stage.pcus;
  if (work.max_pcus > 0) stage.pieces = (stage.pcus + work.max_pcus - 1) / work.max_pcus;
  stage.seconds = iteration_seconds(work, stage.pcus, rate);
}

// Assigns the units one by one to the slowest stage, until that takes at most `min_seconds`.
void distribute_units(std::span<const StageWork> works, std::vector<PlacedStage>& placed, std::int64_t units,
                      double rate, double min_seconds) {
  while (units > 0) {
    std::size_t slowest = 0;
    for (std::size_t s = 1; s < placed.size(); ++s)
      if (placed[s].seconds > placed[slowest].seconds) slowest = s;
    if (!can_add_unit(works[slowest], placed[slowest]) || placed[slowest].seconds <= min_seconds) return;
    add_unit(works[slowest], placed[slowest], rate);
    --units;
  }
}

std::vector<PipeBuffer> stage_buffers(std::span<const StageWork> works, const PlacementOptions& options) {
  std::vector<PipeBuffer> buffers;
  for (std::size_t s = 0; s + 1 < works.size(); ++s)
    buffers.push_back(
        {static_cast<std::int64_t>(s), static_cast<std::int64_t>(s) + 1, works[s].tile_bytes, works[s].tiles});
  buffers.insert(buffers.end(), options.skip_buffers.begin(), options.skip_buffers.end());
  return buffers;
}

// Returns the pipe in nanoseconds; a split stage becomes its pieces.
Result<Metapipe> make_pipe(std::span<const StageWork> works, const Placement& placement,
                           const PlacementOptions& options) {
  Metapipe pipe;
  pipe.name = placement.fabric;
  pipe.iterations = options.iterations;
  pipe.buffers = stage_buffers(works, options);
  for (std::size_t s = 0; s < works.size(); ++s) {
    PipeStage stage;
    stage.name = works[s].name;
    stage.phase = works[s].phase;
    stage.depth = static_cast<std::int64_t>(std::ceil(std::min(placement.stages[s].seconds * ticks_per_second, 1e15)));
    stage.memory_bytes = static_cast<std::int64_t>(works[s].memory_bytes);
    stage.pcus = placement.stages[s].pcus;
    pipe.stages.push_back(stage);
  }
  for (std::size_t s = works.size(); s-- > 0;) {
    const std::int64_t pieces = std::min(placement.stages[s].pieces, pipe.stages[s].depth);
    if (pieces <= 1) continue;
    RIDGE_TRY(split, split_stage(pipe, static_cast<std::int64_t>(s), pieces));
    for (std::size_t p = 0; p < static_cast<std::size_t>(pieces); ++p)
      split.stages[s + p].pcus =
          placement.stages[s].pcus / pieces + (static_cast<std::int64_t>(p) < placement.stages[s].pcus % pieces);
    pipe = std::move(split);
  }
  RIDGE_TRY_STATUS(check_metapipe(pipe));
  return pipe;
}

// Sets the time between iterations and the bottleneck that determines it.
void find_interval(Placement& placement) {
  double slowest = 0, even_slowest = 0;
  for (const PlacedStage& s : placement.stages) {
    if (s.seconds > slowest) placement.bottleneck = s.name;
    slowest = std::max(slowest, s.seconds);
    even_slowest = std::max(even_slowest, s.even_seconds);
  }
  const double shared_seconds = std::max(placement.memory_seconds, placement.scratch_seconds);
  if (shared_seconds >= slowest)
    placement.bottleneck = shared_seconds == placement.memory_seconds ? "memory" : "scratchpads";
  placement.interval_seconds = std::max(slowest, shared_seconds);
  placement.even_interval_seconds = std::max(even_slowest, shared_seconds);
}

std::int64_t count_buffer_pmus(const Metapipe& pipe, std::int64_t pmu_bytes) {
  constexpr std::int64_t max_pmus = std::int64_t{1} << 40;
  std::int64_t pmus = 0;
  for (const PipeBuffer& b : pipe.buffers)
    if (pmu_bytes > 0) pmus += std::min(max_pmus, (b.bytes * b.tile_count() + pmu_bytes - 1) / pmu_bytes);
  for (const PipeStage& stage : pipe.stages)
    if (!stage.body.empty()) pmus += count_buffer_pmus(stage.body[0], pmu_bytes);
  return pmus;
}

}  // namespace

Status replace_pipe(Placement& placement, const Fabric& fabric, Metapipe pipe) {
  RIDGE_TRY_STATUS(check_metapipe(pipe));
  placement.pipe = std::move(pipe);
  placement.why_not.clear();
  placement.buffer_bytes = buffer_bytes(placement.pipe);
  placement.pmus = count_buffer_pmus(placement.pipe, fabric.pmu_bytes);
  if (placement.pcus > fabric.pcus)
    placement.why_not = fmt::format("its stages need {} PCUs, the chip has {}", placement.pcus, fabric.pcus);
  else if (placement.pmus > fabric.pmus)
    placement.why_not = fmt::format("its buffers of {} bytes need {} PMUs, the chip has {}", placement.buffer_bytes,
                                    placement.pmus, fabric.pmus);
  placement.fits = placement.why_not.empty();
  return Done{};
}

std::span<const Fabric> list_fabrics() { return catalog; }

Result<Fabric> find_fabric(std::string_view name) {
  for (const Fabric& f : catalog)
    if (f.name == name) return f;
  std::string names;
  for (const Fabric& f : catalog) names += fmt::format("{}{}", names.empty() ? "" : ", ", f.name);
  return usage_error(fmt::format("expected a fabric {}, found '{}'", names, name),
                     "ridge explain --on takes any machine; ridge simulate systolic simulates an array");
}

Result<Placement> place_stages(const Fabric& fabric, std::span<const StageWork> works,
                               const PlacementOptions& options) {
  RIDGE_TRY_STATUS(check_work(fabric, works, options));
  const double rate = fabric.pcu_flops_per_second * options.compute_efficiency;
  Placement placement;
  placement.fabric = std::string(fabric.name);
  double memory_bytes = 0, scratch_bytes = 0;
  std::int64_t computing_stages = 0, assigned_units = 0;
  for (const StageWork& w : works) {
    computing_stages += w.flops > 0;
    memory_bytes += w.memory_bytes;
    scratch_bytes += 2 * static_cast<double>(w.tile_bytes);  // written once and read once
  }
  for (const PipeBuffer& skip : options.skip_buffers) scratch_bytes += 2 * static_cast<double>(skip.bytes);
  if (memory_bytes > 0) placement.memory_seconds = memory_bytes / fabric.memory_bytes_per_second;
  if (fabric.scratch_bytes_per_second > 0) placement.scratch_seconds = scratch_bytes / fabric.scratch_bytes_per_second;
  for (const StageWork& w : works) {
    std::int64_t even_units = computing_stages > 0 ? fabric.pcus / computing_stages : 0;
    if (w.max_pcus > 0) even_units = std::min(even_units, w.max_pcus);
    if (w.pcus > 0) even_units = w.pcus;
    const std::int64_t units = w.flops > 0 ? std::max<std::int64_t>(1, w.pcus) : 0;
    assigned_units += units;
    placement.stages.push_back(
        {w.name, units, 1, iteration_seconds(w, units, rate), iteration_seconds(w, even_units, rate)});
  }
  distribute_units(works, placement.stages, fabric.pcus - assigned_units, rate,
                   std::max(placement.memory_seconds, placement.scratch_seconds));
  for (const PlacedStage& s : placement.stages) placement.pcus += s.pcus;
  find_interval(placement);
  RIDGE_TRY(pipe, make_pipe(works, placement, options));
  placement.resources.memory_bytes_per_cycle = fabric.memory_bytes_per_second / ticks_per_second;
  RIDGE_TRY_STATUS(replace_pipe(placement, fabric, std::move(pipe)));
  return placement;
}

std::string Placement::to_text() const {
  std::string out = fmt::format("{}: {} PCUs, {} PMUs, buffers {} bytes; {}\n", fabric, pcus, pmus, buffer_bytes,
                                fits ? "fits" : "does not fit: " + why_not);
  for (const PlacedStage& s : stages)
    out += fmt::format("  {:<16} {:>5} PCUs{}  {:.4g} s (even share {:.4g} s)\n", s.name, s.pcus,
                       s.pieces > 1 ? fmt::format(" in {} pieces", s.pieces) : "", s.seconds, s.even_seconds);
  out += fmt::format("  one iteration every {:.4g} s, limited by {}; {:.2f}x an even share\n", interval_seconds,
                     bottleneck, speedup_over_even());
  return out;
}

}  // namespace ridge
