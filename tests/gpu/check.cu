// Random problems on the device (odd sizes, layouts, strides, batches, broadcasts, alignments, epilogues, every kernel
// configuration and several splits of k) against a loop in f64. NaN surrounds the inputs, so reads outside an operand
// are detected; D is in a poisoned buffer, so writes outside it are detected. Small integers must match bit for bit.
// Every case runs twice, some ten times, and must give the same bits. A row of NaN must affect only its row.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "check_case.h"
#include "ridge/ops/product/register_loads/register_loads.h"
#include "ridge/run/device_machine.h"
#include "values.h"

namespace ridge::gpu {
namespace {

using ops::MatmulProblem, ops::MatrixLayout;
using namespace ops::cuda;

struct PaddedOperand {  // sizes and layout of a matrix whose rows may be padded
  std::int64_t batch, rows, cols;
  MatrixLayout layout;
};

__global__ void fill_nan(std::uint32_t* p, std::size_t words) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x)
    p[i] = 0xffffffff;  // NaN in all formats
}
__global__ void fill_matrix(void* data, PaddedOperand s, ElementFormat format, ValueKind kind, std::uint32_t seed,
                            std::int64_t nan_row) {
  const std::int64_t all = s.batch * s.rows * s.cols;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t b = i / (s.rows * s.cols), r = i / s.cols % s.rows, c = i % s.cols;
    float x = r == nan_row ? nanf("") : random_value(kind, static_cast<std::uint64_t>(i), seed);
    if (format == ElementFormat::int8 && kind == ValueKind::normal) x *= 48;  // Some exceed the range
    write_element(format, data, b * s.layout.batch_stride + r * s.layout.row_stride + c * s.layout.col_stride, x, all);
  }
}

// Lets the next kernel start before the group starts are written; if that kernel does not wait, it reads invalid ones.
__global__ void write_starts_late(const int* from, int* to, int count) {
  asm volatile("griddepcontrol.launch_dependents;");
  for (const long long since = clock64(); clock64() - since < 20000;) {}
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int i = 0; i < count; ++i) to[i] = from[i];
}

struct CheckInput {
  MatmulProblem p;
  const void *a, *b, *d;
  std::int64_t d_bytes;  // size of the buffer that contains D
  std::int64_t d_offset;
  const char* d_buffer;
  MatmulEpilogue e;
  const void* addend_before;  // the addend's values before D, which may alias it, was written
  const int* starts;          // first rows of groups, if the problem is grouped
  bool exact;                 // true if results must be equal bit for bit
};
struct ErrorSummary {
  unsigned wrong, wrong_outside_bytes;
  float worst_ratio;
  int row, col;
  float got, want;
};

__device__ double read_operand(const EpilogueOperand& x, const void* data, std::int64_t b, std::int64_t r,
                               std::int64_t c) {
  return read_element(element_format(x.dtype), data, b * x.batch_stride + r * x.row_stride + c * x.col_stride);
}

