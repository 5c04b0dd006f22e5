// Plans the backward pass of a gated layer: the plans of its products, the number of chunks, and for training whether
// forward keeps h. Times come from the products' models (ops/product/model.h) and a bandwidth for the pass over h.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "ridge/ops/fitted.h"
#include "ridge/ops/gated/backward_steps.h"
#include "ridge/ops/gated/operands.h"
#include "ridge/ops/product/closed_form.h"

namespace ridge::ops::cuda {
namespace {

// Workspace of a product; more is used only if it would otherwise take the plain path (operands that are copied).
constexpr std::size_t thrifty_bytes = std::size_t{16} << 20;

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }
double product(std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); }
void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }  // Plans never dereference it

template <class Call> auto chosen(const Call& call, std::size_t room, const DeviceNumbers& device) {
  const auto plan = choose(call, std::min(room, thrifty_bytes), device);
  return plan.path == decltype(plan)::Path::plain ? choose(call, room, device) : plan;
}

struct Needs {  // Scratch bytes and time of all steps of a chunk
  std::size_t scratch = 0;
  double seconds = 0;
  template <class Plan> void step(const Plan& plan) {
    scratch = std::max(scratch, plan.workspace_bytes);
    seconds += plan.predicted_s;
  }
};

std::vector<MatmulPlan> products(const std::vector<MatmulCall>& calls, std::size_t room, const DeviceNumbers& device,
                                 Needs& needs) {
  std::vector<MatmulPlan> out;
  for (const MatmulCall& call : calls) {
    out.push_back(chosen(call, room, device));
    needs.step(out.back());
    if (call.epilogue.addend.data)  // dx is also read
      needs.seconds +=
          product(call.problem.m, call.problem.n) * bits(call.epilogue.addend.dtype) / 8 / device.memory_bytes_per_s;
  }
  return out;
}

std::optional<GatedBackwardPlan::Steps> plan_steps(const GatedBackward& b, std::int64_t first, std::int64_t columns,
                                                   std::size_t room, const DeviceNumbers& device, Needs& needs) {
  const BackwardSteps s = backward_steps(b, first, columns, at(4096));
  GatedBackwardPlan::Steps out;
  out.columns = columns;
  if (b.h == nullptr) needs.step(out.again = chosen(s.again, room, device));
  needs.scratch = std::max(needs.scratch, workspace_bytes(s.gate));
  if (needs.scratch > room) return std::nullopt;
  const KernelNumbers& n = kernel_numbers();
  needs.seconds += n.backward_pass / device.clock_hz +
                   10 * product(b.m, columns) / (n.backward_bandwidth * device.memory_bytes_per_s);
  out.dw_products = products(s.dw_products, room, device, needs);
  if (b.dx == nullptr) return out;
  Needs apart = needs;
  out.dx_products = products(s.dx_products, room, device, apart);
  out.dx = choose(s.dx, device);
  if (out.dx && needs.seconds + out.dx->predicted_s <= 1.01 * apart.seconds) {  // One kernel rounds dx once
    needs.seconds += out.dx->predicted_s;
    out.dx_products.clear();
  } else {
    out.dx.reset();
    needs = apart;
  }
  return out;
}

// Returns the columns per chunk: n divided evenly, rounded up to a multiple of 64 columns.
std::int64_t chunk_of(std::int64_t n, int chunks) { return std::min(n, up(up(n, chunks), 64) * 64); }

std::optional<std::string> refuse_matrices(const GatedBackward& b) {
  const bool again = b.h == nullptr, weights_wanted = b.dup || b.dgate;
  struct Wanted {
    const char* name;
    const void* data;
    bool needed;
    std::int64_t lines, line, least;
  };
  const bool any = b.m > 0 && b.n > 0, wide = any && b.k > 0;
  for (const Wanted& w : {Wanted{"x", b.x, wide && (again || weights_wanted), b.m, b.x_line, b.k},
                          {"up", b.up, wide && (again || b.dx), b.n, b.weight_line, b.k},
                          {"gate", b.gate, wide && (again || b.dx), b.n, b.weight_line, b.k},
                          {"bu", b.bu, false, 0, 0, 0},
                          {"bg", b.bg, false, 0, 0, 0},
                          {"dy", b.dy, any, b.m, b.dy_line, b.n},
                          {"h", b.h, false, b.m, b.h_line, 2 * b.n},
                          {"dh", b.dh, false, b.m, b.h_line, 2 * b.n},
                          {"dx", b.dx, false, b.m, b.dx_line, b.k},
                          {"dup", b.dup, false, b.n, b.weight_grad_line, b.k},
                          {"dgate", b.dgate, false, b.n, b.weight_grad_line, b.k},
                          {"dbu", b.dbu, false, 0, 0, 0},
                          {"dbg", b.dbg, false, 0, 0, 0}}) {
    if (w.needed && w.data == nullptr) return fmt::format("{}: expected device memory, found a null pointer", w.name);
    if (reinterpret_cast<std::uintptr_t>(w.data) % 2 != 0)
      return fmt::format("{}: expected a pointer to whole {} elements, found one that is not a multiple of 2 bytes",
                         w.name, name(b.dtype));
    if (w.data != nullptr && w.lines > 1 && w.line < w.least)
      return fmt::format("{}: expected a stride of at least {}, found {}: its rows would overlap", w.name, w.least,
                         w.line);
  }
  return std::nullopt;
}

}  // namespace

