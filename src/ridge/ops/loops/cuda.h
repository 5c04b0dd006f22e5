// Runs the loops of problem.h on a CUDA device, queued on the caller's stream. Results are those of cpu.h: scatters add
// in f32 in the order of the indices, running sums add in f64. Only means of windows and rotations may differ, by their
// rounding. Nothing here allocates or waits. Data pointers are device memory aligned to their elements. Indices are not
// checked on the host: one that is out of range gathers zeros, a scatter
// skips it, and the result of a routed product is 0.
#pragma once

#include <cstddef>
#include <span>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/device/workspace.h"
#include "ridge/ops/loops/problem.h"

struct CUstream_st;

namespace ridge::ops::cuda {

// Returns why the problem cannot run. Needs no device.
Reason unsupported_reason(const GatherScatterLoops& indexed);
Reason unsupported_reason(const RunningSumLoops& running);
Reason unsupported_reason(const TopKLoops& top);
Reason unsupported_reason(const PoolLoops& pool);
Reason unsupported_reason(const RotaryLoops& rotary);
Reason unsupported_reason(const RoutedProductLoops& routed);
Reason unsupported_reason(const QuantizeLoops& quantize);
Reason unsupported_reason(const DequantizeLoops& dequantize);
Reason unsupported_reason(const ConvLoops& conv);
Reason unsupported_reason(const FoldLoops& fold);
Reason unsupported_reason(const RecurrenceLoops& scan);  // For example without NVRTC

// Returns the bytes of workspace that a launch needs.
std::size_t workspace_bytes(const GatherScatterLoops& indexed);
std::size_t workspace_bytes(const RunningSumLoops& running);
std::size_t workspace_bytes(const TopKLoops& top);

// The tensors of `data` are those of cpu.h, except that a scatter needs no scratch. The problem must be supported, and
// the workspace's counters stay zero. Errors: the launch fails.
Status run_loops(const GatherScatterLoops& indexed, std::span<void* const> data,
                 const device::DeviceWorkspace& workspace, CUstream_st* stream);
Status run_loops(const RunningSumLoops& running, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                 CUstream_st* stream);
Status run_loops(const TopKLoops& top, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                 CUstream_st* stream);
Status run_loops(const PoolLoops& pool, std::span<void* const> data, CUstream_st* stream);
Status run_loops(const RotaryLoops& rotary, std::span<void* const> data, CUstream_st* stream);
Status run_loops(const RoutedProductLoops& routed, std::span<void* const> data, CUstream_st* stream);
Status run_loops(const QuantizeLoops& quantize, std::span<void* const> data, CUstream_st* stream);
Status run_loops(const DequantizeLoops& dequantize, std::span<void* const> data, CUstream_st* stream);
Status run_loops(const ConvLoops& conv, std::span<void* const> data, CUstream_st* stream);
Status run_loops(const FoldLoops& fold, std::span<void* const> data, CUstream_st* stream);
Status run_loops(const RecurrenceLoops& scan, std::span<void* const> data, CUstream_st* stream);

}  // namespace ridge::ops::cuda
