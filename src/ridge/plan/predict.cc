#include "ridge/plan/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/base/cores.h"
#include "ridge/ops/fused/cuda.h"
#include "ridge/ops/product/any_place.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/trace.h"
#include "ridge/plan/h200.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/predict_gated.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;
using ops::MatmulConfig, ops::MatmulProblem;

using namespace h200;

// Measured over predicted time: the 5th percentile, the middle and the 95th. `ours`: of the 1,192 products of
// results/h200_matmul_*, those that the model still plans as they were timed.
struct Spread {
  double low, middle, high;
};
constexpr Spread ours{0.87, 1.02, 1.21}, theirs{0.84, 1.06, 1.45}, theirs_unaligned{0.75, 2.2, 5.4},
    others{0.7, 1, 1.6};

Interval interval(double seconds, Spread s) { return {s.low * seconds, s.middle * seconds, s.high * seconds}; }

cuda::MatmulCall call_of(const MatmulProblem& problem) {
  cuda::MatmulCall call;
  call.problem = problem, call.a = call.b = call.d = ops::any_place();
  return call;
}

TilePlan described(const cuda::MatmulPlan& plan) {
  if (plan.path == cuda::MatmulPlan::Path::nothing) return {.kernel = "nothing"};
  if (plan.path != cuda::MatmulPlan::Path::tiles) return {.kernel = plan_name(plan)};
  const MatmulConfig& c = ops::sm90_menu[static_cast<std::size_t>(plan.row)];
  return {plan_name(plan), c.m, c.n, c.k, c.stages, plan.pieces, plan.waves, k_cut(plan)};
}

std::string why(const MatmulProblem& p, const cuda::MatmulPlan& best, const cuda::MatmulPlan& loser) {
  if (best.path != cuda::MatmulPlan::Path::tiles) return "the winner needs no tiles";
  if (loser.path != cuda::MatmulPlan::Path::tiles) return "reads the few rows again for every two columns";
  if (loser.row == best.row && loser.pieces == best.pieces && loser.cuts != best.cuts)
    return std::string(k_cut(loser.cuts).meaning);
  if (loser.row == best.row && loser.pieces == best.pieces)
    return loser.copy_a + loser.copy_b > best.copy_a + best.copy_b ? "copies an operand first" : "copies no operand";
  const auto tiled = [&](const cuda::MatmulPlan& plan) {
    const double sums = static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n);
    return Tiled{ops::sm90_menu[static_cast<std::size_t>(plan.row)], sums, plan.tiles, plan.waves, plan.pieces};
  };
  return why_slower(tiled(best), tiled(loser));
}

// The best of each row, and of the winner's row the second.
std::vector<Loser> losers(const cuda::MatmulCall& call, const cuda::MatmulPlan& best, double ending_s) {
  std::vector<Loser> out;
  std::set<int> rows;
  for (const cuda::MatmulPlan& plan : cuda::candidates(call, workspace_bytes, multiprocessors, 2))
    if (plan != best && out.size() < most_losers && rows.insert(plan.row).second)
      out.push_back(
          {described(plan), interval(plan.predicted_s + ending_s, ours).expected, why(call.problem, best, plan)});
  return out;
}

cuda::MatmulCall exchanged(cuda::MatmulCall call) {
  MatmulProblem& p = call.problem;
  std::swap(p.m, p.n);
  std::swap(p.a, p.b);
  for (ops::MatrixLayout* each : {&p.a, &p.b, &p.d}) std::swap(each->row_stride, each->col_stride);
  cuda::MatmulEpilogue& e = call.epilogue;
  for (cuda::EpilogueOperand* each : {&e.scale, &e.bias, &e.gate, &e.addend})
    std::swap(each->row_stride, each->col_stride);
  return call;
}

double product_bytes(const MatmulProblem& p) {
  const auto of = [&](const ops::MatrixLayout& x, std::int64_t r, std::int64_t c) {
    const double matrices = x.batch_stride == 0 ? 1 : static_cast<double>(p.batch);
    return matrices * static_cast<double>(r) * static_cast<double>(c) * bits(x.dtype) / 8;
  };
  return of(p.a, p.m, p.k) + of(p.b, p.k, p.n) + of(p.d, p.m, p.n);
}