// Computes the expected value `y` and the allowed error `tolerance` from the sum of a dot product.
__device__ void apply_epilogue(const CheckInput& x, double sum, double magnitude, std::int64_t b, std::int64_t r,
                               std::int64_t c, double& y, double& tolerance) {
  const MatmulEpilogue& e = x.e;
  double unit = 0x1p-24;
  if (x.p.d.dtype == DType::bf16) unit = 0x1p-8;
  if (x.p.d.dtype == DType::f16) unit = 0x1p-11;
  const double least = x.p.d.dtype == DType::f16 ? 0x1p-24 : 0x1p-126;
  y = e.alpha * sum;
  // Operands of tf32 lose 13 bits, and sums of 128 products of e4m3 keep 13 bits.
  double product_error = 0;
  if (x.p.a.dtype == DType::tf32) product_error = 0x1p-9;
  if (x.p.a.dtype == DType::e4m3 || x.p.a.dtype == DType::e4m3_128) product_error = 0x1p-6;
  tolerance = (2.0 * static_cast<double>(x.p.size.k) * 0x1p-24 + product_error) * magnitude * fabs(double{e.alpha}) +
              0x1p-23 * fabs(y);
  if (x.p.a.dtype == DType::int8) tolerance = 0x1p-22 * fabs(y);  // Sums are exact until they are rounded to f32
  if (e.scale.data) {
    const double v = read_operand(e.scale, e.scale.data, b, r, c);
    y *= v;
    tolerance = tolerance * fabs(v) + 0x1p-23 * fabs(y);
  }
  if (e.bias.data) {
    const double v = read_operand(e.bias, e.bias.data, b, r, c);
    y += v;
    tolerance += 0x1p-23 * (fabs(y) + fabs(v));
  }
  const double before = y;
  switch (e.activation) {
    case EpilogueActivation::none: break;
    case EpilogueActivation::relu: y = y < 0 ? 0 : y; break;
    case EpilogueActivation::gelu: y = 0.5 * y * (1 + erf(y * 0.7071067811865476)); break;
    case EpilogueActivation::gelu_tanh:
      y = 0.5 * y * (1 + tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)));
      break;
    case EpilogueActivation::silu: y = y / (1 + exp(-y)); break;
  }
  if (e.activation != EpilogueActivation::none)
    tolerance = 1.2 * tolerance + 0x1p-20 * (fabs(y) + fabs(before) * (fabs(before) < 12 ? 1 : 0));
  if (e.gate.data) {
    const double v = read_operand(e.gate, e.gate.data, b, r, c);
    y *= v;
    tolerance = tolerance * fabs(v) + 0x1p-23 * fabs(y);
  }
  if (e.addend.data) {
    const double v = e.beta * read_operand(e.addend, x.addend_before, b, r, c);
    y += v;
    tolerance += 0x1p-23 * (fabs(y) + fabs(v)) + (e.may_round_sum ? unit * (fabs(sum) + tolerance) + least : 0);
  }
  tolerance += unit * (fabs(y) + tolerance) + least;
}

__global__ void find_max_error(CheckInput x, ErrorSummary* summary) {
  const ElementFormat in = element_format(x.p.a.dtype), out = element_format(x.p.d.dtype);
  const std::int64_t all = x.p.batch * x.p.size.m * x.p.size.n,
                     a_elements = (x.p.a.batch_stride == 0 ? 1 : x.p.batch) * x.p.size.m * x.p.size.k,
                     b_elements = (x.p.b.batch_stride == 0 ? 1 : x.p.batch) * x.p.size.n * x.p.size.k;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t b = i / (x.p.size.m * x.p.size.n), r = i / x.p.size.n % x.p.size.m, c = i % x.p.size.n;
    if (x.p.grouped && (r < x.starts[b] || r >= x.starts[b + 1])) continue;
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < x.p.size.k; ++k) {
      const double product =
          read_element(in, x.a, b * x.p.a.batch_stride + r * x.p.a.row_stride + k * x.p.a.col_stride, a_elements) *
          read_element(in, x.b, b * x.p.b.batch_stride + k * x.p.b.row_stride + c * x.p.b.col_stride, b_elements);
      sum += product;
      magnitude += fabs(product);
    }
    double want, tolerance;
    apply_epilogue(x, sum, magnitude, b, r, c, want, tolerance);
    const double got = read_element(out, x.d, b * x.p.d.batch_stride + r * x.p.d.row_stride + c * x.p.d.col_stride);
    bool right;
    if (out == ElementFormat::int32) {
      right = got == want;
    } else if (x.exact) {
      float rounded;
      write_element(out, &rounded, 0, static_cast<float>(want));
      right = got == read_element(out, &rounded, 0);
    } else {
      right = fabs(got - want) <= tolerance;
      if (isinf(got)) right = fabs(want) > 65500 && out == ElementFormat::f16;
      if (isnan(want)) right = isnan(got);
    }
    if (!right && atomicAdd(&summary->wrong, 1) == 0) {
      summary->row = static_cast<int>(r);
      summary->col = static_cast<int>(c);
      summary->got = static_cast<float>(got);
      summary->want = static_cast<float>(want);
    }
    if (!x.exact && !isnan(want) && !isinf(got)) {
      const float ratio = static_cast<float>(fabs(got - want) / tolerance);
      if (ratio > summary->worst_ratio) summary->worst_ratio = ratio;  // a race can only lose a maximum
    }
  }
}
// Every byte of the buffer outside D must still be 0xff.
__global__ void check_outside_bytes(CheckInput x, std::int64_t bytes_of_element, ErrorSummary* summary) {
  const bool rows = x.p.d.col_stride == 1;
  const std::int64_t length = rows ? x.p.size.n : x.p.size.m, lines = rows ? x.p.size.m : x.p.size.n;
  const std::int64_t stride = rows ? x.p.d.row_stride : x.p.d.col_stride, line = lines == 1 ? length : stride;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < x.d_bytes;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    if (static_cast<unsigned char>(x.d_buffer[i]) == 0xff) continue;
    const std::int64_t e = i - x.d_offset, at = e / bytes_of_element;
    const std::int64_t b = x.p.grouped ? 0 : at / x.p.d.batch_stride, inside = at - b * x.p.d.batch_stride;
    const std::int64_t r = inside / line;
    const bool is_owned = !x.p.grouped || (x.p.batch > 0 && r >= x.starts[0] && r < x.starts[x.p.batch]);
    if (e >= 0 && b < x.p.batch && r < lines && inside % line < length && is_owned) continue;
    atomicAdd(&summary->wrong_outside_bytes, 1);
  }
}
__global__ void count_different_bytes(const char* p, const char* q, std::int64_t bytes, unsigned* count) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < bytes;
       i += std::int64_t{gridDim.x} * blockDim.x)
    if (p[i] != q[i]) atomicAdd(count, 1);
}

