#include "ridge/ops/rows/program.h"

#include <algorithm>
#include <utility>

#include "ridge/ops/chain/code.h"

namespace ridge::ops {
namespace {

// Each block or cluster sums its split of the rows; all partial sums take at most 8 MB, or 33 splits.
constexpr std::int64_t most_pieces = 1056, few_pieces = 33, least_piece = 4, sums = 1 << 21;

}  // namespace

int RowBuilder::add(RowStep step) {
  step.step.result = out_.registers++;
  out_.steps.push_back(step);
  return step.step.result;
}

int RowBuilder::tensor(ChainTensor tensor) {
  out_.tensors.push_back(std::move(tensor));
  return static_cast<int>(out_.tensors.size()) - 1;
}

int RowBuilder::load(int tensor) { return add({.step = {.op = ChainOp::load, .slot = tensor}}); }

int RowBuilder::constant(float value) { return add({.step = {.op = ChainOp::constant, .constant = value}}); }

int RowBuilder::apply(ChainOp op, int a, int b, int c, int repeat) {
  return add({.step = {.op = op, .a = a, .b = b, .c = c, .repeat = repeat}});
}

int RowBuilder::along(ReduceFunction function, int a) {
  return add({.kind = RowStep::Kind::along, .function = function, .step = {.op = ChainOp::add, .a = a}});
}

int RowBuilder::whole(RowFunction function, int a, float epsilon, int dy) {
  return add({.kind = RowStep::Kind::whole,
              .whole = function,
              .step = {.op = ChainOp::add, .a = a, .b = dy, .constant = epsilon}});
}

void RowBuilder::store(int value, int tensor) {
  out_.steps.push_back({.step = {.op = ChainOp::store, .a = value, .slot = tensor}});
}

void RowBuilder::across(int value, int tensor) {
  out_.steps.push_back({.kind = RowStep::Kind::across, .step = {.op = ChainOp::store, .a = value, .slot = tensor}});
}

std::int64_t pieces_of(const RowProgram& program) {
  if (program.steps.empty() || program.steps.back().kind != RowStep::Kind::across) return 0;
  std::int64_t rows = 1;
  for (const std::int64_t extent : program.rows) rows *= extent;
  const std::int64_t most = std::clamp(sums / program.columns, few_pieces, most_pieces);
  return std::clamp<std::int64_t>(rows / least_piece, 1, most);
}

std::optional<std::string> refuse(const RowProgram&) { return "row programs run only on CUDA devices"; }

namespace {

std::vector<int> inputs(const RowStep& s) {
  const int in[] = {s.step.a, s.step.b, s.step.c};
  if (s.kind == RowStep::Kind::whole) return {in, in + (is_gradient(s.whole) ? 2 : 1)};
  const bool one = s.kind == RowStep::Kind::along || s.step.op == ChainOp::store;
  return {in, in + (one ? 1 : operands(s.step.op))};
}

}  // namespace

// Loads x last, so that it occupies registers as briefly as possible.
RowProgram row_program(const RowProblem& p, bool weighted) {
  RowBuilder b({p.rows}, p.columns);
  const int x = b.tensor({p.x.dtype, {p.x.row_stride, 1}});
  const int dy = is_gradient(p.function) ? b.tensor({p.dy.dtype, {p.dy.row_stride, 1}}) : -1;
  const int weight = weighted ? b.tensor({p.weight, {0, 1}}) : -1;
  const auto times_weight = [&](int y) { return weighted ? b.apply(ChainOp::multiply, y, b.load(weight)) : y; };
  int y = -1;
  if (dy >= 0) {
    const int upstream = times_weight(b.load(dy));
    y = b.whole(p.function, b.load(x), p.epsilon, upstream);
  } else {
    y = times_weight(b.whole(p.function, b.load(x), p.epsilon));
  }
  if (is_across(p.function))
    b.across(y, b.tensor({DType::f32, {p.columns, 1}}));
  else
    b.store(y, b.tensor({p.y.dtype, {p.y.row_stride, is_number(p.function) ? 0 : 1}}));
  return b.take();
}

// A thread has 128 registers (source.cc). A value that only the next step's reduction reads needs none.
std::int64_t lane_elements(const RowProgram& program) {
  std::vector<bool> wide(static_cast<std::size_t>(program.registers));
  std::vector<std::size_t> last(wide.size(), 0);
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    for (const int in : inputs(program.steps[i])) last[static_cast<std::size_t>(in)] = i;
  int alive = pieces_of(program) > 0 ? 1 : 0, most = 0;  // Sums across rows stay in registers.
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const RowStep& s = program.steps[i];
    bool is_wide = s.kind == RowStep::Kind::element && s.step.op == ChainOp::load &&
                   program.tensors[static_cast<std::size_t>(s.step.slot)].strides.back() != 0;
    for (const int in : inputs(s)) {
      if (!wide[static_cast<std::size_t>(in)]) continue;
      is_wide |= s.kind != RowStep::Kind::along;
      if (last[static_cast<std::size_t>(in)] == i) {
        --alive;
        wide[static_cast<std::size_t>(in)] = false;
      }
    }
    const bool passing = i + 1 < program.steps.size() && program.steps[i + 1].kind == RowStep::Kind::along &&
                         last[static_cast<std::size_t>(s.step.result)] == i + 1;
    if (s.step.op == ChainOp::store || !is_wide || passing) continue;
    wide[static_cast<std::size_t>(s.step.result)] = true;
    most = std::max(most, ++alive);
  }
  if (most <= 1) return 64;
  if (most <= 2) return 32;
  return most <= 4 ? 16 : 8;
}

std::optional<std::string> find_fault(const RowProgram& program) {
  if (std::all_of(program.steps.begin(), program.steps.end(),
                  [](const RowStep& s) { return s.kind == RowStep::Kind::element; }))
    return "no step reduces its rows; such a program is a chain";
  // At most 512 threads in a block and 8 blocks in a cluster. Without alignment a lane holds at most 32 elements.
  const std::int64_t most = std::min<std::int64_t>(lane_elements(program), 32) * 512 * 8;
  if (program.columns > most)
    return "a row has " + std::to_string(program.columns) + " columns; expected at most " + std::to_string(most);
  for (const ChainTensor& tensor : program.tensors)
    if (program.columns > 1 && tensor.strides.back() != 0 && tensor.strides.back() != 1)
      return "expected contiguous columns, found a stride of " + std::to_string(tensor.strides.back());
  return std::nullopt;
}

}  // namespace ridge::ops