// Of what a product's sums end in, each element once.
double ending_bytes(const cuda::MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const auto along = [](std::int64_t stride, std::int64_t extent) {
    return stride == 0 ? 1.0 : static_cast<double>(extent);
  };
  double bytes = 0;
  for (const cuda::EpilogueOperand* x :
       {&call.epilogue.scale, &call.epilogue.bias, &call.epilogue.gate, &call.epilogue.addend})
    if (x->data != nullptr)
      bytes +=
          along(x->batch_stride, p.batch) * along(x->row_stride, p.m) * along(x->col_stride, p.n) * bits(x->dtype) / 8;
  return bytes;
}

// What is copied to lines that the copy engine reads, before the product: each element read and written.
std::int64_t copied_bytes(const MatmulProblem& p, const cuda::MatmulPlan& plan) {
  const auto moved = [&](const ops::MatrixLayout& x, std::int64_t extent) {
    return 2 * (x.batch_stride == 0 ? 1 : p.batch) * extent * p.k * bits(x.dtype) / 8;
  };
  return (plan.copy_a ? moved(p.a, p.m) : 0) + (plan.copy_b ? moved(p.b, p.n) : 0);
}

void add_traffic(OpPlan& op, const cuda::MatmulCall& given, const cuda::MatmulPlan& plan) {
  if (plan.path == cuda::MatmulPlan::Path::nothing) return;
  const cuda::MatmulCall call = plan.exchanged ? exchanged(given) : given;
  const MatmulProblem& problem = call.problem;
  ops::TileOrder order{.m = 32, .n = 32, .k = 32, .cache_bytes = 0};  // the plain kernel's squares
  if (plan.path == cuda::MatmulPlan::Path::dots) order.m = 4, order.n = 2;
  if (plan.path == cuda::MatmulPlan::Path::tiles) {
    const MatmulConfig& c = ops::sm90_menu[static_cast<std::size_t>(plan.row)];
    order = {.m = c.m, .n = c.n, .k = c.k, .cluster_m = c.cluster_m, .cluster_n = c.cluster_n, .swap = c.swap};
    order.pieces = plan.pieces, order.cuts = plan.cuts, order.band = plan.band, order.blocks = plan.blocks;
  }
  const std::int64_t copied = copied_bytes(problem, plan);
  op.traffic_bytes += copied + ops::trace_tiles(problem, order, call.epilogue).global_bytes();
  order.cache_bytes = cache_bytes;
  const ops::MatmulTraffic behind = ops::trace_tiles(problem, order);
  op.memory_bytes += copied + behind.a.memory_bytes + behind.b.memory_bytes + behind.d.memory_bytes +
                     behind.partial_bytes + static_cast<std::int64_t>(ending_bytes(call));
}

void add_time(OpPlan& op, double seconds, Spread spread) {
  const Interval took = interval(seconds, spread);
  op.predicted_s.low += took.low, op.predicted_s.expected += took.expected, op.predicted_s.high += took.high;
}

// What the sums end in comes on top: at worst nothing hides it.
void add_product(OpPlan& op, const cuda::MatmulCall& call, Library library) {
  const MatmulProblem& problem = call.problem;
  const cuda::MatmulPlan plan = cuda::choose(call, workspace_bytes, multiprocessors);
  double seconds = plan.predicted_s;
  const double flop = 2.0 * static_cast<double>(problem.batch) * static_cast<double>(problem.m) *
                      static_cast<double>(problem.n) * static_cast<double>(problem.k);
  if (plan.path == cuda::MatmulPlan::Path::plain)
    seconds = launch_s + std::max(flop / plain_flop_per_s, product_bytes(problem) / bytes_per_s);
  const double ending_s = ending_bytes(call) / bytes_per_s;
  seconds += ending_s;
  const bool unaligned = plan.copy_a || plan.copy_b;
  add_time(op, seconds, library == Library::ridge ? ours : unaligned ? theirs_unaligned : theirs);
  add_traffic(op, call, plan);
  if (library == Library::cublaslt) {
    op.plan = {.kernel = "cublaslt"};
    return;
  }
  op.plan = described(plan);
  if (plan.path == cuda::MatmulPlan::Path::tiles) op.losers = losers(call, plan, ending_s);
}

