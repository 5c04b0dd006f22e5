// Runs a lowered chain group by group: 128 elements go through all moves before the next are read, so that memory is
// read and written as a copy does it and nothing between lies further away than the first lines of the L1. (A pass over
// 512 elements for each step left memory idle meanwhile: 0.65 of a stream's speed on Skylake where this has 0.95.)
// Included by one file for each instruction set.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ridge/kernels/chain_code.h"
#include "ridge/kernels/vector_math.h"
#include "ridge/kernels/vector_math_storage.h"

namespace ridge::kernels {
namespace {

struct Place {  // of a group's elements: at data + i*across for the group that begins at element i of the block
  char* data = nullptr;
  std::int64_t across = 0;
  int tensor = -1;  // data and across are set for each block; else they stay
};
template <class T> [[gnu::always_inline]] inline T* lies(const Place& place, std::int64_t i) {
  return reinterpret_cast<T*>(place.data + i * place.across);
}

// What a move is called once its types are known. `widen` turns an operand of 16 bits into floats beside the group.
enum class Code {
  take_f32,
  take_bf16,
  take_f16,
  widen_bf16,
  widen_f16,
  put_f32,
  put_bf16,
  put_f16,
  stream_f32,
  stream_bf16,
  stream_f16,
  add,
  subtract,
  multiply,
  divide,
  max,
  min,
  less,
  less_equal,
  equal,
  where,
  relu,
  negate,
  abs,
  function,  // of one operand and many instructions
};
struct Move {
  Code code = Code::take_f32;
  ChainOp op = ChainOp::exp;  // function
  int repeat = 1;
  Place a = {}, b = {},
        c = {};  // take: from a; widen: from a to b; put, stream: to a; else the second and third operand
};

template <class V> constexpr int parts = 8;  // vectors of a group: as many as every machine can hold
template <class V> constexpr std::int64_t group_size = parts<V>* V::lanes;
static_assert(group_size<FloatLanes> <= chain_group);

template <class V, class F> [[gnu::noinline]] void function_of(V* group, int repeat, F f) {
  constexpr int together = 4;  // independent vectors hide the latency of one application
  for (int k = 0; k < parts<V>; k += together) {
    V x[together];
    for (int j = 0; j < together; ++j) x[j] = group[k + j];
    for (int times = 0; times < repeat; ++times)
      for (V& each : x) each = f(each);
    for (int j = 0; j < together; ++j) group[k + j] = x[j];
  }
}
template <class V> [[gnu::noinline]] void function(ChainOp op, int repeat, V* group) {
  const auto of = [&](auto f) { function_of(group, repeat, f); };
  switch (op) {
    case ChainOp::exp: return of([](V x) { return exp(x); });
    case ChainOp::log: return of([](V x) { return log(x); });
    case ChainOp::cos: return of([](V x) { return cos(x); });
    case ChainOp::sin: return of([](V x) { return sin(x); });
    case ChainOp::gelu: return of([](V x) { return gelu(x); });
    case ChainOp::gelu_tanh: return of([](V x) { return gelu_tanh(x); });
    case ChainOp::silu: return of([](V x) { return silu(x); });
    case ChainOp::sigmoid: return of([](V x) { return sigmoid(x); });
    case ChainOp::tanh: return of([](V x) { return tanh(x); });
    case ChainOp::sqrt: return of([](V x) { return sqrt(x); });
    default: return of([](V x) { return rsqrt(x); });
  }
}

// All moves for the group at element i of the block. The group lies in registers; a core foretells the comparisons that
// lead to a move, which come in the same order for every group, at a tenth of what a call through a pointer can cost
// (this file is compiled with -fno-jump-tables).
template <class V> void run_moves(const std::vector<Move>& moves, std::int64_t i) {
  V v[parts<V>];
  const auto every = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int k = 0; k < parts<V>; ++k) f(v[k], k * V::lanes);
  };
  every([](V& x, int) { x = lit<V>(0); });
  for (const Move& m : moves) {
    const auto take = [&](const auto* from) __attribute__((always_inline)) {
      every([&](V& x, int at) { x = V::load(from + at); });
    };
    const auto put = [&](auto* to) __attribute__((always_inline)) {
      every([&](V& x, int at) { x.store(to + at); });
    };
    const auto stream = [&](auto* to) __attribute__((always_inline)) {
      every([&](V& x, int at) { x.stream(to + at); });
    };
    const auto widen = [&](const auto* from) __attribute__((always_inline)) {
      float* const to = lies<float>(m.b, i);
      every([&](V&, int at) { V::load(from + at).store(to + at); });
    };
    const auto join = [&](auto f) __attribute__((always_inline)) {
      const float* const other = lies<float>(m.b, i);
      every([&](V& x, int at) { x = f(x, V::load(other + at)); });
    };
    switch (m.code) {
      case Code::take_f32: take(lies<float>(m.a, i)); break;
      case Code::take_bf16: take(lies<Bf16>(m.a, i)); break;
      case Code::take_f16: take(lies<F16>(m.a, i)); break;
      case Code::widen_bf16: widen(lies<Bf16>(m.a, i)); break;
      case Code::widen_f16: widen(lies<F16>(m.a, i)); break;
      case Code::put_f32: put(lies<float>(m.a, i)); break;
      case Code::put_bf16: put(lies<Bf16>(m.a, i)); break;
      case Code::put_f16: put(lies<F16>(m.a, i)); break;
      case Code::stream_f32: stream(lies<float>(m.a, i)); break;
      case Code::stream_bf16: stream(lies<Bf16>(m.a, i)); break;
      case Code::stream_f16: stream(lies<F16>(m.a, i)); break;
      case Code::add: join([](V x, V y) { return x + y; }); break;
      case Code::subtract: join([](V x, V y) { return x - y; }); break;
      case Code::multiply: join([](V x, V y) { return x * y; }); break;
      case Code::divide: join([](V x, V y) { return x / y; }); break;
      case Code::max: join([](V x, V y) { return max(x, y); }); break;
      case Code::min: join([](V x, V y) { return min(x, y); }); break;
      case Code::less: join([](V x, V y) { return less(x, y); }); break;
      case Code::less_equal: join([](V x, V y) { return less_equal(x, y); }); break;
      case Code::equal: join([](V x, V y) { return equal(x, y); }); break;
      case Code::where: {
        const float *const b = lies<float>(m.b, i), *const c = lies<float>(m.c, i);
        every([&](V& x, int at) { x = where(x, V::load(b + at), V::load(c + at)); });
        break;
      }
      case Code::relu: every([](V& x, int) { x = relu(x); }); break;
      case Code::negate: every([](V& x, int) { x = negate(x); }); break;
      case Code::abs: every([](V& x, int) { x = abs(x); }); break;
      case Code::function: {
        V group[parts<V>];  // another: the address of this one is known
        every([&](V& x, int at) { group[at / V::lanes] = x; });
        function<V>(m.op, m.repeat, group);
        every([&](V& x, int at) { x = group[at / V::lanes]; });
        break;
      }
    }
  }
}

