// Functions of rows and their gradients on a device: `rows` holds random ones against f64 on the host, `rows_times`
// times them, or those that are named, beside a copy that moves as many bytes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "ridge/base/float16.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/rows/model.h"
#include "support.h"
#include "values.h"

namespace ridge::gpu {
namespace {

using ops::RowFunction, ops::RowProblem;

constexpr RowFunction functions[] = {RowFunction::softmax,           RowFunction::rmsnorm,
                                     RowFunction::layernorm,         RowFunction::log_sum_exp,
                                     RowFunction::softmax_gradient,  RowFunction::rmsnorm_gradient,
                                     RowFunction::layernorm_gradient};
constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr const char* names[] = {"softmax",          "rmsnorm",          "layernorm",         "log_sum_exp",
                                 "softmax_gradient", "rmsnorm_gradient", "layernorm_gradient"};

// Elements as they are stored, `off` elements behind a place of 16 bytes, on the host and on the device.
class Elements {
 public:
  Elements(DType dtype, std::int64_t count, std::int64_t off)
      : dtype_(dtype), off_(off), host_(static_cast<std::size_t>((count + off) * 4), '\x7b'), device_(host_.size()) {}
  void set(std::int64_t i, float x) {
    if (dtype_ == DType::f32)
      as<float>()[i + off_] = x;
    else if (dtype_ == DType::bf16)
      as<Bf16>()[i + off_] = to_bf16(x);
    else
      as<F16>()[i + off_] = to_f16(x);
  }
  double get(std::int64_t i) {
    if (dtype_ == DType::f32) return as<float>()[i + off_];
    return dtype_ == DType::bf16 ? to_float(as<Bf16>()[i + off_]) : to_float(as<F16>()[i + off_]);
  }
  bool untouched(std::int64_t i) {
    const int size = bits(dtype_) / 8;
    return std::all_of(host_.begin() + (i + off_) * size, host_.begin() + (i + off_ + 1) * size,
                       [](char byte) { return byte == '\x7b'; });
  }
  char* data() const { return device_.data() + off_ * (bits(dtype_) / 8); }
  void up() { must(cudaMemcpy(device_.data(), host_.data(), host_.size(), cudaMemcpyHostToDevice), "copying there"); }
  void down() { must(cudaMemcpy(host_.data(), device_.data(), host_.size(), cudaMemcpyDeviceToHost), "copying back"); }