class CaseRunner {
 public:
  explicit CaseRunner(std::size_t buffer_bytes)
      : a_(buffer_bytes),
        b_(buffer_bytes),
        d_(buffer_bytes),
        first_output_(buffer_bytes),
        epilogue_data_(buffer_bytes),
        addend_(buffer_bytes),
        workspace_(buffer_bytes * 2),
        summary_(256),
        starts_(8192) {
    check_cuda(cudaStreamCreate(&stream_), "creating a stream");
    check_cuda(cudaMemset(workspace_.data(), 0, device::counter_bytes), "preparing the workspace");
    device_ = *current_device_numbers();
  }
  ~CaseRunner() { cudaStreamDestroy(stream_); }

  bool run(Case c) {
    MatmulCall call;
    call.problem = c.p;
    const std::int64_t out = dtype_bits(c.p.d.dtype) / 8;
    const std::int64_t in = dtype_bits(c.p.a.dtype) / 8;
    char* const a = a_.data() + 1024 + c.a_offset * in;
    char* const b = b_.data() + 1024 + c.b_offset * in;
    const std::int64_t at = 1024 + c.d_offset * out;
    call.a = a;
    call.b = b;
    call.d = d_.data() + at;
    call.constant_b = c.constant_b;
    call.epilogue = c.e;
    if (c.p.grouped) {
      check_cuda(cudaMemcpyAsync(starts_.data() + starts_.size() / 2, c.starts.data(), c.starts.size() * 4,
                                 cudaMemcpyHostToDevice, stream_),
                 "copying the group starts");
      call.starts = reinterpret_cast<const std::int32_t*>(starts_.data());
    }
    const ValueKind kind = c.integers ? ValueKind::integers : ValueKind::normal;
    const std::uint32_t seed = ++seed_;
    fill_operand(a_, a, c.p.a, c.p.batch, c.p.size.m, c.p.size.k, kind, seed, c.nan_row ? c.p.size.m / 2 : -1);
    fill_operand(b_, b, c.p.b, c.p.batch, c.p.size.k, c.p.size.n, kind, seed + 1000, -1);
    fill_epilogue_operands(c, call, kind, seed);
    std::optional<MatmulPlan> plan;
    if (c.config >= 0) plan = make_plan(call, c.workspace, device_, {c.config, c.split, c.copies});
    if (c.gemv)
      for (const MatmulPlan& one : list_candidates(call, c.workspace, device_, 1))
        if (one.path == MatmulPlan::Path::gemv) plan = one;
    if (c.candidate >= 0)
      if (const auto all = list_register_loads_plans(call, c.workspace, device_); !all.empty())
        plan = all[static_cast<std::size_t>(c.candidate) % all.size()];
    if (!plan) plan = choose_plan(call, c.workspace, device_);
    ++paths_[static_cast<int>(plan->path)];
    if (plan->path == MatmulPlan::Path::tiles) ++configs_[static_cast<std::size_t>(plan->config)];
    ++split_modes_[static_cast<int>(plan->split_mode)];
    splits_ += plan->splits > 1;
    copies_ += plan->copy_a || plan->copy_b;
    grouped_ += c.p.grouped;
    const std::int64_t bytes = span_elements(c.p.d, c.p.batch, c.p.size.m, c.p.size.n) * out + 2048 + c.d_offset * out;
    ErrorSummary v{};
    check_cuda(cudaMemsetAsync(summary_.data(), 0, 256, stream_), "clearing the summary");
    for (int i = 0; i < c.runs; ++i) {
      if (!launch_once(c, call, *plan, bytes)) return false;
      if (i == 0)
        check_cuda(cudaMemcpyAsync(first_output_.data(), d_.data(), static_cast<std::size_t>(bytes),
                                   cudaMemcpyDeviceToDevice, stream_),
                   "copying the first output");
      else
        count_different_bytes<<<256, 256, 0, stream_>>>(first_output_.data(), d_.data(), bytes,
                                                        reinterpret_cast<unsigned*>(summary_.data() + 128));
    }
    CheckInput x{c.p,
                 a,
                 b,
                 call.d,
                 bytes,
                 at,
                 d_.data(),
                 call.epilogue,
                 addend_.data() + 64,
                 call.starts,
                 (c.integers || c.p.a.dtype == DType::int8) && is_exact(c)};
    if (c.e.addend.data && !c.addend_is_d) x.addend_before = call.epilogue.addend.data;
    if (c.p.batch * c.p.size.m * c.p.size.n > 0)
      find_max_error<<<2048, 128, 0, stream_>>>(x, reinterpret_cast<ErrorSummary*>(summary_.data()));
    if (!c.addend_is_d)
      check_outside_bytes<<<512, 256, 0, stream_>>>(x, out, reinterpret_cast<ErrorSummary*>(summary_.data()));
    check_cuda(cudaGetLastError(), "comparing the results");
    unsigned different = 0;
    check_cuda(cudaMemcpyAsync(&v, summary_.data(), sizeof v, cudaMemcpyDeviceToHost, stream_), "reading the summary");
    check_cuda(cudaMemcpyAsync(&different, summary_.data() + 128, 4, cudaMemcpyDeviceToHost, stream_),
               "reading the summary");
    const cudaError_t e = cudaStreamSynchronize(stream_);
    if (e != cudaSuccess) {
      std::printf("FAILED %s: %s; planned config %d splits %d\n", describe_case(c).c_str(), cudaGetErrorString(e),
                  plan->config, plan->splits);
      std::exit(1);
    }
    worst_ = std::max(worst_, v.worst_ratio);
    if (v.wrong == 0 && v.wrong_outside_bytes == 0 && different == 0) return true;
    std::printf(
        "WRONG %s: planned path %d config %d splits %d copies %d%d: %u wrong (first at %d,%d: %g, expected %g), %u "
        "bytes written outside D, %u bytes differ between runs\n",
        describe_case(c).c_str(), static_cast<int>(plan->path), plan->config, plan->splits, plan->copy_a, plan->copy_b,
        v.wrong, v.row, v.col, v.got, v.want, v.wrong_outside_bytes, different);
    return false;
  }

