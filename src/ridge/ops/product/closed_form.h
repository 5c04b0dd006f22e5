// How long a planned product takes on a Hopper device, in closed form. Internal to the CUDA product.
#pragma once

#include <cstdint>

#include "ridge/ops/model.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/fitted.h"

namespace ridge::ops::cuda {

struct TileWork {  // a product as the tile sees it
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  double minimum_bytes = 0;                 // between memory and chip: each operand read, D written once
  double result_bytes = 0;                  // D's among them
  int granule_a = 128, granule_b = 128;     // bytes: every line starts at a multiple, up to 128
  bool narrow_a = false, narrow_b = false;  // contiguous along the output, for fewer elements than a box has
  bool element_stores = false;              // D's rows start anywhere
  int copies = 0;                           // of operands, made first
  double copied_bytes = 0;
  bool prefetch_constants =
      false;  // the first loads of one operand run before earlier kernels have ended, a copy among them
};

Bound bound_of(const TileWork& work, const DeviceNumbers& device);
inline bool is_busy(const TileWork& work, const DeviceNumbers& device) {
  return bound_of(work, device) == Bound::multiplies;
}

// How many clusters of so many blocks (1 to 8) run at once.
int clusters_at_once(int blocks, int multiprocessors);

// Seconds from the end of the kernel before to the end of this one, as launches follow each other in a graph.
double predicted_seconds(const MatmulConfig& config, const TileWork& work, const SplitK& split,
                         const DeviceNumbers& device, const ProductModel& model = product_model());

// `planned` by the closed form alone, and what that was asked about.
struct PlannedWork {
  MatmulPlan plan;
  TileWork work;
};
std::optional<PlannedWork> planned_work(const MatmulCall& call, std::size_t workspace_bytes,
                                        const DeviceNumbers& device, const PlanChoice& choice,
                                        const ProductModel& model = product_model());

// The time of the kernel for a few rows of D, whose operands' lines start at multiples of so many bytes.
struct GemvWork {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  int granule = 128;
};
double gemv_seconds(const GemvWork& work, const DeviceNumbers& device);
std::optional<GemvWork> gemv_work(const MatmulCall& call);  // where that kernel is the only one that copies nothing

// What one block's ports do, in cycles: the fitted constants of the model, for whoever draws a block.
BlockPace block_pace(const MatmulConfig& config);

}  // namespace ridge::ops::cuda
