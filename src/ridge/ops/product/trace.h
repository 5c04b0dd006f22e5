// What the matmul kernel moves, found by running its text under a schedule without hardware and without data. 4096^3
// bf16 in tiles of 128 x 128 requests 2 * 4096^2 * 32 elements (2.1 GB) for inputs of 67 MB; its sums add 2 * 4096^3
// FLOPs. Under the cpu's schedule, which remembers what it has packed, the same text requests A once.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/ops/fused/problem.h"
#include "ridge/ops/product/call.h"
#include "ridge/pool/isa.h"
#include "ridge/tile/tile_scheduler.h"

namespace ridge::ops {

// One operand, in bytes, level by level; tile/trace/counts.h says what each level is.
struct OperandTraffic {
  std::int64_t asked_bytes = 0;     // by the text, inside the matrix
  std::int64_t global_bytes = 0;    // after sharing between blocks and remembering
  std::int64_t memory_bytes = 0;    // of these, what the cache did not hold
  std::int64_t shared_bytes = 0;    // tiles filled, whole (D: 0)
  std::int64_t register_bytes = 0;  // tiles read by multiplies, whole (D: 0)
  bool operator==(const OperandTraffic&) const = default;
};

struct MatmulTraffic {
  OperandTraffic a, b, d;
  OperandTraffic scale, bias, gate, addend;  // of the epilogue, a broadcast element once for each tile
  std::int64_t flops = 0, issued_flops = 0;  // inside the matrices; of whole tiles
  std::int64_t partial_bytes = 0;            // sums of pieces of k, written and read again
  std::int64_t items = 0, stages = 0;
  std::int64_t global_bytes() const {
    std::int64_t bytes = partial_bytes;
    for (const OperandTraffic* x : {&a, &b, &d, &scale, &bias, &gate, &addend}) bytes += x->global_bytes;
    return bytes;
  }
  bool operator==(const MatmulTraffic&) const = default;
};

// A schedule of whole tiles on persistent blocks, as on Hopper.
struct TileOrder {
  int m = 128, n = 128, k = 64;      // tile, and depth of a stage
  int cluster_m = 1, cluster_n = 1;  // blocks that share what they load; each divides the tile's other extent
  bool swap = false;                 // the tile is one of D transposed
  int splits = 1;                    // of k, at most as many as there are stages
  tile::SplitMode split_mode = tile::SplitMode::split_k;
  int raster_rows = 8;                   // tile rows that walk the columns together
  int blocks = 128;                      // a multiple of cluster_m * cluster_n
  std::int64_t cache_bytes = 0;          // between blocks and memory, least recently used leaves first; 0: none
  const std::int32_t* starts = nullptr;  // of a grouped problem; no clusters then, no exchange and no pieces of k
};

// D = A * B under `order`. Sizes below 2^31, any of them may be 0. Time and no memory in proportion to the number of
// tiles loaded (8192^3: 0.5 million, milliseconds). The dtypes must be among f32, bf16, f16, int8 (int32 sums).
// Nothing is read: an operand of the epilogue is there if its data is not null.
MatmulTraffic trace_tiles(const MatmulProblem& problem, const TileOrder& order, const MatmulEpilogue& epilogue = {});

// The same text under the schedule that matmul() of ops/product/cpu.h follows on a CPU, this one or any other, given so
// many threads (of which a small product takes one). Not refused there.
MatmulTraffic trace_cpu(const MatmulProblem& problem, int threads, const MatmulEpilogue& epilogue = {},
                        const tile::cpu::Cpu& cpu = tile::cpu::this_cpu());

// Of a fused product on a CPU, under the schedule of its kernel. `chain`: what its chain's tensors behind the sums
// move, in their order; what is read once a column of tiles counts once. Not refused there.
struct FusedTraffic {
  OperandTraffic a, b, second;
  std::vector<OperandTraffic> chain;
  std::int64_t flops = 0;
  std::int64_t global_bytes() const {
    std::int64_t bytes = a.global_bytes + b.global_bytes + second.global_bytes;
    for (const OperandTraffic& x : chain) bytes += x.global_bytes;
    return bytes;
  }
};
FusedTraffic trace_cpu(const FusedMatmul& problem, int threads, const tile::cpu::Cpu& cpu = tile::cpu::this_cpu());

}  // namespace ridge::ops