std::optional<InputGradientPlan> choose(const InputGradient& c, const DeviceNumbers& device) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1024;
  if (c.m == 0 || c.n == 0 || c.k == 0 || c.m > most || c.n > most || c.k > most / 2) return std::nullopt;
  const auto reads = [](const void* data, std::int64_t line) {
    return copy_engine_reads({data, tile::Major::k, 2, 0, line, 0}, 1);
  };
  if (!reads(c.du, c.dh_line) || !reads(c.dg, c.dh_line) || !reads(c.up, c.weight_line) ||
      !reads(c.gate, c.weight_line) || !reads(c.dx, c.dx_line) || c.n % 8 != 0)
    return std::nullopt;
  TileWork w{1, c.m, c.n, 2 * up(c.k, 64) * 64};
  w.minimum_bytes = 2 * (2 * product(c.m, c.k) + 2 * product(c.k, c.n) + (c.add ? 2 : 1) * product(c.m, c.n));
  w.granule_a = static_cast<int>(std::gcd<std::int64_t>(c.dh_line * 2, 128));
  w.granule_b = static_cast<int>(std::gcd<std::int64_t>(c.weight_line * 2, 128));
  InputGradientPlan best;
  for (int config = 0; config < static_cast<int>(input_gradient_menu.size()); ++config) {
    const MatmulConfig& shape = input_gradient_menu[static_cast<std::size_t>(config)];
    if (up(c.m, shape.m) > most / up(c.n, shape.n)) continue;
    const std::int64_t tiles = up(c.m, shape.m) * up(c.n, shape.n);
    const double seconds = predicted_seconds(shape, w, {1, tile::SplitMode::split_k}, device);
    if (best.config < 0 || seconds < best.predicted_s)
      best = {config, static_cast<int>(std::min<std::int64_t>(tiles, device.multiprocessors)), seconds};
  }
  return best.config < 0 ? std::nullopt : std::optional(best);
}

std::optional<std::string> refuse(const GatedBackward& b) {
  if (b.m < 0 || b.n < 0 || b.k < 0)
    return fmt::format("expected sizes of at least 0, found n {}, f {}, d {}", b.m, b.n, b.k);
  if (b.dtype != DType::bf16 && b.dtype != DType::f16)
    return fmt::format("expected bf16 or f16, found {}", name(b.dtype));
  constexpr std::int64_t most_rows = 65535 * GatedGradient::rows_of_block;
  if (b.m > most_rows) return fmt::format("expected at most {} rows, found {}", most_rows, b.m);
  return refuse_matrices(b);
}

std::optional<GatedBackwardPlan> planned(const GatedBackward& b, std::size_t workspace_bytes,
                                         const DeviceNumbers& device, std::int64_t chunk) {
  const std::size_t h_bytes = b.h ? 0 : static_cast<std::size_t>(up(4 * b.m * chunk, 256) * 256);
  if (h_bytes > workspace_bytes) return std::nullopt;
  const std::size_t room = (workspace_bytes - h_bytes) / 256 * 256;
  const std::int64_t whole = chunk == 0 ? 1 : b.n / chunk, rest = chunk == 0 ? 0 : b.n % chunk;
  Needs of_each, of_last;
  const auto each = plan_steps(b, 0, chunk, room, device, of_each);
  if (!each) return std::nullopt;
  GatedBackwardPlan plan{chunk, *each, *each};
  plan.predicted_s = of_each.seconds;
  // The first chunk stores dx and the others add to it, so their plans differ if two products compute dx.
  for (const auto& [columns, many] : {std::pair{chunk, whole - 1}, {rest, std::int64_t{rest > 0}}}) {
    if (many <= 0) continue;
    Needs more;
    const auto steps = plan_steps(b, columns == chunk ? chunk : whole * chunk, columns, room, device, more);
    if (!steps) return std::nullopt;
    plan.predicted_s += more.seconds * static_cast<double>(many);
    of_last.scratch = std::max(of_last.scratch, more.scratch);
    if (columns != chunk) plan.last = *steps;
  }
  plan.scratch_bytes =
      static_cast<std::size_t>(up(static_cast<std::int64_t>(std::max(of_each.scratch, of_last.scratch)), 256) * 256);
  plan.workspace_bytes = plan.scratch_bytes + h_bytes;
  if (plan.workspace_bytes > workspace_bytes) return std::nullopt;
  return plan;
}

