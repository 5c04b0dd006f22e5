// Runs a lowered chain group by group: 64 or 128 elements pass through all operations before the next group is read. So
// memory accesses are spread evenly, and intermediate values stay in registers or a few lines of the L1. (With groups
// of 512 elements memory was idle in between: 0.65 of stream bandwidth on Skylake instead of 0.95.) Included by one
// file for each instruction set.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ridge/ops/chain/lower.h"
#include "ridge/ops/chain/steps.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

// Returns the steps of operations; make_operand(location) gives the operand at a location.
template <class V, class MakeOperand>
std::vector<GroupStep<V>> make_steps(const std::vector<GroupOperation>& operations, const MakeOperand& make_operand) {
  std::vector<GroupStep<V>> steps;
  steps.reserve(operations.size() + 1);
  for (const GroupOperation& m : operations) {
    const bool apply = m.kind == GroupOperation::apply, last = &m == &operations.back();
    GroupStep<V> step{.a = make_operand(apply ? m.b : m.a), .b = make_operand(m.c), .repeat = m.repeat};
    if (m.kind == GroupOperation::load_group) step.function = load_step_function<V>(step.a);
    if (m.kind == GroupOperation::save_group || m.kind == GroupOperation::store_group)
      step.function = store_step_function<V, false>(step.a.form, last);
    if (apply) step.function = ops::select_step_function<V>(m.op, step.a);
    steps.push_back(step);
  }
  steps.emplace_back();
  return steps;
}

