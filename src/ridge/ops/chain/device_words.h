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

// Zeros where nothing is there; no branch, so that many are on their way at once.
template <int bytes, Use use> RIDGE_FN void read_piece(u32* to, const void* from, bool there = true) {
  const u64 place = __cvta_generic_to_global(from);
  const u32 asked = there;
  if constexpr (bytes == 16 && use == Use::streamed)
    asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        " @p ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(place), "r"(asked));
  else if constexpr (bytes == 16)
    asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        " @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(place), "r"(asked));
  else if constexpr (bytes == 8)
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%2]; }"
        : "=&r"(to[0]), "=&r"(to[1])
        : "l"(place), "r"(asked));
  else
    asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.global.nc.u32 %0, [%1]; }"
        : "=&r"(to[0])
        : "l"(place), "r"(asked));
}
RIDGE_FN u16 read_half(const void* from, bool there) {
  u16 x;
  asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u16 %0, 0; @p ld.global.nc.u16 %0, [%1]; }"
      : "=&h"(x)
      : "l"(__cvta_generic_to_global(from)), "r"(static_cast<u32>(there)));
  return x;
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

template <Form form> RIDGE_FN float read_one(const char* data, i64 at, bool there = true) {
  u32 word;
  if constexpr (form == Form::f32)
    read_piece<4, Use::kept>(&word, data + at * 4, there);
  else
    word = read_half(data + at * 2, there);
  return unpacked<form>(&word, 0);
}
template <Form form> RIDGE_FN void write_one(char* data, i64 at, float x) {
  if constexpr (form == Form::f32)
    reinterpret_cast<float*>(data)[at] = x;
  else
    reinterpret_cast<u16*>(data)[at] = rounded<form>(x);
}

// W neighbours from element `at` on, whose places are multiples of `together` elements; all or none of them are there.
template <Form form, int W, int together, Use use>
RIDGE_FN Pack<form, W> read(const char* data, i64 at, bool there = true) {
  Pack<form, W> x;
  constexpr int bytes = together * size_of<form>;
  if constexpr (bytes >= 4) {
#pragma unroll
    for (int i = 0; i < W / together; ++i)
      read_piece<bytes, use>(x.word + i * (bytes / 4), data + (at + i * together) * size_of<form>, there);
  } else {
#pragma unroll
    for (int i = 0; i < Pack<form, W>::words; ++i) {
      x.word[i] = read_half(data + (at + 2 * i) * 2, there);
      if (2 * i + 1 < W) x.word[i] |= static_cast<u32>(read_half(data + (at + 2 * i + 1) * 2, there)) << 16;
    }
  }
  return x;
}
// The first `count` of them are there, which may be none (or less) or more than W; the others come out as 0. A count
// that is held within 0 … W must not be compared with W: ptxas of CUDA 13.0 takes the answer from the instruction that
// holds it there (VIMNMX.RELU), and takes it wrong.
template <Form form, int W, int together, Use use, class Count>
RIDGE_FN Pack<form, W> read_some(const char* data, i64 at, Count count) {
  Pack<form, W> x = read<form, W, together, use>(data, at, count >= W);
  const Count some = count >= W ? 0 : count;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const char* const place = data + (at + i) * size_of<form>;
    if constexpr (form == Form::f32) {
      u32 one;
      read_piece<4, Use::kept>(&one, place, i < some);
      x.word[i] |= one;
    } else {
      x.word[i / 2] |= static_cast<u32>(read_half(place, i < some)) << (i % 2 * 16);
    }
  }
  return x;
}
template <Form form, int W, int together, Use use, class Count = int>
RIDGE_FN void write(char* data, i64 at, const float (&x)[W], Count count = W) {
  constexpr int bytes = together * size_of<form>;
  if constexpr (bytes >= 4) {
    if (count >= W) {
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

// What the blocks of a cluster tell each other of a function along their row: every warp sends its number to every
// block, whose barrier counts the bytes. A turn's places are used again two turns later: whoever is a turn ahead has
// heard of it from all warps that may still be reading, and nobody gets two ahead.
template <int warps, int blocks> struct Exchange {
  float partials[2][warps * blocks];
  u64 arrived[2];
};
RIDGE_FN u32 shared_place(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }
RIDGE_FN u32 place_in(u32 block, u32 mine) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(block));
  return there;
}
// cluster_wait() must come before the first of_cluster; loads may stand between.
template <int warps, int blocks, int count> RIDGE_FN void prepare(Exchange<warps, blocks> (&all)[count]) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * count; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_place(&all[i / 2].arrived[i % 2])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_arrive();
}
template <class F, int warps, int blocks> RIDGE_FN float of_cluster(float x, Exchange<warps, blocks>& by, u32 turn) {
  float* const partials = by.partials[turn % 2];
  const u32 arrived = shared_place(&by.arrived[turn % 2]), lane = threadIdx.x % 32;
  x = of_lanes<F, 32>(x);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(warps * blocks * 4)
                 : "memory");
  if (lane < blocks) {
    const u32 mine = shared_place(partials + block_of_cluster() * warps + threadIdx.x / 32);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(place_in(lane, mine)),
        "r"(__float_as_uint(x)), "r"(place_in(lane, arrived))
        : "memory");
  }
  for (u32 done = 0; done == 0;)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(arrived), "r"(turn / 2 % 2)
        : "memory");
  x = lane < warps * blocks ? partials[lane] : __uint_as_float(F::nothing);
#pragma unroll
  for (int i = 32; i < warps * blocks; i += 32)
    if (i + lane < warps * blocks) x = F::of(x, partials[i + lane]);
  return of_lanes<F, 32>(x);
}

}  // namespace ridge::device
