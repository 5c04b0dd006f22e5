// Times of a training step on stages of a pipeline. Each stage alternates forward and backward passes (1F1B:
// Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM"). Stage s of
// P first runs P - 1 - s forward passes, so that it keeps the activations of at most P - s of the M micro-batches:
//   stage 0  F0 F1 -- B0 F2 B1 F3 B2 -- B3      P = 2, M = 4, forward and backward pass of equal length
//   stage 1  -- F0 B0 F1 B1 F2 B2 F3 B3
// Equal stages without sends take (M + P - 1) times a forward and a backward pass: (P - 1)/(M + P - 1) is idle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge {

// Times of one stage for one micro-batch.
struct PipelineStage {
  double forward_s = 0, backward_s = 0;
  double send_s = 0;  // Activations to the next stage, and their gradients back; overlaps with other micro-batches
  // Exchanges between data ranks, one at a time, while passes compute: weights until the first forward pass ends, and
  // gradients from `reduce_after_s` after the start of the last backward pass on; with `gathers_each` and
  // `reduces_each`, for each pass.
  double gather_s = 0, reduce_s = 0, reduce_after_s = 0;
  bool gathers_each = false, reduces_each = false;

  // Returns the time that the stage computes `micro_batches`.
  double busy_s(std::int64_t micro_batches) const {
    return static_cast<double>(micro_batches) * (forward_s + backward_s);
  }
};

// Returns the time at which each stage ends its last backward pass and its exchanges. A link sends one micro-batch at a
// time each way.
std::vector<double> schedule_pipeline(std::span<const PipelineStage> stages, std::int64_t micro_batches);

// Returns the most micro-batches whose activations stage `stage` of `stages` keeps at a time.
std::int64_t count_kept_micro_batches(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches);

}  // namespace ridge
