#include "ridge/roofline/routines/routine_work.h"

#include <algorithm>
#include <map>

#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"

namespace ridge {
namespace {

class Counter {
 public:
  Counter(const Program& program, const Expression& routine, const Elements& elements)
      : program_(program), routine_(routine), elements_(elements), operands_(operands_of(routine)) {}

  RoutineWork conv(const Masks& masks, const MaskedStatement& masked) const {
    const std::vector<Axis>&x = axes(operands_[0]), &w = axes(operands_[1]);
    std::vector<Axis> around{axes(routine_.result)[0], w[0], w[1]};
    Polynomial inside = elements_.of(around, 2), all = inside, read = elements_.of({x[0], x[1]}, 1);
    const std::vector<Window> along = windows(program_, routine_);
    for (std::size_t i = 0; i < along.size(); ++i) {
      inside = inside * count(along[i], WindowCount::taps, masks, masked.taps[i]);
      all = all * every(along[i], WindowCount::taps);
      read = read * count(along[i], WindowCount::touched, masks, masked.touched[i]);
    }
    return {inside, all, true, {{operands_[0], read}, {operands_[1], elements_.of(w, 1)}}};
  }

  RoutineWork gather() const {
    std::vector<Axis> split;
    for (const Axis& axis : axes(operands_[0]))
      if (axis == routine_.routine->over.front()) split.push_back(axis);
    const Polynomial rows = elements_.of(axes(routine_.result), elements_.part(split));
    return {0, 0, false, {{operands_[0], rows, operands_[1]}, {operands_[1], elements_.of(axes(operands_[1]), 1)}}};
  }

  // A contraction for each index, and of the experts those that some index names.
  RoutineWork routed(const Masks& masks, const MaskedStatement& masked) const {
    const Routing routing = routing_of(program_, routine_);
    const auto has = [](const std::vector<Axis>& in, const Axis& a) {
      return std::find(in.begin(), in.end(), a) != in.end();
    };
    std::vector<Axis> others, expert;
    bool sums = false;
    for (const int t : {operands_[0], operands_[1], routine_.result})
      for (const Axis& a : axes(t)) {
        const bool one = !a.named() && a.literal == 1;
        sums = sums || (!one && !has(axes(routine_.result), a) && !(a == routing.experts));
        if (!has(routing.indices, a) && !(a == routing.experts) && !has(others, a)) others.push_back(a);
      }
    for (const Axis& a : axes(operands_[1]))
      if (!(a == routing.experts)) expert.push_back(a);
    const Polynomial each = elements_.of(others, sums ? 2 : 1), thousandth = elements_.of(expert, Rational(1, 1000));
    return {each * count(routing, RoutingCount::kept, masks, masked.kept),
            each * every(routing, RoutingCount::kept),
            sums,
            {{operands_[0], elements_.of(axes(operands_[0]), 1)},
             {operands_[1], thousandth * count(routing, RoutingCount::experts, masks, masked.experts), operands_[2]},
             {operands_[2], elements_.of(axes(operands_[2]), 1)}}};
  }

  // So many operations for each element of the first operand.
  RoutineWork each(std::int64_t operations) const {
    const Polynomial flops = elements_.of(axes(operands_[0]), operations);
    RoutineWork out{flops, flops, false, {}};
    for (const int t : operands_) out.elements_read.push_back({t, elements_.of(axes(t), 1)});
    return out;
  }

 private:
  const std::vector<Axis>& axes(int tensor) const { return program_.tensors[static_cast<std::size_t>(tensor)].axes; }

  static Polynomial count(const Window& window, WindowCount what, const Masks& masks, int mask) {
    if (const auto known = plain(window, what)) return *known;
    return Polynomial::symbol(masks.all[static_cast<std::size_t>(mask)].symbol);
  }

  static Polynomial count(const Routing& routing, RoutingCount what, const Masks& masks, int mask) {
    if (const auto known = plain(routing, what)) return *known;
    return Polynomial::symbol(masks.all[static_cast<std::size_t>(mask)].symbol);
  }

  const Program& program_;
  const Expression& routine_;
  const Elements& elements_;
  std::vector<int> operands_;
};

}  // namespace

Polynomial together(const std::vector<Read>& reads, const Polynomial& whole) {
  std::map<int, Polynomial> by;
  for (const Read& read : reads) {
    const auto [known, is_new] = by.emplace(read.by, read.amount);
    if (!is_new && known->second != read.amount) return whole;
  }
  if (by.contains(-1)) return by.size() == 1 ? by.begin()->second : whole;
  Polynomial sum;
  for (const auto& [indices, amount] : by) sum += amount;
  return sum;
}

RoutineWork routine_work(const Program& program, const Expression& routine, const Masks& masks,
                         const MaskedStatement& masked, const Elements& elements) {
  const Counter counter(program, routine, elements);
  switch (routine.routine->word) {
    case Word::conv: return counter.conv(masks, masked);
    case Word::gather: return counter.gather();
    case Word::routed: return counter.routed(masks, masked);
    case Word::scatter:
    case Word::cumsum:
    case Word::topk:
    case Word::scan: break;
    case Word::quantize: return counter.each(3);  // magnitude, the block's maximum, quotient
  }
  return counter.each(1);
}

}  // namespace ridge
