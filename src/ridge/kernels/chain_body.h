// Runs a lowered chain block by block. Each instruction is one pass over the block, so that its dispatch is paid once
// for 512 elements; a pass reads f32 inputs where they lie and writes an f32 output where it belongs, and only what
// lies between stays in the scratch. The longest pass also fetches the next block's inputs: without that a chain of
// four ran at 31 GB/s, with it at 47. Included by one file for each instruction set.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ridge/kernels/chain_code.h"
#include "ridge/kernels/vector_math.h"
#include "ridge/kernels/vector_math_storage.h"

namespace ridge::kernels {
namespace {

struct Operand {
  const float* data = nullptr;
  std::int64_t step = 1;  // 0: 16 equal floats stand for all elements
  Operand from(std::int64_t i) const { return {data + i * step, step}; }
};

// out[i] = f(in[i] …) for i < n. Streaming needs `out` at a whole vector.
template <class V, bool streaming, class F, class... In>
[[gnu::always_inline]] inline void pass(float* out, std::int64_t n, F f, In... in) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) {
    const V value = f(V::load(in.data + i * in.step)...);
    if constexpr (streaming)
      value.stream(out + i);
    else
      value.store(out + i);
  }
  if (const int rest = static_cast<int>(n - i); rest > 0)
    f(V::load_some(in.data + i * in.step, rest)...).store_some(out + i, rest);
}

template <class V, bool streaming, class F>
[[gnu::always_inline]] inline void unary(float* out, std::int64_t n, const Operand& a, int repeat, F f) {
  if (repeat == 1) return pass<V, streaming>(out, n, f, a);
  constexpr int together = 4;  // independent vectors hide the latency of one application
  std::int64_t i = 0;
  for (; a.step == 1 && i + together * V::lanes <= n; i += together * V::lanes) {
    V x[together];
    for (int k = 0; k < together; ++k) x[k] = V::load(a.data + i + k * V::lanes);
    for (int times = 0; times < repeat; ++times)
      for (V& each : x) each = f(each);
    for (int k = 0; k < together; ++k) x[k].store(out + i + k * V::lanes);
  }
  const auto all = [f, repeat](V x) {
    for (int times = 0; times < repeat; ++times) x = f(x);
    return x;
  };
  pass<V, false>(out + i, n - i, all, a.from(i));
}

struct PassArguments {
  float* out = nullptr;
  std::int64_t n = 0;
  Operand a, b, c;
};

template <class V, bool streaming> void compute(const ChainInstruction& i, const PassArguments& p) {
  const auto one = [&](auto f) { unary<V, streaming>(p.out, p.n, p.a, i.repeat, f); };
  const auto two = [&](auto f) { pass<V, streaming>(p.out, p.n, f, p.a, p.b); };
  switch (i.op) {
    case ChainOp::add: return two([](V x, V y) { return x + y; });
    case ChainOp::subtract: return two([](V x, V y) { return x - y; });
    case ChainOp::multiply: return two([](V x, V y) { return x * y; });
    case ChainOp::divide: return two([](V x, V y) { return x / y; });
    case ChainOp::max: return two([](V x, V y) { return max(x, y); });
    case ChainOp::min: return two([](V x, V y) { return min(x, y); });
    case ChainOp::less: return two([](V x, V y) { return less(x, y); });
    case ChainOp::where:
      return pass<V, streaming>(
          p.out, p.n, [](V x, V y, V z) { return where(x, y, z); }, p.a, p.b, p.c);
    case ChainOp::negate: return one([](V x) { return negate(x); });
    case ChainOp::exp: return one([](V x) { return exp(x); });
    case ChainOp::log: return one([](V x) { return log(x); });
    case ChainOp::cos: return one([](V x) { return cos(x); });
    case ChainOp::sin: return one([](V x) { return sin(x); });
    case ChainOp::gelu: return one([](V x) { return gelu(x); });
    case ChainOp::gelu_tanh: return one([](V x) { return gelu_tanh(x); });
    case ChainOp::silu: return one([](V x) { return silu(x); });
    case ChainOp::relu: return one([](V x) { return relu(x); });
    case ChainOp::sigmoid: return one([](V x) { return sigmoid(x); });
    case ChainOp::tanh: return one([](V x) { return tanh(x); });
    case ChainOp::sqrt: return one([](V x) { return sqrt(x); });
    case ChainOp::rsqrt: return one([](V x) { return rsqrt(x); });
    case ChainOp::abs: return one([](V x) { return abs(x); });
    case ChainOp::load:
    case ChainOp::constant:
    case ChainOp::store: return;
  }
}

