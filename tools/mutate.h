// Switches for tools/mutate.py: a copied source contains every fault, so that one build serves all. RIDGE_MUTANT=17
// enables the 17th; without it the program is unchanged. With RIDGE_MUTANTS_REACHED=FILE it records the reached
// switches. `a <= b` becomes `a <= m17 <= b`: operator precedence is unchanged, so operands need not be parsed.
// Constant expressions have no faults. Faults that the types do not allow (subtraction of strings) are recorded as
// unfit.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace ridge_mutate {

inline constexpr int most = 1 << 14;
inline const int active = std::getenv("RIDGE_MUTANT") ? std::atoi(std::getenv("RIDGE_MUTANT")) : 0;

// A file with one byte per switch, shared with forked processes, so that death tests are recorded, too.
inline char* notes() {
  const char* path = std::getenv("RIDGE_MUTANTS_REACHED");
  const int file = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
  if (file < 0 || ftruncate(file, most) != 0) return nullptr;
  return static_cast<char*>(mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
}
inline char* const noted = notes();

template <bool fits = true> constexpr bool on(int id) {
  if (std::is_constant_evaluated()) return false;
  if (noted) std::atomic_ref<char>(noted[id]).store(fits ? 'r' : 'u', std::memory_order_relaxed);
  return fits && active == id;
}

constexpr int one(int id) { return on(id) ? 1 : 0; }  // 3 + one(17) is an off-by-one bound

template <class T> constexpr bool is_number = std::is_arithmetic_v<std::remove_cvref_t<T>>;
template <class B> constexpr bool is_zero(const B& b) {
  if constexpr (is_number<B>) return b == 0;
  return false;
}

// `a op b` has alternatives: the first has the number `id`, the second `id + 1`.
template <char op, int id> struct Op {};
template <char op, int id, class A> struct Left { const A& a; };

#define RIDGE_ALTERNATIVE(number, condition, expression)      \
  if constexpr (requires { R(expression); } && (condition)) { \
    if (on(number)) return R(expression);                     \
  } else {                                                    \
    on<false>(number);                                        \
  }
#define RIDGE_BINARY(name, sign, first, fits_first, second, fits_second)            \
  template <int id, class A, class B> constexpr auto name(const A& a, const B& b) { \
    using R = std::decay_t<decltype(a sign b)>;                                     \
    RIDGE_ALTERNATIVE(id, fits_first, first)                                        \
    RIDGE_ALTERNATIVE(id + 1, fits_second, second)                                  \
    return R(a sign b);                                                             \
  }
RIDGE_BINARY(less, <, a <= b, true, a> b, true)
RIDGE_BINARY(less_equal, <=, a < b, true, a >= b, true)
RIDGE_BINARY(greater, >, a >= b, true, a < b, true)
RIDGE_BINARY(greater_equal, >=, a > b, true, a <= b, true)
RIDGE_BINARY(equal, ==, a != b, true, a != b, false)
RIDGE_BINARY(unequal, !=, a == b, true, a == b, false)
// The left operand alone drops a term; the reversed difference exchanges the operands.
RIDGE_BINARY(plus, +, a - b, true, a, (std::is_same_v<R, std::decay_t<A>>))
RIDGE_BINARY(minus, -, a + b, true, b - a, is_number<A>&& is_number<B>)
RIDGE_BINARY(times, *, is_zero(b) ? R(a) : R(a / b), is_number<A>&& is_number<B>, a, is_number<A>&& is_number<B>)
RIDGE_BINARY(divided, /, a* b, true, a, is_number<A>&& is_number<B>)
RIDGE_BINARY(modulo, %, is_zero(b) ? R(a) : R(a / b), is_number<A>&& is_number<B>, a, is_number<A>&& is_number<B>)
#undef RIDGE_BINARY
#undef RIDGE_ALTERNATIVE

#define RIDGE_LEVEL(left, right, letter, name)                                                                       \
  template <int id, class A> constexpr Left<letter, id, A> operator left(const A& a, Op<letter, id>) { return {a}; } \
  template <int id, class A, class B> constexpr auto operator right(Left<letter, id, A> l, const B& b) {             \
    return name<id>(l.a, b);                                                                                         \
  }
RIDGE_LEVEL(<, >, '<', less)
RIDGE_LEVEL(<, >, 'l', less_equal)
RIDGE_LEVEL(<, >, '>', greater)
RIDGE_LEVEL(<, >, 'g', greater_equal)
RIDGE_LEVEL(==, ==, '=', equal)
RIDGE_LEVEL(==, ==, '!', unequal)
RIDGE_LEVEL(+, +, '+', plus)
RIDGE_LEVEL(+, +, '-', minus)
RIDGE_LEVEL(*, *, '*', times)
RIDGE_LEVEL(*, *, '/', divided)
RIDGE_LEVEL(*, *, '%', modulo)
#undef RIDGE_LEVEL

// -x, before a factor.
template <int id> struct Minus {};
template <int id, class B> constexpr auto operator*(Minus<id>, const B& b) {
  using R = std::decay_t<decltype(-b)>;
  if constexpr (std::is_convertible_v<B, R>) {
    if (on(id)) return R(b);
  } else {
    on<false>(id);
  }
  return R(-b);
}

// x += sign<17>(y)
template <int id, class B> constexpr decltype(auto) sign(B&& b) {
  if constexpr (is_number<B> && !std::is_same_v<std::remove_cvref_t<B>, bool>)
    return on(id) ? static_cast<std::remove_cvref_t<B>>(-b) : static_cast<std::remove_cvref_t<B>>(b);
  else {
    on<false>(id);
    return std::forward<B>(b);
  }
}

// f(a, b) becomes f(pick<17>(a, b), pick<17>(b, a)): exchanged if both have the same type.
template <int id, class A, class B> constexpr A&& pick(A&& a, B&& b) {
  if constexpr (std::is_same_v<A, B>)
    return on(id) ? static_cast<A&&>(b) : static_cast<A&&>(a);
  else {
    on<false>(id);
    return static_cast<A&&>(a);
  }
}

template <int id, bool least> struct Extreme {
  template <class T> static constexpr T of(const T& a, const T& b) {
    return on(id) != least ? std::min(a, b) : std::max(a, b);
  }
  template <class T> static constexpr T of(std::initializer_list<T> all) {
    return on(id) != least ? std::min(all) : std::max(all);
  }
};

// A negated condition, or (id + 1) one that is never true.
template <int id> constexpr bool turned(bool condition) { return on(id) ? !condition : condition; }
template <int id> constexpr bool never(bool condition) { return !on(id) && condition; }

}  // namespace ridge_mutate
