#include "ridge/distributed/sharding_costs.h"

#include <algorithm>

#include "ridge/roofline/prediction.h"

namespace ridge {

Result<ShardingCosts> ShardingCosts::compute_costs(const Program& program, const Machine& machine,
                                                   const Network& network, const Mesh& mesh, const Bindings& sizes) {
  ShardingCosts out;
  out.program_ = &program;
  out.network_ = network;
  out.network_.mesh = mesh.axes;
  out.mesh_ = mesh;
  out.sizes_ = sizes;
  out.redistribution_costs_.resize(program.tensors.size());
  for (const Tensor& tensor : program.tensors) out.layouts_.push_back(list_layouts(program, tensor, mesh, sizes));
  for (const Statement& statement : program.statements) {
    std::vector<StatementCost> all;
    for (const Partition& partition : list_partitions(program, statement, mesh, sizes)) {
      const Program statement_program = make_statement_program(program, statement, mesh, partition);
      RIDGE_TRY(found, explain(statement_program, machine, sizes, {}, Thresholds::skipped));
      const auto same = [&](const Statement& s) { return s.result() == statement.result(); };
      const std::vector<Statement>& all_statements = statement_program.statements;
      const auto place = std::find_if(all_statements.begin(), all_statements.end(), same);
      const Prediction& p = found.ops[static_cast<std::size_t>(place - all_statements.begin())];
      const Bindings& part_sizes = found.dims;  // includes the sizes of uneven parts
      StatementCost cost{partition, std::max(p.time_math_s.value_or(0), p.time_memory_s.value_or(0))};
      for (const Transfer& t : p.work.transfers) {
        Transfer sized_transfer = t;
        sized_transfer.bytes =
            Polynomial(static_cast<std::int64_t>(t.bytes.evaluate_double({part_sizes.begin(), part_sizes.end()})));
        cost.network_s += out.transfer_seconds(sized_transfer);
      }
      all.push_back(std::move(cost));
    }
    out.statements_.push_back(std::move(all));
  }
  return out;
}

double ShardingCosts::transfer_seconds(const Transfer& transfer) const { return time_transfer(transfer, network_); }

double ShardingCosts::bytes_per_device(int tensor, const Layout& layout) const {
  const Tensor& t = program_->tensors[tensor];
  return static_cast<double>(count_words(shard_box(tensor_extents(t, sizes_), layout, mesh_, 0))) *
         bytes_per_element(t.dtype);
}

const RedistributionCost& ShardingCosts::redistribution_cost(int tensor, const Layout& source,
                                                             const Layout& target) const {
  auto& cached = redistribution_costs_[tensor];
  const auto found = cached.find({source, target});
  if (found != cached.end()) return found->second;
  const Tensor& t = program_->tensors[tensor];
  const std::vector<std::int64_t> shape = tensor_extents(t, sizes_);
  const ScaleBlockBits stored = scale_block_bits(t.dtype);
  const Rational element_bytes(stored.bits, 8 * stored.elements);
  RedistributionCost cost;
  for (const RedistributionStep& step : plan_redistribution(source, target)) {
    cost.needs_copy = cost.needs_copy || step.collective;
    if (const auto transfer = transfer_of_step(step, shape, mesh_, element_bytes))
      cost.seconds += transfer_seconds(*transfer);
  }
  return cached.emplace(std::pair(source, target), cost).first->second;
}

}  // namespace ridge
