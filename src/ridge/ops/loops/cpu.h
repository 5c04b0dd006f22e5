// Runs the loops of problem.h on the pool's threads. Sums are f64; scatters and recurrences compute in f32.
#pragma once

#include <span>

#include "ridge/ops/loops/problem.h"

namespace ridge::ops {

// `data`: x, w and y.
void run_loops(const ConvLoops& conv, std::span<void* const> data, int threads);
// `data`: values, indices, result, and f32 scratch for a scatter whose result is not f32. All indices must be in range.
void run_loops(const GatherScatterLoops& indexed, std::span<void* const> data, int threads);
// `data`: values and result.
void run_loops(const RunningSumLoops& running, std::span<void* const> data, int threads);
// `data`: values and result.
void run_loops(const TopKLoops& top, std::span<void* const> data, int threads);
// `data`: x and y.
void run_loops(const PoolLoops& pool, std::span<void* const> data, int threads);
// `data`: columns and y.
void run_loops(const FoldLoops& fold, std::span<void* const> data, int threads);
// `data`: values, positions and result.
void run_loops(const RotaryLoops& rotary, std::span<void* const> data, int threads);
// `data`: values, weights, indices and result. All indices must be in range.
void run_loops(const RoutedProductLoops& routed, std::span<void* const> data, int threads);
// `data`: values and result.
void run_loops(const QuantizeLoops& quantize, std::span<void* const> data, int threads);
// `data`: values and result.
void run_loops(const DequantizeLoops& dequantize, std::span<void* const> data, int threads);
// `data`: the operands, the result last.
void run_loops(const RecurrenceLoops& scan, std::span<void* const> data, int threads);

}  // namespace ridge::ops