  void print_summary() const {
    std::size_t configs = 0;
    for (const int n : configs_) configs += n > 0;
    std::printf(
        "paths: %d empty, %d tiles, %d gemv, %d with register loads, %d plain; %d with k split, %d cluster, %d "
        "stream-K, %d "
        "cooperative, %d "
        "with copies, %d grouped; %zu of %zu configs; worst error %.3f of its bound\n",
        paths_[0], paths_[1], paths_[2], paths_[3], paths_[4], splits_, split_modes_[1], split_modes_[2],
        split_modes_[3], copies_, grouped_, configs, configs_.size(), worst_);
  }

 private:
  static bool is_exact(const Case& c) {
    return c.e.alpha == 1 && c.e.activation == EpilogueActivation::none && !c.e.scale.data && !c.e.bias.data &&
           !c.e.gate.data && !c.e.addend.data && !c.nan_row;
  }
  static std::int64_t span_elements(const MatrixLayout& x, std::int64_t batch, std::int64_t rows, std::int64_t cols) {
    if (batch == 0 || rows == 0 || cols == 0) return 0;
    return (batch - 1) * x.batch_stride + (rows - 1) * x.row_stride + (cols - 1) * x.col_stride + 1;
  }
  void fill_operand(const DeviceMemory& buffer, char* data, const MatrixLayout& x, std::int64_t batch,
                    std::int64_t rows, std::int64_t cols, ValueKind kind, std::uint32_t seed, std::int64_t nan_row) {
    const std::size_t bytes = static_cast<std::size_t>(span_elements(x, batch, rows, cols)) * 4 + 4096;
    fill_nan<<<256, 256, 0, stream_>>>(reinterpret_cast<std::uint32_t*>(buffer.data()),
                                       std::min(bytes, buffer.size()) / 4);
    const PaddedOperand s{x.batch_stride == 0 ? std::min<std::int64_t>(batch, 1) : batch, rows, cols, x};
    if (batch * rows * cols > 0)
      fill_matrix<<<256, 256, 0, stream_>>>(data, s, element_format(x.dtype), kind, seed, nan_row);
  }
  void fill_epilogue_operands(const Case& c, MatmulCall& call, ValueKind kind, std::uint32_t seed) {
    char* at = epilogue_data_.data();
    for (EpilogueOperand* x : {&call.epilogue.scale, &call.epilogue.bias, &call.epilogue.gate, &call.epilogue.addend}) {
      if (!x->data) continue;
      if (x == &call.epilogue.addend && c.addend_is_d) {
        x->data = call.d;
        continue;
      }
      const PaddedOperand s{x->batch_stride ? c.p.batch : 1,
                            x->row_stride ? c.p.size.m : 1,
                            x->col_stride ? c.p.size.n : 1,
                            {x->dtype, x->row_stride, x->col_stride, x->batch_stride}};
      fill_matrix<<<256, 256, 0, stream_>>>(at, s, element_format(x->dtype), kind, ++seed + 5000, -1);
      x->data = at;
      at += (span_elements(s.layout, s.batch, s.rows, s.cols) * 4 + 1023) / 512 * 512;
    }
  }
  bool launch_once(const Case& c, const MatmulCall& call, const MatmulPlan& plan, std::int64_t bytes) {
    check_cuda(cudaMemsetAsync(d_.data(), 0xff, static_cast<std::size_t>(bytes), stream_), "poisoning D");
    if (c.addend_is_d) {
      fill_matrix<<<256, 256, 0, stream_>>>(call.d,
                                            PaddedOperand{c.p.grouped ? 1 : c.p.batch, c.p.size.m, c.p.size.n, c.p.d},
                                            element_format(c.p.d.dtype), ValueKind::normal, 99, -1);
      check_cuda(cudaMemcpyAsync(addend_.data() + 64, call.d,
                                 static_cast<std::size_t>(span_elements(c.p.d, c.p.batch, c.p.size.m, c.p.size.n) *
                                                          dtype_bits(c.p.d.dtype) / 8),
                                 cudaMemcpyDeviceToDevice, stream_),
                 "copying the addend");
    }
    if (c.p.grouped) {
      check_cuda(cudaMemsetAsync(starts_.data(), 0xff, c.starts.size() * 4, stream_), "clearing the group starts");
      write_starts_late<<<1, 1, 0, stream_>>>(reinterpret_cast<const int*>(starts_.data() + starts_.size() / 2),
                                              reinterpret_cast<int*>(starts_.data()),
                                              static_cast<int>(c.starts.size()));
    }
    device::DeviceWorkspace w{workspace_.data(), c.workspace, c.prepared};
    if (!c.prepared) w.data = workspace_.data() + workspace_.size() / 2;
    const Status launched = launch(call, plan, w, stream_);
    if (!launched) std::printf("REFUSED %s: %s\n", describe_case(c).c_str(), launched.error().message.c_str());
    return launched.ok();
  }

