// Predicts the time that an epilogue adds to a product on Hopper. A warpgroup processes 64 x 16 sums in a step: it
// moves them through shared memory and reads the operands from the L2 (tile/sm90/epilogue.h). Few warps run, so a
// step's time is mostly latency, and the steps of a warpgroup add up. In pingpong tiles one warpgroup multiplies while
// the other one applies the epilogue, which hides a part of the shorter of the two.
//
//   4096 x 4096 x 64 and a bias: four tiles of 128 x 256 per block, 64 steps of each of two warpgroups, 22 us at 1.8
//   GHz
//
// The constants are those of kernels.csv with `epilogue` in their name, fitted to data/timings/fused.
#pragma once

#include "ridge/ops/model.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

// Returns the bytes of all epilogue operands, each element once.
double epilogue_bytes(const MatmulCall& call);

// Returns the seconds that the call's epilogue adds to the plan. Epilogues without timings only read their operands:
// those that are not vectorized, and those of plans without tiles.
double predict_epilogue_seconds(const MatmulCall& call, const MatmulPlan& plan, const DeviceNumbers& device);

}  // namespace ridge::ops::cuda
