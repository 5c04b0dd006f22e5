// Lowers the gradients of attention to a step that follows the forward pass, which provides o and the log-sum-exp.
#include <algorithm>

#include "ridge/base/check.h"
#include "ridge/plan/attention/recognize.h"
#include "ridge/plan/lower.h"

namespace ridge {
namespace {

bool same_forward(const ops::AttentionProblem& a, ops::AttentionProblem b) {
  b.o = a.o;
  return a == b;
}

// Buffers of the forward pass that the backward kernel reads: those of the program's step, or of an extra one.
struct ForwardBuffers {
  ops::HeadsLayout layout;
  int o, lse;
};
ForwardBuffers find_or_add_forward(Lowering& to, int group, const FoundAttentionBackward& found) {
  const ops::AttentionProblem& p = found.problem.forward;
  const std::vector<int> operands{to.view_of(found.q).buffer, to.view_of(found.k).buffer, to.view_of(found.v).buffer};
  const auto lse = [&] { return to.add_buffer(DType::f32, p.outer * p.heads * p.rows); };
  for (PlanStep& step : to.plan.steps) {
    const auto* const known = std::get_if<ops::AttentionProblem>(&step.kernel);
    if (known == nullptr || !same_forward(*known, p) ||
        !std::equal(operands.begin(), operands.end(), step.buffers.begin()))
      continue;
    if (step.buffers.size() == 4) step.buffers.push_back(lse());
    return {known->o, step.buffers[3], step.buffers[4]};
  }
  PlanStep step;
  step.group = group;
  ops::AttentionProblem own = p;
  own.o = {p.heads * p.rows * p.width, p.rows * p.width, p.width};
  step.kernel = own;
  step.buffers = operands;
  step.buffers.push_back(to.add_buffer(p.dtype, p.outer * p.heads * p.rows * p.width));
  step.buffers.push_back(lse());
  to.plan.steps.push_back(step);
  return {own.o, step.buffers[3], step.buffers[4]};
}

}  // namespace

void lower_attention_backward(Lowering& to, int group) {
  std::vector<Shape> shapes;
  for (const View& view : to.tensors) shapes.push_back(view.shape);
  const TensorUses uses(to.program);
  std::optional<FoundAttentionBackward> found;
  for (const int s : to.plan.fusion.groups[group].statements)
    if (!found) found = find_attention_backward(to.program, uses, shapes, s, to.plan.fusion.target);
  RIDGE_CHECK(found && !found->fusion_blocker,
              found ? found->fusion_blocker.text() : "expected the gradients of attention");
  const ForwardBuffers forward = find_or_add_forward(to, group, *found);
  PlanStep step;
  step.group = group;
  const auto buffer = [&](int tensor) { return to.view_of(tensor).buffer; };
  if (found->o < 0) found->problem.forward.o = forward.layout;
  step.kernel = found->problem;
  step.buffers = {buffer(found->q),    buffer(found->k), buffer(found->v),  found->o < 0 ? forward.o : buffer(found->o),
                  buffer(found->dout), forward.lse,      buffer(found->dq), buffer(found->dk),
                  buffer(found->dv)};
  to.plan.steps.push_back(std::move(step));
}

}  // namespace ridge