  DeviceMemory a_, b_, d_, first_output_, epilogue_data_, addend_, workspace_, summary_, starts_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t seed_ = 1;
  ops::DeviceNumbers device_ = {};
  int paths_[5] = {}, split_modes_[4] = {}, splits_ = 0, copies_ = 0, grouped_ = 0;
  float worst_ = 0;
  std::vector<int> configs_ = std::vector<int>(ops::sm90_kernel_configs.size());
};

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  std::int64_t size(std::int64_t max_size) {  // log-uniform, often close to a multiple of a tile
    const double x =
        std::exp(std::log(static_cast<double>(max_size)) * std::uniform_real_distribution<double>(0, 1)(engine_));
    std::int64_t n = std::max<std::int64_t>(1, static_cast<std::int64_t>(x));
    if (one_in(3)) n = n / 8 * 8 + (n < 8 ? 8 : 0);
    if (one_in(5)) n = n / 64 * 64 + below(3) - 1 + 64;
    return std::clamp<std::int64_t>(n, 1, max_size);
  }

 private:
  std::mt19937 engine_;
};

MatrixLayout random_layout(Random& r, DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                           bool transposed, bool broadcast) {
  MatrixLayout x{dtype};
  const std::int64_t length = transposed ? rows : cols, lines = transposed ? cols : rows;
  std::int64_t line = std::max<std::int64_t>(length, 1);
  const int kind = r.below(4);
  if (kind == 0) line = (line + 7) / 8 * 8;
  if (kind == 1) line = (line + 7) / 8 * 8 + 8 * r.below(5);
  if (kind == 2) line += r.below(9);
  x.row_stride = transposed ? 1 : line;
  x.col_stride = transposed ? line : 1;
  x.batch_stride = line * std::max<std::int64_t>(lines, 1) + (kind < 2 ? 8 : 1) * r.below(3);
  if (batch == 1 && r.one_in(2)) x.batch_stride = line * std::max<std::int64_t>(lines, 1);
  if (broadcast) x.batch_stride = 0;
  return x;
}