void add_gated(OpPlan& op, const cuda::GatedCall& call) {
  OpPlan gated = predict_gated(call);
  add_time(op, gated.predicted_s.expected, ours);
  op.traffic_bytes += gated.traffic_bytes, op.memory_bytes += gated.memory_bytes;
  op.plan = std::move(gated.plan), op.losers = std::move(gated.losers);
}

void add_fused(OpPlan& op, const ops::FusedMatmul& fused, Library library) {
  const std::vector<void*> data(fused.chain.tensors.size() + 3, ops::any_place());
  const cuda::FusedCall call = cuda::fused_call(fused, data);
  if (const auto* gated = std::get_if<cuda::GatedCall>(&call)) return add_gated(op, *gated);
  add_product(op, std::get<cuda::MatmulCall>(call), library);
  op.plan.kernel += " + epilogue";
}

// Instructions an element, as a generated kernel takes them (ops/function/device_math.h).
int instructions(const ops::ChainStep& step) {
  using ops::ChainOp;
  switch (step.op) {
    case ChainOp::gelu: return 34 * step.repeat;
    case ChainOp::cos:
    case ChainOp::sin: return 25 + 5 * (step.repeat - 1);  // from the second on the argument lies in [-1, 1]
    case ChainOp::gelu_tanh:
    case ChainOp::tanh:
    case ChainOp::log: return 18 * step.repeat;
    case ChainOp::silu:
    case ChainOp::sigmoid: return 14 * step.repeat;
    case ChainOp::exp:
    case ChainOp::divide:
    case ChainOp::sqrt: return 9 * step.repeat;
    case ChainOp::rsqrt: return 6 * step.repeat;
    case ChainOp::load:
    case ChainOp::store: return 2;
    default: return step.repeat;
  }
}

double product_of(const std::vector<std::int64_t>& extents) {
  double n = 1;
  for (const std::int64_t extent : extents) n *= static_cast<double>(extent);
  return n;
}

double bytes_of(const std::vector<ops::ChainTensor>& tensors, const std::vector<std::int64_t>& extents) {
  double bytes = 0;
  for (const ops::ChainTensor& tensor : tensors) {
    double here = bits(tensor.dtype) / 8;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (tensor.strides[axis] != 0) here *= static_cast<double>(extents[axis]);
    bytes += here;
  }
  return bytes;
}

// A kernel that moves bytes and spends instructions, whichever takes longer.
void add_kernel(OpPlan& op, std::string_view name, double bytes, double instructions) {
  add_time(op, launch_s + std::max(bytes / bytes_per_s, instructions / lanes_per_s), others);
  op.traffic_bytes += static_cast<std::int64_t>(bytes), op.memory_bytes += static_cast<std::int64_t>(bytes);
  if (op.plan.kernel.empty()) op.plan = {.kernel = std::string(name)};
}

void add_step(OpPlan& op, const ops::ChainProgram& chain) {
  const double elements = product_of(chain.extents);
  double work = 0;
  for (const ops::ChainStep& step : chain.steps) work += instructions(step);
  add_kernel(op, "chain", elements == 0 ? 0 : bytes_of(chain.tensors, chain.extents), elements * work);
}

void add_step(OpPlan& op, const ops::RowProgram& rows) {
  std::vector<std::int64_t> extents = rows.rows;
  extents.push_back(rows.columns);
  double work = 0;
  for (const ops::RowStep& step : rows.steps) work += step.along ? 1 : instructions(step.step);
  add_kernel(op, "rows", bytes_of(rows.tensors, extents), product_of(extents) * work);
}

