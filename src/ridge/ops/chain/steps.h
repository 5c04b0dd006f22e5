// Threaded code for a chain's moves: each step is a function that processes one group of vectors and tail-calls the
// next step. The group is passed in eight vector registers and never stored, and the jumps are well predicted (Zen 3,
// affine chain of f32 in the L1: 1.3 ns per vector of 8; dispatch by comparisons took 1.8). Included by one file for
// each instruction set.
#pragma once

#include <type_traits>
#include <utility>

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/function/vector_math.h"
#include "ridge/ops/function/vector_math_storage.h"

namespace ridge::ops {
namespace {

// Format of an operand. `halves` is bf16 with even and odd elements in separate vectors; all of a chain's tensors must
// then have this format.
enum class Form { number, f32, bf16, f16, halves };
struct Operand {  // The group at element i of the block is at data + i * column_stride (bytes).
  Form form = Form::f32;
  // Prefetches of later groups are interleaved with the loads. Issuing all of a group's prefetches before its first
  // step cost a sixth of the time (Emerald Rapids, fraction of the lower roof with interleaving: gelu of f32 0.79 ->
  // 0.87, cosines 0.81 -> 1.0, affine of bf16 0.88 -> 0.92).
  bool from_memory = false;
  float number = 0;
  int tensor = -1;  // If >= 0, `data` and `column_stride` are set per block.
  std::int64_t across = 0;
  char* data = nullptr;
};

template <class V> constexpr int parts = 8;  // Fits in the registers of every instruction set.
template <class V> constexpr std::int64_t group_size = parts<V>* V::lanes;
template <class V, std::size_t> using Part = V;

template <class Do> constexpr bool ends = requires { Do::last; };

// True if the compiler turns a call at the end of a function into a jump; else each step would keep its caller's stack
// frame. Compilers define no macro for it, so CMakeLists.txt defines RIDGE_CALLS_JUMP if it optimizes.
#ifdef RIDGE_CALLS_JUMP
constexpr bool calls_jump = true;
#else
constexpr bool calls_jump = false;
#endif

template <class V, class = std::make_index_sequence<parts<V>>> struct Step;
template <class V, std::size_t... k> struct Step<V, std::index_sequence<k...>> {
  // Native vectors (`has_halves`) are passed in registers. Plain arrays stay in memory: a loop calls the steps, each of
  // which returns true if another follows.
  static constexpr bool jumps = V::has_halves && calls_jump;
  using Run = std::conditional_t<jumps, void (*)(const Step*, std::int64_t, Part<V, k>...),
                                 bool (*)(const Step*, std::int64_t, V*)>;
  Run run = &Step::end;
  Operand a = {}, b = {};  // Second and third operand; load and store use a.
  int repeat = 1;          // Applications of a unary function.

  template <class Do> static Run of() { return &Step::step<Do>; }
  static void start(const Step* first, std::int64_t i) {
    const V none = lit<V>(0);
    V group[] = {(static_cast<void>(k), none)...};
    if constexpr (jumps)
      first->run(first, i, (static_cast<void>(k), none)...);
    else
      while (first->run(first, i, group)) ++first;
  }

 private:
  template <class Do> static void step(const Step* at, std::int64_t i, Part<V, k>... each) {
    V group[] = {each...};
    Do::on(*at, i, group);
    if constexpr (!ends<Do>) return at[1].run(at + 1, i, group[k]...);
  }
  template <class Do> static bool step(const Step* at, std::int64_t i, V* group) {
    Do::on(*at, i, group);
    return !ends<Do>;
  }
  static void end(const Step*, std::int64_t, Part<V, k>...) {}
  static bool end(const Step*, std::int64_t, V*) { return false; }
};

// Reads two adjacent vectors of an operand, `at` elements into the group.
struct Number {
  template <class V>
  [[gnu::always_inline]] static void read(const Operand& from, std::int64_t, std::int64_t, V& a, V& b) {
    a = b = lit<V>(from.number);
  }
};
template <class T, bool halves, bool from_memory> struct Lying {
  static constexpr bool in_halves = halves;
  static T* first(const Operand& x, std::int64_t i) { return reinterpret_cast<T*>(x.data + i * x.across); }
  template <class V>
  [[gnu::always_inline]] static void read(const Operand& from, std::int64_t i, std::int64_t at, V& a, V& b) {
    const T* const here = first(from, i) + at;
    if constexpr (from_memory)
      if (at * sizeof(T) % 64 == 0) prefetch_line<PrefetchFor<T>, 2 * V::lanes>(here);
    if constexpr (halves)
      V::load_halves(here, a, b);
    else {
      a = V::load(here);
      b = V::load(here + V::lanes);
    }
  }
};
template <class V, bool from_memory, class F> [[gnu::always_inline]] inline auto with_lying(Form form, F f) {
  if constexpr (V::has_halves)
    if (form == Form::halves) return f(Lying<Bf16, true, from_memory>{});
  if (form == Form::bf16) return f(Lying<Bf16, false, from_memory>{});
  if (form == Form::f16) return f(Lying<F16, false, from_memory>{});
  return f(Lying<float, false, from_memory>{});
}
template <class V, class F> [[gnu::always_inline]] inline auto with_form(const Operand& x, F f) {
  if (x.form == Form::number) return f(Number{});
  return x.from_memory ? with_lying<V, true>(x.form, f) : with_lying<V, false>(x.form, f);
}

template <class V, class F> [[gnu::always_inline]] inline void every_two(F f) {
#pragma GCC unroll 4
  for (int k = 0; k < parts<V>; k += 2) f(k);
}
template <class V, class From> [[gnu::always_inline]] inline void fill(const Operand& from, std::int64_t i, V* to) {
  every_two<V>([&](int k) __attribute__((always_inline)) { From::read(from, i, k * V::lanes, to[k], to[k + 1]); });
}

template <class V, class From> struct Take {
  [[gnu::always_inline]] static void on(const Step<V>& step, std::int64_t i, V* group) {
    fill<V, From>(step.a, i, group);
    if constexpr (V::has_halves)  // gcc 12 would also spill vectors that were only loaded.
      for (int k = 0; k < parts<V>; ++k) asm("" : "+v"(group[k].v));
  }
};
template <class V, class To, bool past_caches> struct Put {
  [[gnu::always_inline]] static void on(const Step<V>& step, std::int64_t i, V* group) {
    auto* const to = To::first(step.a, i);
    every_two<V>([&](int k) __attribute__((always_inline)) {
      store_two<V, To::in_halves>({group[k], group[k + 1]}, to + k * V::lanes, past_caches);
    });
  }
};
// The last step need not preserve the group, so rounding to bf16 can reuse its registers.
template <class V, class To, bool past_caches> struct PutLast : Put<V, To, past_caches> {
  static constexpr bool last = true;
};
template <class V, class From, class F> struct Join {
  [[gnu::always_inline]] static void on(const Step<V>& step, std::int64_t i, V* group) {
    every_two<V>([&](int k) __attribute__((always_inline)) {
      V a, b;
      From::read(step.a, i, k * V::lanes, a, b);
      group[k] = F{}(group[k], a);
      group[k + 1] = F{}(group[k + 1], b);
    });
  }
};
template <class V, class F> struct Three {
  [[gnu::always_inline]] static void on(const Step<V>& step, std::int64_t i, V* group) {
    V a[parts<V>], b[parts<V>];
    with_form<V>(
        step.a, [&](auto from) __attribute__((always_inline)) { fill<V, decltype(from)>(step.a, i, a); });
    with_form<V>(
        step.b, [&](auto from) __attribute__((always_inline)) { fill<V, decltype(from)>(step.b, i, b); });
    for (int k = 0; k < parts<V>; ++k) group[k] = F{}(group[k], a[k], b[k]);
  }
};
template <class V, class F> struct Once {
  [[gnu::always_inline]] static void on(const Step<V>&, std::int64_t, V* group) {
    for (int k = 0; k < parts<V>; ++k) group[k] = F{}(group[k]);
  }
};
template <class V, class F> struct Often {  // For functions of many instructions.
  [[gnu::always_inline]] static void on(const Step<V>& step, std::int64_t, V* group) {
    constexpr int together = 4;  // Independent vectors hide the latency of one.
#pragma GCC unroll 1
    for (int k = 0; k < parts<V>; k += together) {
      V x[together];
      for (int j = 0; j < together; ++j) x[j] = group[k + j];
      for (int times = 0; times < step.repeat; ++times)
        for (V& each : x) each = F{}(each);
      for (int j = 0; j < together; ++j) group[k + j] = x[j];
    }
  }
};

template <class V, bool past_caches> typename Step<V>::Run put_to(Form form, bool last) {
  return with_lying<V, false>(form, [&](auto to) {
    return last ? Step<V>::template of<PutLast<V, decltype(to), past_caches>>()
                : Step<V>::template of<Put<V, decltype(to), past_caches>>();
  });
}
template <class V, class F> typename Step<V>::Run join_with(const Operand& x, F) {
  return with_form<V>(x, [](auto from) { return Step<V>::template of<Join<V, decltype(from), F>>(); });
}
template <class V> typename Step<V>::Run take_from(const Operand& x) {
  return with_form<V>(x, [](auto from) { return Step<V>::template of<Take<V, decltype(from)>>(); });
}
template <class V, class F> typename Step<V>::Run once(F) { return Step<V>::template of<Once<V, F>>(); }
template <class V, class F> typename Step<V>::Run often(F) { return Step<V>::template of<Often<V, F>>(); }

template <class V, Function f> struct Body {
  template <class... X> [[gnu::always_inline]] V operator()(X... x) const { return at(Of<f>{}, x...); }
};
template <class V> typename Step<V>::Run apply(ChainOp op, const Operand& second) {
  return with_function(op, [&]<Function f>(Of<f>) -> typename Step<V>::Run {
    constexpr FunctionRow r = row(f);
    if constexpr (!is_elementwise(r))
      return nullptr;
    else if constexpr (r.arity == 3)
      return Step<V>::template of<Three<V, Body<V, f>>>();
    else if constexpr (r.arity == 2)
      return join_with<V>(second, Body<V, f>{});
    else if constexpr (r.again_is_same || f == Function::negate)  // lower.cc drops an even number of negations
      return once<V>(Body<V, f>{});
    else
      return often<V>(Body<V, f>{});
  });
}

}  // namespace
}  // namespace ridge::ops