EpilogueOperand random_epilogue_operand(Random& r, const Case& c, bool vector) {
  EpilogueOperand x;
  x.data = &x;
  x.dtype = std::array{DType::bf16, DType::f16, DType::f32}[static_cast<std::size_t>(r.below(3))];
  x.row_stride = vector ? 0 : c.p.size.n + r.below(3);
  x.col_stride = 1;
  if (vector && r.one_in(3)) {
    x.row_stride = 1;
    x.col_stride = 0;
  }
  x.batch_stride = vector || r.one_in(2) ? 0 : c.p.size.m * x.row_stride;
  return x;
}

// Divides the case's rows into up to 300 groups. Some are empty; some rows may precede the first or follow the last.
void divide_into_groups(Random& r, Case& c) {
  MatmulProblem& p = c.p;
  p.grouped = true;
  p.batch = r.one_in(8) ? 1 + r.below(300) : 1 + r.below(12);
  while (p.batch * p.size.k * p.size.n * dtype_bits(p.a.dtype) / 8 > (std::int64_t{1} << 25)) {
    p.batch = (p.batch + 1) / 2;
    p.size.n = std::max<std::int64_t>(1, p.size.n / 2);
  }
  c.gemv = false;
  const bool b_transposed = p.b.row_stride == 1;
  p.a = random_layout(r, p.a.dtype, 1, p.size.m, p.size.k, p.a.col_stride != 1, true);
  p.b = random_layout(r, p.b.dtype, p.batch, p.size.k, p.size.n, b_transposed, r.one_in(4));
  p.d = random_layout(r, p.d.dtype, 1, p.size.m, p.size.n, false, true);
  if (is_block_scaled(p.a.dtype)) {
    p.a = {p.a.dtype, p.size.k, 1, 0};
    p.b = {p.b.dtype, 1, p.size.k, p.size.k * p.size.n};
  }
  for (EpilogueOperand* x : {&c.e.scale, &c.e.bias, &c.e.gate, &c.e.addend})
    if (x->data) *x = random_epilogue_operand(r, c, x == &c.e.scale || x == &c.e.bias);
  if (c.e.bias.data && r.one_in(2)) {
    c.e.bias.row_stride = 0;
    c.e.bias.col_stride = 1;
    c.e.bias.batch_stride = p.size.n + r.below(3);  // one bias per group
  }
  if (c.e.addend.data) c.e.addend.batch_stride = 0;
  for (EpilogueOperand* x : {&c.e.scale, &c.e.gate})
    if (x->data) x->batch_stride = 0;
  if (c.addend_is_d) c.e.addend = {&c, p.d.dtype, p.d.row_stride, p.d.col_stride, 0};
  for (std::int64_t i = 0; i <= p.batch; ++i) c.starts.push_back(r.below(static_cast<int>(p.size.m) + 1));
  if (r.one_in(2)) c.starts.front() = 0;
  if (r.one_in(2)) c.starts.back() = static_cast<int>(p.size.m);
  std::sort(c.starts.begin(), c.starts.end());
  if (r.one_in(4)) c.starts.front() = -r.below(1000);  // a start before row 0
  if (r.one_in(4)) c.starts.back() += r.below(1000);
}

