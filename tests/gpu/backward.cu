// Checks a gated layer's backward pass on a device, with and without a stored h. dh must equal that of the separately
// checked steps; dx and dw must equal products of dh in f64 within rounding errors. Outputs are poisoned, canaries
// surround them and follow the workspace, and a second launch must give the same bits.
#include "gated.h"

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/ops/gated/backward_steps.h"
#include "ridge/run/device_machine.h"

namespace ridge::gpu {
namespace {

namespace cuda = ops::cuda;

struct CheckedBackward {
  cuda::GatedBackward call;
  ElementFormat t;
  const void *h, *dh, *dh_of_chunks;  // [m, 2*n]
  std::int64_t chunk;
  ErrorCounts* found;
};

__device__ void check_value(const CheckedBackward& j, int output, std::int64_t i, double is, double expected,
                            double allowed) {
  double worst = fabs(is - expected) / (0.51 * relative_ulp(j.t) * fabs(expected) + allowed + 1e-7);
  if (isnan(expected) || isnan(is)) worst = isnan(expected) == isnan(is) ? 0 : 1e9;
  if (!(worst <= 1)) {
    atomicAdd(&j.found->wrong, 1u);
    atomicMin(&j.found->first, static_cast<unsigned long long>(output * 100000000ll + i));
  }
  atomicMax(&j.found->worst, __float_as_uint(static_cast<float>(worst)));
}
#define RIDGE_EACH(i, count)                                                                           \
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < (count); \
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)

// Compares dh computed in chunks with dh computed from the full h, whose sums may be in another order.
__global__ void check_chunks(const CheckedBackward j) {
  const auto& c = j.call;
  RIDGE_EACH(i, c.size.m * c.size.n) {
    const std::int64_t r = i / c.size.n, f = i % c.size.n;
    const double dy = read_element(j.t, c.dy, r * c.dy_row_stride + f),
                 u = read_element(j.t, j.h, r * 2 * c.size.n + f);
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = r * 2 * c.size.n + half * c.size.n + f;
      check_value(
          j, 1, i, read_element(j.t, j.dh_of_chunks, at), read_element(j.t, j.dh, at),
          3 * relative_ulp(j.t) * fabs(dy) * (half ? 1 + fabs(u) : 1 + fabs(read_element(j.t, j.h, at + c.size.n))));
    }
  }
}

__global__ void check_dx(const CheckedBackward j) {
  const auto& c = j.call;
  const double half_ulp = 0.51 * relative_ulp(j.t);
  RIDGE_EACH(i, c.size.m * c.size.k) {
    const std::int64_t r = i / c.size.k, d = i % c.size.k;
    double sum = 0, terms = 0, off = 0;
    for (std::int64_t first = 0; first < c.size.n; first += j.chunk) {
      double part = 0;
      for (int half = 0; half < 2; ++half) {
        for (std::int64_t f = first; f < min(first + j.chunk, c.size.n); ++f) {
          const double x = read_element(j.t, j.dh_of_chunks, r * 2 * c.size.n + half * c.size.n + f) *
                           read_element(j.t, half ? c.gate : c.up, f * c.weight_line_stride + d);
          part += x;
          terms += fabs(x);
        }
        off += half_ulp * fabs(sum + part);  // two products, each rounded
      }
      sum += part;
      off += half_ulp * fabs(part);
    }
    check_value(j, 2, i, read_element(j.t, c.dx, r * c.dx_row_stride + d), sum, off + 3e-7 * terms);
  }
}

__global__ void check_dw(const CheckedBackward j) {
  const auto& c = j.call;
  RIDGE_EACH(i, 2 * c.size.n * c.size.k) {
    const std::int64_t f = i / c.size.k, d = i % c.size.k;
    void* const dw = f < c.size.n ? c.dup : c.dgate;
    if (dw == nullptr) continue;
    double sum = 0, terms = 0;
    for (std::int64_t r = 0; r < c.size.m; ++r) {
      const double x =
          read_element(j.t, j.dh_of_chunks, r * 2 * c.size.n + f) * read_element(j.t, c.x, r * c.x_row_stride + d);
      sum += x;
      terms += fabs(x);
    }
    check_value(j, 3, i, read_element(j.t, dw, f % c.size.n * c.weight_grad_row_stride + d), sum, 3e-7 * terms);
  }
}

__global__ void check_db(const CheckedBackward j) {  // db does not include the rounding of dh
  const auto& c = j.call;
  RIDGE_EACH(f, 2 * c.size.n) {
    void* const db = f < c.size.n ? c.dbu : c.dbg;
    if (db == nullptr) continue;
    double sum = 0, off = 0;
    for (std::int64_t r = 0; r < c.size.m; ++r) {
      const double x = read_element(j.t, j.dh_of_chunks, r * 2 * c.size.n + f);
      sum += x;
      off += (0.51 * relative_ulp(j.t) + 1e-6) * fabs(x) + 1e-7;
    }
    check_value(j, 4, f, read_element(j.t, db, f % c.size.n), sum, off);
  }
}

