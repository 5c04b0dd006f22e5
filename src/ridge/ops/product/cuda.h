// Products on a CUDA device. As in cuBLASLt, all work is queued on the caller's stream, nothing is allocated or
// synchronised, and scratch memory is a workspace of the caller. Any alignment and stride is supported: operands whose
// rows do not start at multiples of 16 bytes are copied to the workspace first or, if that is too small, multiplied by
// a slow plain kernel. Needs no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/device/workspace.h"
#include "ridge/ops/product/call.h"
#include "ridge/tile/tile_scheduler.h"

struct CUstream_st;

namespace ridge::ops {
struct DeviceNumbers;
}

namespace ridge::ops::cuda {

using ops::EpilogueActivation, ops::EpilogueOperand, ops::MatmulCall, ops::MatmulEpilogue;

// Kernel and schedule of a product, chosen without measurement: tiles (a config of `sm90_kernel_configs` and its
// schedule), gemv (a few rows of D from unaligned operands) or the plain kernel, which supports all calls.
struct MatmulPlan {
  enum class Path { nothing, tiles, gemv, plain } path = Path::plain;
  int config = -1;
  bool d_transposed = false;                      // True if D's columns are contiguous: D transposed is computed
  bool copy_a = false, copy_b = false;            // Copy to lines that start at multiples of 128 bytes
  bool transpose_a = false, transpose_b = false;  // The copy is transposed to make k contiguous
  int splits = 1;                                 // Splits of k, added in order, so results are deterministic
  tile::SplitMode split_mode = tile::SplitMode::split_k;
  int raster_rows = 8;  // Tile rows per band of the walk
  int first_row = 0;    // Tile row where the walk starts
  bool prefetch_constants = false;
  bool dependent_launch = true;  // Starts while the previous kernel runs, then waits for it
  int blocks = 0;
  std::int64_t tiles = 0, waves = 0;
  std::size_t workspace_bytes = 0;
  double predicted_s = 0;  // Time from the end of the previous kernel; plans are compared by it
  bool operator==(const MatmulPlan&) const = default;
};

// Returns why no kernel supports the call, or nullopt. Accesses no device.
std::optional<std::string> unsupported_reason(const MatmulProblem& problem);  // For any data pointers
std::optional<std::string> unsupported_reason(const MatmulCall& call);

// True if D and all epilogue operands have A's 16-bit type, rows aligned to 16 bytes along D's rows and 32-bit offsets.
// The vectorized epilogue takes half the time of the general one.
bool has_vector_epilogue(const MatmulCall& call);

// Returns the plan with the shortest predicted time. Requires a supported call; `device` is any Hopper (ops/model.h).
MatmulPlan choose_plan(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device);
// Limit on the rows of a band if the result is scattered, so that the band's part of A stays in the L2.
inline constexpr std::int64_t max_group_rows = 2048;
// Returns the fastest plan for a call with gathered or scattered rows, or nullopt if no kernel supports it.
std::optional<MatmulPlan> choose_chunked_plan(const MatmulCall& call, std::size_t workspace_bytes,
                                              const DeviceNumbers& device);
// Returns the `each` fastest plans of each config that supports the call, fastest first.
std::vector<MatmulPlan> list_candidates(const MatmulCall& call, std::size_t workspace_bytes,
                                        const DeviceNumbers& device, std::size_t each);
struct SplitK {
  // Any number for split_k, 2 to 8 for cluster_split_k, 2 to 16 for cooperative_split_k, 1 for stream_k
  int splits = 1;
  tile::SplitMode split_mode = tile::SplitMode::split_k;
};
std::vector<SplitK> split_options(const MatmulCall& call, const DeviceNumbers& device);  // Candidates
struct OperandCopies {  // Operands to copy because the copy engine reads them slowly or not at all
  bool a = false, b = false;
};
std::vector<OperandCopies> copy_options(const MatmulCall& call);
struct PlanChoice {  // A config and its schedule
  int config = 0;
  SplitK split = {};
  OperandCopies copies = {};
};
// Returns the plan of a choice, or nullopt if it does not support the call.
std::optional<MatmulPlan> make_plan(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                    const PlanChoice& choice);

// Queues the plan. Returns the error if the driver rejects a step. Thread-safe; may be captured in a graph.
std::optional<std::string> launch(const MatmulCall& call, const MatmulPlan& plan,
                                  const device::DeviceWorkspace& workspace, CUstream_st* stream);

// Resources of a compiled kernel: registers per thread, local memory (spills) and shared memory in bytes.
struct ConfigProperties {
  int registers = 0, local_bytes = 0, shared_bytes = 0;
};
std::optional<ConfigProperties> config_properties(int config, DType in);

}  // namespace ridge::ops::cuda