GatedBackwardPlan choose(const GatedBackward& b, std::size_t workspace_bytes, const DeviceNumbers& device) {
  const int most = b.h ? 1 : GatedBackward::most_chunks;
  std::vector<GatedBackwardPlan> all;
  for (int chunks = 1; chunks <= most; ++chunks)
    if (const auto plan = planned(b, workspace_bytes, device, chunk_of(b.n, chunks))) all.push_back(*plan);
  if (all.empty()) {
    const std::int64_t chunk = chunk_of(b.n, most), sums = up(b.m, GatedGradient::rows_of_block) * 8 * chunk;
    return *planned(b, static_cast<std::size_t>(4 * b.m * chunk + sums + 512) + counter_bytes, device, chunk);
  }
  double least = all.front().predicted_s;
  for (const GatedBackwardPlan& plan : all) least = std::min(least, plan.predicted_s);
  std::erase_if(all, [&](const GatedBackwardPlan& plan) { return plan.predicted_s > 1.01 * least; });
  return *std::min_element(all.begin(), all.end(), [](const GatedBackwardPlan& x, const GatedBackwardPlan& y) {
    return x.workspace_bytes < y.workspace_bytes;
  });
}

Result<GatedTraining> plan_training(const GatedCall& sizes, std::size_t free_bytes, const DeviceNumbers& device) {
  GatedCall forward = sizes;
  const auto place = [](int i) { return at(std::uintptr_t{1} << (40 + i)); };
  forward.x = place(0);
  forward.up = place(1);
  forward.gate = place(2);
  forward.y = place(3);
  forward.h = nullptr;
  forward.out = forward.bias = sizes.dtype;
  forward.x_line = forward.weight_line = sizes.k;
  forward.y_line = sizes.n;
  forward.h_line = 2 * sizes.n;
  GatedBackward back{.m = sizes.m, .n = sizes.n, .k = sizes.k, .dtype = sizes.dtype, .activation = sizes.activation};
  back.x = forward.x;
  back.up = forward.up;
  back.gate = forward.gate;
  back.dy = place(4);
  back.dx = place(5);
  back.dup = place(6);
  back.dgate = static_cast<char*>(back.dup) + sizes.n * sizes.k * 2;
  back.dbu = place(8);
  back.dbg = static_cast<char*>(back.dbu) + sizes.n * 2;
  back.x_line = back.weight_line = back.dx_line = back.weight_grad_line = sizes.k;
  back.dy_line = sizes.n;
  back.h_line = 2 * sizes.n;
  if (const auto why = refuse(back)) return input_error(*why);
  const std::size_t h_bytes = static_cast<std::size_t>(4 * sizes.m * sizes.n);
  std::size_t least = 0;
  for (const bool keeps : {true, false}) {
    const std::size_t kept = keeps ? h_bytes : 0, room = free_bytes > kept ? free_bytes - kept : 0;
    forward.h = back.h = keeps ? place(9) : nullptr;
    const GatedBackwardPlan plan = choose(back, room, device);
    const GatedPlan ahead = chosen(forward, room, device);
    least = kept + plan.workspace_bytes;
    if (least <= free_bytes)
      return GatedTraining{keeps, plan.chunk, kept + std::max(plan.workspace_bytes, ahead.workspace_bytes),
                           ahead.predicted_s, plan.predicted_s};
  }
  return input_error(fmt::format("expected {} free bytes besides inputs and outputs, found {}", least, free_bytes),
                     fmt::format("backward needs h and its gradient for 1/{} of the {} hidden columns: use fewer "
                                 "than {} rows",
                                 GatedBackward::most_chunks, sizes.n, sizes.m));
}

}  // namespace ridge::ops::cuda
