// Threaded code for a lowered chain: each step is a function that processes one group of vectors and tail-calls the
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

// Format of an operand. `bf16_even_odd` is bf16 with even and odd elements in separate vectors; either all or none of a
// chain's tensors have this format.
enum class OperandForm { constant, f32, bf16, f16, bf16_even_odd };
struct GroupOperand {  // The group at element i of the block is at data + i * column_stride (bytes).
  OperandForm form = OperandForm::f32;
  // True if loads are interleaved with prefetches of later groups. Issuing all of a group's prefetches before its first
  // step cost a sixth of the time (Emerald Rapids, fraction of the roofline after interleaving: gelu of f32 0.79 ->
  // 0.87, cosines 0.81 -> 1.0, affine of bf16 0.88 -> 0.92).
  bool prefetches = false;
  float constant = 0;
  int tensor = -1;  // Index of the tensor, whose `data` and `column_stride` are set for each block, or -1.
  std::int64_t column_stride = 0;
  char* data = nullptr;
};

template <class V> constexpr int vectors_per_group = 8;  // Fits in the registers of every instruction set.
template <class V> constexpr std::int64_t group_size = vectors_per_group<V>* V::lanes;
template <class V, std::size_t> using VectorAt = V;

template <class Do> constexpr bool is_last_step = requires { Do::last; };

// True if the compiler turns calls at the end of a function into jumps; otherwise the stack would grow with each step.
// No compiler macro says so; CMakeLists.txt defines RIDGE_CALLS_JUMP in optimized builds.
#ifdef RIDGE_CALLS_JUMP
constexpr bool has_tail_calls = true;
#else
constexpr bool has_tail_calls = false;
#endif

template <class V, class = std::make_index_sequence<vectors_per_group<V>>> struct GroupStep;
template <class V, std::size_t... k> struct GroupStep<V, std::index_sequence<k...>> {
  // Native vectors (`has_even_odd`) are passed in registers. Plain arrays stay in memory: a loop calls the steps, each
  // of which returns true if another follows.
  static constexpr bool uses_tail_calls = V::has_even_odd && has_tail_calls;
  using StepFunction = std::conditional_t<uses_tail_calls, void (*)(const GroupStep*, std::int64_t, VectorAt<V, k>...),
                                          bool (*)(const GroupStep*, std::int64_t, V*)>;
  StepFunction function = &GroupStep::end;
  GroupOperand a = {}, b = {};  // Second and third operand; load and store use a.
  int repeat = 1;               // Number of applications of a unary function.

  template <class Do> static StepFunction function_for() { return &GroupStep::step<Do>; }
  static void run_steps(const GroupStep* first, std::int64_t i) {
    const V none = broadcast<V>(0);
    V group[] = {(static_cast<void>(k), none)...};
    if constexpr (uses_tail_calls)
      first->function(first, i, (static_cast<void>(k), none)...);
    else
      while (first->function(first, i, group)) ++first;
  }

 private:
  template <class Do> static void step(const GroupStep* at, std::int64_t i, VectorAt<V, k>... each) {
    V group[] = {each...};
    Do::run(*at, i, group);
    if constexpr (!is_last_step<Do>) return at[1].function(at + 1, i, group[k]...);
  }
  template <class Do> static bool step(const GroupStep* at, std::int64_t i, V* group) {
    Do::run(*at, i, group);
    return !is_last_step<Do>;
  }
  static void end(const GroupStep*, std::int64_t, VectorAt<V, k>...) {}
  static bool end(const GroupStep*, std::int64_t, V*) { return false; }
};