template <class V> class ChainRunner {
 public:
  explicit ChainRunner(const ChainRun& run)
      : run_(run),
        code_(run.code),
        values_(static_cast<std::size_t>(code_.values)),
        pitch_(code_.rows * code_.columns + 16) {}

  void go() {
    for (const ChainInstruction& i : code_.instructions)
      if (i.op == ChainOp::constant) values_[static_cast<std::size_t>(i.result)] = filled(slot(i), i.constant);
    here_ = block_at(code_, run_.begin);
    for (std::int64_t index = run_.begin; index < run_.end; ++index) {
      next_ = here_;
      advance(next_);
      more_ = index + 1 < run_.end;
      for (const ChainInstruction& i : code_.instructions) execute(i);
      here_ = next_;
    }
    if (code_.stream) V::fence();
  }

 private:
  // The row and column strides of a tensor, and where the block begins in it.
  struct Window {
    char* data;
    std::int64_t down, across;
  };
  Window window(int tensor, const ChainBlock& block) const {
    const ChainAccess& access = code_.tensors[static_cast<std::size_t>(tensor)];
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(code_.axes); ++axis)
      offset += block.at[axis] * access.strides[axis];
    const auto last = static_cast<std::size_t>(code_.axes - 1);
    char* data = static_cast<char*>(run_.tensors[static_cast<std::size_t>(tensor)]);
    return {data + offset * bytes_of(access.dtype), access.strides[last - 1], access.strides[last]};
  }
  DType dtype(int tensor) const { return code_.tensors[static_cast<std::size_t>(tensor)].dtype; }
  float* slot(const ChainInstruction& i) const { return run_.scratch + i.slot * pitch_; }
  std::int64_t count() const { return here_.rows * here_.columns; }
  bool one_run(const Window& w) const {
    return (w.across == 1 || here_.columns == 1) && (here_.rows == 1 || w.down == here_.columns);
  }

  static Operand filled(float* slot, float value) {
    for (int k = 0; k < 16; ++k) slot[k] = value;
    return {slot, 0};
  }

  void advance(ChainBlock& b) const {
    auto axis = static_cast<std::size_t>(code_.axes - 1);
    b.at[axis] += b.columns;
    b.columns = std::min<std::int64_t>(code_.columns, code_.extents[axis] - b.at[axis]);
    if (b.columns > 0) return;
    b.at[axis] = 0;
    b.columns = std::min<std::int64_t>(code_.columns - code_.lead, code_.extents[axis]);
    b.at[--axis] += b.rows;
    if (b.at[axis] == code_.extents[axis]) {
      b.at[axis] = 0;
      while (axis-- > 0 && ++b.at[axis] == code_.extents[axis]) b.at[axis] = 0;
    }
    const auto rows = static_cast<std::size_t>(code_.axes - 2);
    b.rows = std::min<std::int64_t>(code_.rows, code_.extents[rows] - b.at[rows]);
  }

  Operand load(const ChainInstruction& i) const {
    const Window w = window(i.tensor, here_);
    if (dtype(i.tensor) == DType::f32 && one_run(w)) return {reinterpret_cast<const float*>(w.data), 1};
    float* to = slot(i);
    with_type(dtype(i.tensor), w.data, [&](auto* from) {
      if ((w.across == 0 || here_.columns == 1) && (w.down == 0 || here_.rows == 1)) {
        gather<V>(from, 0, 1, to);
        return;
      }
      if (one_run(w)) return widen_run<V>(from, count(), to);
      for (std::int64_t row = 0; row < here_.rows; ++row) {
        const auto* start = from + row * w.down;
        float* out = to + row * here_.columns;
        if (w.across == 1)
          widen_run<V>(start, here_.columns, out);
        else
          gather<V>(start, w.across, here_.columns, out);
      }
    });
    const bool uniform = (w.across == 0 || here_.columns == 1) && (w.down == 0 || here_.rows == 1);
    return uniform ? filled(to, to[0]) : Operand{to, 1};
  }

  void store(const ChainInstruction& i) const {
    const Window w = window(i.tensor, here_);
    const Operand value = values_[static_cast<std::size_t>(i.a)];
    with_type(dtype(i.tensor), w.data, [&](auto* to) {
      if (one_run(w)) return narrow_run(value, count(), to);
      for (std::int64_t row = 0; row < here_.rows; ++row) {
        const Operand from = value.from(row * here_.columns);
        if (w.across == 1)
          narrow_run(from, here_.columns, to + row * w.down);
        else
          scatter(from, here_.columns, to + row * w.down, w.across);
      }
    });
  }

  template <class T> void narrow_run(const Operand& from, std::int64_t n, T* to) const {
    write_run<V>(to, n, code_.stream,
                 [&](std::int64_t i, int lanes) { return load_some<V>(from.data + i * from.step, lanes); });
  }
  template <class T> static void scatter(const Operand& from, std::int64_t n, T* to, std::int64_t stride) {
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, n - i));
      store_some(V::load_some(from.data + i * from.step, count), to + i * stride, count, stride);
    }
  }

  // Where the instruction may write straight into an output: its address, else null.
  float* output_of(const ChainInstruction& i) const {
    if (i.store_tensor < 0 || dtype(i.store_tensor) != DType::f32) return nullptr;
    const Window w = window(i.store_tensor, here_);
    return one_run(w) ? reinterpret_cast<float*>(w.data) : nullptr;
  }

  void execute(const ChainInstruction& i) {
    if (i.op == ChainOp::constant) return;
    if (i.op == ChainOp::load) {
      values_[static_cast<std::size_t>(i.result)] = load(i);
      return;
    }
    if (i.op == ChainOp::store) {
      if (!stored_) store(i);
      stored_ = false;
      return;
    }
    const auto operand = [&](int value) {
      return value < 0 ? Operand{nullptr, 0} : values_[static_cast<std::size_t>(value)];
    };
    PassArguments p{nullptr, count(), operand(i.a), operand(i.b), operand(i.c)};
    float* output = output_of(i);
    const bool uniform = p.a.step == 0 && p.b.step == 0 && p.c.step == 0;
    if (uniform) {
      p.n = 16;
      output = nullptr;
    }
    const bool streaming = output != nullptr && code_.stream && i.repeat == 1 &&
                           reinterpret_cast<std::uintptr_t>(output) % (V::lanes * sizeof(float)) == 0;
    if (output != nullptr && code_.stream && !streaming) output = nullptr;
    p.out = output != nullptr ? output : slot(i);
    if (i.result >= 0) values_[static_cast<std::size_t>(i.result)] = {p.out, uniform ? 0 : 1};
    stored_ = output != nullptr;
    if (i.prefetches && more_ && code_.fetch_ahead && !uniform) return in_quarters(i, p, streaming);
    one_pass(i, p, streaming);
  }

  static void one_pass(const ChainInstruction& i, const PassArguments& p, bool streaming) {
    if (streaming)
      compute<V, true>(i, p);
    else
      compute<V, false>(i, p);
  }

  // The pass in four parts, with a quarter of the next block's lines asked for before each.
  void in_quarters(const ChainInstruction& i, const PassArguments& p, bool streaming) const {
    const std::int64_t quarter = (p.n + 63) / 64 * 16;
    for (std::int64_t at = 0; at < p.n; at += quarter) {
      for (const ChainInstruction& other : code_.instructions)
        if (other.op == ChainOp::load) fetch(other.tensor, at, quarter);
      const PassArguments part{p.out + at, std::min(quarter, p.n - at), p.a.from(at), p.b.from(at), p.c.from(at)};
      one_pass(i, part, streaming);
    }
  }
  void fetch(int tensor, std::int64_t at, std::int64_t quarter) const {
    const Window w = window(tensor, next_);
    if (w.across != 1) return;
    const std::int64_t bytes = bytes_of(dtype(tensor));
    const std::int64_t end = std::min(at + quarter, next_.rows * next_.columns) * bytes;
    for (std::int64_t byte = at * bytes; byte < end; byte += 64) V::prefetch(w.data + byte);
  }

  const ChainRun& run_;
  const ChainCode& code_;
  std::vector<Operand> values_;
  std::int64_t pitch_;
  ChainBlock here_, next_;
  bool more_ = false, stored_ = false;
};

}  // namespace
}  // namespace ridge::kernels
