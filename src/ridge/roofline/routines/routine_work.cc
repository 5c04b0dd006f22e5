#include "ridge/roofline/routines/routine_work.h"

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"

namespace ridge {
namespace {

class RoutineCounter {
 public:
  RoutineCounter(const Program& program, const Expression& routine, const ElementCounter& elements)
      : program_(program), routine_(routine), elements_(elements), operands_(expression_operands(routine)) {}

  RoutineWork count_conv(const ProgramMasks& masks, const StatementMasks& masked) const {
    const std::vector<Axis>&x = axes(operands_[0]), &w = axes(operands_[1]);
    const std::size_t channels = conv_axes(*routine_.routine, x.size()).channels;
    std::vector<Axis> around{axes(routine_.result)[0], w[0], w[channels]};
    const Polynomial each = elements_(around, 2), read = elements_({x[0], x[channels]}, 1);
    return multiply_window_counts({each, each, true, {{operands_[0], read}, {operands_[1], elements_(w, 1)}}}, masks,
                                  masked);
  }

  RoutineWork count_pool(const ProgramMasks& masks, const StatementMasks& masked) const {
    std::vector<Axis> others = axes(operands_[0]);
    std::erase_if(others, [&](const Axis& axis) { return contains(routine_.routine->over, axis); });
    const Polynomial each = elements_(others, 1);
    return multiply_window_counts({each, each, false, {{operands_[0], each}}}, masks, masked);
  }

  RoutineWork count_gather(const ProgramMasks& masks, const StatementMasks& masked) const {
    std::vector<Axis> others;
    for (const Axis& axis : axes(operands_[0]))
      if (!(axis == routine_.routine->over.front())) others.push_back(axis);
    const Polynomial rows = Polynomial::make_symbol(masks.all[masked.gathered].symbol);
    return {
        0,
        0,
        false,
        {{operands_[0], elements_(others, 1) * rows, operands_[1]}, {operands_[1], elements_(axes(operands_[1]), 1)}}};
  }

  // Counts a contraction for each index, and reads those experts that some index names.
  RoutineWork count_routed(const ProgramMasks& masks, const StatementMasks& masked) const {
    const Routing routing = routing_of(program_, routine_);
    std::vector<Axis> others, expert;
    bool sums = false;
    for (const int t : {operands_[0], operands_[1], routine_.result})
      for (const Axis& a : axes(t)) {
        const bool one = !a.is_named() && a.literal == 1;
        sums = sums || (!one && !contains(axes(routine_.result), a) && !(a == routing.experts));
        if (!contains(routing.indices, a) && !(a == routing.experts) && !contains(others, a)) others.push_back(a);
      }
    for (const Axis& a : axes(operands_[1]))
      if (!(a == routing.experts)) expert.push_back(a);
    const Polynomial each = elements_(others, sums ? 2 : 1), thousandth = elements_(expert, Rational(1, 1000));
    return {each * symbolic_count(routing, RoutingCount::kept, masks, masked.kept),
            each * full_routing_count(routing, RoutingCount::kept),
            sums,
            {{operands_[0], elements_(axes(operands_[0]), 1)},
             {operands_[1], thousandth * symbolic_count(routing, RoutingCount::experts, masks, masked.experts),
              operands_[2]},
             {operands_[2], elements_(axes(operands_[2]), 1)}}};
  }

  // Two products and a sum for each element; a cosine and a sine for each position and pair.
  RoutineWork count_rotary() const {
    const Polynomial flops =
        elements_(axes(operands_[0]), 3) + elements_(axes(operands_[1]), 1) * elements_(routine_.routine->over, 1);
    RoutineWork out{flops, flops, false, {}};
    for (const int t : operands_) out.elements_read.push_back({t, elements_(axes(t), 1)});
    return out;
  }

  // Counts `operations` for each element of the first operand.
  RoutineWork count_each_element(std::int64_t operations) const {
    const Polynomial flops = elements_(axes(operands_[0]), operations);
    RoutineWork out{flops, flops, false, {}};
    for (const int t : operands_) out.elements_read.push_back({t, elements_(axes(t), 1)});
    return out;
  }

 private:
  // Multiplies the FLOPs and the elements of the first operand by the counts of the windows along each dimension.
  RoutineWork multiply_window_counts(RoutineWork work, const ProgramMasks& masks, const StatementMasks& masked) const {
    Polynomial& read = work.elements_read.front().amount;
    const std::vector<WindowDimension> windows = windows_of(program_, routine_);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      work.flops = work.flops * symbolic_count(windows[i], WindowCount::taps, masks, masked.taps[i]);
      work.flops_without_masks = work.flops_without_masks * full_window_count(windows[i], WindowCount::taps);
      read = read * symbolic_count(windows[i], WindowCount::touched, masks, masked.touched[i]);
    }
    return work;
  }

  const std::vector<Axis>& axes(int tensor) const { return program_.tensors[tensor].axes; }

  static Polynomial symbolic_count(const WindowDimension& window, WindowCount what, const ProgramMasks& masks,
                                   int mask) {
    if (const auto known = window_closed_form(window, what)) return *known;
    return Polynomial::make_symbol(masks.all[mask].symbol);
  }

  static Polynomial symbolic_count(const Routing& routing, RoutingCount what, const ProgramMasks& masks, int mask) {
    if (const auto known = routing_closed_form(routing, what)) return *known;
    return Polynomial::make_symbol(masks.all[mask].symbol);
  }

  const Program& program_;
  const Expression& routine_;
  const ElementCounter& elements_;
  std::vector<int> operands_;
};

}  // namespace

Polynomial merge_reads(const std::vector<TensorRead>& reads, const Polynomial& all) {
  if (reads.empty()) return all;
  const TensorRead& first = reads.front();
  const auto is_same = [&](const TensorRead& read) {
    return read.amount == first.amount && read.index_tensor == first.index_tensor;
  };
  if (std::all_of(reads.begin(), reads.end(), is_same)) return first.amount;
  return first.by_all_readers.value_or(all);
}

RoutineWork count_routine_work(const Program& program, const Expression& routine, const ProgramMasks& masks,
                               const StatementMasks& masked, const ElementCounter& elements) {
  const RoutineCounter counter(program, routine, elements);
  switch (routine.routine->kind) {
    case RoutineKind::conv:
    case RoutineKind::conv_transpose: return counter.count_conv(masks, masked);
    case RoutineKind::gather: return counter.count_gather(masks, masked);
    case RoutineKind::routed: return counter.count_routed(masks, masked);
    case RoutineKind::scatter:
    case RoutineKind::cumsum:
    case RoutineKind::topk:
    case RoutineKind::argmax:
    case RoutineKind::sort:
    case RoutineKind::argsort:
    case RoutineKind::scan: break;
    case RoutineKind::max_pool:
    case RoutineKind::avg_pool: return counter.count_pool(masks, masked);
    case RoutineKind::rotary: return counter.count_rotary();
    case RoutineKind::quantize: return counter.count_each_element(3);  // Magnitude, maximum of the block, quotient
  }
  return counter.count_each_element(1);
}

}  // namespace ridge