template <class V> class ChainRunner {
 public:
  explicit ChainRunner(const ChainRunArgs& run) : run_(run), code_(run.code), views_(code_.tensors.size()) {
    static_assert(group_size<V> <= max_group_elements);
    float* free = run.scratch + code_.saved_groups * max_group_elements;
    for (std::size_t t = 0; t < views_.size(); ++t) {
      views_[t].copy = free;
      free += max_group_elements + (access_of(t).is_gathered ? code_.rows * code_.columns : 0);
    }
    group_steps_ = make_group_steps(false);
  }

  void run_blocks() {
    block_ = block_at(code_, run_.begin);
    for (std::int64_t index = run_.begin; index < run_.end; ++index) {
      run_block();
      advance_block();
    }
    if (code_.streams_stores) V::store_fence();
  }

 private:
  // Address and strides, in elements, of the current block in a tensor.
  struct BlockView {
    char* data = nullptr;
    std::int64_t row_stride = 0, column_stride = 0;
    float* copy = nullptr;  // f32 copy of the block if the tensor is gathered, else of a partial group.
  };
  BlockView make_block_view(std::size_t tensor) const {
    const LoweredTensor& access = code_.tensors[tensor];
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(code_.axes); ++axis)
      offset += block_.start[axis] * access.strides[axis];
    const std::size_t last = code_.axes - 1;
    char* data = static_cast<char*>(run_.tensors[tensor]);
    return {data + offset * dtype_bytes(access.dtype), access.strides[last - 1], access.strides[last],
            views_[tensor].copy};
  }
  template <class Index> const LoweredTensor& access_of(Index tensor) const { return code_.tensors[tensor]; }
  bool is_uniform(std::size_t tensor) const {  // True if the tensor has one value in the block.
    const LoweredTensor& t = access_of(tensor);
    return !t.is_gathered && !t.is_stored && t.strides[code_.axes - 1] == 0;
  }
  template <class Index> bool is_in_place(Index tensor) const {
    return !access_of(tensor).is_gathered && !is_uniform(static_cast<std::size_t>(tensor));
  }

  void advance_block() {
    std::size_t axis = code_.axes - 1;
    block_.start[axis] += block_.columns;
    if (block_.start[axis] == code_.extents[axis]) {
      block_.start[axis] = 0;
      block_.start[--axis] += block_.rows;
      if (block_.start[axis] == code_.extents[axis]) {
        block_.start[axis] = 0;
        while (axis-- > 0 && ++block_.start[axis] == code_.extents[axis]) block_.start[axis] = 0;
      }
    }
    const std::size_t last = code_.axes - 1;
    block_.columns = std::min(code_.columns, code_.extents[last] - block_.start[last]);
    block_.rows = std::min(code_.rows, code_.extents[last - 1] - block_.start[last - 1]);
  }

  // Returns the steps of the operations. Steps of full groups access tensors in place if possible; steps of partial
  // groups at a block's edge access copies.
  std::vector<GroupStep<V>> make_group_steps(bool edge) const {
    const bool even_odd = !edge && uses_even_odd();
    return make_steps<V>(code_.operations, [&](const OperandLocation& at) { return make_operand(at, edge, even_odd); });
  }
  GroupOperand make_operand(const OperandLocation& s, bool edge, bool even_odd) const {
    GroupOperand x;
    if (s.kind == OperandLocation::constant) {
      x.form = OperandForm::constant;
      x.constant = code_.constants[s.index];
    }
    if (s.kind == OperandLocation::saved) x.data = reinterpret_cast<char*>(run_.scratch + s.index * max_group_elements);
    if (s.kind != OperandLocation::tensor) return x;
    x.tensor = s.index;
    if (edge || !is_in_place(s.index)) return x;
    x.prefetches = code_.streams_stores && pool::needs_far_prefetch();
    const DType dtype = access_of(s.index).dtype;
    x.form = even_odd ? OperandForm::bf16_even_odd : OperandForm::bf16;
    if (dtype == DType::f32) x.form = OperandForm::f32;
    if (dtype == DType::f16) x.form = OperandForm::f16;
    return x;
  }
  // True if all tensors are bf16, so vectors can hold the even and the odd elements separately.
  bool uses_even_odd() const {
    if (!V::has_even_odd) return false;
    for (std::size_t t = 0; t < views_.size(); ++t)
      if (!is_uniform(t) && (access_of(t).is_gathered || access_of(t).dtype != DType::bf16)) return false;
    return true;
  }

  template <class F> static void for_each_tensor_operand(std::vector<GroupStep<V>>& steps, F set) {
    for (GroupStep<V>& step : steps)
      for (GroupOperand* const x : {&step.a, &step.b})
        if (x->tensor >= 0) set(*x, static_cast<std::size_t>(x->tensor));
  }

  void run_block() {
    const std::int64_t count = block_.rows * block_.columns;
    std::int64_t head = 0;
    for (std::size_t t = 0; t < views_.size(); ++t) {
      views_[t] = make_block_view(t);
      if (access_of(t).is_stored && is_in_place(t)) head = elements_before_line(t);
      if (!access_of(t).is_stored && !is_in_place(t)) gather_block(t);
    }
    head = std::min(head, count);
    for_each_tensor_operand(group_steps_, [&](GroupOperand& x, std::size_t t) {
      x.data = is_in_place(t) ? views_[t].data : reinterpret_cast<char*>(views_[t].copy);
      x.column_stride = is_uniform(t) ? 0 : std::int64_t{sizeof(float)};
      if (is_in_place(t)) x.column_stride = dtype_bytes(access_of(t).dtype);
    });
    select_store_functions(head);
    if (head > 0) run_partial_group(0, head);
    std::int64_t i = head;
    for (; i + group_size<V> <= count; i += group_size<V>) GroupStep<V>::run_steps(group_steps_.data(), i);
    if (i < count) run_partial_group(i, count - i);
    for (std::size_t t = 0; t < views_.size(); ++t)
      if (access_of(t).is_stored && access_of(t).is_gathered) scatter_block(t);
  }

  // Returns the number of elements before the first full cache line of an output, or 0 if stores are not non-temporal.
  std::int64_t elements_before_line(std::size_t tensor) const {
    const auto bytes = static_cast<std::uintptr_t>(dtype_bytes(access_of(tensor).dtype));
    const std::uintptr_t line_offset = reinterpret_cast<std::uintptr_t>(views_[tensor].data) % 64;
    return !code_.streams_stores || line_offset % bytes != 0
               ? 0
               : static_cast<std::int64_t>((64 - line_offset) % 64 / bytes);
  }
  // Selects non-temporal stores for the outputs that are aligned to cache lines after the first `head` elements.
  void select_store_functions(std::int64_t head) {
    if (!code_.streams_stores) return;
    for (std::size_t m = 0; m < code_.operations.size(); ++m) {
      GroupStep<V>& step = group_steps_[m];
      if (code_.operations[m].kind != GroupOperation::store_group || !is_in_place(step.a.tensor)) continue;
      const bool is_aligned = reinterpret_cast<std::uintptr_t>(step.a.data + head * step.a.column_stride) % 64 == 0;
      const bool last = m + 1 == code_.operations.size();
      step.function = is_aligned ? store_step_function<V, true>(step.a.form, last)
                                 : store_step_function<V, false>(step.a.form, last);
    }
  }

  // Runs the n elements, fewer than a group, from element `first` of the block, on copies of the tensors' elements.
  void run_partial_group(std::int64_t first, std::int64_t n) {
    if (edge_steps_.empty()) edge_steps_ = make_group_steps(true);
    for (std::size_t t = 0; t < views_.size(); ++t) {
      if (!is_in_place(t) || access_of(t).is_stored) continue;
      std::fill_n(views_[t].copy, group_size<V>, 0.0f);
      with_typed_pointer(access_of(t).dtype, views_[t].data,
                         [&](auto* from) { widen_array<V>(from + first, n, views_[t].copy); });
    }
    for_each_tensor_operand(edge_steps_, [&](GroupOperand& x, std::size_t t) {
      x.data = reinterpret_cast<char*>(views_[t].copy + (access_of(t).is_gathered ? first : 0));
    });
    GroupStep<V>::run_steps(edge_steps_.data(), 0);
    for (std::size_t t = 0; t < views_.size(); ++t)
      if (is_in_place(t) && access_of(t).is_stored)
        with_typed_pointer(access_of(t).dtype, views_[t].data,
                           [&](auto* to) { convert_and_store(views_[t].copy, n, to + first, 1); });
  }

  void gather_block(std::size_t tensor) const {
    const BlockView& w = views_[tensor];
    float* const to = views_[tensor].copy;
    with_typed_pointer(access_of(tensor).dtype, w.data, [&](auto* from) {
      if (is_uniform(tensor)) {
        gather_strided<V>(from, 0, 1, to);
        std::fill_n(to + 1, max_group_elements - 1, to[0]);
        return;
      }
      for (std::int64_t row = 0; row < block_.rows; ++row) {
        float* const out = to + row * block_.columns;
        if (w.column_stride == 1)
          widen_array<V>(from + row * w.row_stride, block_.columns, out);
        else
          gather_strided<V>(from + row * w.row_stride, w.column_stride, block_.columns, out);
      }
    });
  }
  void scatter_block(std::size_t tensor) const {
    const BlockView& w = views_[tensor];
    with_typed_pointer(access_of(tensor).dtype, w.data, [&](auto* to) {
      for (std::int64_t row = 0; row < block_.rows; ++row)
        convert_and_store(views_[tensor].copy + row * block_.columns, block_.columns, to + row * w.row_stride,
                          w.column_stride);
    });
  }
  template <class T> static void convert_and_store(const float* from, std::int64_t n, T* to, std::int64_t stride) {
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, n - i));
      if (stride == 1 && count == V::lanes)
        V::load(from + i).store(to + i);
      else
        store_partial(V::load_partial(from + i, count), to + i * stride, count, stride);
    }
  }

  const ChainRunArgs& run_;
  const LoweredChain& code_;
  std::vector<BlockView> views_;
  std::vector<GroupStep<V>> group_steps_, edge_steps_;
  ChainBlock block_;
};

