// Runs a lowered chain group by group: 64 or 128 elements pass through all moves before the next group is read. So
// memory is accessed as in a copy, and intermediate values stay in registers or a few lines of the L1. (Processing 512
// elements per step left memory idle in between: 0.65 of stream bandwidth on Skylake instead of 0.95.) Included by one
// file for each instruction set.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ridge/ops/chain/code.h"
#include "ridge/ops/chain/steps.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

template <class V> class ChainRunner {
 public:
  explicit ChainRunner(const ChainRun& run) : run_(run), code_(run.code), lie_(code_.tensors.size()) {
    static_assert(group_size<V> <= chain_group);
    float* free = run.scratch + code_.kept * chain_group;
    for (std::size_t t = 0; t < lie_.size(); ++t) {
      lie_[t].copy = free;
      free += chain_group + (access(t).held ? code_.rows * code_.columns : 0);
    }
    whole_ = bound(false);
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
  // Address of the block in a tensor, and its strides.
  struct Window {
    char* data = nullptr;
    std::int64_t down = 0, across = 0;
    float* copy = nullptr;  // The block if the tensor is gathered, else an edge group.
  };
  Window window(std::size_t tensor) const {
    const ChainAccess& access = code_.tensors[tensor];
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(code_.axes); ++axis)
      offset += here_.at[axis] * access.strides[axis];
    const auto last = static_cast<std::size_t>(code_.axes - 1);
    char* data = static_cast<char*>(run_.tensors[tensor]);
    return {data + offset * bytes_of(access.dtype), access.strides[last - 1], access.strides[last], lie_[tensor].copy};
  }
  template <class Index> const ChainAccess& access(Index tensor) const {
    return code_.tensors[static_cast<std::size_t>(tensor)];
  }
  bool uniform(std::size_t tensor) const {  // The tensor has one value in the block.
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

  // Returns the steps of the moves: for full groups, which access direct tensors in place, or for partial groups at an
  // edge, which access copies.
  std::vector<Step<V>> bound(bool edge) const {
    const bool halves = !edge && in_halves();
    std::vector<Step<V>> steps;
    steps.reserve(code_.moves.size() + 1);
    for (const ChainMove& m : code_.moves) {
      const bool apply = m.kind == ChainMove::apply, last = &m == &code_.moves.back();
      Step<V> step{.a = operand(apply ? m.b : m.a, edge, halves), .b = operand(m.c, edge, halves), .repeat = m.repeat};
      if (m.kind == ChainMove::take) step.run = take_from<V>(step.a);
      if (m.kind == ChainMove::keep || m.kind == ChainMove::put) step.run = put_to<V, false>(step.a.form, last);
      if (apply) step.run = ops::apply<V>(m.op, step.a);
      steps.push_back(step);
    }
    steps.emplace_back();
    return steps;
  }
  Operand operand(const ChainSource& s, bool edge, bool halves) const {
    Operand x;
    if (s.kind == ChainSource::constant) {
      x.form = Form::number;
      x.number = code_.constants[static_cast<std::size_t>(s.index)];
    }
    if (s.kind == ChainSource::kept) x.data = reinterpret_cast<char*>(run_.scratch + s.index * chain_group);
    if (s.kind != ChainSource::tensor) return x;
    x.tensor = s.index;
    if (edge || !direct(s.index)) return x;
    x.from_memory = code_.stream && tile::cpu::prefetches_far();
    const DType dtype = access(s.index).dtype;
    x.form = halves ? Form::halves : Form::bf16;
    if (dtype == DType::f32) x.form = Form::f32;
    if (dtype == DType::f16) x.form = Form::f16;
    return x;
  }
  // True if all tensors are bf16, so vectors can hold the even and the odd elements separately.
  bool in_halves() const {
    if (!V::has_halves) return false;
    for (std::size_t t = 0; t < lie_.size(); ++t)
      if (!uniform(t) && (access(t).held || access(t).dtype != DType::bf16)) return false;
    return true;
  }

  template <class F> static void at_tensors(std::vector<Step<V>>& steps, F set) {
    for (Step<V>& step : steps)
      for (Operand* const x : {&step.a, &step.b})
        if (x->tensor >= 0) set(*x, static_cast<std::size_t>(x->tensor));
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
    at_tensors(whole_, [&](Operand& x, std::size_t t) {
      x.data = direct(t) ? lie_[t].data : reinterpret_cast<char*>(lie_[t].copy);
      x.across = uniform(t) ? 0 : std::int64_t{sizeof(float)};
      if (direct(t)) x.across = bytes_of(access(t).dtype);
    });
    choose_stores(head);
    if (head > 0) edge(0, head);
    std::int64_t i = head;
    for (; i + group_size<V> <= count; i += group_size<V>) Step<V>::start(whole_.data(), i);
    if (i < count) edge(i, count - i);
    for (std::size_t t = 0; t < lie_.size(); ++t)
      if (access(t).stored && access(t).held) scatter_block(t);
  }

  // Returns the number of elements before the first full cache line of an output.
  std::int64_t before_line(std::size_t tensor) const {
    const auto bytes = static_cast<std::uintptr_t>(bytes_of(access(tensor).dtype));
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(lie_[tensor].data) % 64;
    return !code_.stream || past % bytes != 0 ? 0 : static_cast<std::int64_t>((64 - past) % 64 / bytes);
  }
  void choose_stores(std::int64_t head) {
    if (!code_.stream) return;
    for (std::size_t m = 0; m < code_.moves.size(); ++m) {
      Step<V>& step = whole_[m];
      if (code_.moves[m].kind != ChainMove::put || !direct(step.a.tensor)) continue;
      const bool lines = reinterpret_cast<std::uintptr_t>(step.a.data + head * step.a.across) % 64 == 0;
      const bool last = m + 1 == code_.moves.size();
      step.run = lines ? put_to<V, true>(step.a.form, last) : put_to<V, false>(step.a.form, last);
    }
  }

  // Runs n elements, less than a group, from element `first` of the block; direct tensors are copied in and out.
  void edge(std::int64_t first, std::int64_t n) {
    if (edge_.empty()) edge_ = bound(true);
    for (std::size_t t = 0; t < lie_.size(); ++t) {
      if (!direct(t) || access(t).stored) continue;
      std::fill_n(lie_[t].copy, group_size<V>, 0.0f);
      with_type(access(t).dtype, lie_[t].data, [&](auto* from) { widen_run<V>(from + first, n, lie_[t].copy); });
    }
    at_tensors(edge_, [&](Operand& x, std::size_t t) {
      x.data = reinterpret_cast<char*>(lie_[t].copy + (access(t).held ? first : 0));
    });
    Step<V>::start(edge_.data(), 0);
    for (std::size_t t = 0; t < lie_.size(); ++t)
      if (direct(t) && access(t).stored)
        with_type(access(t).dtype, lie_[t].data, [&](auto* to) { narrow(lie_[t].copy, n, to + first, 1); });
  }

  void gather_block(std::size_t tensor) const {
    const Window& w = lie_[tensor];
    float* const to = lie_[tensor].copy;
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
        narrow(lie_[tensor].copy + row * here_.columns, here_.columns, to + row * w.down, w.across);
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
  std::vector<Window> lie_;
  std::vector<Step<V>> whole_, edge_;
  ChainBlock here_;
};

}  // namespace
}  // namespace ridge::ops
