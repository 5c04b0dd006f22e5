// Lowered form of a ChainProgram. Axes are ordered by the outputs' strides and merged if they are contiguous in every
// tensor; steps over registers become operations on one current group of elements. y = gelu(1.3*x + 0.2) over
// [4, 1024, 512] has one axis of 2,097,152 elements and these operations: load x, multiply by a constant, add a
// constant, gelu, store y. No group is saved. Internal to the kernels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

constexpr int max_chain_axes = 8;
constexpr int max_group_elements = 128;              // Eight AVX-512 registers.
constexpr std::int64_t max_block_elements = 4096;    // Limit for a block if all tensors are accessed in place.
constexpr std::int64_t max_gathered_elements = 512;  // Limit if tensors are gathered, so that copies stay in the L1.

struct LoweredTensor {  // A tensor over the merged axes; strides in elements.
  DType dtype = DType::f32;
  std::array<std::int64_t, max_chain_axes> strides{};
  bool is_stored = false;    // True for outputs.
  bool is_gathered = false;  // True if blocks are copied to or from contiguous f32, since the rows are not contiguous.
};

struct OperandLocation {
  enum LocationKind { nowhere, tensor, constant, saved } kind = nowhere;
  int index = -1;  // Index of the tensor, of the constant or of the saved group.
};

// Operation on the current group, which stays in registers between operations. Values that are needed later are saved
// in the L1.
struct GroupOperation {
  enum OperationKind {
    load_group,   // group = a
    save_group,   // saved[a] = group
    apply,        // group = op(group, b, c)
    store_group,  // a = group
  } kind = load_group;
  OperandLocation a = {}, b = {}, c = {};
  ChainOp op = ChainOp::add;
  int repeat = 1;
};

struct LoweredChain {
  int axes = 0;  // At least 2. Blocks divide the last axis into columns and the axis before it into rows.
  std::array<std::int64_t, max_chain_axes> extents{};
  std::vector<LoweredTensor> tensors;
  std::vector<GroupOperation> operations;
  std::vector<float> constants;
  int saved_groups = 0;                                 // Largest number of groups that are saved at a time.
  std::int64_t rows = 1, columns = max_block_elements;  // Block shape; several rows only if they are short.
  bool streams_stores = false;                          // True if stores are non-temporal.
  std::int64_t elements = 0;

  std::int64_t block_count() const;  // Number of blocks that cover the index space.
};

int operand_count(ChainOp op);  // Number of operands, 0 to 3.

// Returns why the program is invalid.
Reason invalid_reason(const ChainProgram& program);

// Lowers a valid program.
LoweredChain lower_chain(const ChainProgram& program);

// A block of the index space: the index of its first element and its numbers of rows and columns.
struct ChainBlock {
  std::array<std::int64_t, max_chain_axes> start{};
  std::int64_t rows = 0, columns = 0;
};
ChainBlock block_at(const LoweredChain& code, std::int64_t index);

// Arguments for running blocks begin ... end - 1. `scratch` is 64-byte aligned, with chain_scratch_floats(code) floats.
struct ChainRunArgs {
  const LoweredChain& code;
  std::span<void* const> tensors;
  std::int64_t begin = 0, end = 0;
  float* scratch = nullptr;
};
std::int64_t chain_scratch_floats(const LoweredChain& code);
void run_chain(const LoweredChain& code, std::span<void* const> tensors);  // Runs all blocks on this thread.
// Arguments for running a chain once for each step of a recurrence, on `groups` groups of contiguous elements. Element
// 0 of a step is `step_bytes` behind that of the step before. A tensor that is loaded and stored and does not move
// carries values from step to step. `saved` has code.saved_groups * max_group_elements floats, aligned to 64 bytes.
struct RepeatedTensor {
  DType dtype = DType::f32;
  char* data = nullptr;
  std::int64_t step_bytes = 0;
};
struct RepeatedChainArgs {
  const LoweredChain& code;
  std::span<const RepeatedTensor> tensors;
  std::int64_t groups = 1, steps = 1;
  float* saved = nullptr;
};
void run_repeated_chain(const RepeatedChainArgs& run);
std::int64_t chain_group_elements();  // Returns the number of elements of a group.

// Defined in body.cc, which is compiled once for each instruction set.
namespace plain {
void run_chain(const ChainRunArgs& run);
void run_repeated_chain(const RepeatedChainArgs& run);
std::int64_t chain_group_elements();
}  // namespace plain
namespace avx2 {
void run_chain(const ChainRunArgs& run);
void run_repeated_chain(const RepeatedChainArgs& run);
std::int64_t chain_group_elements();
}  // namespace avx2
namespace avx512 {
void run_chain(const ChainRunArgs& run);
void run_repeated_chain(const RepeatedChainArgs& run);
std::int64_t chain_group_elements();
}  // namespace avx512

}  // namespace ridge::ops