// Operand types whose `read` reads the two adjacent vectors that begin `at` elements into the group.
struct ConstantOperand {
  template <class V>
  [[gnu::always_inline]] static void read(const GroupOperand& from, std::int64_t, std::int64_t, V& a, V& b) {
    a = b = broadcast<V>(from.constant);
  }
};
template <class T, bool halves, bool prefetches> struct MemoryOperand {
  static constexpr bool is_even_odd = halves;
  static T* first(const GroupOperand& x, std::int64_t i) { return reinterpret_cast<T*>(x.data + i * x.column_stride); }
  template <class V>
  [[gnu::always_inline]] static void read(const GroupOperand& from, std::int64_t i, std::int64_t at, V& a, V& b) {
    const T* const address = first(from, i) + at;
    if constexpr (prefetches)
      if (at * sizeof(T) % 64 == 0) prefetch_lines<PrefetchFor<T>, 2 * V::lanes>(address);
    if constexpr (halves)
      V::load_even_odd(address, a, b);
    else {
      a = V::load(address);
      b = V::load(address + V::lanes);
    }
  }
};
template <class V, bool prefetches, class F>
[[gnu::always_inline]] inline auto dispatch_memory_form(OperandForm form, F f) {
  if constexpr (V::has_even_odd)
    if (form == OperandForm::bf16_even_odd) return f(MemoryOperand<Bf16, true, prefetches>{});
  if (form == OperandForm::bf16) return f(MemoryOperand<Bf16, false, prefetches>{});
  if (form == OperandForm::f16) return f(MemoryOperand<F16, false, prefetches>{});
  return f(MemoryOperand<float, false, prefetches>{});
}
template <class V, class F> [[gnu::always_inline]] inline auto dispatch_operand_form(const GroupOperand& x, F f) {
  if (x.form == OperandForm::constant) return f(ConstantOperand{});
  return x.prefetches ? dispatch_memory_form<V, true>(x.form, f) : dispatch_memory_form<V, false>(x.form, f);
}

template <class V, class F> [[gnu::always_inline]] inline void for_each_vector_pair(F f) {
#pragma GCC unroll 4
  for (int k = 0; k < vectors_per_group<V>; k += 2) f(k);
}
template <class V, class From>
[[gnu::always_inline]] inline void read_group(const GroupOperand& from, std::int64_t i, V* to) {
  for_each_vector_pair<V>([&](int k)
                              __attribute__((always_inline)) { From::read(from, i, k * V::lanes, to[k], to[k + 1]); });
}

template <class V, class From> struct LoadStep {
  [[gnu::always_inline]] static void run(const GroupStep<V>& step, std::int64_t i, V* group) {
    read_group<V, From>(step.a, i, group);
    if constexpr (V::has_even_odd)  // Keeps gcc 12 from spilling vectors that were only loaded.
      for (int k = 0; k < vectors_per_group<V>; ++k) asm("" : "+v"(group[k].v));
  }
};
template <class V, class To, bool non_temporal> struct StoreStep {
  [[gnu::always_inline]] static void run(const GroupStep<V>& step, std::int64_t i, V* group) {
    auto* const to = To::first(step.a, i);
    for_each_vector_pair<V>([&](int k) __attribute__((always_inline)) {
      store_pair<V, To::is_even_odd>({group[k], group[k + 1]}, to + k * V::lanes, non_temporal);
    });
  }
};
// The last step need not preserve the group, so rounding to bf16 can reuse its registers.
template <class V, class To, bool non_temporal> struct LastStoreStep : StoreStep<V, To, non_temporal> {
  static constexpr bool last = true;
};
template <class V, class From, class F> struct BinaryStep {
  [[gnu::always_inline]] static void run(const GroupStep<V>& step, std::int64_t i, V* group) {
    for_each_vector_pair<V>([&](int k) __attribute__((always_inline)) {
      V a, b;
      From::read(step.a, i, k * V::lanes, a, b);
      group[k] = F{}(group[k], a);
      group[k + 1] = F{}(group[k + 1], b);
    });
  }
};
template <class V, class F> struct TernaryStep {
  [[gnu::always_inline]] static void run(const GroupStep<V>& step, std::int64_t i, V* group) {
    V a[vectors_per_group<V>], b[vectors_per_group<V>];
    dispatch_operand_form<V>(
        step.a, [&](auto from) __attribute__((always_inline)) { read_group<V, decltype(from)>(step.a, i, a); });
    dispatch_operand_form<V>(
        step.b, [&](auto from) __attribute__((always_inline)) { read_group<V, decltype(from)>(step.b, i, b); });
    for (int k = 0; k < vectors_per_group<V>; ++k) group[k] = F{}(group[k], a[k], b[k]);
  }
};
template <class V, class F> struct UnaryStep {
  [[gnu::always_inline]] static void run(const GroupStep<V>&, std::int64_t, V* group) {
    for (int k = 0; k < vectors_per_group<V>; ++k) group[k] = F{}(group[k]);
  }
};
template <class V, class F> struct RepeatedStep {  // Applies a unary function `repeat` times.
  [[gnu::always_inline]] static void run(const GroupStep<V>& step, std::int64_t, V* group) {
    constexpr int vectors_at_once = 4;  // Independent vectors hide the latency of one.
#pragma GCC unroll 1
    for (int k = 0; k < vectors_per_group<V>; k += vectors_at_once) {
      V x[vectors_at_once];
      for (int j = 0; j < vectors_at_once; ++j) x[j] = group[k + j];
      for (int times = 0; times < step.repeat; ++times)
        for (V& each : x) each = F{}(each);
      for (int j = 0; j < vectors_at_once; ++j) group[k + j] = x[j];
    }
  }
};