Case random_case(Random& r, std::int64_t max_size, std::size_t workspace) {
  Case c;
  MatmulProblem& p = c.p;
  p.batch = r.one_in(4) ? 1 + r.below(4) : 1;
  p.size.m = r.size(max_size);
  p.size.n = r.size(max_size);
  p.size.k = r.size(max_size * 2);
  if (r.one_in(60)) {
    if (r.one_in(3))
      p.size.m = 0;
    else
      (r.one_in(2) ? p.size.n : p.size.k) = 0;
  }
  if (r.one_in(200)) p.batch = 0;
  while (p.batch * p.size.m * p.size.n * p.size.k > (std::int64_t{1} << 26)) {
    p.size.m = std::max<std::int64_t>(1, p.size.m / 2);
    p.size.k = std::max<std::int64_t>(1, p.size.k / 2);
  }
  DType in = r.one_in(2) ? DType::bf16 : DType::f16;
  if (r.one_in(5)) in = DType::f32;
  if (r.one_in(3)) in = std::array{DType::e4m3, DType::tf32, DType::int8}[static_cast<std::size_t>(r.below(3))];
  const bool is_scaled = r.one_in(8);
  if (is_scaled) in = DType::e4m3_128;
  DType out = std::array{DType::bf16, DType::f16, DType::f32}[static_cast<std::size_t>(r.below(3))];
  if (StoredFloats::contains(in) && r.one_in(2)) out = in;
  if (in == DType::int8 && r.one_in(2)) out = DType::int32;
  p.a = random_layout(r, in, p.batch, p.size.m, p.size.k, r.one_in(3), r.one_in(4));
  p.b = random_layout(r, in, p.batch, p.size.k, p.size.n, !r.one_in(3), r.one_in(4));
  p.d = random_layout(r, out, p.batch, p.size.m, p.size.n, r.one_in(4), false);
  if (r.one_in(4)) {
    c.a_offset = r.below(9);
    c.b_offset = r.below(9);
  }
  if (r.one_in(4)) c.d_offset = r.below(9);
  if (r.one_in(3)) {
    if (r.one_in(2)) c.e.alpha = 0.5f;
    if (r.one_in(2)) c.e.bias = random_epilogue_operand(r, c, true);
    c.e.activation = static_cast<EpilogueActivation>(r.below(5));
    if (r.one_in(3)) c.e.scale = random_epilogue_operand(r, c, !r.one_in(4));
    if (r.one_in(3)) c.e.gate = random_epilogue_operand(r, c, r.one_in(2));
    if (r.one_in(3)) {
      c.e.addend = random_epilogue_operand(r, c, false);
      c.e.beta = r.one_in(2) ? 1.0f : -0.75f;
    }
    if (c.e.addend.data && r.one_in(3)) {
      c.addend_is_d = true;
      c.e.addend = {&c, p.d.dtype, p.d.row_stride, p.d.col_stride, p.d.batch_stride};
      if (r.one_in(2)) c.e = {.addend = c.e.addend, .may_round_sum = true};
    }
  }
  if (out == DType::int32) {  // the sums as they are
    c.e = {};
    c.addend_is_d = false;
  }
  c.integers = r.one_in(2);
  c.nan_row = r.one_in(10) && in != DType::int8;
  c.constant_b = r.one_in(4);
  c.prepared = !r.one_in(5);
  c.workspace = r.one_in(12) ? 0 : workspace;
  if (in == DType::f32 || (operand_bytes(in) > 1 && r.one_in(4)))
    c.candidate = r.below(20) - 10;
  else if (!r.one_in(3))
    c.config = r.below(static_cast<int>(ops::sm90_kernel_configs.size()));
  if (r.one_in(2)) c.split = {1 + r.below(6), tile::SplitMode::split_k};
  if (r.one_in(4)) c.split = {2 + r.below(tile::max_cooperative_splits - 1), tile::SplitMode::cooperative_split_k};
  if (r.one_in(3)) c.split = {2 + r.below(7), tile::SplitMode::cluster_split_k};
  if (r.one_in(4)) c.split = {1, tile::SplitMode::stream_k};
  c.copies = {r.one_in(4), r.one_in(4)};
  if (c.config >= 0) {  // layouts that the configuration supports
    const auto& config = ops::sm90_kernel_configs[static_cast<std::size_t>(c.config)];
    const bool a_k = (config.swap ? config.b : config.a) == tile::Major::k,
               b_k = (config.swap ? config.a : config.b) == tile::Major::k;
    p.a = random_layout(r, in, p.batch, p.size.m, p.size.k, !a_k, r.one_in(4));
    p.b = random_layout(r, in, p.batch, p.size.k, p.size.n, b_k, r.one_in(4));
    p.d = random_layout(r, out, p.batch, p.size.m, p.size.n, false, false);
    if (c.addend_is_d) c.e.addend = {&c, p.d.dtype, p.d.row_stride, p.d.col_stride, p.d.batch_stride};
  }
  if (r.one_in(10)) {  // few rows, of 16 bits with unaligned operands
    c.gemv = true;
    c.config = c.candidate = -1;
    p.size.m = 1 + r.below(4);
    const bool along_k = in != DType::f32 || r.one_in(2);
    p.a = random_layout(r, in, p.batch, p.size.m, p.size.k, !along_k && r.one_in(2), in != DType::f32 || r.one_in(2));
    p.b = random_layout(r, in, p.batch, p.size.k, p.size.n, along_k, in != DType::f32 || r.one_in(2));
    p.d = random_layout(r, out, p.batch, p.size.m, p.size.n, false, false);
    if (c.addend_is_d) c.e.addend = {&c, p.d.dtype, p.d.row_stride, p.d.col_stride, p.d.batch_stride};
  }
  if (is_scaled) {  // whole blocks along k, in lines without gaps
    c.gemv = false;
    c.candidate = -1;
    c.a_offset = c.b_offset = 0;
    p.size.k = (p.size.k + 127) / 128 * 128;
    const std::int64_t k = p.size.k;
    p.a = {in, k, 1, k * p.size.m};
    p.b = {in, 1, k, r.one_in(4) ? 0 : k * p.size.n};
    if (r.one_in(4)) p.a = {in, p.batch * k, 1, k};  // Lines of the matrices alternate
    if (r.one_in(4)) p.b = {in, 1, p.batch * k, k};
  }
  c.runs = r.one_in(25) ? 10 : 2;
  const bool is_grouped = c.config >= 0 && ops::sm90_kernel_configs[static_cast<std::size_t>(c.config)].grouped;
  if (is_grouped || r.one_in(8)) divide_into_groups(r, c);
  return c;
}

}  // namespace

// Weights of groups have up to 32 MiB without the gaps between their lines.
constexpr std::size_t min_buffer_bytes = std::size_t{64} << 20;

// Arguments: check [CASES] [MAX_SIZE] [SEED].
int check_matmul(int argc, char** argv) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 6000;
  const int max_size = argc > 1 ? std::atoi(argv[1]) : 2048;
  Random r(argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 1);
  const std::size_t buffer_bytes =
      (static_cast<std::size_t>(max_size) * max_size * 100 + 255) / 256 * 256;  // workspaces are 256-byte aligned
  CaseRunner runner(std::max(buffer_bytes, min_buffer_bytes));
  int wrong = 0;
  for (int i = 0; i < cases && wrong < 12; ++i)
    wrong += !runner.run(random_case(r, max_size, std::max(buffer_bytes, min_buffer_bytes)));
  runner.print_summary();
  std::printf("%d cases, %d wrong\n", cases, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::gpu
