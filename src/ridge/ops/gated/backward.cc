// Builds and launches the steps of a gated layer's backward pass. They run in order on one stream, so they share the
// scratch part of the workspace.
#include "ridge/ops/gated/backward.h"

#include <algorithm>

#include "ridge/ops/gated/backward_steps.h"

namespace ridge::ops::cuda {
namespace {

template <class T> T* behind(T* data, std::int64_t elements) {  // 16-bit elements
  using Bytes = std::conditional_t<std::is_const_v<T>, const char, char>;
  return data == nullptr ? nullptr : static_cast<Bytes*>(data) + elements * 2;
}

struct Halves {  // The two halves [u, g] of a chunk of h or dh
  void* data;
  std::int64_t gate, line;  // Offset of g from u; stride from row to row; in elements
};

MatmulCall product(const GatedBackward& b) {
  MatmulCall c;
  c.problem.a.dtype = c.problem.b.dtype = c.problem.d.dtype = b.dtype;
  return c;
}

// Returns the product dw = dh^T * x of one half.
MatmulCall weight_gradient(const GatedBackward& b, const void* dh, std::int64_t line, std::int64_t columns, void* dw) {
  MatmulCall c = product(b);
  c.problem.m = columns;
  c.problem.n = b.k;
  c.problem.k = b.m;
  c.problem.a.row_stride = 1;
  c.problem.a.col_stride = line;
  c.problem.b.row_stride = b.x_line;
  c.problem.d.row_stride = b.weight_grad_line;
  c.a = dh;
  c.b = b.x;
  c.d = dw;
  return c;
}

std::vector<MatmulCall> weight_gradients(const GatedBackward& b, std::int64_t first, std::int64_t columns,
                                         const Halves& dh) {
  std::vector<MatmulCall> out;
  void* const dup = behind(b.dup, first * b.weight_grad_line);
  void* const dgate = behind(b.dgate, first * b.weight_grad_line);
  if (dup) out.push_back(weight_gradient(b, dh.data, dh.line, columns, dup));
  if (dgate) out.push_back(weight_gradient(b, behind(dh.data, dh.gate), dh.line, columns, dgate));
  const std::int64_t bytes = static_cast<char*>(dgate) - static_cast<char*>(dup);
  if (out.size() < 2 || bytes <= 0 || bytes % 16 != 0 || bytes / 2 < columns * b.weight_grad_line || dh.gate % 8 != 0)
    return out;
  MatmulProblem& both = out[0].problem;
  out.pop_back();
  if (dh.gate == columns && bytes / 2 == columns * b.weight_grad_line) {
    both.m = 2 * columns;  // Both halves are one matrix
  } else {
    both.batch = 2;
    both.a.batch_stride = dh.gate;
    both.d.batch_stride = bytes / 2;
  }
  return out;
}

// Returns the product dx = dh * w of one half, or dx += dh * w if `add`; dx is then read as well as stored.
MatmulCall input_product(const GatedBackward& b, const void* dh, std::int64_t line, std::int64_t columns,
                         const void* weights, bool add) {
  MatmulCall c = product(b);
  c.problem.m = b.m;
  c.problem.n = b.k;
  c.problem.k = columns;
  c.problem.a.row_stride = line;
  c.problem.b.row_stride = b.weight_line;
  c.problem.d.row_stride = b.dx_line;
  c.a = dh;
  c.b = weights;
  c.d = b.dx;
  if (add) c.epilogue.addend = {b.dx, b.dtype, b.dx_line, 1, 0};
  return c;
}

using Sentence = std::optional<std::string>;

Sentence launch_all(const std::vector<MatmulCall>& calls, const std::vector<MatmulPlan>& plans,
                    const Workspace& workspace, CUstream_st* stream) {
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (Sentence why = launch(calls[i], plans[i], workspace, stream)) return why;
  return std::nullopt;
}

Sentence launch_steps(const GatedBackward& b, const BackwardSteps& steps, const GatedBackwardPlan::Steps& plan,
                      const Workspace& scratch, CUstream_st* stream) {
  if (b.h == nullptr)
    if (Sentence why = launch(steps.again, plan.again, scratch, stream)) return why;
  if (Sentence why = launch(steps.gate, scratch, stream)) return why;
  if (Sentence why = launch_all(steps.dw_products, plan.dw_products, scratch, stream)) return why;
  if (plan.dx) return launch(steps.dx, *plan.dx, stream);
  return launch_all(steps.dx_products, plan.dx_products, scratch, stream);
}

}  // namespace

GatedBackward gated_backward(const GatedLayer& l, const void* dy, void* dx, void* dw, void* db) {
  GatedBackward b;
  b.m = l.n;
  b.n = l.f;
  b.k = l.d;
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
  b.dgate = behind(dw, l.f * l.d);
  b.dbu = db;
  b.dbg = behind(db, l.f);
  b.x_line = b.weight_line = b.dx_line = b.weight_grad_line = l.d;
  b.dy_line = l.f;
  b.h_line = 2 * l.f;
  return b;
}

BackwardSteps backward_steps(const GatedBackward& b, std::int64_t first, std::int64_t columns, void* place) {
  const Halves h = b.h ? Halves{behind(b.h, first), b.n, b.h_line} : Halves{place, columns, 2 * columns};
  const Halves dh = b.h && b.dh ? Halves{behind(b.dh, first), b.n, b.h_line} : h;
  BackwardSteps s;
  const void *const up = behind(b.up, first * b.weight_line), *const gate = behind(b.gate, first * b.weight_line);
  s.again = {b.m, columns, b.k, b.dtype, b.dtype, b.dtype, b.activation, b.x, up, gate};
  s.again.bu = behind(b.bu, first);
  s.again.bg = behind(b.bg, first);
  s.again.h = h.data;
  s.again.x_line = b.x_line;
  s.again.weight_line = b.weight_line;
  s.again.h_line = h.line;
  s.gate = {b.m, columns, b.dtype, b.activation, behind(b.dy, first), h.data, dh.data};
  s.gate.dbu = behind(b.dbu, first);
  s.gate.dbg = behind(b.dbg, first);
  s.gate.dy_line = b.dy_line;
  s.gate.h_line = s.gate.dh_line = h.line;
  s.dw_products = weight_gradients(b, first, columns, dh);
  if (b.dx == nullptr) return s;
  const void* const dg = behind(dh.data, dh.gate);
  s.dx = {b.m, b.k, columns, b.dtype, dh.data, dg, up, gate, b.dx, dh.line, b.weight_line, b.dx_line, first > 0};
  s.dx_products = {input_product(b, dh.data, dh.line, columns, up, first > 0),
                   input_product(b, dg, dh.line, columns, gate, true)};
  return s;
}

std::optional<std::string> launch(const GatedBackward& b, const GatedBackwardPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream) {
  if (plan.workspace_bytes > workspace.bytes)
    return "workspace: expected " + std::to_string(plan.workspace_bytes) + " bytes, found " +
           std::to_string(workspace.bytes);
  if (plan.workspace_bytes > 0 && reinterpret_cast<std::uintptr_t>(workspace.data) % 256 != 0)
    return "workspace: expected a multiple of 256 as its address";
  Workspace scratch = workspace;
  scratch.bytes = plan.scratch_bytes;
  void* const place = static_cast<char*>(workspace.data) + plan.scratch_bytes;
  for (std::int64_t first = 0; first == 0 || first < b.n; first += plan.chunk) {
    const std::int64_t columns = std::min(plan.chunk, b.n - first);
    const GatedBackwardPlan::Steps& steps = columns == plan.each.columns ? plan.each : plan.last;
    if (Sentence why = launch_steps(b, backward_steps(b, first, columns, place), steps, scratch, stream)) return why;
    if (plan.chunk == 0) break;
  }
  return std::nullopt;
}

}  // namespace ridge::ops::cuda
