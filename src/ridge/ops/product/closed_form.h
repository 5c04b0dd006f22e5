// Closed-form time model of planned products on Hopper. Internal to the CUDA product.
#pragma once

#include <cstdint>

#include "ridge/base/operand_type.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/fitted.h"

namespace ridge::ops::cuda {

struct TileWork {  // A product with the operands in the order of the tile (MatmulConfig::swap)
  std::int64_t batch = 1;
  ProductSize size;
  DType dtype = DType::bf16;                 // dtype of A and B
  double minimum_bytes = 0;                  // Each operand read once and D written once
  double result_bytes = 0;                   // The part of D in `minimum_bytes`
  int alignment_a = 128, alignment_b = 128;  // Alignment of all lines in bytes, up to 128
  bool narrow_a = false, narrow_b = false;   // True if lines along the output are shorter than a TMA box
  bool element_stores = false;               // True if unaligned rows of D require stores of single elements
  int copies = 0;                            // Operands that are copied before the product
  double copied_bytes = 0;
  bool prefetch_constants = false;  // True if loads of one operand start before earlier kernels and copies have ended
  int operand_bytes() const { return ridge::operand_bytes(dtype); }
};

BoundKind classify_bound(const TileWork& work, const DeviceNumbers& device);
inline bool is_compute_bound(const TileWork& work, const DeviceNumbers& device) {
  return classify_bound(work, device) == BoundKind::multiplies;
}

// Returns the number of clusters of `blocks` blocks (1 to 8) that run concurrently.
int count_concurrent_clusters(int blocks, int multiprocessors);

// Returns the seconds from the end of the previous kernel of a graph to the end of this one.
double predict_seconds(const MatmulConfig& config, const TileWork& work, const SplitK& split,
                       const DeviceNumbers& device, const ProductModel& model = product_model());

// A plan with the time of the closed form, before the correction, and the work that the closed form was given.
struct UncorrectedPlan {
  MatmulPlan plan;
  TileWork work;
};
std::optional<UncorrectedPlan> make_uncorrected_plan(const MatmulCall& call, std::size_t workspace_bytes,
                                                     const DeviceNumbers& device, const PlanChoice& choice,
                                                     const ProductModel& model = product_model());

// Work of the kernel for a few rows of D; `alignment` is the alignment of the operands' lines in bytes.
struct GemvWork {
  std::int64_t batch = 1;
  ProductSize size;
  int alignment = 128;
  int operand_bytes = OperandType<Bf16>::bytes;
  bool along_columns = false;  // True if B is contiguous along n, not k
};
double predict_gemv_seconds(const GemvWork& work, const DeviceNumbers& device);
// Returns nullopt if the GEMV kernel does not support the call. A single 16-bit product is supported only if tile
// kernels would copy an operand: tiles can split the k of one product, but not fill their rows in a batch of products
// with few.
std::optional<GemvWork> make_gemv_work(const MatmulCall& call);

// Returns the throughput of one thread block from the fitted constants, for timelines.
BlockThroughput block_throughput(const MatmulConfig& config);

}  // namespace ridge::ops::cuda
