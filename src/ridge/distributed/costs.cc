#include "ridge/distributed/costs.h"

#include <algorithm>

#include "ridge/distributed/collective.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

Result<Costs> Costs::of(const Program& program, const Machine& machine, const Network& network, const Mesh& mesh,
                        const Bindings& sizes) {
  Costs out;
  out.program_ = &program;
  out.machine_ = &machine;
  out.network_ = network;
  out.network_.mesh = mesh.axes;
  out.mesh_ = mesh;
  out.sizes_ = sizes;
  out.moves_.resize(program.tensors.size());
  for (const Tensor& tensor : program.tensors) out.layouts_.push_back(every_layout(program, tensor, mesh, sizes));
  for (const Statement& statement : program.statements) {
    std::vector<StatementCost> all;
    for (const Cuts& cuts : every_cut(program, statement, mesh, sizes)) {
      const Program lies = alone(program, statement, mesh, cuts);
      const auto found = explain(lies, machine, sizes, {}, Thresholds::left_out);
      if (!found) return found.error();
      const Prediction& p = found->ops[0];
      const Bindings& parts = found->dims;  // with those of what the mesh does not divide
      StatementCost cost{cuts, std::max(p.time_math_s.value_or(0), p.time_memory_s.value_or(0))};
      for (const Transfer& t : p.work.transfers) {
        Transfer counted = t;
        counted.bytes = Polynomial(static_cast<std::int64_t>(t.bytes.real({parts.begin(), parts.end()})));
        cost.network_s += out.sending(counted);
      }
      all.push_back(std::move(cost));
    }
    out.statements_.push_back(std::move(all));
  }
  return out;
}

double Costs::sending(const Transfer& transfer) const {
  return std::max(seconds(transfer, network_), library_time(*machine_, transfer).value_or(0));
}

double Costs::bytes(int tensor, const Layout& layout) const {
  const Tensor& t = program_->tensors[static_cast<std::size_t>(tensor)];
  return static_cast<double>(words_in(block_of(extents(t, sizes_), layout, mesh_, 0))) * bytes_per_element(t.dtype);
}

const MoveCost& Costs::move(int tensor, const Layout& now, const Layout& then) const {
  auto& known = moves_[static_cast<std::size_t>(tensor)];
  const auto found = known.find({now, then});
  if (found != known.end()) return found->second;
  const Tensor& t = program_->tensors[static_cast<std::size_t>(tensor)];
  const std::vector<std::int64_t> shape = extents(t, sizes_);
  const StoredBits stored = stored_bits(t.dtype);
  const Rational each(stored.bits, 8 * stored.elements);
  MoveCost cost;
  for (const Move& move : moves(now, then)) {
    cost.copies = cost.copies || move.kind;
    if (const auto transfer = transfer_of(move, shape, mesh_, each)) cost.seconds += sending(*transfer);
  }
  return known.emplace(std::pair(now, then), cost).first->second;
}

}  // namespace ridge