void add_step(OpPlan& op, const ops::RowProblem& rows) {
  const double elements = static_cast<double>(rows.rows) * static_cast<double>(rows.columns);
  add_kernel(op, "rows", elements * (bits(rows.x.dtype) + bits(rows.y.dtype)) / 8, elements * 16);
}

void add_step(OpPlan& op, const ops::ReduceProblem& p) {
  double kept = 1, reduced = 1;
  for (const ops::ReduceAxis& axis : p.kept) kept *= static_cast<double>(axis.extent);
  for (const ops::ReduceAxis& axis : p.reduced) reduced *= static_cast<double>(axis.extent);
  add_kernel(op, "reduce", kept * (reduced * bits(p.x) + bits(p.y)) / 8, kept * reduced * 4);
}

struct Lowered {
  const Program& program;
  const Explanation& explanation;
  const Plan& plan;
};

std::string text_of(const Lowered& x, int group) {
  std::string out;
  for (const int s : x.plan.fusion.groups[static_cast<std::size_t>(group)].statements)
    out += (out.empty() ? "" : "; ") + x.program.statements[static_cast<std::size_t>(s)].text;
  return out;
}

Status add_on_device(PlannedProgram& out, const Lowered& x, Library library) {
  for (const Step& step : x.plan.steps) {
    OpPlan& op = out.kernels[static_cast<std::size_t>(step.group)];
    if (!step.copy.empty()) op.copies.push_back(step.copy);
    if (const auto* problem = std::get_if<MatmulProblem>(&step.kernel)) {
      if (const auto refusal = cuda::refuse(call_of(*problem)))
        return input_error(fmt::format("cannot plan '{}': {}", text_of(x, step.group), *refusal));
      op.plan = {};
      add_product(op, call_of(*problem), library);
      continue;
    }
    if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel)) {
      if (const auto refusal = cuda::refuse(*fused))
        return input_error(fmt::format("cannot plan '{}': {}", text_of(x, step.group), *refusal));
      op.plan = {};
      add_fused(op, *fused, library);
      continue;
    }
    const bool known = std::visit(
        [&](const auto& kernel) {
          if constexpr (requires { add_step(op, kernel); }) return add_step(op, kernel), true;
          return false;
        },
        step.kernel);
    if (!known)
      return input_error(fmt::format("cannot plan '{}': no CUDA kernel does this yet", text_of(x, step.group)));
  }
  return Done{};
}

// What an operation takes in FLOPs of a CPU's vector peak.
int cpu_flops(const ops::ChainStep& step) { return row(step.op).cpu_flops * step.repeat; }

// What a chain computes takes so long on its own.
double computing_s(const ops::ChainProgram& chain, const Machine& machine) {
  const Peak* const peak = machine.peak(Unit::vector, DType::f32);
  double flops = 0;
  for (const ops::ChainStep& step : chain.steps) flops += cpu_flops(step);
  const double rate = !peak ? 0 : peak->sustained ? peak->sustained->value : peak->rate.value;
  return rate > 0 ? product_of(chain.extents) * flops / rate : 0;
}

// Each buffer of a step once.
std::int64_t buffer_bytes(const Plan& plan, const Step& step) {
  std::int64_t bytes = 0;
  for (const int buffer : step.buffers)
    if (buffer >= 0) bytes += plan.buffers[static_cast<std::size_t>(buffer)].bytes();
  return bytes;
}

void add_cpu_step(OpPlan& op, const Plan& plan, const Step& step) {
  std::string kernel;
  std::int64_t asked = buffer_bytes(plan, step);
  if (const auto* product = std::get_if<MatmulProblem>(&step.kernel))
    kernel = "matmul", asked = ops::trace_cpu(*product, usable_cores()).global_bytes();
  else if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel))
    kernel = fused->second ? "2 matmuls + chain" : "matmul + chain",
    asked = ops::trace_cpu(*fused, usable_cores()).global_bytes();
  else if (std::holds_alternative<ops::ChainProgram>(step.kernel))
    kernel = step.copy.empty() ? "chain" : "copy";
  else if (std::holds_alternative<ops::Strips>(step.kernel))
    kernel = "strips";
  else
    kernel = std::holds_alternative<ops::RowProblem>(step.kernel) ? "rows" : "reduce";
  op.traffic_bytes += asked;
  if (!step.copy.empty()) op.memory_bytes += asked;
  op.plan.kernel += (op.plan.kernel.empty() ? "" : ", ") + kernel;
}

