// Error bounds: each of n partial sums is rounded once when it is stored (unit roundoff v), and each addition rounds
// once in f32 (u). The bound grows by (v + n*u) times the sum of their magnitudes, for each time that sums are stored.
#include "ridge/measure/ranks/run.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ridge/measure/element_check.h"
#include "ridge/measure/reference.h"
#include "ridge/plan/shape.h"
#include "ridge/run/device_steps.h"
#include "ridge/run/inputs.h"
#include "ridge/run/ranks/rank_program.h"

namespace ridge::ranks {
namespace {

constexpr std::int64_t max_checked_elements = 10'000;
constexpr double f32_roundoff = 0x1p-24;

class ResultVerifier {
 public:
  ResultVerifier(const VerifyRequest& request, const RankProgram& rank_program, transport::Communicator& comm,
                 const RunOptions& options)
      : request_(request), rank_program_(rank_program), comm_(comm), options_(options) {}

  Status verify_operation(std::size_t operation, Measurement& out) {
    const std::vector<int>& statements = request_.operations[operation];
    gathered_.clear();
    for (const int s : statements) {
      const Statement& statement = request_.program.statements[s];
      std::vector<int> slots = statement_operands(statement);
      slots.push_back(statement.result());
      if (const int partial_slot = rank_program_.schedule().partial_slots[s]; partial_slot >= 0)
        slots.push_back(partial_slot);
      for (const int slot : slots) RIDGE_TRY_STATUS(gather_slot(slot));
    }
    if (comm_.rank() != 0) return Done{};
    OpMeasurement& op = out.ops[operation];
    for (const int s : statements)
      if (gathered_.contains(request_.program.statements[s].result())) verify_statement(s, statements, op, out);
    add_check(out.total, op);
    return Done{};
  }

 private:
  // Intermediates inside a kernel are not in memory and are skipped.
  Status gather_slot(int slot) {
    if (gathered_.contains(slot) || !request_.is_stored[slot]) return Done{};
    RIDGE_TRY(gathered, gather_tensor(rank_program_, slot, comm_));
    gathered_.emplace(slot, std::move(gathered));
    return Done{};
  }

  void verify_statement(int s, const std::vector<int>& group, OpMeasurement& op, Measurement& out) {
    const Statement& statement = request_.program.statements[s];
    const int result = statement.result();
    Reference reference{request_.program, request_.sizes, {}, options_.in.empty(), options_.threads, group};
    reference.on_tensor_cores = options_.cuda;
    if (options_.cuda) reference.gelu = statement_gelu_tolerance(s);
    for (std::size_t t = 0; t < request_.program.tensors.size(); ++t) {
      const auto found = gathered_.find(static_cast<int>(t));
      reference.tensors.push_back(found == gathered_.end() ? Array{request_.program.tensors[t].dtype, 0, nullptr}
                                                           : found->second.values->array());
    }
    const Array& actual = reference.tensors[result];
    const Tensor& tensor = request_.program.tensors[result];
    const std::vector<std::int64_t> extents = ridge::shape_extents(make_shape(tensor, request_.sizes).value());
    const std::vector<std::int64_t> indices =
        sample_indices(extents, reference.max_affordable_elements(statement, max_checked_elements), options_.seed);
    std::vector<Expected> expected = reference.evaluate_elements(statement, indices);
    widen_bounds(s, extents, indices, expected);
    const std::optional<Error> mismatch =
        check_elements({tensor.name, extents, statement.text}, actual, indices, expected, op);
    if (!mismatch || out.mismatch) return;
    out.mismatch = mismatch;
    if (!options_.out.empty()) out.mismatch->hint = "no output file was written";
  }

  GeluTolerance statement_gelu_tolerance(int s) const {
    for (std::size_t a = 0; a < rank_program_.schedule().steps.size(); ++a) {
      const auto* const compute = std::get_if<ComputeStep>(&rank_program_.schedule().steps[a]);
      const Plan* const plan = rank_program_.plan_of_step(a);
      if (compute == nullptr || plan == nullptr) continue;
      for (std::size_t g = 0; g < plan->fusion.groups.size(); ++g)
        for (const int local : plan->fusion.groups[g].statements)
          if (compute->statements[local] == s) return gelu_tolerance(*plan, static_cast<int>(g));
    }
    return {};
  }

  // If the redistribution reorders the tensor's axes, the bound uses the largest magnitude for every element.
  void widen_bounds(int s, const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& indices,
                    std::vector<Expected>& expected) const {
    const int slot = rank_program_.schedule().partial_slots[s];
    if (slot < 0) return;
    const std::vector<double>& magnitudes = gathered_.at(slot).magnitudes;
    const double largest = magnitudes.empty() ? 0 : *std::max_element(magnitudes.begin(), magnitudes.end());
    const bool in_order = rank_program_.schedule().slots[slot].extents == extents;
    double roundings = 1;
    for (const auto& schedule_step : rank_program_.schedule().steps)
      if (const auto* redistribution = std::get_if<Redistribution>(&schedule_step);
          redistribution != nullptr && redistribution->statement == s)
        roundings += 1;
    const DType dtype = rank_program_.schedule().slots[slot].dtype;
    const Layout& layout = rank_program_.schedule().slots[slot].layout;
    const double n = static_cast<double>(rank_program_.mesh_device().mesh.size(layout.partial_over)) + 1;
    for (std::size_t i = 0; i < indices.size(); ++i)
      expected[i].bound +=
          roundings * (unit_roundoff(dtype) + n * f32_roundoff) * (in_order ? magnitudes[indices[i]] : largest);
  }

  const VerifyRequest& request_;
  const RankProgram& rank_program_;
  transport::Communicator& comm_;
  const RunOptions& options_;
  std::map<int, GatheredTensor> gathered_;
};

}  // namespace

Status verify_results(const VerifyRequest& request, const RankProgram& rank_program, transport::Communicator& comm,
                      const RunOptions& options, Measurement& out) {
  ResultVerifier verifier(request, rank_program, comm, options);
  for (std::size_t i = 0; i < request.operations.size(); ++i) {
    if (options.progress && comm.rank() == 0)
      options.progress(0.7 + 0.3 * static_cast<double>(i) / static_cast<double>(request.operations.size()), "checking");
    RIDGE_TRY_STATUS(verifier.verify_operation(i, out));
  }
  return Done{};
}

}  // namespace ridge::ranks
