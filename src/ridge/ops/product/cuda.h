// Products on a CUDA device. As with cuBLASLt: everything is queued on the caller's stream, nothing is allocated or
// synchronised, and what a call needs beside its operands comes from a workspace that the caller owns. Device memory
// may be at any alignment and stride; operands whose rows do not start at multiples of 16 bytes are first copied to the
// workspace, or, if that is too small, multiplied by a slow plain kernel. No CUDA header is needed here.
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

using ops::Activation, ops::EpilogueOperand, ops::MatmulCall, ops::MatmulEpilogue;

// What to run, decided without running anything: tiles (a config of sm90_menu is the compiled shape, the rest is its
// schedule), gemv (a few rows of D from operands whose lines start anywhere) or the plain kernel, which takes anything.
struct MatmulPlan {
  enum class Path { nothing, tiles, gemv, plain } path = Path::plain;
  int config = -1;
  bool exchanged = false;                         // D's columns are contiguous: computed as its transpose
  bool copy_a = false, copy_b = false;            // to lines that start at multiples of 128 bytes
  bool transpose_a = false, transpose_b = false;  // … and with k contiguous
  int splits = 1;                                 // of k, added in order: the same bits every time
  tile::SplitMode split_mode = tile::SplitMode::split_k;
  int raster_rows = 8;  // tile rows that walk the columns together
  int first_row = 0;    // of tiles, with which the walk begins
  bool prefetch_constants = false;
  bool dependent_launch = true;  // may start while the kernel before it still runs (and then waits for it)
  int blocks = 0;
  std::int64_t tiles = 0, waves = 0;
  std::size_t workspace_bytes = 0;
  double predicted_s = 0;  // what plans are compared by; from the end of the kernel before
  bool operator==(const MatmulPlan&) const = default;
};

// What stands in the way of this call, as a sentence; none: it runs. Looks at no device.
std::optional<std::string> refuse(const MatmulProblem& problem);  // wherever its data may lie
std::optional<std::string> refuse(const MatmulCall& call);

// Whether D and all that its sums meet have A's format of 16 bits and lie in whole 16 bytes along D's rows, at offsets
// of 32 bits: a tile's end then takes half the time that it takes otherwise.
bool has_vector_epilogue(const MatmulCall& call);

// The call must not be refused. `device` is a Hopper, here or elsewhere (ops/model.h).
MatmulPlan choose(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device);
// Rows that walk the columns together at most, where a result is scattered: their part of A stays in the L2.
inline constexpr std::int64_t most_group_rows = 2048;
// The soonest one that goes through the rows that the call shares, in chunks; none: no kernel of the menu does.
std::optional<MatmulPlan> choose_in_chunks(const MatmulCall& call, std::size_t workspace_bytes,
                                           const DeviceNumbers& device);
// Of each config of the menu that can serve the call the best `each`, soonest first.
std::vector<MatmulPlan> candidates(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                   std::size_t each);
// The same for one config of the menu and one way to cut k; none where they cannot serve the call.
struct SplitK {
  int splits = 1;  // SplitMode::split_k: any number, SplitMode::cluster_split_k: 2 to 8,
                   // SplitMode::cooperative_split_k: 2 to 16, SplitMode::stream_k: 1
  tile::SplitMode split_mode = tile::SplitMode::split_k;
};
std::vector<SplitK> split_options(const MatmulCall& call, const DeviceNumbers& device);  // that are worth a thought
struct Copies {  // of operands that the copy engine reads slowly or not at all
  bool a = false, b = false;
};
std::vector<Copies> copies(const MatmulCall& call);
struct PlanChoice {  // a config of the menu, and how it is used
  int config = 0;
  SplitK split = {};
  Copies copies = {};
};
std::optional<MatmulPlan> planned(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                  const PlanChoice& choice);

// Queues the plan. A sentence if the driver refuses a step; nothing runs then. Thread-safe; may be captured in a graph.
std::optional<std::string> launch(const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream);

// Of a config's kernel, as compiled: registers a thread at launch, bytes of local memory (spills) and shared memory.
struct ConfigFacts {
  int registers = 0, local_bytes = 0, shared_bytes = 0;
};
std::optional<ConfigFacts> config_facts(int config, DType in);

}  // namespace ridge::ops::cuda
