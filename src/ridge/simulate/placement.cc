#include "ridge/simulate/placement.h"

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
    for (const auto& [what, value, least, most] : {std::tuple{"tile bytes", s.tile_bytes, 0, std::int64_t{1} << 40},
                                                   {"PCUs at most", s.max_pcus, 0, std::int64_t{1} << 20},
                                                   {"pieces at most", s.max_pieces, 1, std::int64_t{1} << 20},
                                                   {"PCUs", s.pcus, 0, fabric.pcus},
                                                   {"tiles", s.tiles, 0, std::int64_t{1} << 20}})
      if (value < least || value > most)
        return input_error(
            fmt::format("stage '{}': expected {} between {} and {}, found {}", s.name, what, least, most, value));
    if (s.flops > 0 && !(fabric.pcu_flops_per_second > 0))
      return absent_error(fmt::format("fabric '{}' has no published rate of a PCU", fabric.name));
    if (s.memory_bytes > 0 && !(fabric.memory_bytes_per_second > 0))
      return absent_error(fmt::format("fabric '{}' has no published memory bandwidth", fabric.name));
  }
  return Done{};
}

double seconds_of(const StageWork& stage, std::int64_t pcus, double rate) {
  return stage.flops > 0 ? stage.flops / (static_cast<double>(std::max<std::int64_t>(pcus, 1)) * rate) : 0;
}

bool can_grow(const StageWork& work, const PlacedStage& placed) {
  return work.flops > 0 && work.pcus == 0 && (work.max_pcus == 0 || placed.pcus < work.max_pcus * work.max_pieces);
}

void grow(const StageWork& work, PlacedStage& stage, double rate) {
  ++stage.pcus;
  if (work.max_pcus > 0) stage.pieces = (stage.pcus + work.max_pcus - 1) / work.max_pcus;
  stage.seconds = seconds_of(work, stage.pcus, rate);
}

// Gives the units out one by one, each to the slowest stage, down to `floor` seconds.
void balance(std::span<const StageWork> works, std::vector<PlacedStage>& placed, std::int64_t units, double rate,
             double floor) {
  while (units > 0) {
    std::size_t slowest = 0;
    for (std::size_t s = 1; s < placed.size(); ++s)
      if (placed[s].seconds > placed[slowest].seconds) slowest = s;
    if (!can_grow(works[slowest], placed[slowest]) || placed[slowest].seconds <= floor) return;
    grow(works[slowest], placed[slowest], rate);
    --units;
  }
}

std::vector<PipeBuffer> buffers_of(std::span<const StageWork> works, const PlacementOptions& options) {
  std::vector<PipeBuffer> buffers;
  for (std::size_t s = 0; s + 1 < works.size(); ++s)
    buffers.push_back(
        {static_cast<std::int64_t>(s), static_cast<std::int64_t>(s) + 1, works[s].tile_bytes, works[s].tiles});
  buffers.insert(buffers.end(), options.skips.begin(), options.skips.end());
  return buffers;
}

// In ticks; a split stage becomes its pieces.
Result<Metapipe> pipe_of(std::span<const StageWork> works, const Placement& placement,
                         const PlacementOptions& options) {
  Metapipe pipe;
  pipe.name = placement.fabric;
  pipe.iterations = options.iterations;
  pipe.buffers = buffers_of(works, options);
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
    Result<Metapipe> split = split_stage(pipe, static_cast<std::int64_t>(s), pieces);
    if (!split) return split.error();
    for (std::size_t p = 0; p < static_cast<std::size_t>(pieces); ++p)
      split->stages[s + p].pcus =
          placement.stages[s].pcus / pieces + (static_cast<std::int64_t>(p) < placement.stages[s].pcus % pieces);
    pipe = std::move(*split);
  }
  if (const Status status = check_metapipe(pipe); !status) return status.error();
  return pipe;
}

// Sets what an iteration's pace is and who sets it.
void find_interval(Placement& placement) {
  double slowest = 0, even = 0;
  for (const PlacedStage& s : placement.stages) {
    if (s.seconds > slowest) placement.bottleneck = s.name;
    slowest = std::max(slowest, s.seconds);
    even = std::max(even, s.even_seconds);
  }
  const double shared = std::max(placement.memory_seconds, placement.scratch_seconds);
  if (shared >= slowest) placement.bottleneck = shared == placement.memory_seconds ? "memory" : "scratchpads";
  placement.interval_seconds = std::max(slowest, shared);
  placement.even_interval_seconds = std::max(even, shared);
}