 private:
  template <class T> T* as() { return reinterpret_cast<T*>(host_.data()); }
  DType dtype_;
  std::int64_t off_;
  std::vector<char> host_;
  Memory device_;
};

struct Case {
  RowProblem p;
  bool weighted = false;
  std::int64_t x_off = 0, y_off = 0, nan_row = -1;
  float mean = 0, size = 1;
};

std::string text(const Case& c) {
  const auto of = [](DType dtype) { return std::string(name(dtype)) + " "; };
  return std::string(names[static_cast<int>(c.p.function)]) + " of " + std::to_string(c.p.rows) + " x " +
         std::to_string(c.p.columns) + ", " + of(c.p.x.dtype) + of(c.p.y.dtype) +
         (c.weighted ? "weight " + of(c.p.weight) : "") + "strides " + std::to_string(c.p.x.row_stride) + " " +
         std::to_string(c.p.y.row_stride) + " off " + std::to_string(c.x_off) + " " + std::to_string(c.y_off) +
         " mean " + std::to_string(c.mean) + " size " + std::to_string(c.size);
}

Case random_case(std::mt19937& random) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  Case c;
  RowProblem& p = c.p;
  p.function = functions[below(7)];
  const std::int64_t most = std::int64_t{1} << below(19);  // now and then longer than a cluster's registers hold
  p.columns = below(2) == 0 ? 1 + below(most) : std::max<std::int64_t>(most / 16 * (1 + below(16)), 1);
  if (is_gradient(p.function)) p.columns = std::max<std::int64_t>(p.columns, 8);  // of fewer, all but nothing cancels
  p.rows = 1 + below(std::min<std::int64_t>((std::int64_t{1} << 18) / p.columns + 3, 700));
  const bool plain = below(2) == 0;
  const auto gap = [&] { return plain ? 0 : below(9); };
  p.x = {dtypes[below(3)], p.columns + gap()};
  p.y = {dtypes[below(3)], p.columns + gap()};
  p.weight = dtypes[below(3)];
  if (is_gradient(p.function)) {
    p.y.dtype = p.x.dtype;
    p.dy = {p.x.dtype, p.columns + gap()};
  }
  c.weighted = is_norm(p.function) && below(3) != 0;
  c.x_off = plain ? 0 : below(4);
  c.y_off = plain ? 0 : below(4);
  if (below(4) == 0) c.nan_row = below(p.rows);
  const bool f32 = p.x.dtype == DType::f32 && !is_gradient(p.function);
  const float means[] = {1, 30, 100, 30000}, sizes[] = {1e-18F, 1e-30F, 1e18F, 3e36F};
  if (f32 && p.function != RowFunction::rmsnorm && below(2) == 0) c.mean = means[below(4)];
  if (f32 && is_norm(p.function) && below(4) == 0) {
    c.mean = 0;
    c.size = sizes[below(4)];
    p.epsilon = 0;
  }
  return c;
}

std::vector<double> reference(const Case& c, Elements& x, Elements& weight, Elements& dy, std::int64_t row) {
  const RowProblem& p = c.p;
  ops::RowValues v;
  for (std::int64_t i = 0; i < p.columns; ++i) {
    v.x.push_back(x.get(row * p.x.row_stride + i));
    v.weight.push_back(c.weighted ? weight.get(i) : 1);
    if (is_gradient(p.function)) v.dy.push_back(dy.get(row * p.dy.row_stride + i));
  }
  return ops::in_doubles(p, v);
}

// How many times the allowed error the worst element is off; infinite where a NaN left its row or an element between
// the rows was written.
double judge(const Case& c, Elements& x, Elements& weight, Elements& dy, Elements& y) {
  const RowProblem& p = c.p;
  const std::int64_t columns = p.function == RowFunction::log_sum_exp ? 1 : p.columns;
  double worst = 0;
  double unit = p.y.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  if (p.y.dtype == DType::f32) unit = 4e-6;
  const double least = p.y.dtype == DType::f16 ? 0x1p-24 : 1e-30;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::vector<double> want = reference(c, x, weight, dy, r);
    // What cancels in a difference from the mean is off by what the others are.
    double largest = 0;
    if (p.function >= RowFunction::layernorm)
      for (const double each : want) largest = std::max(largest, std::abs(each));
    for (std::int64_t i = 0; i < columns; ++i) {
      const double wanted = want[static_cast<std::size_t>(i)], got = y.get(r * p.y.row_stride + i);
      if (r == c.nan_row ? std::isnan(got) : std::isnan(got) && std::isnan(wanted)) continue;
      if (r == c.nan_row || std::isnan(got)) return INFINITY;
      if (std::abs(wanted) > 65504 && p.y.dtype == DType::f16) continue;
      worst = std::max(worst, std::abs(got - wanted) / (1.05 * unit * std::abs(wanted) + 2e-6 * largest + least));
    }
    for (std::int64_t i = columns; r + 1 < p.rows && i < p.y.row_stride; ++i)
      if (!y.untouched(r * p.y.row_stride + i)) return INFINITY;
  }
  return worst;
}

double check_one(const Case& c, std::mt19937& random) {
  const RowProblem& p = c.p;
  Elements x(p.x.dtype, p.rows * p.x.row_stride, c.x_off), y(p.y.dtype, p.rows * p.y.row_stride, c.y_off);
  Elements weight(p.weight, p.columns, 0), dy(p.dy.dtype, p.rows * p.dy.row_stride, c.x_off);
  std::normal_distribution<float> normal(0, 1);
  const bool shares = p.function == RowFunction::softmax_gradient;  // x is what a softmax left
  for (std::int64_t i = 0; i < p.rows * p.x.row_stride; ++i)
    x.set(i, shares ? std::exp(normal(random)) / static_cast<float>(p.columns) : normal(random) * c.size + c.mean);
  for (std::int64_t i = 0; i < p.columns; ++i) weight.set(i, normal(random));
  for (std::int64_t i = 0; i < p.rows * p.dy.row_stride; ++i) dy.set(i, normal(random));
  if (c.nan_row >= 0) x.set(c.nan_row * p.x.row_stride + p.columns / 2, NAN);
  for (Elements* each : {&x, &y, &weight, &dy}) each->up();
  if (const auto trouble =
          ops::cuda::rows(p, {x.data(), c.weighted ? weight.data() : nullptr, y.data(), dy.data()}, nullptr)) {
    std::fprintf(stderr, "%s: %s\n", text(c).c_str(), trouble->c_str());
    std::exit(2);
  }
  must(cudaDeviceSynchronize(), text(c).c_str());
  y.down();
  return judge(c, x, weight, dy, y);
}

