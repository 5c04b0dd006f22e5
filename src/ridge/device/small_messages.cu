#include "ridge/device/small_messages.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "ridge/base/dtype_set.h"
#include "ridge/device/cuda_status.h"

namespace ridge::device {
namespace {

constexpr int threads = 256;
constexpr std::int64_t vector_bytes = sizeof(uint4);

struct ExchangeCall {
  SmallBufferLayout buffer;
  SmallMessage message;
  std::int64_t vectors = 0, vectors_per_block = 0;  // 16-byte vectors, in total and per block.
};

__device__ CallCount* call_counts_of(const ExchangeCall& call, int rank) {
  return reinterpret_cast<CallCount*>(call.message.buffers[rank] + call.buffer.data_bytes());
}
__device__ uint4* slot_address(const ExchangeCall& call, int rank, int from, CallCount call_number) {
  const std::int64_t half = call_number % 2 * call.buffer.ranks;
  return reinterpret_cast<uint4*>(call.message.buffers[rank] + (half + from) * call.buffer.slot_bytes);
}

__device__ float to_wide(float x) { return x; }
__device__ float to_wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float to_wide(__half x) { return __half2float(x); }
__device__ std::int32_t to_wide(std::int32_t x) { return x; }
template <class T> struct DeviceElement { using type = T; };
template <> struct DeviceElement<Bf16> { using type = __nv_bfloat16; };
template <> struct DeviceElement<F16> { using type = __half; };
template <class T, class SumType> __device__ T to_narrow(SumType x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(x);
  else
    return x;
}

template <class T> __device__ uint4 sum_over_ranks(const ExchangeCall& call, const uint4* own_values, std::int64_t v,
                                                   CallCount call_number) {
  constexpr int lanes = vector_bytes / sizeof(T);
  using SumType = decltype(to_wide(T{}));
  SumType sums[lanes];
  for (int r = 0; r < call.buffer.ranks; ++r) {
    const uint4* const from =
        r == call.message.rank ? own_values : slot_address(call, call.message.rank, r, call_number);
    const uint4 bits = from[v];
    const T* const values = reinterpret_cast<const T*>(&bits);
    for (int i = 0; i < lanes; ++i) sums[i] = r == 0 ? to_wide(values[i]) : sums[i] + to_wide(values[i]);
  }
  uint4 out;
  for (int i = 0; i < lanes; ++i) reinterpret_cast<T*>(&out)[i] = to_narrow<T>(sums[i]);
  return out;
}

// Every call raises all counts, whatever its number of blocks, so the half of the buffers that it writes depends only
// on the number of the call. A rank whose count has arrived has finished its previous call.
template <class T, bool sums> __global__ void __launch_bounds__(threads) exchange_kernel(ExchangeCall call) {
  __shared__ CallCount call_number;
  const unsigned count_index = blockIdx.x + threadIdx.x * gridDim.x;
  if (count_index < max_small_blocks) {
    const CallCount now = ++call.message.call_counts[count_index];
    if (threadIdx.x == 0) call_number = now;
  }
  __syncthreads();
  const std::int64_t begin = blockIdx.x * call.vectors_per_block,
                     end = min(call.vectors, begin + call.vectors_per_block);
  const auto outgoing = [&](int to) {
    return reinterpret_cast<const uint4*>(call.message.from + to * call.message.stride_bytes);
  };
  const int me = call.message.rank, ranks = call.buffer.ranks;
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks;
    for (std::int64_t v = begin + threadIdx.x; v < end; v += threads)
      slot_address(call, to, me, call_number)[v] = outgoing(to)[v];
  }
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < ranks && other != me) {
    __threadfence_system();
    CallCount* const peer_count = call_counts_of(call, other) + me * max_small_blocks + blockIdx.x;
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(peer_count), "r"(call_number) : "memory");
    const CallCount* const arrived_count = call_counts_of(call, me) + other * max_small_blocks + blockIdx.x;
    CallCount seen = 0;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived_count) : "memory");
    } while (static_cast<std::int32_t>(seen - call_number) < 0);
  }
  __syncthreads();
  if constexpr (sums) {
    for (std::int64_t v = begin + threadIdx.x; v < end; v += threads)
      reinterpret_cast<uint4*>(call.message.to)[v] = sum_over_ranks<T>(call, outgoing(me), v, call_number);
  } else {
    for (int r = 0; r < ranks; ++r) {
      const uint4* const from = r == me ? outgoing(me) : slot_address(call, me, r, call_number);
      auto* const to = reinterpret_cast<uint4*>(call.message.to + r * call.message.bytes);
      for (std::int64_t v = begin + threadIdx.x; v < end; v += threads) to[v] = from[v];
    }
  }
}

}  // namespace

std::int64_t SmallBufferLayout::bytes() const {
  return data_bytes() + static_cast<std::int64_t>(sizeof(CallCount)) * ranks * max_small_blocks;
}

Status queue_small_collective(const Queue& queue, const SmallBufferLayout& buffer, const SmallMessage& message) {
  ExchangeCall call{buffer, message};
  call.vectors = (message.bytes + vector_bytes - 1) / vector_bytes;
  if (call.vectors == 0) return Done{};
  if (call.vectors * vector_bytes > buffer.slot_bytes || buffer.ranks > max_small_ranks)
    return input_error("a message exceeds its buffer's capacity, or the number of ranks exceeds the maximum");
  const std::int64_t useful_blocks = (call.vectors + threads - 1) / threads;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(useful_blocks, max_small_blocks));
  call.vectors_per_block = (call.vectors + blocks - 1) / blocks;
  if (!message.is_sum)
    exchange_kernel<float, false><<<blocks, threads, 0, queue.stream()>>>(call);
  else if (!ReducedDTypes::dispatch(message.dtype, [&]<class T>() {
             exchange_kernel<typename DeviceElement<T>::type, true><<<blocks, threads, 0, queue.stream()>>>(call);
           }))
    return dtype_error<ReducedDTypes>("a sum over ranks", message.dtype);
  return to_status(cudaGetLastError(), "a small message");
}

}  // namespace ridge::device