template <class V, bool non_temporal>
typename GroupStep<V>::StepFunction store_step_function(OperandForm form, bool last) {
  return dispatch_memory_form<V, false>(form, [&](auto to) {
    return last ? GroupStep<V>::template function_for<LastStoreStep<V, decltype(to), non_temporal>>()
                : GroupStep<V>::template function_for<StoreStep<V, decltype(to), non_temporal>>();
  });
}
template <class V, class F> typename GroupStep<V>::StepFunction binary_step_function(const GroupOperand& x, F) {
  return dispatch_operand_form<V>(
      x, [](auto from) { return GroupStep<V>::template function_for<BinaryStep<V, decltype(from), F>>(); });
}
template <class V> typename GroupStep<V>::StepFunction load_step_function(const GroupOperand& x) {
  return dispatch_operand_form<V>(
      x, [](auto from) { return GroupStep<V>::template function_for<LoadStep<V, decltype(from)>>(); });
}
template <class V, class F> typename GroupStep<V>::StepFunction unary_step_function(F) {
  return GroupStep<V>::template function_for<UnaryStep<V, F>>();
}
template <class V, class F> typename GroupStep<V>::StepFunction repeated_step_function(F) {
  return GroupStep<V>::template function_for<RepeatedStep<V, F>>();
}

template <class V, Function f> struct FunctionCall {
  template <class... X> [[gnu::always_inline]] V operator()(X... x) const {
    return apply_function(FunctionTag<f>{}, x...);
  }
};
template <class V> typename GroupStep<V>::StepFunction select_step_function(ChainOp op, const GroupOperand& second) {
  return dispatch_function(op, [&]<Function f>(FunctionTag<f>) -> typename GroupStep<V>::StepFunction {
    constexpr FunctionInfo r = function_info(f);
    if constexpr (!is_elementwise(r))
      return nullptr;
    else if constexpr (r.arity == 3)
      return GroupStep<V>::template function_for<TernaryStep<V, FunctionCall<V, f>>>();
    else if constexpr (r.arity == 2)
      return binary_step_function<V>(second, FunctionCall<V, f>{});
    else if constexpr (r.is_idempotent || f == Function::negate)  // lower.cc drops an even number of negations
      return unary_step_function<V>(FunctionCall<V, f>{});
    else
      return repeated_step_function<V>(FunctionCall<V, f>{});
  });
}

}  // namespace
}  // namespace ridge::ops
