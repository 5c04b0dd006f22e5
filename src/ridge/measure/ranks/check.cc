// Error bounds: each of n partial sums is rounded once when it is stored (unit roundoff v), and each addition rounds
// once in f32 (u). The bound grows by (v + n*u) times the sum of their magnitudes, for each time that sums are stored.
#include "ridge/measure/ranks/check.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ridge/measure/device_steps.h"
#include "ridge/measure/inputs.h"
#include "ridge/measure/ranks/whole.h"
#include "ridge/measure/reference.h"
#include "ridge/plan/shape.h"

namespace ridge::ranks {
namespace {

constexpr std::int64_t checked_elements = 10'000;
constexpr double u = 0x1p-24;

class Judge {
 public:
  Judge(const Checked& what, const Part& part, transport::Ranks& ranks, const RunOptions& options)
      : what_(what), part_(part), ranks_(ranks), options_(options) {}

  Status judge(std::size_t operation, Measurement& out) {
    const std::vector<int>& group = what_.operations[operation];
    wholes_.clear();
    for (const int s : group) {
      const Statement& statement = what_.program.statements[static_cast<std::size_t>(s)];
      std::vector<int> slots = operands(statement);
      slots.push_back(statement.result());
      if (const int addends = part_.acts().addends[static_cast<std::size_t>(s)]; addends >= 0) slots.push_back(addends);
      for (const int slot : slots)
        if (const Status there = gather(slot); !there) return there;
    }
    if (ranks_.rank() != 0) return Done{};
    OpMeasurement& op = out.ops[operation];
    for (const int s : group)
      if (wholes_.contains(what_.program.statements[static_cast<std::size_t>(s)].result())) check(s, group, op, out);
    out.total.max_rel_error = std::max(out.total.max_rel_error, op.max_rel_error);
    out.total.checked += op.checked;
    out.total.elements += op.elements;
    return Done{};
  }

 private:
  // Intermediates inside a kernel are not in memory and are skipped.
  Status gather(int slot) {
    if (wholes_.contains(slot) || !what_.stored[static_cast<std::size_t>(slot)]) return Done{};
    auto whole = whole_of(part_, slot, ranks_);
    if (!whole) return whole.error();
    wholes_.emplace(slot, *std::move(whole));
    return Done{};
  }

  void check(int s, const std::vector<int>& group, OpMeasurement& op, Measurement& out) {
    const Statement& statement = what_.program.statements[static_cast<std::size_t>(s)];
    const int result = statement.result();
    Oracle oracle{what_.program, what_.sizes, {}, options_.in.empty(), options_.threads, group};
    if (options_.cuda) oracle.gelu = slack_of(s);
    for (std::size_t t = 0; t < what_.program.tensors.size(); ++t) {
      const auto found = wholes_.find(static_cast<int>(t));
      oracle.tensors.push_back(found == wholes_.end() ? Array{what_.program.tensors[t].dtype, 0, nullptr}
                                                      : found->second.values->array());
    }
    const Array& got = oracle.tensors[static_cast<std::size_t>(result)];
    const Tensor& tensor = what_.program.tensors[static_cast<std::size_t>(result)];
    const std::vector<std::int64_t> extents = ridge::extents(shape(tensor, what_.sizes).value());
    const std::vector<std::int64_t> indices =
        sample(extents, oracle.affordable(statement, checked_elements), options_.seed);
    std::vector<Expected> expected = oracle.evaluate(statement, indices);
    widen(s, extents, indices, expected);
    const Comparison comparison = compare(got, indices, expected);
    op.max_rel_error = std::max(op.max_rel_error, comparison.max_rel_error);
    op.checked += static_cast<std::int64_t>(indices.size());
    op.elements += got.elements;
    if (comparison.first_wrong < 0 || out.mismatch) return;
    const auto wrong = static_cast<std::size_t>(comparison.first_wrong);
    out.mismatch =
        mismatch({tensor.name, extents, statement.text}, indices[wrong], expected[wrong], read(got, indices[wrong]));
    if (!options_.out.empty()) out.mismatch->hint = "no output file was written";
  }

  GeluSlack slack_of(int s) const {
    for (std::size_t a = 0; a < part_.acts().acts.size(); ++a) {
      const auto* const compute = std::get_if<Compute>(&part_.acts().acts[a]);
      const Plan* const plan = part_.plan_of(a);
      if (compute == nullptr || plan == nullptr) continue;
      for (std::size_t g = 0; g < plan->fusion.groups.size(); ++g)
        for (const int local : plan->fusion.groups[g].statements)
          if (compute->statements[static_cast<std::size_t>(local)] == s) return gelu_slack(*plan, static_cast<int>(g));
    }
    return {};
  }

  // If the redistribution reorders the tensor's axes, the bound uses the largest magnitude for every element.
  void widen(int s, const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& indices,
             std::vector<Expected>& expected) const {
    const int slot = part_.acts().addends[static_cast<std::size_t>(s)];
    if (slot < 0) return;
    const std::vector<double>& magnitudes = wholes_.at(slot).magnitudes;
    const double largest = magnitudes.empty() ? 0 : *std::max_element(magnitudes.begin(), magnitudes.end());
    const bool in_order = part_.acts().slots[static_cast<std::size_t>(slot)].extents == extents;
    double times = 1;
    for (const auto& act : part_.acts().acts)
      if (const auto* shift = std::get_if<Shift>(&act); shift != nullptr && shift->statement == s) times += 1;
    const DType dtype = part_.acts().slots[static_cast<std::size_t>(slot)].dtype;
    const Layout& layout = part_.acts().slots[static_cast<std::size_t>(slot)].layout;
    const double n = static_cast<double>(part_.device().mesh.size(layout.addends)) + 1;
    for (std::size_t i = 0; i < indices.size(); ++i)
      expected[i].bound +=
          times * (roundoff(dtype) + n * u) * (in_order ? magnitudes[static_cast<std::size_t>(indices[i])] : largest);
  }

  const Checked& what_;
  const Part& part_;
  transport::Ranks& ranks_;
  const RunOptions& options_;
  std::map<int, Whole> wholes_;
};

}  // namespace

Status check(const Checked& what, const Part& part, transport::Ranks& ranks, const RunOptions& options,
             Measurement& out) {
  Judge judge(what, part, ranks, options);
  for (std::size_t i = 0; i < what.operations.size(); ++i) {
    if (options.progress && ranks.rank() == 0)
      options.progress(0.7 + 0.3 * static_cast<double>(i) / static_cast<double>(what.operations.size()), "checking");
    if (const Status judged = judge.judge(i, out); !judged) return judged;
  }
  return Done{};
}

}  // namespace ridge::ranks
