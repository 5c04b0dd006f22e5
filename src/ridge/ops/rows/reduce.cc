// Reductions, in a plain loop: a block of kept points is carried through all reduced ones, in f64. Along the last axis
// a block's points are rows, which stream side by side; along an outer axis they lie next to each other.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ridge/base/cores.h"
#include "ridge/base/float16.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

constexpr std::int64_t block = 32;
constexpr std::int64_t elements_worth_a_thread = 1 << 14;

bool storable(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

std::int64_t points(const std::vector<ReduceAxis>& axes) {
  std::int64_t n = 1;
  for (const ReduceAxis& axis : axes) n *= axis.extent;
  return n;
}

struct Offsets {
  std::int64_t x = 0, y = 0;
};

Offsets offsets_of(const std::vector<ReduceAxis>& axes, std::int64_t point) {
  Offsets at;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const std::int64_t i = point % axis->extent;
    at.x += i * axis->x_stride;
    at.y += i * axis->y_stride;
    point /= axis->extent;
  }
  return at;
}

double start(ReduceFunction function) {
  if (function == ReduceFunction::max) return -std::numeric_limits<double>::infinity();
  return function == ReduceFunction::min ? std::numeric_limits<double>::infinity() : 0;
}

double joined(ReduceFunction function, double so_far, double value) {
  switch (function) {
    case ReduceFunction::max: return value > so_far || std::isnan(value) ? value : so_far;
    case ReduceFunction::min: return value < so_far || std::isnan(value) ? value : so_far;
    default: return so_far + value;
  }
}

template <class T> double as_double(T value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_float(value);
}

void put(DType dtype, void* y, std::int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  if (dtype == DType::f32)
    static_cast<float*>(y)[at] = rounded;
  else if (dtype == DType::bf16)
    static_cast<Bf16*>(y)[at] = to_bf16(rounded);
  else
    static_cast<F16*>(y)[at] = to_f16(rounded);
}

// Kept points begin … end - 1.
template <class T> void part(const ReduceProblem& p, const T* x, void* y, std::int64_t begin, std::int64_t end) {
  const std::int64_t reduced = points(p.reduced);
  for (std::int64_t first = begin; first < end; first += block) {
    const std::int64_t count = std::min(block, end - first);
    std::array<Offsets, block> at;
    std::array<double, block> value;
    for (std::int64_t i = 0; i < count; ++i) {
      at[static_cast<std::size_t>(i)] = offsets_of(p.kept, first + i);
      value[static_cast<std::size_t>(i)] = start(p.function);
    }
    for (std::int64_t r = 0; r < reduced; ++r) {
      const std::int64_t offset = offsets_of(p.reduced, r).x;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        value[i] = joined(p.function, value[i], as_double(x[at[i].x + offset]));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      put(p.y, y, at[i].y, p.function == ReduceFunction::mean ? value[i] / static_cast<double>(reduced) : value[i]);
  }
}

}  // namespace

std::optional<std::string> refuse(const ReduceProblem& p) {
  for (const auto& [dtype, which] : {std::pair(p.x, "x"), {p.y, "y"}})
    if (!storable(dtype))
      return std::string(which) + " is " + std::string(name(dtype)) + "; reductions store f32, bf16 and f16";
  double elements = 1;
  for (const auto* axes : {&p.kept, &p.reduced})
    for (const ReduceAxis& axis : *axes) {
      if (axis.extent < 1) return "expected extents of at least 1, found " + std::to_string(axis.extent);
      elements *= static_cast<double>(axis.extent);
    }
  if (elements > 0x1p59) return "the reduction has more than 2^59 elements";
  return std::nullopt;
}

void reduce(const ReduceProblem& p, const void* x, void* y, int threads) {
  const std::int64_t kept = points(p.kept);
  if (threads <= 0) threads = usable_cores();
  const std::int64_t worth = std::max<std::int64_t>(kept * points(p.reduced) / elements_worth_a_thread, 1);
  const int workers = static_cast<int>(std::min({std::int64_t{threads}, worth, (kept + block - 1) / block}));
  cpu::run(workers, [&](int worker) {
    const cpu::Slice mine = cpu::slice(kept, workers, worker);
    if (p.x == DType::f32)
      part(p, static_cast<const float*>(x), y, mine.begin, mine.end);
    else if (p.x == DType::bf16)
      part(p, static_cast<const Bf16*>(x), y, mine.begin, mine.end);
    else
      part(p, static_cast<const F16*>(x), y, mine.begin, mine.end);
  });
}

}  // namespace ridge::ops