// Copies the columns of both halves (up and gate) of a chunk's dh to their position in the full dh.
__global__ void copy_chunk_to_dh(const std::uint16_t* from, std::int64_t m, std::int64_t columns, std::uint16_t* to,
                                 std::int64_t n) {
  RIDGE_EACH(i, m * 2 * columns) {
    const std::int64_t r = i / (2 * columns), f = i % (2 * columns);
    to[r * 2 * n + f % columns + (f < columns ? 0 : n)] = from[i];
  }
}
#undef RIDGE_EACH

struct BackwardBuffers {
  DeviceMemory x{2 << 20}, up{2 << 20}, gate{2 << 20}, bu{8192}, bg{8192}, dy{2 << 20}, h{2 << 20}, dh{2 << 20},
      dh_of_chunks{2 << 20}, chunk{2 << 20}, scratch{32 << 20}, workspace{32 << 20};
  DeviceMemory h_in_place{2 << 20}, dx{2 << 20}, dw{4 << 20}, db{8192};  // written by the tested kernels
  DeviceMemory first{10 << 20}, summary{256};
  std::vector<const DeviceMemory*> written() const { return {&h_in_place, &dx, &dw, &db}; }
};

cuda::GatedBackward random_backward(Random& r, BackwardBuffers& g, int number) {
  cuda::GatedBackward c;
  const bool even = r.below(3) != 0;
  const auto size = [&](int most) {
    const int x = r.one_in(5) ? r.below(10) + 1 : r.below(most) + 1;
    return even ? (x + 7) / 8 * 8 : x;
  };
  c.size.m = r.one_in(6) ? 1 : size(400);
  c.size.n = size(640);
  c.size.k = size(500);
  c.dtype = r.one_in(3) ? DType::f16 : DType::bf16;
  c.activation = r.pick({EpilogueActivation::none, EpilogueActivation::relu, EpilogueActivation::gelu,
                         EpilogueActivation::gelu_tanh, EpilogueActivation::silu});
  const auto pad = [&] { return even ? 8 * r.below(2) : r.below(3); };
  c.x_row_stride = c.size.k + pad();
  c.weight_line_stride = c.size.k + pad();
  c.dy_row_stride = c.size.n + pad();
  c.h_row_stride = 2 * c.size.n + pad();
  c.dx_row_stride = c.size.k + pad();
  c.weight_grad_row_stride = c.size.k + pad();
  const int shift = even ? 0 : 2 * r.below(2);
  c.x = g.x.data() + shift;
  c.up = g.up.data() + shift;
  c.gate = g.gate.data();
  c.dy = g.dy.data();
  if (!r.one_in(4)) c.bu = g.bu.data();
  if (!r.one_in(4)) c.bg = g.bg.data();
  if (r.one_in(3)) c.h = g.h_in_place.data() + 256 + shift;
  if (!r.one_in(8)) c.dx = g.dx.data() + 256 + shift;
  const std::int64_t matrix = c.size.n * c.weight_grad_row_stride * 2;
  const bool gate_first = r.one_in(5);
  std::int64_t gap = 0;
  if (!r.one_in(2)) gap = even ? 4096 : 2 * r.below(9);
  if (!r.one_in(6)) c.dup = g.dw.data() + 256 + (gate_first ? matrix + gap : 0);
  if (!r.one_in(6)) c.dgate = g.dw.data() + 256 + (gate_first ? 0 : matrix + gap);
  if (!r.one_in(4)) c.dbu = g.db.data();
  if (!r.one_in(4)) c.dbg = g.db.data() + 2 * c.size.n;
  const ElementFormat t = element_format(c.dtype);
  const float scale = 1.2F / std::sqrt(static_cast<float>(c.size.k));
  fill_random<<<128, 256>>>(t, const_cast<void*>(c.x), c.size.m * c.x_row_stride, 11u * number + 1, 1);
  fill_random<<<128, 256>>>(t, const_cast<void*>(c.up), c.size.n * c.weight_line_stride, 11u * number + 2, scale);
  fill_random<<<128, 256>>>(t, const_cast<void*>(c.gate), c.size.n * c.weight_line_stride, 11u * number + 3, scale);
  fill_random<<<8, 256>>>(t, g.bu.data(), 1000, 11u * number + 4, 1);
  fill_random<<<8, 256>>>(t, g.bg.data(), 1000, 11u * number + 5, 1);
  fill_random<<<128, 256>>>(t, g.dy.data(), c.size.m * c.dy_row_stride, 11u * number + 6, 1);
  if (r.one_in(10))
    set_element<<<1, 1>>>(t, const_cast<void*>(c.x), r.below(static_cast<int>(c.size.m)) * c.x_row_stride, NAN);
  return c;
}

