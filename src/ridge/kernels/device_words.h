// What generated kernels are made of (kernels/*_source.cc): numbers as they lie in memory, loads and stores of up to 16
// bytes, places in an index space, and sums over lanes, warps, blocks and clusters. Compiled at run time; no includes.
#pragma once

namespace ridge::device {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

enum class Form { f32, bf16, f16 };
template <Form form> constexpr int size_of = form == Form::f32 ? 4 : 2;

// As many as lie in the words.
template <Form form> RIDGE_FN float unpacked(const u32* words, int i) {
  if constexpr (form == Form::f32) return __uint_as_float(words[i]);
  const u32 word = words[i / 2];
  if constexpr (form == Form::bf16) return __uint_as_float(i % 2 == 1 ? word & 0xffff0000u : word << 16);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<u16>(i % 2 == 1 ? word >> 16 : word)));
  return x;
}
template <Form form> RIDGE_FN u16 rounded(float x) {
  u16 bits;
  if constexpr (form == Form::bf16)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
template <Form form> RIDGE_FN u32 rounded(float low, float high) {
  u32 bits;
  if constexpr (form == Form::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// `W` neighbours.
template <Form form, int W> struct Pack {
  static constexpr int words = (W * size_of<form> + 3) / 4;
  u32 word[words];
  RIDGE_FN float operator[](int i) const { return unpacked<form>(word, i); }
};

// How memory is asked: `streamed` is not kept in the caches; what is read must not change while the kernel runs.
enum class Use { kept, streamed };

template <int bytes, Use use> RIDGE_FN void read_piece(u32* to, const void* from) {
  if constexpr (bytes == 16) {
    const uint4* const p = static_cast<const uint4*>(from);
    const uint4 x = use == Use::streamed ? __ldcs(p) : __ldg(p);
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  } else if constexpr (bytes == 8) {
    const uint2* const p = static_cast<const uint2*>(from);
    const uint2 x = use == Use::streamed ? __ldcs(p) : __ldg(p);
    to[0] = x.x, to[1] = x.y;
  } else {
    const u32* const p = static_cast<const u32*>(from);
    to[0] = use == Use::streamed ? __ldcs(p) : __ldg(p);
  }
}
template <int bytes, Use use> RIDGE_FN void write_piece(void* to, const u32* from) {
  if constexpr (bytes == 16) {
    const uint4 x = make_uint4(from[0], from[1], from[2], from[3]);
    if (use == Use::streamed)
      __stcs(static_cast<uint4*>(to), x);
    else
      *static_cast<uint4*>(to) = x;
  } else if constexpr (bytes == 8) {
    const uint2 x = make_uint2(from[0], from[1]);
    if (use == Use::streamed)
      __stcs(static_cast<uint2*>(to), x);
    else
      *static_cast<uint2*>(to) = x;
  } else {
    if (use == Use::streamed)
      __stcs(static_cast<u32*>(to), from[0]);
    else
      *static_cast<u32*>(to) = from[0];
  }
}

template <Form form> RIDGE_FN float read_one(const char* data, i64 at) {
  if constexpr (form == Form::f32) return __ldg(reinterpret_cast<const float*>(data) + at);
  const u32 word = __ldg(reinterpret_cast<const u16*>(data) + at);
  return unpacked<form>(&word, 0);
}
template <Form form> RIDGE_FN void write_one(char* data, i64 at, float x) {
  if constexpr (form == Form::f32)
    reinterpret_cast<float*>(data)[at] = x;
  else
    reinterpret_cast<u16*>(data)[at] = rounded<form>(x);
}

// W neighbours from element `at` on, whose places are multiples of `together` elements; the first `count` of them
// exist, the others come out as 0.
template <Form form, int W, int together, Use use>
RIDGE_FN Pack<form, W> read(const char* data, i64 at, int count = W) {
  Pack<form, W> x;
  constexpr int bytes = together * size_of<form>;
  if constexpr (bytes >= 4) {
    if (count == W) {
#pragma unroll
      for (int i = 0; i < W / together; ++i)
        read_piece<bytes, use>(x.word + i * (bytes / 4), data + (at + i * together) * size_of<form>);
      return x;
    }
  }
#pragma unroll
  for (int i = 0; i < Pack<form, W>::words; ++i) x.word[i] = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    if (i >= count) continue;
    if constexpr (form == Form::f32)
      x.word[i] = __ldg(reinterpret_cast<const u32*>(data) + at + i);
    else
      x.word[i / 2] |= static_cast<u32>(__ldg(reinterpret_cast<const u16*>(data) + at + i)) << (i % 2 * 16);
  }
  return x;
}
template <Form form, int W, int together, Use use>
RIDGE_FN void write(char* data, i64 at, const float (&x)[W], int count = W) {
  constexpr int bytes = together * size_of<form>;
  if constexpr (bytes >= 4) {
    if (count == W) {
      u32 word[Pack<form, W>::words];
#pragma unroll
      for (int i = 0; i < Pack<form, W>::words; ++i)
        if constexpr (form == Form::f32)
          word[i] = __float_as_uint(x[i]);
        else
          word[i] = rounded<form>(x[i * 2], x[i * 2 + 1]);
#pragma unroll
      for (int i = 0; i < W / together; ++i)
        write_piece<bytes, use>(data + (at + i * together) * size_of<form>, word + i * (bytes / 4));
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i)
    if (i < count) write_one<form>(data, at + i, x[i]);
}

// n / d for n < 2^31: one wide multiply and a shift, both made on the host (generated.cc: divisor). Beyond, `by` is d.
RIDGE_FN u32 divided(u32 n, u64 by) {
  return static_cast<u32>((static_cast<u64>(n) * static_cast<u32>(by)) >> static_cast<u32>(by >> 32));
}
RIDGE_FN u64 divided(u64 n, u64 by) { return n / by; }

// Functions along a row: of the elements that a lane holds, of the lanes of a warp, of the warps of a block, of the
// blocks of a cluster. Always in the same order.
struct Sum {
  static constexpr u32 nothing = 0;
  RIDGE_FN static float of(float a, float b) { return a + b; }
};
struct Most {
  static constexpr u32 nothing = 0xff800000u;
  RIDGE_FN static float of(float a, float b) { return max(a, b); }
};
struct Least {
  static constexpr u32 nothing = 0x7f800000u;
  RIDGE_FN static float of(float a, float b) { return min(a, b); }
};

template <class F, int n, int count> RIDGE_FN float folded(float (&x)[count]) {
  if constexpr (n > 1) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) x[i] = F::of(x[i], x[n - 1 - i]);
    return folded<F, (n + 1) / 2>(x);
  } else {
    return x[0];
  }
}
template <class F, int count> RIDGE_FN float of_elements(float (&x)[count]) { return folded<F, count>(x); }
template <class F, int lanes> RIDGE_FN float of_lanes(float x) {
#pragma unroll
  for (int other = lanes / 2; other > 0; other /= 2) x = F::of(x, __shfl_xor_sync(0xffffffffu, x, other));
  return x;
}
// `place`: room for a float a warp that nothing else uses.
template <class F, int warps> RIDGE_FN float of_block(float x, float* place) {
  x = of_lanes<F, 32>(x);
  if (threadIdx.x % 32 == 0) place[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < warps ? place[threadIdx.x % 32] : __uint_as_float(F::nothing);
  return of_lanes<F, 32>(x);
}
RIDGE_FN u32 block_of_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
RIDGE_FN void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
RIDGE_FN void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// `place`: room for a float a warp, and behind them for one a block of the cluster.
template <class F, int warps, int blocks> RIDGE_FN float of_cluster(float x, float* place) {
  x = of_block<F, warps>(x, place);
  if (threadIdx.x < blocks) {
    const u32 mine = static_cast<u32>(__cvta_generic_to_shared(place + warps + block_of_cluster()));
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(threadIdx.x));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(x) : "memory");
  }
  cluster_arrive();
  cluster_wait();
  x = place[warps];
#pragma unroll
  for (int i = 1; i < blocks; ++i) x = F::of(x, place[warps + i]);
  return x;
}

}  // namespace ridge::device