std::int64_t buffer_pmus(const Metapipe& pipe, std::int64_t pmu_bytes) {
  constexpr std::int64_t plenty = std::int64_t{1} << 40;
  std::int64_t pmus = 0;
  for (const PipeBuffer& b : pipe.buffers)
    if (pmu_bytes > 0) pmus += std::min(plenty, (b.bytes * b.depth() + pmu_bytes - 1) / pmu_bytes);
  for (const PipeStage& stage : pipe.stages)
    if (!stage.body.empty()) pmus += buffer_pmus(stage.body[0], pmu_bytes);
  return pmus;
}

}  // namespace

Status set_pipe(Placement& placement, const Fabric& fabric, Metapipe pipe) {
  if (const Status status = check_metapipe(pipe); !status) return status.error();
  placement.pipe = std::move(pipe);
  placement.why_not.clear();
  placement.buffer_bytes = buffer_bytes(placement.pipe);
  placement.pmus = buffer_pmus(placement.pipe, fabric.pmu_bytes);
  if (placement.pcus > fabric.pcus)
    placement.why_not = fmt::format("its stages need {} PCUs, the chip has {}", placement.pcus, fabric.pcus);
  else if (placement.pmus > fabric.pmus)
    placement.why_not = fmt::format("its buffers of {} bytes need {} PMUs, the chip has {}", placement.buffer_bytes,
                                    placement.pmus, fabric.pmus);
  placement.fits = placement.why_not.empty();
  return Done{};
}

std::span<const Fabric> fabrics() { return catalog; }

Result<Fabric> fabric_named(std::string_view name) {
  for (const Fabric& f : catalog)
    if (f.name == name) return f;
  std::string names;
  for (const Fabric& f : catalog) names += fmt::format("{}{}", names.empty() ? "" : ", ", f.name);
  return usage_error(fmt::format("expected a fabric {}, found '{}'", names, name),
                     "ridge explain --on takes any machine; ridge simulate systolic clocks an array");
}

Result<Placement> place(const Fabric& fabric, std::span<const StageWork> works, const PlacementOptions& options) {
  if (const Status status = check_work(fabric, works, options); !status) return status.error();
  const double rate = fabric.pcu_flops_per_second * options.compute_efficiency;
  Placement placement;
  placement.fabric = std::string(fabric.name);
  double memory_bytes = 0, scratch_bytes = 0;
  std::int64_t computing = 0, given = 0;
  for (const StageWork& w : works) {
    computing += w.flops > 0;
    memory_bytes += w.memory_bytes;
    scratch_bytes += 2 * static_cast<double>(w.tile_bytes);  // written once and read once
  }
  for (const PipeBuffer& skip : options.skips) scratch_bytes += 2 * static_cast<double>(skip.bytes);
  if (memory_bytes > 0) placement.memory_seconds = memory_bytes / fabric.memory_bytes_per_second;
  if (fabric.scratch_bytes_per_second > 0) placement.scratch_seconds = scratch_bytes / fabric.scratch_bytes_per_second;
  for (const StageWork& w : works) {
    std::int64_t even = computing > 0 ? fabric.pcus / computing : 0;
    if (w.max_pcus > 0) even = std::min(even, w.max_pcus);
    if (w.pcus > 0) even = w.pcus;
    const std::int64_t units = w.flops > 0 ? std::max<std::int64_t>(1, w.pcus) : 0;
    given += units;
    placement.stages.push_back({w.name, units, 1, seconds_of(w, units, rate), seconds_of(w, even, rate)});
  }
  balance(works, placement.stages, fabric.pcus - given, rate,
          std::max(placement.memory_seconds, placement.scratch_seconds));
  for (const PlacedStage& s : placement.stages) placement.pcus += s.pcus;
  find_interval(placement);
  Result<Metapipe> pipe = pipe_of(works, placement, options);
  if (!pipe) return pipe.error();
  placement.resources.memory_bytes_per_cycle = fabric.memory_bytes_per_second / ticks_per_second;
  if (const Status status = set_pipe(placement, fabric, *std::move(pipe)); !status) return status.error();
  return placement;
}

std::string Placement::text() const {
  std::string out = fmt::format("{}: {} PCUs, {} PMUs, buffers {} bytes; {}\n", fabric, pcus, pmus, buffer_bytes,
                                fits ? "fits" : "does not fit: " + why_not);
  for (const PlacedStage& s : stages)
    out += fmt::format("  {:<16} {:>5} PCUs{}  {:.4g} s (even share {:.4g} s)\n", s.name, s.pcus,
                       s.pieces > 1 ? fmt::format(" in {} pieces", s.pieces) : "", s.seconds, s.even_seconds);
  out += fmt::format("  pace {:.4g} s an iteration, set by {}; {:.2f}x an even share\n", interval_seconds, bottleneck,
                     gain());
  return out;
}

}  // namespace ridge