// Computes h and dh without chunks, with the separately checked kernels.
Status compute_unchunked_dh(const cuda::GatedBackward& c, BackwardBuffers& g) {
  cuda::GatedCall h{.size = c.size, .dtype = c.dtype, .out = c.dtype, .bias = c.dtype};
  h.x = c.x;
  h.up = c.up;
  h.gate = c.gate;
  h.bu = c.bu;
  h.bg = c.bg;
  h.h = g.h.data();
  h.x_row_stride = c.x_row_stride;
  h.weight_line_stride = c.weight_line_stride;
  h.h_row_stride = 2 * c.size.n;
  const device::DeviceWorkspace scratch{g.scratch.data(), g.scratch.size(), false};
  if (const Reason why = cuda::unsupported_reason(h)) return input_error(why.text());
  RIDGE_TRY_STATUS(cuda::launch(h, cuda::choose_plan(h, 0, *current_device_numbers()), scratch, nullptr));
  cuda::GateGradientCall dh{.m = c.size.m, .n = c.size.n, .dtype = c.dtype, .activation = c.activation};
  dh.dy = c.dy;
  dh.h = g.h.data();
  dh.dh = g.dh.data();
  dh.dy_row_stride = c.dy_row_stride;
  dh.h_row_stride = dh.dh_row_stride = 2 * c.size.n;
  return cuda::launch(dh, scratch, nullptr);
}

// Computes dh in the plan's chunks.
Status compute_chunked_dh(const cuda::GatedBackward& c, const cuda::GatedBackwardPlan& plan, BackwardBuffers& g) {
  const device::DeviceWorkspace scratch{g.scratch.data(), g.scratch.size(), false};
  for (std::int64_t first = 0; first < c.size.n; first += plan.chunk) {
    const std::int64_t columns = std::min(plan.chunk, c.size.n - first);
    cuda::BackwardSteps s = cuda::make_backward_steps(c, first, columns, g.chunk.data());
    const auto& steps = columns == plan.each.columns ? plan.each : plan.last;
    RIDGE_TRY_STATUS(cuda::launch(s.recompute, steps.recompute, scratch, nullptr));
    s.gate.dbu = s.gate.dbg = nullptr;
    RIDGE_TRY_STATUS(cuda::launch(s.gate, scratch, nullptr));
    copy_chunk_to_dh<<<128, 256>>>(reinterpret_cast<const std::uint16_t*>(g.chunk.data()), c.size.m, columns,
                                   reinterpret_cast<std::uint16_t*>(g.dh_of_chunks.data()) + first, c.size.n);
  }
  return Done{};
}

void poison_outputs(const cuda::GatedBackward& c, BackwardBuffers& g) {
  for (const DeviceMemory* x : g.written()) cudaMemset(x->data(), 0x5a, x->size());
  if (c.h)
    cudaMemcpy2D(c.h, c.h_row_stride * 2, g.h.data(), c.size.n * 4, c.size.n * 4, static_cast<std::size_t>(c.size.m),
                 cudaMemcpyDefault);
}

void count_all_overwritten_bytes(const cuda::GatedBackward& c, const cuda::GatedBackwardPlan& plan, BackwardBuffers& g,
                                 unsigned* touched) {
  const auto count = [&](const DeviceMemory& all, const void* begin, std::int64_t lines, std::int64_t line,
                         std::int64_t stride) {
    const std::size_t at = begin ? static_cast<std::size_t>(static_cast<const char*>(begin) - all.data()) : 0;
    count_overwritten_bytes<<<64, 256>>>(reinterpret_cast<const std::uint8_t*>(all.data()), all.size(), at,
                                         begin ? lines : 0, line * 2, stride * 2, touched);
  };
  count(g.dx, c.dx, c.size.m, c.size.k, c.dx_row_stride);
  count(g.h_in_place, c.h, c.size.m, 2 * c.size.n, c.h_row_stride);
  count(g.workspace, g.workspace.data(), 1, static_cast<std::int64_t>(plan.workspace_bytes / 2),
        static_cast<std::int64_t>(plan.workspace_bytes / 2));
  if (c.dbu && c.dbg) count(g.db, c.dbu, 1, 2 * c.size.n, 2 * c.size.n);
  if (!c.dbu != !c.dbg) count(g.db, c.dbu ? c.dbu : c.dbg, 1, c.size.n, c.size.n);
  if (!c.dup || !c.dgate) count(g.dw, c.dup ? c.dup : c.dgate, c.size.n, c.size.k, c.weight_grad_row_stride);
}

