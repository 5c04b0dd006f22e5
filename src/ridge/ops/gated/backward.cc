// Builds and launches the steps of a gated layer's backward pass. The steps run in order on one stream, so they share
// the scratch part of the workspace.
#include "ridge/ops/gated/backward.h"

#include <algorithm>

#include "ridge/base/operand_type.h"
#include "ridge/ops/gated/backward_steps.h"

namespace ridge::ops::cuda {
namespace {

template <class T> T* advance_elements(T* data, DType dtype, std::int64_t elements) {
  using ByteType = std::conditional_t<std::is_const_v<T>, const char, char>;
  return data == nullptr ? nullptr : static_cast<ByteType*>(data) + elements * operand_bytes(dtype);
}

struct HiddenHalves {  // The two halves [u, g] of a chunk of h or dh
  void* data;
  std::int64_t gate_offset, row_stride;  // Offset of g from u, and distance between rows, in elements
};

MatmulCall make_product_call(const GatedBackward& b) {
  MatmulCall c;
  c.problem.a.dtype = c.problem.b.dtype = c.problem.d.dtype = b.dtype;
  return c;
}

// Returns the product dw = dh^T * x for one half of the weights.
MatmulCall make_weight_gradient_call(const GatedBackward& b, const void* dh, std::int64_t row_stride,
                                     std::int64_t columns, void* dw) {
  MatmulCall c = make_product_call(b);
  c.problem.size = {columns, b.size.k, b.size.m};
  c.problem.a.row_stride = 1;
  c.problem.a.col_stride = row_stride;
  c.problem.b.row_stride = b.x_row_stride;
  c.problem.d.row_stride = b.weight_grad_row_stride;
  c.a = dh;
  c.b = b.x;
  c.d = dw;
  return c;
}

std::vector<MatmulCall> make_weight_gradient_calls(const GatedBackward& b, std::int64_t first, std::int64_t columns,
                                                   const HiddenHalves& dh) {
  std::vector<MatmulCall> out;
  void* const dup = advance_elements(b.dup, b.dtype, first * b.weight_grad_row_stride);
  void* const dgate = advance_elements(b.dgate, b.dtype, first * b.weight_grad_row_stride);
  if (dup) out.push_back(make_weight_gradient_call(b, dh.data, dh.row_stride, columns, dup));
  if (dgate)
    out.push_back(make_weight_gradient_call(b, advance_elements(dh.data, b.dtype, dh.gate_offset), dh.row_stride,
                                            columns, dgate));
  const std::int64_t bytes = static_cast<char*>(dgate) - static_cast<char*>(dup);
  const std::int64_t distance = bytes / operand_bytes(b.dtype);
  if (out.size() < 2 || bytes <= 0 || bytes % 16 != 0 || distance < columns * b.weight_grad_row_stride ||
      dh.gate_offset * operand_bytes(b.dtype) % 16 != 0)
    return out;
  MatmulProblem& combined = out[0].problem;
  out.pop_back();
  if (dh.gate_offset == columns && distance == columns * b.weight_grad_row_stride) {
    combined.size.m = 2 * columns;  // Both halves are one matrix
  } else {
    combined.batch = 2;
    combined.a.batch_stride = dh.gate_offset;
    combined.d.batch_stride = distance;
  }
  return out;
}

// Returns the product dx = dh * w for one half of the weights, or dx += dh * w if `add`.
MatmulCall make_input_gradient_call(const GatedBackward& b, const void* dh, std::int64_t row_stride,
                                    std::int64_t columns, const void* weights, bool add) {
  MatmulCall c = make_product_call(b);
  c.problem.size = {b.size.m, b.size.k, columns};
  c.problem.a.row_stride = row_stride;
  c.problem.b.row_stride = b.weight_line_stride;
  c.problem.d.row_stride = b.dx_row_stride;
  c.a = dh;
  c.b = weights;
  c.d = b.dx;
  if (add) c.epilogue.addend = {b.dx, b.dtype, b.dx_row_stride, 1, 0};
  return c;
}

Status launch_all(const std::vector<MatmulCall>& calls, const std::vector<MatmulPlan>& plans,
                  const device::DeviceWorkspace& workspace, CUstream_st* stream) {
  for (std::size_t i = 0; i < calls.size(); ++i) RIDGE_TRY_STATUS(launch(calls[i], plans[i], workspace, stream));
  return Done{};
}

Status launch_steps(const GatedBackward& b, const BackwardSteps& steps, const GatedBackwardPlan::ChunkPlan& plan,
                    const device::DeviceWorkspace& scratch, CUstream_st* stream) {
  if (b.h == nullptr) RIDGE_TRY_STATUS(launch(steps.recompute, plan.recompute, scratch, stream));
  RIDGE_TRY_STATUS(launch(steps.gate, scratch, stream));
  RIDGE_TRY_STATUS(launch_all(steps.dw_products, plan.dw_products, scratch, stream));
  if (plan.dx) return launch(steps.dx, *plan.dx, stream);
  return launch_all(steps.dx_products, plan.dx_products, scratch, stream);
}

}  // namespace

GatedBackward make_gated_backward_call(const GatedLayer& l, const void* dy, void* dx, void* dw, void* db) {
  GatedBackward b;
  b.size = {l.n, l.f, l.d};
  b.dtype = l.dtype;
  b.activation = l.activation;
  b.x = l.x;
  b.up = l.up;
  b.gate = l.gate;
  b.bu = l.bu;
  b.bg = l.bg;
  b.dy = dy;
  b.dx = dx;
  b.dup = dw;
  b.dgate = advance_elements(dw, l.dtype, l.f * l.d);
  b.dbu = db;
  b.dbg = advance_elements(db, l.dtype, l.f);
  b.x_row_stride = b.weight_line_stride = b.dx_row_stride = b.weight_grad_row_stride = l.d;
  b.dy_row_stride = l.f;
  b.h_row_stride = 2 * l.f;
  return b;
}

BackwardSteps make_backward_steps(const GatedBackward& b, std::int64_t first, std::int64_t columns, void* h_storage) {
  const HiddenHalves h = b.h ? HiddenHalves{advance_elements(b.h, b.dtype, first), b.size.n, b.h_row_stride}
                             : HiddenHalves{h_storage, columns, 2 * columns};
  const HiddenHalves dh =
      b.h && b.dh ? HiddenHalves{advance_elements(b.dh, b.dtype, first), b.size.n, b.h_row_stride} : h;
  BackwardSteps s;
  const void *const up = advance_elements(b.up, b.dtype, first * b.weight_line_stride), *const gate = advance_elements(
                                                                                            b.gate, b.dtype,
                                                                                            first *
                                                                                                b.weight_line_stride);
  s.recompute = {b.size.m, columns, b.size.k, b.dtype, b.dtype, b.dtype, b.activation, b.x, up, gate};
  s.recompute.bu = advance_elements(b.bu, b.dtype, first);
  s.recompute.bg = advance_elements(b.bg, b.dtype, first);
  s.recompute.h = h.data;
  s.recompute.x_row_stride = b.x_row_stride;
  s.recompute.weight_line_stride = b.weight_line_stride;
  s.recompute.h_row_stride = h.row_stride;
  s.gate = {b.size.m, columns, b.dtype, b.activation, advance_elements(b.dy, b.dtype, first), h.data, dh.data};
  s.gate.dbu = advance_elements(b.dbu, b.dtype, first);
  s.gate.dbg = advance_elements(b.dbg, b.dtype, first);
  s.gate.dy_row_stride = b.dy_row_stride;
  s.gate.h_row_stride = s.gate.dh_row_stride = h.row_stride;
  s.dw_products = make_weight_gradient_calls(b, first, columns, dh);
  if (b.dx == nullptr) return s;
  const void* const dg = advance_elements(dh.data, b.dtype, dh.gate_offset);
  s.dx = {b.size.m,        b.size.k, columns, b.dtype, dh.data, dg, up, gate, b.dx, dh.row_stride, b.weight_line_stride,
          b.dx_row_stride, first > 0};
  s.dx_products = {make_input_gradient_call(b, dh.data, dh.row_stride, columns, up, first > 0),
                   make_input_gradient_call(b, dg, dh.row_stride, columns, gate, true)};
  return s;
}

Status launch(const GatedBackward& b, const GatedBackwardPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream) {
  RIDGE_TRY_STATUS(device::check_workspace(workspace, plan.workspace_bytes));
  device::DeviceWorkspace scratch = workspace;
  scratch.bytes = plan.scratch_bytes;
  void* const h_storage = static_cast<char*>(workspace.data) + plan.scratch_bytes;
  for (std::int64_t first = 0; first == 0 || first < b.size.n; first += plan.chunk) {
    const std::int64_t columns = std::min(plan.chunk, b.size.n - first);
    const GatedBackwardPlan::ChunkPlan& steps = columns == plan.each.columns ? plan.each : plan.last;
    RIDGE_TRY_STATUS(launch_steps(b, make_backward_steps(b, first, columns, h_storage), steps, scratch, stream));
    if (plan.chunk == 0) break;
  }
  return Done{};
}

}  // namespace ridge::ops::cuda