// Runs RepeatedChainArgs. All groups of a step are run before the next step.
template <class V> void run_repeated(const RepeatedChainArgs& run) {
  std::vector<GroupStep<V>> steps = make_steps<V>(run.code.operations, [&](const OperandLocation& s) {
    GroupOperand x;
    if (s.kind == OperandLocation::constant) {
      x.form = OperandForm::constant;
      x.constant = run.code.constants[s.index];
    }
    if (s.kind == OperandLocation::saved) x.data = reinterpret_cast<char*>(run.saved + s.index * max_group_elements);
    if (s.kind != OperandLocation::tensor) return x;
    const RepeatedTensor& tensor = run.tensors[s.index];
    x.tensor = s.index;
    x.data = tensor.data;
    x.column_stride = dtype_bytes(tensor.dtype);
    x.form = tensor.dtype == DType::bf16 ? OperandForm::bf16 : OperandForm::f32;
    if (tensor.dtype == DType::f16) x.form = OperandForm::f16;
    return x;
  });
  constexpr std::int64_t line = 64;
  const auto prefetch_next_step = [&](std::int64_t at, std::int64_t group) {
    for (const RepeatedTensor& tensor : run.tensors) {
      const std::int64_t bytes = group_size<V> * dtype_bytes(tensor.dtype);
      if (std::abs(tensor.step_bytes) <= run.groups * bytes) continue;
      const char* const next = tensor.data + (at + 1) * tensor.step_bytes + group * bytes;
      for (std::int64_t i = 0; i < bytes; i += line) __builtin_prefetch(next + i, 0, 3);
    }
  };
  for (std::int64_t at = 0; at < run.steps; ++at) {
    for (std::int64_t group = 0; group < run.groups; ++group) {
      if (at + 1 < run.steps) prefetch_next_step(at, group);
      GroupStep<V>::run_steps(steps.data(), group * group_size<V>);
    }
    for (GroupStep<V>& step : steps)
      for (GroupOperand* const x : {&step.a, &step.b})
        if (x->tensor >= 0) x->data += run.tensors[x->tensor].step_bytes;
  }
}

}  // namespace
}  // namespace ridge::ops
