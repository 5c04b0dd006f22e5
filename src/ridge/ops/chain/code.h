// What a ChainProgram becomes before it runs. Axes that lie one behind the other in every tensor are merged and the
// rest are ordered by the outputs' strides; steps over registers become moves of one group of 64 elements. For
// y = gelu(1.3*x + 0.2) over [4, 1024, 512] there is one axis of 2,097,152 elements and the moves are: take x, multiply
// by a constant, add another, gelu, put y. Nothing is kept. Internal to the kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

constexpr int most_axes = 8;
constexpr int chain_group = 128;  // elements, at most, that one move works on at once: eight registers of AVX-512
constexpr std::int64_t most_block = 4096;  // elements, where all tensors are walked where they lie
constexpr std::int64_t most_held = 512;    // where some are gathered: what is held stays in the L1

struct ChainAccess {  // a tensor after merging: elements, stride of each remaining axis
  DType dtype = DType::f32;
  std::array<std::int64_t, most_axes> strides{};
  bool stored = false;
  bool held = false;  // copied to f32 first, or last: what is no run of elements, or not what a step can read
};

struct ChainSource {  // where an operand lies
  enum Kind { nowhere, tensor, constant, kept } kind = nowhere;
  int index = -1;
};

// What is done with the group that is at work. It stays where it is (in registers, or the first lines of the L1) from
// move to move; only what is needed again later is kept.
struct ChainMove {
  enum Kind { take, keep, apply, put } kind = take;  // group = a; kept[a] = group; group = op(group, b, c); a = group
  ChainSource a = {}, b = {}, c = {};
  ChainOp op = ChainOp::add;
  int repeat = 1;
};

struct ChainCode {
  int axes = 0;  // at least 2 where there are elements; the last is walked in blocks, the one before in rows
  std::array<std::int64_t, most_axes> extents{};
  std::vector<ChainAccess> tensors;
  std::vector<ChainMove> moves;
  std::vector<float> constants;
  int kept = 0;                                 // groups at once
  std::int64_t rows = 1, columns = most_block;  // of a block: several rows only where they are short
  bool stream = false;                          // stores go past the caches
  std::int64_t elements = 0;

  std::int64_t blocks() const;  // how many cover the index space
};

int operands(ChainOp op);  // values that a step takes: 0 … 3

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
void run_chain(const ChainCode& code, std::span<void* const> tensors);  // all of it, on this thread
// body.cc, compiled once for each instruction set.
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
