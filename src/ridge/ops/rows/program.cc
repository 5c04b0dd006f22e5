#include "ridge/ops/rows/program.h"

#include <algorithm>
#include <utility>

#include "ridge/ops/chain/lower.h"

namespace ridge::ops {
namespace {

// Each block or cluster sums one split of the rows. Partial sums may take 8 MB, or more if that is less than 33 splits.
constexpr std::int64_t max_split_limit = 1056, min_split_limit = 33, min_rows_per_split = 4, max_partial_sums = 1 << 21;

}  // namespace

int RowProgramBuilder::add_step(RowProgramStep step) {
  step.step.result = out_.registers++;
  out_.steps.push_back(step);
  return step.step.result;
}

int RowProgramBuilder::add_tensor(ChainTensor tensor) {
  out_.tensors.push_back(std::move(tensor));
  return static_cast<int>(out_.tensors.size()) - 1;
}

int RowProgramBuilder::load(int tensor) { return add_step({.step = {.op = ChainOp::load, .slot = tensor}}); }

int RowProgramBuilder::add_constant(float value) {
  return add_step({.step = {.op = ChainOp::constant, .constant = value}});
}

int RowProgramBuilder::apply(ChainOp op, int a, int b, int c, int repeat) {
  return add_step({.step = {.op = op, .a = a, .b = b, .c = c, .repeat = repeat}});
}

int RowProgramBuilder::reduce_row(ReduceFunction function, int a) {
  return add_step(
      {.kind = RowProgramStep::StepKind::row_reduction, .function = function, .step = {.op = ChainOp::add, .a = a}});
}

int RowProgramBuilder::apply_row_function(RowFunction function, int a, float epsilon, int dy) {
  return add_step({.kind = RowProgramStep::StepKind::row_function,
                   .row_function = function,
                   .step = {.op = ChainOp::add, .a = a, .b = dy, .constant = epsilon}});
}

void RowProgramBuilder::store(int value, int tensor) {
  out_.steps.push_back({.step = {.op = ChainOp::store, .a = value, .slot = tensor}});
}

void RowProgramBuilder::reduce_columns(int value, int tensor) {
  out_.steps.push_back(
      {.kind = RowProgramStep::StepKind::sum_across_rows, .step = {.op = ChainOp::store, .a = value, .slot = tensor}});
}

std::int64_t max_row_splits(const RowProgram& program) {
  if (program.steps.empty() || program.steps.back().kind != RowProgramStep::StepKind::sum_across_rows) return 0;
  std::int64_t rows = 1;
  for (const std::int64_t extent : program.rows) rows *= extent;
  const std::int64_t max_splits = std::clamp(max_partial_sums / program.columns, min_split_limit, max_split_limit);
  return std::clamp<std::int64_t>(rows / min_rows_per_split, 1, max_splits);
}

Reason unsupported_reason(const RowProgram&) { return "row programs run only on CUDA devices"; }

namespace {

std::vector<int> step_inputs(const RowProgramStep& s) {
  const int in[] = {s.step.a, s.step.b, s.step.c};
  if (s.kind == RowProgramStep::StepKind::row_function) return {in, in + (is_gradient(s.row_function) ? 2 : 1)};
  const bool has_one_input = s.kind == RowProgramStep::StepKind::row_reduction || s.step.op == ChainOp::store;
  return {in, in + (has_one_input ? 1 : operand_count(s.step.op))};
}

}  // namespace

// Loads x last, so that it occupies registers as briefly as possible.
RowProgram make_row_program(const RowProblem& p, bool weighted) {
  RowProgramBuilder b({p.rows}, p.columns);
  const int x = b.add_tensor({p.x.dtype, {p.x.row_stride, 1}});
  const int dy = is_gradient(p.function) ? b.add_tensor({p.dy.dtype, {p.dy.row_stride, 1}}) : -1;
  const int weight = weighted ? b.add_tensor({p.weight_dtype, {0, 1}}) : -1;
  const auto times_weight = [&](int y) { return weighted ? b.apply(ChainOp::multiply, y, b.load(weight)) : y; };
  int y = -1;
  if (dy >= 0) {
    const int upstream = times_weight(b.load(dy));
    y = b.apply_row_function(p.function, b.load(x), p.epsilon, upstream);
  } else {
    y = times_weight(b.apply_row_function(p.function, b.load(x), p.epsilon));
  }
  if (reduces_across_rows(p.function))
    b.reduce_columns(y, b.add_tensor({DType::f32, {p.columns, 1}}));
  else
    b.store(y, b.add_tensor({p.y.dtype, {p.y.row_stride, is_row_scalar(p.function) ? 0 : 1}}));
  return b.finish();
}

// A thread has 128 registers (source.cc). A value that only the next step's reduction reads needs none.
std::int64_t max_elements_per_lane(const RowProgram& program) {
  std::vector<bool> wide_registers(program.registers);
  std::vector<std::size_t> last_use(wide_registers.size(), 0);
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    for (const int in : step_inputs(program.steps[i])) last_use[in] = i;
  int live = max_row_splits(program) > 0 ? 1 : 0, max_live = 0;  // Sums across rows stay in registers.
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const RowProgramStep& s = program.steps[i];
    bool is_wide = s.kind == RowProgramStep::StepKind::element && s.step.op == ChainOp::load &&
                   program.tensors[s.step.slot].strides.back() != 0;
    for (const int in : step_inputs(s)) {
      if (!wide_registers[in]) continue;
      is_wide |= s.kind != RowProgramStep::StepKind::row_reduction;
      if (last_use[in] == i) {
        --live;
        wide_registers[in] = false;
      }
    }
    const bool is_transient = i + 1 < program.steps.size() &&
                              program.steps[i + 1].kind == RowProgramStep::StepKind::row_reduction &&
                              last_use[s.step.result] == i + 1;
    if (s.step.op == ChainOp::store || !is_wide || is_transient) continue;
    wide_registers[s.step.result] = true;
    max_live = std::max(max_live, ++live);
  }
  if (max_live <= 1) return 64;
  if (max_live <= 2) return 32;
  return max_live <= 4 ? 16 : 8;
}

Reason invalid_reason(const RowProgram& program) {
  if (std::all_of(program.steps.begin(), program.steps.end(),
                  [](const RowProgramStep& s) { return s.kind == RowProgramStep::StepKind::element; }))
    return "no step reduces its rows; such a program is a chain";
  // At most 512 threads in a block and 8 blocks in a cluster. Without alignment a lane holds at most 32 elements.
  const std::int64_t max_columns = std::min<std::int64_t>(max_elements_per_lane(program), 32) * 512 * 8;
  if (program.columns > max_columns)
    return "a row has " + std::to_string(program.columns) + " columns; expected at most " + std::to_string(max_columns);
  for (const ChainTensor& tensor : program.tensors)
    if (program.columns > 1 && tensor.strides.back() != 0 && tensor.strides.back() != 1)
      return "expected contiguous columns, found a stride of " + std::to_string(tensor.strides.back());
  return {};
}

}  // namespace ridge::ops
