// Lowered form of a ChainProgram. Axes that are contiguous in every tensor are merged, the others are ordered by the
// outputs' strides; steps over registers become moves of one group of elements. y = gelu(1.3*x + 0.2) over
// [4, 1024, 512] has one axis of 2,097,152 elements and these moves: load x, multiply by a constant, add another, gelu,
// store y. No group is kept. Internal to the kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

constexpr int max_chain_axes = 8;
constexpr int chain_group = 128;                     // Maximum elements per move: eight AVX-512 registers.
constexpr std::int64_t max_block_elements = 4096;    // Elements, if all tensors are accessed in place.
constexpr std::int64_t max_gathered_elements = 512;  // If some are gathered: the copies stay in the L1.

struct ChainAccess {  // A tensor after merging; strides of the remaining axes in elements.
  DType dtype = DType::f32;
  std::array<std::int64_t, max_chain_axes> strides{};
  bool stored = false;
  bool is_gathered = false;  // Copied to or from f32: not contiguous, or not directly readable.
};

struct ChainSource {  // Location of an operand.
  enum SourceKind { nowhere, tensor, constant, kept } kind = nowhere;
  int index = -1;
};

// Operation on the current group, which stays in registers or the L1 between moves; values that are needed later are
// kept in memory.
struct ChainMove {
  enum MoveKind {
    load_group,
    keep,
    apply,
    store_group
  } kind = load_group;  // group = a; kept[a] = group; group = op(group, b, c); a = group
  ChainSource a = {}, b = {}, c = {};
  ChainOp op = ChainOp::add;
  int repeat = 1;
};

struct ChainCode {
  int axes = 0;  // At least 2 unless empty; blocks split the last into columns and the one before into rows.
  std::array<std::int64_t, max_chain_axes> extents{};
  std::vector<ChainAccess> tensors;
  std::vector<ChainMove> moves;
  std::vector<float> constants;
  int kept_groups = 0;                                  // Groups that are kept at a time.
  std::int64_t rows = 1, columns = max_block_elements;  // Block shape; several rows only if they are short.
  bool streams_stores = false;                          // Stores are non-temporal.
  std::int64_t elements = 0;

  std::int64_t block_count() const;  // Blocks that cover the index space.
};

int operand_count(ChainOp op);  // Number of operands, 0 to 3.

// Returns why the program is invalid, or nullopt.
std::optional<std::string> invalid_reason(const ChainProgram& program);

// Requires a valid program.
ChainCode lower_chain(const ChainProgram& program);

// Start of a block in the index space and its numbers of rows and columns.
struct ChainBlock {
  std::array<std::int64_t, max_chain_axes> at{};
  std::int64_t rows = 0, columns = 0;
};
ChainBlock block_at(const ChainCode& code, std::int64_t index);

// Arguments for running blocks begin ... end - 1. `scratch` is 64-byte aligned, with chain_scratch_floats(code) floats.
struct ChainRun {
  const ChainCode& code;
  std::span<void* const> tensors;
  std::int64_t begin = 0, end = 0;
  float* scratch = nullptr;
};
std::int64_t chain_scratch_floats(const ChainCode& code);
void run_chain(const ChainCode& code, std::span<void* const> tensors);  // All blocks, on this thread.
// Defined in body.cc, which is compiled once for each instruction set.
namespace plain {
void run_chain(const ChainRun& run);
}
namespace avx2 {
void run_chain(const ChainRun& run);
}
namespace avx512 {
void run_chain(const ChainRun& run);
}

}  // namespace ridge::ops
