// Products on a CUDA device. As in cuBLASLt, all work is queued on the caller's stream, nothing is allocated or
// synchronised, and scratch memory is a workspace of the caller. Any alignment and stride is supported: operands whose
// rows do not start at multiples of 16 bytes are copied to the workspace first or, if that is too small, multiplied by
// a slow plain kernel. Needs no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/device/workspace.h"
#include "ridge/ops/product/call.h"
#include "ridge/tile/tile_scheduler.h"

struct CUstream_st;

namespace ridge::ops {
struct DeviceNumbers;
}

namespace ridge::ops::cuda {

using ops::EpilogueActivation, ops::EpilogueOperand, ops::MatmulCall, ops::MatmulEpilogue;

// Kernel and schedule of a product, chosen without measurement: a tile kernel (a config of `sm90_kernel_configs`), the
// GEMV kernel (a few rows of D), the kernel with register loads (operands of f32 or of lines that the copy engine
// cannot read, register_loads.h), the kernel for narrow weights (weight_only.h) or the plain kernel, which supports all
// calls without narrow weights.
struct MatmulPlan {
  enum class Path { nothing, tiles, gemv, register_loads, plain, weight_only } path = Path::plain;
  int config = -1;
  bool d_transposed = false;                      // True if D's columns are contiguous: D transposed is computed
  bool swapped_tile = false;                      // True if a tile of register loads has columns of D as its rows
  bool copy_a = false, copy_b = false;            // Copy to lines that start at multiples of 128 bytes
  bool transpose_a = false, transpose_b = false;  // The copy is transposed to make k contiguous
  int splits = 1;                                 // Splits of k, added in order, so results are deterministic
  tile::SplitMode split_mode = tile::SplitMode::split_k;
  int raster_rows = 8;     // Rows of tiles per band of the tile scheduler
  int first_tile_row = 0;  // Row of tiles that is computed first
  bool prefetch_constants = false;
  bool dependent_launch = true;  // The kernel starts while the previous kernel runs, then waits for its end
  int blocks = 0;
  std::int64_t tiles = 0, waves = 0;
  std::size_t workspace_bytes = 0;
  double predicted_s = 0;  // Time from the end of the previous kernel to the end of this one
  bool operator==(const MatmulPlan&) const = default;
};

// Returns why no kernel supports the call. Accesses no device.
Reason unsupported_reason(const MatmulProblem& problem);  // Ignores data pointers
Reason unsupported_reason(const MatmulCall& call);

// True if D is of 16 bits, if all epilogue operands have its type or are f32, with rows aligned to 16 bytes along D's
// rows or, in f32, one number for each row, and if offsets fit in 32 bits. The vectorized epilogue takes half the time
// of the general one.
bool has_vector_epilogue(const MatmulCall& call);

// Returns the plan with the shortest predicted time. Requires a supported call; `device` is any Hopper (ops/model.h).
MatmulPlan choose_plan(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device);
// Limit on the rows of D per band of tiles if D is scattered, so that the band's rows of A stay in the L2.
inline constexpr std::int64_t max_scatter_band_rows = 2048;
// Returns the fastest plan for a call with gathered or scattered rows, or nullopt if no kernel supports the call.
std::optional<MatmulPlan> choose_exchanged_rows_plan(const MatmulCall& call, std::size_t workspace_bytes,
                                                     const DeviceNumbers& device);
// Returns the `per_config` fastest plans of each config that supports the call, fastest first.
std::vector<MatmulPlan> list_candidates(const MatmulCall& call, std::size_t workspace_bytes,
                                        const DeviceNumbers& device, std::size_t per_config);
struct SplitK {
  int splits =
      1;  // Any number for split_k, 2 to 8 for cluster_split_k, 2 to 16 for cooperative_split_k, 1 for stream_k
  tile::SplitMode split_mode = tile::SplitMode::split_k;
};
std::vector<SplitK> list_split_options(const MatmulCall& call, const DeviceNumbers& device);
struct OperandCopies {  // Operands to copy because the copy engine reads them slowly or not at all
  bool a = false, b = false;
};
std::vector<OperandCopies> list_copy_options(const MatmulCall& call);
struct PlanChoice {  // A config and its schedule
  int config = 0;
  SplitK split = {};
  OperandCopies copies = {};
};
// Returns the plan of a choice, or nullopt if it does not support the call.
std::optional<MatmulPlan> make_plan(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                    const PlanChoice& choice);

// Queues the plan. Returns the error if the driver rejects a step. Thread-safe; may be captured in a graph.
Status launch(const MatmulCall& call, const MatmulPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream);

// Resources of a compiled kernel: registers per thread, local memory (spills) and shared memory in bytes.
struct KernelResources {
  int registers = 0, local_bytes = 0, shared_bytes = 0;
};
std::optional<KernelResources> kernel_resources(int config, DType in);

}  // namespace ridge::ops::cuda