__global__ void fill(Stored stored, void* data, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256)
    put(stored, data, i, value(Values::normal, static_cast<std::uint64_t>(i), 7));
}

// Microseconds of what `work` queues once the L2 holds other things.
class Clock {
 public:
  Clock() : other_(std::size_t{256} << 20) {
    for (cudaEvent_t* event : {&begin_, &end_}) must(cudaEventCreate(event), "creating an event");
  }
  template <class F> double time(F work) {
    must(cudaMemsetAsync(other_.data(), 1, other_.size(), nullptr), "flushing the L2");
    must(cudaEventRecord(begin_, nullptr), "recording");
    work();
    must(cudaEventRecord(end_, nullptr), "recording");
    must(cudaEventSynchronize(end_), "a timed kernel");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin_, end_), "reading the clock");
    return 1e3 * ms;
  }

 private:
  Memory other_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

constexpr std::int64_t timed_elements = std::int64_t{1} << 26;

// A copy reads and writes half of the bytes that the function moves.
void time_one(const RowProblem& p, const ops::RowData& data, const Memory& x, const Memory& y, Clock& clock) {
  const auto bytes = static_cast<std::size_t>(ops::traffic(p) / 2);
  const auto run = [&] {
    if (const auto trouble = ops::cuda::rows(p, data, nullptr)) {
      std::fprintf(stderr, "%s\n", trouble->c_str());
      std::exit(2);
    }
  };
  const auto copy = [&] {
    must(cudaMemcpyAsync(y.data(), x.data(), bytes, cudaMemcpyDeviceToDevice, nullptr), "copying");
  };
  std::vector<double> ours, copies;
  for (int i = 0; i < 25; ++i) {
    const double copied = clock.time(copy), ran = clock.time(run);
    if (i < 4) continue;
    copies.push_back(copied);
    ours.push_back(ran);
  }
  std::printf("%s,%s,%lld,%.1f,%.1f,%.3f\n", names[static_cast<int>(p.function)], std::string(name(p.x.dtype)).c_str(),
              static_cast<long long>(p.columns), median(ours), median(copies), median(copies) / median(ours));
}

}  // namespace

int check_rows(int argc, char** argv) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 200;
  std::mt19937 random(argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1);
  double worst = 0;
  int wrong = 0, refused = 0;
  for (int i = 0; i < cases; ++i) {
    const Case c = random_case(random);
    if (ops::cuda::refuse(c.p)) {
      ++refused;
      continue;
    }
    const double off = check_one(c, random);
    worst = std::max(worst, off);
    if (!(off <= 1) && ++wrong <= 5) std::fprintf(stderr, "%s: %g of the allowed error\n", text(c).c_str(), off);
  }
  std::printf("rows: %d cases, %d refused, %d wrong, at most %.2f of the allowed error\n", cases, refused, wrong,
              worst);
  return wrong == 0 ? 0 : 1;
}

int time_rows(int argc, char** argv) {
  const Memory x(timed_elements * 8), y(timed_elements * 8), weight(std::size_t{131072} * 4);
  const ops::RowData data{x.data(), weight.data(), y.data(), x.data() + timed_elements * 4};
  Clock clock;
  std::printf("function,dtype,columns,us,copy_us,of_copy\n");
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (char* const each : {x.data(), x.data() + timed_elements * 4})
      fill<<<1024, 256>>>(stored(dtype), each, timed_elements);
    fill<<<64, 256>>>(stored(dtype), weight.data(), 131072);
    for (const RowFunction function : functions) {
      const char* const called = names[static_cast<int>(function)];
      if (argc > 0 && std::none_of(argv, argv + argc, [&](const std::string& each) { return each == called; }))
        continue;
      for (const std::int64_t columns : {1024, 4096, 8192, 16384, 20001, 32768, 65536, 131072}) {
        RowProblem p{function, timed_elements / columns, columns, {dtype, columns}, {dtype, columns}};
        p.weight = dtype;
        if (is_gradient(function)) p.dy = p.x;
        if (function == RowFunction::log_sum_exp) p.y = {DType::f32, 1};
        time_one(p, data, x, y, clock);
      }
    }
  }
  return 0;
}

}  // namespace ridge::gpu
