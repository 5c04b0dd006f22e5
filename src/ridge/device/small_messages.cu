#include "ridge/device/small_messages.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "ridge/device/cuda_status.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t vector_bytes = sizeof(uint4);

struct Call {
  SmallRoom room;
  SmallMessage message;
  std::int64_t vectors = 0, each = 0;  // 16-byte vectors, in total and per block.
};

__device__ Count* counts_of(const Call& call, int rank) {
  return reinterpret_cast<Count*>(call.message.rooms[static_cast<std::size_t>(rank)] + call.room.data_bytes());
}
__device__ uint4* place_of(const Call& call, int rank, int from, Count number) {
  const std::int64_t half = number % 2 * call.room.ranks;
  return reinterpret_cast<uint4*>(call.message.rooms[static_cast<std::size_t>(rank)] +
                                  (half + from) * call.room.capacity);
}

__device__ float widened(float x) { return x; }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float widened(__half x) { return __half2float(x); }
__device__ std::int32_t widened(std::int32_t x) { return x; }
template <class T, class Wide> __device__ T narrowed(Wide x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(x);
  else
    return x;
}

template <class T> __device__ uint4 sum_of(const Call& call, const uint4* own, std::int64_t v, Count number) {
  constexpr int lanes = vector_bytes / sizeof(T);
  using Wide = decltype(widened(T{}));
  Wide sums[lanes];
  for (int r = 0; r < call.room.ranks; ++r) {
    const uint4* const from = r == call.message.rank ? own : place_of(call, call.message.rank, r, number);
    const uint4 bits = from[v];
    const T* const values = reinterpret_cast<const T*>(&bits);
    for (int i = 0; i < lanes; ++i) sums[i] = r == 0 ? widened(values[i]) : sums[i] + widened(values[i]);
  }
  uint4 out;
  for (int i = 0; i < lanes; ++i) reinterpret_cast<T*>(&out)[i] = narrowed<T>(sums[i]);
  return out;
}

// Every call raises all counts, whatever its number of blocks, so the half of the buffers that it writes depends only
// on the number of the call. A rank whose count has arrived has finished its previous call.
template <class T, bool sums> __global__ void __launch_bounds__(threads) exchange(Call call) {
  __shared__ Count number;
  const unsigned counted = blockIdx.x + threadIdx.x * gridDim.x;
  if (counted < small_blocks) {
    const Count now = ++call.message.calls[counted];
    if (threadIdx.x == 0) number = now;
  }
  __syncthreads();
  const std::int64_t begin = blockIdx.x * call.each, end = min(call.vectors, begin + call.each);
  const auto own = [&](int to) { return reinterpret_cast<const uint4*>(call.message.from + to * call.message.apart); };
  const int me = call.message.rank, ranks = call.room.ranks;
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks;
    for (std::int64_t v = begin + threadIdx.x; v < end; v += threads) place_of(call, to, me, number)[v] = own(to)[v];
  }
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < ranks && other != me) {
    __threadfence_system();
    Count* const theirs = counts_of(call, other) + me * small_blocks + blockIdx.x;
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(number) : "memory");
    const Count* const here = counts_of(call, me) + other * small_blocks + blockIdx.x;
    Count seen = 0;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(here) : "memory");
    } while (static_cast<std::int32_t>(seen - number) < 0);
  }
  __syncthreads();
  if constexpr (sums) {
    for (std::int64_t v = begin + threadIdx.x; v < end; v += threads)
      reinterpret_cast<uint4*>(call.message.to)[v] = sum_of<T>(call, own(me), v, number);
  } else {
    for (int r = 0; r < ranks; ++r) {
      const uint4* const from = r == me ? own(me) : place_of(call, me, r, number);
      auto* const to = reinterpret_cast<uint4*>(call.message.to + r * call.message.bytes);
      for (std::int64_t v = begin + threadIdx.x; v < end; v += threads) to[v] = from[v];
    }
  }
}

}  // namespace

std::int64_t SmallRoom::bytes() const {
  return data_bytes() + static_cast<std::int64_t>(sizeof(Count)) * ranks * small_blocks;
}

Status send_small(const Queue& queue, const SmallRoom& room, const SmallMessage& message) {
  Call call{room, message};
  call.vectors = (message.bytes + vector_bytes - 1) / vector_bytes;
  if (call.vectors == 0) return Done{};
  if (call.vectors * vector_bytes > room.capacity || room.ranks > most_small_ranks)
    return input_error("a message exceeds its buffer's capacity, or the number of ranks exceeds the maximum");
  const std::int64_t wanted = (call.vectors + threads - 1) / threads;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(wanted, small_blocks));
  call.each = (call.vectors + blocks - 1) / blocks;
  if (!message.sums)
    exchange<float, false><<<blocks, threads, 0, queue.stream()>>>(call);
  else if (message.dtype == DType::f32)
    exchange<float, true><<<blocks, threads, 0, queue.stream()>>>(call);
  else if (message.dtype == DType::bf16)
    exchange<__nv_bfloat16, true><<<blocks, threads, 0, queue.stream()>>>(call);
  else if (message.dtype == DType::f16)
    exchange<__half, true><<<blocks, threads, 0, queue.stream()>>>(call);
  else
    exchange<std::int32_t, true><<<blocks, threads, 0, queue.stream()>>>(call);
  return done(cudaGetLastError(), "a small message");
}

}  // namespace ridge::ops::cuda
