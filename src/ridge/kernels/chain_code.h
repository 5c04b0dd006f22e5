// What a ChainProgram becomes before it runs. Axes that lie one behind the other in every tensor are merged and the
// rest are ordered by the outputs' strides; each step's result is a value of its own, and values that are never alive
// together share a slot of the scratch. y = gelu(1.3*x + 0.2) over [4, 1024, 512] has one axis of 2,097,152 elements
// and one slot of 512 floats: 2 KiB, which with the block of x and that of y stays in the L1. Internal to the kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/kernels/menu.h"

namespace ridge::kernels {

constexpr int most_axes = 8;
constexpr int most_block = 512;  // floats: short enough that a chain's slots stay in the L1 (spike: 512 beats 1024 …)

struct ChainAccess {  // a tensor after merging: elements, stride of each remaining axis
  DType dtype = DType::f32;
  std::array<std::int64_t, most_axes> strides{};
};

struct ChainInstruction {
  ChainOp op = ChainOp::store;
  int result = -1, a = -1, b = -1, c = -1;  // values
  int slot = -1;                            // of the result, in the scratch
  int tensor = -1;                          // load, store
  int store_tensor = -1;  // f32 output that alone uses the result: written to directly, without a slot of its own
  float constant = 0;
  int repeat = 1;
  bool prefetches = false;  // runs long enough to fetch the next block meanwhile
};

struct ChainCode {
  int axes = 0;  // at least 2 where there are elements; the last is walked in blocks, the one before in rows
  std::array<std::int64_t, most_axes> extents{};
  std::vector<ChainAccess> tensors;
  std::vector<ChainInstruction> instructions;
  int values = 0, slots = 0;
  int rows = 1, columns = most_block;  // of a block: several rows only where they are short
  std::int64_t lead = 0;               // columns by which blocks are moved forward so that stores meet whole lines
  bool stream = false;                 // stores go past the caches
  bool fetch_ahead = false;            // inputs come from beyond the L2
  std::int64_t elements = 0;

  std::int64_t blocks() const;  // how many cover the index space
};

// The refusal, as a sentence, or none.
std::optional<std::string> find_fault(const ChainProgram& program);

// The program must have no fault.
ChainCode lower(const ChainProgram& program);

// Where blocks begin in the index space: position of block `index`, and how many rows and columns it has (0: none).
struct ChainBlock {
  std::array<std::int64_t, most_axes> at{};
  std::int64_t rows = 0, columns = 0;
};
ChainBlock block_at(const ChainCode& code, std::int64_t index);

// Runs blocks begin … end-1. One in each instruction set's file; scratch: 64-byte aligned, chain_scratch_floats(code).
struct ChainRun {
  const ChainCode& code;
  std::span<void* const> tensors;
  std::int64_t begin = 0, end = 0;
  float* scratch = nullptr;
};
std::int64_t chain_scratch_floats(const ChainCode& code);
void run_chain_plain(const ChainRun& run);
void run_chain_avx2(const ChainRun& run);
void run_chain_avx512(const ChainRun& run);

}  // namespace ridge::kernels