inline Code code_of(ChainOp op) {
  switch (op) {
    case ChainOp::add: return Code::add;
    case ChainOp::subtract: return Code::subtract;
    case ChainOp::multiply: return Code::multiply;
    case ChainOp::divide: return Code::divide;
    case ChainOp::max: return Code::max;
    case ChainOp::min: return Code::min;
    case ChainOp::less: return Code::less;
    case ChainOp::less_equal: return Code::less_equal;
    case ChainOp::equal: return Code::equal;
    case ChainOp::where: return Code::where;
    case ChainOp::relu: return Code::relu;  // repeated, these are what they are once, but for negate
    case ChainOp::abs: return Code::abs;
    case ChainOp::negate: return Code::negate;
    default: return Code::function;
  }
}

template <class V> class ChainRunner {
 public:
  explicit ChainRunner(const ChainRun& run) : run_(run), code_(run.code) {
    float* free = run.scratch;
    const auto some = [&](std::int64_t floats) { return std::exchange(free, free + floats); };
    for (const float constant : code_.constants)
      std::fill_n(constants_.emplace_back(some(chain_group)), chain_group, constant);
    for (int i = 0; i < code_.kept; ++i) kept_.push_back(some(chain_group));
    for (const ChainAccess& t : code_.tensors)
      copies_.push_back(some(chain_group + (t.held ? code_.rows * code_.columns : 0)));
    lie_.resize(code_.tensors.size());
    for (float*& each : widened_) each = some(chain_group);
    bind(whole_, false), bind(edge_, true);
  }

  void go() {
    here_ = block_at(code_, run_.begin);
    for (std::int64_t index = run_.begin; index < run_.end; ++index) {
      block();
      advance();
    }
    if (code_.stream) V::fence();
  }

 private:
  // Place the block lies in a tensor, and the strides of its rows and columns.
  struct Window {
    char* data = nullptr;
    std::int64_t down = 0, across = 0;
  };
  Window window(std::size_t tensor) const {
    const ChainAccess& access = code_.tensors[tensor];
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(code_.axes); ++axis)
      offset += here_.at[axis] * access.strides[axis];
    const auto last = static_cast<std::size_t>(code_.axes - 1);
    char* data = static_cast<char*>(run_.tensors[tensor]);
    return {data + offset * bytes_of(access.dtype), access.strides[last - 1], access.strides[last]};
  }
  template <class Index> const ChainAccess& access(Index tensor) const {
    return code_.tensors[static_cast<std::size_t>(tensor)];
  }
  bool uniform(std::size_t tensor) const {  // one number for the whole block
    const ChainAccess& t = access(tensor);
    return !t.held && !t.stored && t.strides[static_cast<std::size_t>(code_.axes - 1)] == 0;
  }
  template <class Index> bool direct(Index tensor) const {
    return !access(tensor).held && !uniform(static_cast<std::size_t>(tensor));
  }

  void advance() {
    auto axis = static_cast<std::size_t>(code_.axes - 1);
    here_.at[axis] += here_.columns;
    if (here_.at[axis] == code_.extents[axis]) {
      here_.at[axis] = 0;
      here_.at[--axis] += here_.rows;
      if (here_.at[axis] == code_.extents[axis]) {
        here_.at[axis] = 0;
        while (axis-- > 0 && ++here_.at[axis] == code_.extents[axis]) here_.at[axis] = 0;
      }
    }
    const auto last = static_cast<std::size_t>(code_.axes - 1);
    here_.columns = std::min(code_.columns, code_.extents[last] - here_.at[last]);
    here_.rows = std::min(code_.rows, code_.extents[last - 1] - here_.at[last - 1]);
  }

  // The moves over whole groups, which read and write direct tensors where they lie; or over a part of one, which does
  // so in copies.
  void bind(std::vector<Move>& moves, bool edge) {
    for (const ChainMove& m : code_.moves) {
      Move move{.op = m.op, .repeat = m.repeat, .a = place(m.a), .b = place(m.b), .c = place(m.c)};
      const auto typed = [&](Code f32, const Place& p) {  // bf16 and f16 stand behind f32
        const DType dtype = edge || p.tensor < 0 || !direct(p.tensor) ? DType::f32 : access(p.tensor).dtype;
        return static_cast<Code>(static_cast<int>(f32) + (dtype == DType::f32 ? 0 : dtype == DType::bf16 ? 1 : 2));
      };
      if (m.kind == ChainMove::take) move.code = typed(Code::take_f32, move.a);
      if (m.kind == ChainMove::keep || m.kind == ChainMove::put) move.code = typed(Code::put_f32, move.a);
      if (m.kind == ChainMove::apply) {
        if (m.op == ChainOp::negate && m.repeat % 2 == 0) continue;
        move.code = code_of(m.op);
        int operand = 0;
        for (Place* const p : {&move.b, &move.c}) {
          float* const to = widened_[operand++];
          const Code widen = typed(Code::take_f32, *p);
          if (widen == Code::take_f32) continue;
          const Place beside{reinterpret_cast<char*>(to), 0, -1};
          moves.push_back(
              {.code = widen == Code::take_bf16 ? Code::widen_bf16 : Code::widen_f16, .a = *p, .b = beside});
          *p = beside;
        }
      }
      moves.push_back(move);
    }
  }
  Place place(const ChainSource& s) const {
    const auto index = static_cast<std::size_t>(s.index);
    if (s.kind == ChainSource::constant) return {reinterpret_cast<char*>(constants_[index]), 0, -1};
    if (s.kind == ChainSource::kept) return {reinterpret_cast<char*>(kept_[index]), 0, -1};
    return {nullptr, 0, s.kind == ChainSource::tensor ? s.index : -1};
  }

  template <class F> static void at_tensors(std::vector<Move>& moves, F set) {
    for (Move& m : moves)
      for (Place* const p : {&m.a, &m.b, &m.c})
        if (p->tensor >= 0) set(*p, static_cast<std::size_t>(p->tensor));
  }

  void block() {
    const std::int64_t count = here_.rows * here_.columns;
    std::int64_t head = 0;
    for (std::size_t t = 0; t < lie_.size(); ++t) {
      lie_[t] = window(t);
      if (access(t).stored && direct(t)) head = before_line(t);
      if (!access(t).stored && !direct(t)) gather_block(t);
    }
    head = std::min(head, count);
    at_tensors(whole_, [&](Place& p, std::size_t t) {
      p.data = direct(t) ? lie_[t].data : reinterpret_cast<char*>(copies_[t]);
      p.across = direct(t) ? bytes_of(access(t).dtype) : uniform(t) ? 0 : std::int64_t{sizeof(float)};
    });
    choose_stores(head);
    if (head > 0) edge(0, head);
    std::int64_t i = head;
    for (; i + group_size<V> <= count; i += group_size<V>) run_moves<V>(whole_, i);
    if (i < count) edge(i, count - i);
    for (std::size_t t = 0; t < lie_.size(); ++t)
      if (access(t).stored && access(t).held) scatter_block(t);
  }

  // Elements before the first whole line of an output.
  std::int64_t before_line(std::size_t tensor) const {
    const auto bytes = static_cast<std::uintptr_t>(bytes_of(access(tensor).dtype));
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(lie_[tensor].data) % 64;
    return !code_.stream || past % bytes != 0 ? 0 : static_cast<std::int64_t>((64 - past) % 64 / bytes);
  }
  void choose_stores(std::int64_t head) {
    for (Move& m : whole_) {
      if (m.code < Code::put_f32 || m.code > Code::stream_f16 || m.a.tensor < 0 || !direct(m.a.tensor)) continue;
      const int type = (static_cast<int>(m.code) - static_cast<int>(Code::put_f32)) % 3;
      const auto past =
          (reinterpret_cast<std::uintptr_t>(m.a.data) + static_cast<std::uintptr_t>(head * m.a.across)) % 64;
      const bool lines = code_.stream && past == 0;
      m.code = static_cast<Code>(static_cast<int>(lines ? Code::stream_f32 : Code::put_f32) + type);
    }
  }

  // Less than a group, from element `first` of the block on: direct tensors are copied in and out.
  void edge(std::int64_t first, std::int64_t n) {
    for (std::size_t t = 0; t < lie_.size(); ++t) {
      if (!direct(t) || access(t).stored) continue;
      std::fill_n(copies_[t], group_size<V>, 0.0f);
      with_type(access(t).dtype, lie_[t].data, [&](auto* from) { widen_run<V>(from + first, n, copies_[t]); });
    }
    at_tensors(edge_, [&](Place& p, std::size_t t) {
      p.data = reinterpret_cast<char*>(copies_[t] + (access(t).held ? first : 0));
    });
    run_moves<V>(edge_, 0);
    for (std::size_t t = 0; t < lie_.size(); ++t)
      if (direct(t) && access(t).stored)
        with_type(access(t).dtype, lie_[t].data, [&](auto* to) { narrow(copies_[t], n, to + first, 1); });
  }

  void gather_block(std::size_t tensor) const {
    const Window& w = lie_[tensor];
    float* const to = copies_[tensor];
    with_type(access(tensor).dtype, w.data, [&](auto* from) {
      if (uniform(tensor)) {
        gather<V>(from, 0, 1, to);
        std::fill_n(to + 1, chain_group - 1, to[0]);
        return;
      }
      for (std::int64_t row = 0; row < here_.rows; ++row) {
        float* const out = to + row * here_.columns;
        if (w.across == 1)
          widen_run<V>(from + row * w.down, here_.columns, out);
        else
          gather<V>(from + row * w.down, w.across, here_.columns, out);
      }
    });
  }
  void scatter_block(std::size_t tensor) const {
    const Window& w = lie_[tensor];
    with_type(access(tensor).dtype, w.data, [&](auto* to) {
      for (std::int64_t row = 0; row < here_.rows; ++row)
        narrow(copies_[tensor] + row * here_.columns, here_.columns, to + row * w.down, w.across);
    });
  }
  template <class T> static void narrow(const float* from, std::int64_t n, T* to, std::int64_t stride) {
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, n - i));
      if (stride == 1 && count == V::lanes)
        V::load(from + i).store(to + i);
      else
        store_some(V::load_some(from + i, count), to + i * stride, count, stride);
    }
  }

  const ChainRun& run_;
  const ChainCode& code_;
  std::vector<float*> constants_, kept_;
  std::vector<float*> copies_;  // of tensors: whole blocks of those that are held, else a group at an edge
  std::vector<Window> lie_;
  float* widened_[2] = {};  // second and third operands
  std::vector<Move> whole_, edge_;
  ChainBlock here_;
};

}  // namespace
}  // namespace ridge::kernels
