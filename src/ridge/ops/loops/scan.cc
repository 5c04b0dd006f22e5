#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/element.h"

namespace ridge::ops {
namespace {

// Evaluates the recurrence at one point of all axes but the last.
class RecurrenceLine {
 public:
  RecurrenceLine(const RecurrenceLoops& l, std::span<void* const> data) : l_(l), data_(data), values_(l.nodes.size()) {}

  void run(std::int64_t line) {
    const std::size_t last = l_.extents.size() - 1;
    std::vector<std::int64_t> at(l_.extents.size());
    for (std::size_t i = last; i-- > 0; line /= l_.extents[i]) at[i] = line % l_.extents[i];
    double previous = 0;
    for (at[last] = 0; at[last] < l_.extents[last]; ++at[last]) {
      for (std::size_t i = 0; i < l_.nodes.size(); ++i) values_[i] = evaluate_node(l_.nodes[i], at, previous);
      previous = values_.back();
      store_element(l_.operands.back().dtype, data_.back(), operand_offset(l_.operands.back(), at), previous);
    }
  }

 private:
  static std::int64_t operand_offset(const RecurrenceOperand& operand, const std::vector<std::int64_t>& at) {
    std::int64_t out = 0;
    for (std::size_t i = 0; i < at.size(); ++i) out += at[i] * operand.strides[i];
    return out;
  }

  double evaluate_node(const RecurrenceNode& n, const std::vector<std::int64_t>& at, double previous) const {
    const std::size_t operand = n.operand;
    switch (n.kind) {
      case RecurrenceNode::Kind::load:
        return load_element(l_.operands[operand].dtype, data_[operand], operand_offset(l_.operands[operand], at));
      case RecurrenceNode::Kind::number: return n.number;
      case RecurrenceNode::Kind::index: return static_cast<double>(at[n.axis]);
      case RecurrenceNode::Kind::previous: return previous;
      case RecurrenceNode::Kind::call: break;
    }
    double in[3] = {0, 0, 0};
    for (std::size_t a = 0; a < n.arguments.size() && a < 3; ++a) in[a] = values_[n.arguments[a]];
    for (int time = 0; time < n.repeat; ++time) in[0] = function_info(n.function).reference(in[0], in[1], in[2]);
    return in[0];
  }

  const RecurrenceLoops& l_;
  std::span<void* const> data_;
  std::vector<double> values_;
};

}  // namespace

void run_loops(const RecurrenceLoops& l, std::span<void* const> data, int threads) {
  std::int64_t lines = 1;
  for (std::size_t i = 0; i + 1 < l.extents.size(); ++i) lines *= l.extents[i];
  parallel_for(lines, threads, [&](std::int64_t line) { RecurrenceLine(l, data).run(line); });
}

}  // namespace ridge::ops