Status compare_with_first_run(const std::vector<const DeviceMemory*>& written, BackwardBuffers& g, bool remember) {
  std::size_t at = 0;
  for (const DeviceMemory* x : written) {
    if (remember) {
      cudaMemcpy(g.first.data() + at, x->data(), x->size(), cudaMemcpyDefault);
    } else {
      std::vector<char> before(x->size()), now(x->size());
      cudaMemcpy(before.data(), g.first.data() + at, x->size(), cudaMemcpyDefault);
      cudaMemcpy(now.data(), x->data(), x->size(), cudaMemcpyDefault);
      if (before != now) return Error{.kind = ErrorKind::mismatch, .message = "the second run gave other bits"};
    }
    at += x->size();
  }
  return Done{};
}

Status run_twice(const cuda::GatedBackward& c, const cuda::GatedBackwardPlan& plan, BackwardBuffers& g) {
  for (const bool first : {true, false}) {
    poison_outputs(c, g);
    cudaMemset(g.workspace.data(), 0x5a, g.workspace.size());
    RIDGE_TRY_STATUS(cuda::launch(c, plan, {g.workspace.data(), plan.workspace_bytes, false}, nullptr));
    RIDGE_TRY_STATUS(device::to_status(cudaDeviceSynchronize(), "running the backward pass"));
    RIDGE_TRY_STATUS(compare_with_first_run(g.written(), g, first));
  }
  return Done{};
}

}  // namespace

bool check_one_backward(Random& r, int number) {
  static BackwardBuffers g;
  const cuda::GatedBackward c = random_backward(r, g, number);
  const ops::DeviceNumbers device = *current_device_numbers();
  cuda::GatedBackwardPlan plan = cuda::choose_plan(c, r.one_in(3) ? 0 : g.workspace.size(), device);
  if (!c.h && r.one_in(2))
    plan = *cuda::make_plan(c, g.workspace.size(), device, std::min<std::int64_t>(c.size.n, 64 * (r.below(4) + 1)));
  const auto run_all = [&]() -> Status {
    if (const Reason why = cuda::unsupported_reason(c)) return input_error(why.text());
    RIDGE_TRY_STATUS(compute_unchunked_dh(c, g));
    if (!c.h) RIDGE_TRY_STATUS(compute_chunked_dh(c, plan, g));
    return run_twice(c, plan, g);
  };
  Status status = run_all();
  auto* const found = reinterpret_cast<ErrorCounts*>(g.summary.data());
  auto* const touched = reinterpret_cast<unsigned*>(g.summary.data() + 128);
  const ErrorCounts nothing{0, 0, ~0ull};
  cudaMemcpy(found, &nothing, sizeof nothing, cudaMemcpyDefault);
  cudaMemset(touched, 0, 4);
  const CheckedBackward j{
      c,    element_format(c.dtype), g.h.data(), g.dh.data(), c.h ? g.dh.data() : g.dh_of_chunks.data(), plan.chunk,
      found};
  check_chunks<<<128, 256>>>(j);
  check_dw<<<256, 256>>>(j);
  check_db<<<8, 128>>>(j);
  if (c.dx) check_dx<<<256, 256>>>(j);
  count_all_overwritten_bytes(c, plan, g, touched);
  if (const Status checked = device::to_status(cudaDeviceSynchronize(), "checking the gradients"); !checked)
    status = checked;
  ErrorCounts is;
  unsigned bytes = 0;
  cudaMemcpy(&is, found, sizeof is, cudaMemcpyDefault);
  cudaMemcpy(&bytes, touched, 4, cudaMemcpyDefault);
  if (status && is.wrong == 0 && bytes == 0) return true;
  std::printf(
      "case %d, backward: m %ld n %ld k %ld in %d act %d h %d dx %d dw %d%d db %d%d lines %ld %ld %ld %ld %ld %ld "
      "chunk "
      "%ld one kernel %d products %zu %zu: %s wrong %u worst %g first %llu touched %u\n",
      number, long(c.size.m), long(c.size.n), long(c.size.k), int(c.dtype), int(c.activation), c.h != nullptr,
      c.dx != nullptr, c.dup != nullptr, c.dgate != nullptr, c.dbu != nullptr, c.dbg != nullptr, long(c.x_row_stride),
      long(c.weight_line_stride), long(c.dy_row_stride), long(c.h_row_stride), long(c.dx_row_stride),
      long(c.weight_grad_row_stride), long(plan.chunk), plan.each.dx.has_value(), plan.each.dx_products.size(),
      plan.each.dw_products.size(), status ? "" : status.error().message.c_str(), is.wrong,
      std::bit_cast<float>(is.worst), is.first, bytes);
  return false;
}

}  // namespace ridge::gpu
