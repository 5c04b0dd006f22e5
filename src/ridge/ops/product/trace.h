// Counts the bytes that the matmul kernel moves by running its definition under a schedule without hardware or data.
// Example: 4096^3 bf16 in tiles of 128 x 128 requests 2 * 4096^2 * 32 elements (2.1 GB) of inputs of 67 MB. Under the
// schedule of the cpu target, which caches packed panels, the same kernel requests A once.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/ops/fused/problem.h"
#include "ridge/ops/product/call.h"
#include "ridge/pool/isa.h"
#include "ridge/tile/tile_scheduler.h"

namespace ridge::ops {

// Bytes of one operand per memory level (defined in tile/trace/traffic_counts.h).
struct OperandTraffic {
  std::int64_t requested_bytes = 0;  // Requested by the kernel, inside the matrix
  std::int64_t global_bytes = 0;     // After multicast and reuse of packed panels
  std::int64_t memory_bytes = 0;     // The part of `global_bytes` that misses the cache
  std::int64_t shared_bytes = 0;     // Full tiles written to shared memory (0 for D)
  std::int64_t register_bytes = 0;   // Full tiles read by multiplies (0 for D)
  bool operator==(const OperandTraffic&) const = default;
};

struct MatmulTraffic {
  OperandTraffic a, b, d;
  OperandTraffic scale, bias, gate, addend;  // Broadcast elements count once per tile
  std::int64_t flops = 0, issued_flops = 0;  // Inside the matrices; of full tiles
  std::int64_t partial_bytes = 0;            // Partial sums of splits of k, written and read
  std::int64_t items = 0, stages = 0;
  std::int64_t global_bytes() const {
    std::int64_t bytes = partial_bytes;
    for (const OperandTraffic* x : {&a, &b, &d, &scale, &bias, &gate, &addend}) bytes += x->global_bytes;
    return bytes;
  }
  bool operator==(const MatmulTraffic&) const = default;
};

// A schedule of tiles on persistent blocks, as on Hopper.
struct TileScheduleOptions {
  int m = 128, n = 128, k = 64;      // Tile, and depth of a stage
  int cluster_m = 1, cluster_n = 1;  // Blocks that share loads; cluster_m must divide n, cluster_n must divide m
  bool swap = false;                 // True if tiles are those of D transposed
  int splits = 1;                    // Splits of k, at most the number of stages
  tile::SplitMode split_mode = tile::SplitMode::split_k;
  int raster_rows = 8;                   // Rows of tiles per band of the tile scheduler
  int blocks = 128;                      // A multiple of cluster_m * cluster_n
  std::int64_t cache_bytes = 0;          // LRU cache between blocks and memory; 0 disables it
  const std::int32_t* starts = nullptr;  // For grouped problems; excludes clusters, swap and splits
};

// Returns the traffic of D = A * B under the schedule. Sizes are 0 to 2^31 - 1; dtypes are f32, bf16, f16 or int8 (with
// int32 sums). Takes time in proportion to the number of loaded tiles (0.5 million for 8192^3, milliseconds). Reads no
// data: an epilogue operand counts if its pointer is not null.
MatmulTraffic count_tile_traffic(const MatmulProblem& problem, const TileScheduleOptions& schedule,
                                 const MatmulEpilogue& epilogue = {});

// Returns the traffic under the schedule of matmul() (ops/product/cpu.h) on any CPU with `threads` threads; a small
// product uses one thread. Requires a problem that matmul() supports.
MatmulTraffic count_cpu_traffic(const MatmulProblem& problem, int threads, const MatmulEpilogue& epilogue = {},
                                const pool::Cpu& cpu = pool::this_cpu());

// Traffic of a fused product on a CPU. `chain` has the tensors that the fused chain reads or writes, in their order in
// the problem; a tensor that is read once per column of tiles counts once. Requires a problem that the CPU supports.
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
FusedTraffic count_cpu_traffic(const FusedMatmul& problem, int threads, const pool::Cpu& cpu = pool::this_cpu());

}  // namespace ridge::ops