// By the rates that the machine sustains, where they were measured.
double sustained_s(const Lowered& x, const Group& group, const Prediction& whole) {
  double math = 0;
  for (const int s : group.statements) {
    const Prediction& p = x.explanation.ops[static_cast<std::size_t>(s)];
    const double slower = p.peak && p.peak->sustained ? p.peak->rate.value / p.peak->sustained->value : 1;
    math += p.time_math_s.value_or(0) * slower;
  }
  const MemoryLevel& memory = x.explanation.machine.memory.front();
  const double slower = memory.sustained && memory.bandwidth ? memory.bandwidth->value / memory.sustained->value : 1;
  return std::max(math, whole.time_memory_s.value_or(0) * slower);
}

Status add_on_cpu(PlannedProgram& out, const Lowered& x) {
  std::vector<std::vector<int>> groups;
  for (const Group& group : x.plan.fusion.groups) groups.push_back(group.statements);
  const auto whole = grouped(x.program, x.explanation, groups);
  if (!whole) return whole.error();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Prediction& p = whole->ops[i];
    if (!p.time_lower_s)
      return input_error(fmt::format("cannot plan '{}': no {} on record", p.work.text, p.missing),
                         "`ridge probe` measures this machine");
    const double expected = sustained_s(x, x.plan.fusion.groups[i], p);
    out.kernels[i].predicted_s = {*p.time_lower_s, expected, std::max(*p.time_upper_s, expected)};
    out.kernels[i].memory_bytes = x.plan.fusion.groups[i].bytes_after;
  }
  for (const Step& step : x.plan.steps) {
    OpPlan& op = out.kernels[static_cast<std::size_t>(step.group)];
    if (!step.copy.empty()) op.copies.push_back(step.copy);
    add_cpu_step(op, x.plan, step);
    if (const auto* chain = std::get_if<ops::ChainProgram>(&step.kernel))
      op.predicted_s.expected = std::max(op.predicted_s.expected, computing_s(*chain, x.explanation.machine));
    op.predicted_s.high = std::max(op.predicted_s.high, op.predicted_s.expected);
  }
  return Done{};
}

}  // namespace

std::string_view name(Library library) { return library == Library::ridge ? "ridge" : "cublaslt"; }

Result<PlannedProgram> predict(const Program& program, const Explanation& explanation, const PlanRequest& request) {
  const Machine& machine = explanation.machine;
  const bool cpu = machine.name == "cpu";
  if (!cpu && machine.name != "h200" && machine.title.find("H200") == std::string::npos)
    return usage_error(
        fmt::format("plans are made for the H200's kernels and this CPU's; expected --on h200 or --on cpu, found '{}'",
                    machine.name),
        "ridge explain PROGRAM --on h200 --plan");
  if (cpu && request.library != Library::ridge)
    return usage_error("expected --library cublaslt with --on h200, found --on cpu");
  const auto lowered = plan(
      program, explanation.dims,
      {.target = cpu ? Target::cpu : Target::cuda, .fuse = request.fuse, .endings = request.library == Library::ridge});
  if (!lowered) return lowered.error();
  PlannedProgram out{lowered->fusion, std::vector<OpPlan>(lowered->fusion.groups.size()), {}, {}};
  for (const Statement& statement : program.statements) out.results.push_back(statement.result());
  const auto done = cpu ? add_on_cpu(out, {program, explanation, *lowered})
                        : add_on_device(out, {program, explanation, *lowered}, request.library);
  if (!done) return done.error();
  for (const OpPlan& op : out.kernels) {
    out.predicted_s.low += op.predicted_s.low, out.predicted_s.expected += op.predicted_s.expected;
    out.predicted_s.high += op.predicted_s.high;
  }
  return out;
}

}  // namespace ridge
