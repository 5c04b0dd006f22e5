// Random products with narrow weights on the device (every dtype, tile and number of splits, odd sizes, strides,
// batches, misaligned addresses, epilogues, either side of the weights) against f64 on the host. Bytes of 0xff surround
// the inputs and D. Small integers must match bit for bit, and every case runs twice. `times` times large products.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ridge/base/block_scale.h"
#include "ridge/base/float16.h"
#include "ridge/base/scaled_codes.h"
#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/reference.h"
#include "ridge/ops/product/weight_only/weight_only.h"
#include "ridge/run/device_machine.h"
#include "support.h"

namespace ridge::gpu {
namespace {

using ops::MatmulProblem, ops::MatrixLayout;
using namespace ops::cuda;

constexpr DType narrow_dtypes[] = {DType::int8,  DType::e4m3,    DType::mxfp8,   DType::mxfp4,
                                   DType::nvfp4, DType::int4_32, DType::int4_64, DType::int4_128,
                                   DType::u4_32, DType::u4_64,   DType::u4_128};
constexpr int narrow_dtype_count = static_cast<int>(std::size(narrow_dtypes));
constexpr std::int64_t margin = 256;  // Bytes around each matrix
enum class WeightValues { integers, normal, any_codes };

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  int below(std::int64_t n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  double normal() { return normal_(engine_); }
  std::int64_t size(std::int64_t max) {
    const double x = std::exp(std::log(static_cast<double>(max)) * (below(1 << 20) / double{1 << 20}));
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(x) + below(3), 1, max);
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<double> normal_;
};

struct HostMatrix {  // A matrix in the middle of bytes of 0xff
  MatrixLayout layout;
  std::int64_t batch = 1, rows = 0, cols = 0, shift = 0;  // `shift` is in bytes
  std::vector<std::uint8_t> memory = {};
  void allocate() {
    const std::int64_t matrices = layout.batch_stride == 0 ? 1 : batch;
    const std::int64_t last = rows * cols == 0 ? -1
                                               : (matrices - 1) * layout.batch_stride + (rows - 1) * layout.row_stride +
                                                     (cols - 1) * layout.col_stride;
    const std::int64_t block = std::max(1, dtype_info(layout.dtype).block);
    const std::int64_t elements = (last / block + 1) * block;
    memory.assign(static_cast<std::size_t>(stored_bytes(layout.dtype, elements) + 2 * margin + shift), 0xff);
  }
  std::uint8_t* data() { return memory.data() + margin + shift; }
  double at(std::int64_t b, std::int64_t r, std::int64_t c) { return ops::read_element(layout, data(), b, r, c); }
};

MatrixLayout make_layout(Random& r, DType dtype, std::int64_t rows, std::int64_t cols, bool transposed) {
  const std::int64_t length = transposed ? rows : cols, lines = transposed ? cols : rows,
                     block = std::max(1, dtype_info(dtype).block);
  std::int64_t line = std::max<std::int64_t>((length + block - 1) / block, 1) * block;
  if (r.one_in(2)) line = (line + 16 * block - 1) / (16 * block) * 16 * block;
  if (r.one_in(4)) line += block * r.below(20);
  MatrixLayout x{dtype, transposed ? 1 : line, transposed ? line : 1, line * std::max<std::int64_t>(lines, 1)};
  if (r.one_in(3)) x.batch_stride += block * r.below(20);
  return x;
}

// Removes the gaps between the lines of block-scaled weights. The lines of the matrices of a batch may alternate.
void pack_lines(Random& r, HostMatrix& w, std::int64_t k, bool lines_are_rows) {
  const bool alternates = w.layout.batch_stride != 0 && w.batch > 1 && r.one_in(3);
  const std::int64_t lines = lines_are_rows ? w.rows : w.cols;
  (lines_are_rows ? w.layout.row_stride : w.layout.col_stride) = alternates ? w.batch * k : k;
  if (w.layout.batch_stride != 0) w.layout.batch_stride = alternates ? k : lines * k;
}

// Fills the lines of weights, which are along k.
void fill_weights(Random& r, HostMatrix& w, WeightValues values, std::int64_t k, bool lines_are_rows) {
  const DTypeInfo& info = dtype_info(w.layout.dtype);
  const std::int64_t block = std::max(1, info.block), lines = lines_are_rows ? w.rows : w.cols,
                     step = lines_are_rows ? w.layout.row_stride : w.layout.col_stride;
  constexpr std::uint8_t e2m1[] = {0, 2, 4, 5, 6, 10, 12, 13, 14}, e4m3[] = {0, 0x38, 0x40, 0x44, 0xb8, 0xc0, 0xc4};
  const auto code = [&]() -> std::uint8_t {
    if (info.bits == 4 && values == WeightValues::integers && !has_integer_blocks(w.layout.dtype))
      return static_cast<std::uint8_t>(e2m1[r.below(9)] | e2m1[r.below(9)] << 4);
    if (info.bits == 4) return static_cast<std::uint8_t>(r.below(256));
    if (w.layout.dtype == DType::int8)
      return static_cast<std::uint8_t>(values == WeightValues::integers ? r.below(9) - 4 : r.below(256));
    if (values == WeightValues::integers) return e4m3[r.below(7)];
    const int any = r.below(256);
    return static_cast<std::uint8_t>(any % 128 == 127 && !(values == WeightValues::any_codes && r.one_in(20)) ? 1
                                                                                                              : any);
  };
  const auto e4m3_scale = [&] {
    if (values == WeightValues::integers) return 0x38 + 8 * r.below(2);
    if (values == WeightValues::normal) return 0x20 + r.below(0x30);
    return r.one_in(200) ? 0x7f : r.below(0x7f);
  };
  const auto power_scale = [&] {
    if (values == WeightValues::integers) return 127 + r.below(2);
    if (values == WeightValues::normal) return 120 + r.below(14);
    if (r.one_in(200)) return 0xff;
    return r.one_in(8) ? r.below(230) : 100 + r.below(60);
  };
  const auto scale = [&] {
    return static_cast<std::uint8_t>(w.layout.dtype == DType::nvfp4 ? e4m3_scale() : power_scale());
  };
  const auto integer_scale = [&] {
    if (values == WeightValues::any_codes) return r.one_in(200) ? 0x7e00 : r.below(0x7c00);
    return values == WeightValues::integers ? 0x3c00 + 0x400 * r.below(2) : 0x2000 + r.below(0x2000);  // 1, 2
  };
  for (std::int64_t b = 0; b < (w.layout.batch_stride == 0 ? 1 : w.batch); ++b)
    for (std::int64_t line = 0; line < lines; ++line)
      for (std::int64_t i = 0; i < k; i += block) {
        std::uint8_t* at = w.data() + stored_bytes(w.layout.dtype, b * w.layout.batch_stride + line * step + i);
        if (info.scale_bits == 8) *at++ = scale();
        if (has_integer_blocks(info.dtype)) {
          const int bits = integer_scale();
          *at++ = static_cast<std::uint8_t>(bits);
          *at++ = static_cast<std::uint8_t>(bits >> 8);
        }
        if (has_zero_points(info.dtype)) {
          *at++ = static_cast<std::uint8_t>(r.below(values == WeightValues::any_codes ? 128 : 16));
          *at++ = 0;
        }
        for (std::int64_t e = 0; e < block * info.bits / 8; ++e) at[e] = code();
      }
}

struct WeightCase {
  MatmulCall call;
  HostMatrix a, b, d, scale, bias, gate, addend;
  bool weights_are_left = false;
  WeightValues values = WeightValues::normal;
  int candidate = 0, splits = 0;
};

void add_operand(Random& r, WeightCase& c, HostMatrix& to, EpilogueOperand& operand, bool is_vector) {
  constexpr DType floats[] = {DType::f32, DType::bf16, DType::f16};
  const MatmulProblem& p = c.call.problem;
  to = {make_layout(r, floats[r.below(3)], p.size.m, p.size.n, r.one_in(3)), p.batch, p.size.m, p.size.n};
  if (is_vector) (r.one_in(3) ? to.layout.col_stride : to.layout.row_stride) = 0;
  if (is_vector || r.one_in(2)) to.layout.batch_stride = 0;
  to.allocate();
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t i = 0; i < p.size.m; ++i)
      for (std::int64_t j = 0; j < p.size.n; ++j)
        ops::write_element(to.layout, to.data(), b, i, j,
                           c.values == WeightValues::integers ? r.below(5) - 2 : r.normal());
  operand = {&to, to.layout.dtype, to.layout.row_stride, to.layout.col_stride, to.layout.batch_stride};
}

WeightCase random_case(Random& r, std::int64_t max_size) {
  constexpr DType floats[] = {DType::bf16, DType::f16, DType::f32};
  WeightCase c;
  MatmulProblem& p = c.call.problem;
  const DType weights = narrow_dtypes[r.below(narrow_dtype_count)];
  const bool takes_f16 = !is_block_scaled(weights) || has_integer_blocks(weights);
  const DType x = takes_f16 && r.one_in(2) ? DType::f16 : DType::bf16;
  const std::int64_t block = std::max(1, dtype_info(weights).block);
  const std::int64_t multiple = dtype_bits(weights) == 4 ? std::max<std::int64_t>(block, nibble_unit) : block;
  std::int64_t rows = r.size(max_weight_only_rows), lines = r.size(max_size), k = r.size(max_size * 8);
  if (r.one_in(2)) k = (k + 511) / 512 * 512;
  k = (k + multiple - 1) / multiple * multiple;
  if (r.one_in(40)) k = 0;
  p.batch = r.one_in(5) ? 1 + r.below(3) : 1;
  while (p.batch * rows * lines * k > (1 << 23)) {
    lines = (lines + 1) / 2;
    rows = (rows + 1) / 2;
  }
  c.weights_are_left = r.one_in(4);
  c.values = std::array{WeightValues::integers, WeightValues::normal,
                        WeightValues::any_codes}[static_cast<std::size_t>(r.below(3))];
  p.size = {c.weights_are_left ? lines : rows, c.weights_are_left ? rows : lines, k};
  c.a = {make_layout(r, c.weights_are_left ? weights : x, p.size.m, k, !c.weights_are_left && r.one_in(4)), p.batch,
         p.size.m, k};
  c.b = {make_layout(r, c.weights_are_left ? x : weights, k, p.size.n, !c.weights_are_left || !r.one_in(4)), p.batch, k,
         p.size.n};
  c.d = {make_layout(r, floats[r.below(3)], p.size.m, p.size.n, r.one_in(4)), p.batch, p.size.m, p.size.n};
  if (r.one_in(4)) (c.weights_are_left ? c.a : c.b).layout.batch_stride = 0;
  if (r.one_in(4)) (c.weights_are_left ? c.b : c.a).layout.batch_stride = 0;
  if (is_block_scaled(weights)) pack_lines(r, c.weights_are_left ? c.a : c.b, k, c.weights_are_left);
  if (r.one_in(6)) (c.weights_are_left ? c.a : c.b).shift = r.below(16);
  if (r.one_in(6)) (c.weights_are_left ? c.b : c.a).shift = 2 * r.below(8);
  if (r.one_in(6)) c.d.shift = 4 * r.below(4);
  for (HostMatrix* m : {&c.a, &c.b, &c.d}) m->allocate();
  p.a = c.a.layout;
  p.b = c.b.layout;
  p.d = c.d.layout;
  HostMatrix &w = c.weights_are_left ? c.a : c.b, &activations = c.weights_are_left ? c.b : c.a;
  fill_weights(r, w, c.values, k, c.weights_are_left);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t i = 0; i < activations.rows; ++i)
      for (std::int64_t j = 0; j < activations.cols; ++j)
        ops::write_element(activations.layout, activations.data(), b, i, j,
                           c.values == WeightValues::integers ? r.below(5) - 2 : r.normal());
  MatmulEpilogue& e = c.call.epilogue;
  if (r.one_in(2)) {
    const bool integers = c.values == WeightValues::integers;
    if (r.one_in(2)) e.alpha = 0.5F;
    e.activation = static_cast<EpilogueActivation>(integers ? r.below(2) : r.below(5));
    if (r.one_in(2)) add_operand(r, c, c.scale, e.scale, true);
    if (r.one_in(2)) add_operand(r, c, c.bias, e.bias, true);
    if (r.one_in(3)) add_operand(r, c, c.gate, e.gate, false);
    if (r.one_in(3)) add_operand(r, c, c.addend, e.addend, false);
    if (r.one_in(2)) e.beta = -0.5F;
  }
  c.call.constant_b = r.one_in(2);
  c.candidate = r.below(12) - 1;
  c.splits = r.one_in(2) ? 1 + r.below(tile::max_cluster_splits) : 0;
  return c;
}

// True if the clusters of a plan with `splits` run at the same time.
bool has_clusters(const MatmulPlan& plan, int splits, int columns, const ops::DeviceNumbers& device) {
  return plan.tiles <= weight_only_block(columns).resident_blocks *
                           ops::cuda::count_concurrent_clusters(splits, device.multiprocessors);
}
int count_blocks(const MatmulPlan& plan, int columns, const ops::DeviceNumbers& device) {
  return static_cast<int>(
      std::min(plan.tiles * plan.splits, count_weight_only_blocks(columns, device.multiprocessors)));
}

class WeightChecker {
 public:
  explicit WeightChecker(std::size_t bytes)
      : memory_{DeviceMemory(bytes), DeviceMemory(bytes), DeviceMemory(bytes), DeviceMemory(bytes),
                DeviceMemory(bytes), DeviceMemory(bytes), DeviceMemory(bytes)} {
    check_cuda(cudaStreamCreate(&stream_), "creating a stream");
    device_ = *current_device_numbers();
  }
  ~WeightChecker() { cudaStreamDestroy(stream_); }

  bool run(WeightCase& c) {
    MatmulCall call = c.call;
    call.a = upload(0, c.a);
    call.b = upload(1, c.b);
    call.d = upload(2, c.d);
    int next = 3;
    for (const auto& [operand, matrix] : {std::pair{&call.epilogue.scale, &c.scale},
                                          {&call.epilogue.bias, &c.bias},
                                          {&call.epilogue.gate, &c.gate},
                                          {&call.epilogue.addend, &c.addend}})
      if (operand->data) operand->data = upload(next++, *matrix);
    if (const auto why = unsupported_reason(call)) return fail(c, "refused: " + why.text());
    MatmulPlan plan = choose_plan(call, 0, device_);
    if (c.candidate >= 0 && plan.path == MatmulPlan::Path::weight_only) {
      const auto all = list_weight_only_plans(call, device_);
      plan = all[static_cast<std::size_t>(c.candidate) % all.size()];
      force_splits(c, plan);
    }
    ++plans_[plan.config < 0 ? 0 : static_cast<std::size_t>(plan.config)][static_cast<std::size_t>(plan.splits)];
    const std::vector<std::uint8_t> before = c.d.memory;
    std::vector<std::uint8_t> first;
    for (int i = 0; i < 2; ++i) {
      c.d.memory = before;
      upload(2, c.d);
      const Status launched = launch(call, plan, {}, stream_);
      if (!launched) return fail(c, launched.error().message);
      check_cuda(cudaStreamSynchronize(stream_), describe(c).c_str());
      check_cuda(cudaMemcpy(c.d.memory.data(), memory_[2].data(), c.d.memory.size(), cudaMemcpyDeviceToHost),
                 "reading D");
      if (i == 0) first = c.d.memory;
    }
    if (first != c.d.memory) return fail(c, "runs differ");
    return compare(c, plan, before);
  }
  void print_summary() const {
    for (std::size_t config = 0; config < weight_only_tiles.size(); ++config) {
      int split = 0;
      for (std::size_t splits = 2; splits < plans_[config].size(); ++splits) split += plans_[config][splits];
      std::printf("%s%d lines: %d, and %d split", config > 0 ? "; " : "", weight_only_tiles[config].lines,
                  plans_[config][1], split);
    }
    std::printf("\nworst error %.3f of its bound\n", worst_);
  }

 private:
  void* upload(int i, HostMatrix& m) {
    if (m.memory.size() > memory_[i].size()) {
      std::printf("a matrix of %zu bytes exceeds its buffer\n", m.memory.size());
      std::exit(2);
    }
    std::vector<std::uint8_t> bytes = m.memory;
    if (const DType dtype = m.layout.dtype; is_block_scaled(dtype)) {
      const std::int64_t elements = m.rows * m.cols * (m.layout.batch_stride == 0 ? 1 : m.batch);
      std::uint8_t* const planes = bytes.data() + margin + m.shift;
      split_blocks(dtype, m.data(), elements / dtype_info(dtype).block, planes,
                   planes + element_plane_bytes(dtype, elements));
    }
    check_cuda(cudaMemcpy(memory_[i].data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copying a matrix");
    return memory_[i].data() + margin + m.shift;
  }
  // Changes the splits of a plan where the kernel supports it.
  void force_splits(const WeightCase& c, MatmulPlan& plan) const {
    const WeightOnlyTile tile = weight_only_tiles[plan.config];
    const DType weights = (c.weights_are_left ? c.a : c.b).layout.dtype;
    const ProductSize size = c.call.problem.size;
    const int columns = count_columns(c.weights_are_left ? size.n : size.m);
    const std::int64_t stage_k = tile.stage_k(weight_box(weights), columns), stages = (size.k + stage_k - 1) / stage_k;
    if (c.splits == 0 || stages < c.splits || !has_clusters(plan, c.splits, columns, device_)) return;
    plan.splits = c.splits;
    plan.blocks = count_blocks(plan, columns, device_);
  }
  static std::string describe(const WeightCase& c) {
    const MatmulProblem& p = c.call.problem;
    char s[500];
    std::snprintf(s, sizeof s,
                  "batch %ld m %ld n %ld k %ld %s * %s -> %s; a %ld,%ld,%ld+%ld b %ld,%ld,%ld+%ld d %ld,%ld,%ld+%ld "
                  "activation %d scale %d bias %d gate %d addend %d values %d candidate %d splits %d",
                  p.batch, p.size.m, p.size.n, p.size.k, std::string(dtype_name(p.a.dtype)).c_str(),
                  std::string(dtype_name(p.b.dtype)).c_str(), std::string(dtype_name(p.d.dtype)).c_str(),
                  p.a.batch_stride, p.a.row_stride, p.a.col_stride, c.a.shift, p.b.batch_stride, p.b.row_stride,
                  p.b.col_stride, c.b.shift, p.d.batch_stride, p.d.row_stride, p.d.col_stride, c.d.shift,
                  static_cast<int>(c.call.epilogue.activation), c.call.epilogue.scale.data != nullptr,
                  c.call.epilogue.bias.data != nullptr, c.call.epilogue.gate.data != nullptr,
                  c.call.epilogue.addend.data != nullptr, static_cast<int>(c.values), c.candidate, c.splits);
    return s;
  }
  static bool fail(const WeightCase& c, const std::string& why) {
    std::printf("WRONG %s: %s\n", describe(c).c_str(), why.c_str());
    return false;
  }

  bool compare(WeightCase& c, const MatmulPlan& plan, const std::vector<std::uint8_t>& before) {
    const MatmulProblem& p = c.call.problem;
    std::vector<bool> owned(c.d.memory.size());
    const std::int64_t bytes = dtype_bits(p.d.dtype) / 8;
    std::vector<double> a(static_cast<std::size_t>(p.size.m * p.size.k)),
        b(static_cast<std::size_t>(p.size.n * p.size.k));
    // Weights are multiplied in the format of the activations, but for blocks of integers, whose scales are for sums.
    const auto rounded = [&](double x, const HostMatrix& of) {
      const bool is_rounded = is_block_scaled(of.layout.dtype) && !has_integer_blocks(of.layout.dtype);
      return is_rounded ? double{to_float(round_to<Bf16>(static_cast<float>(x)))} : x;
    };
    for (std::int64_t i = 0; i < p.batch; ++i) {
      for (std::int64_t r = 0; r < p.size.m; ++r)
        for (std::int64_t k = 0; k < p.size.k; ++k) a[r * p.size.k + k] = rounded(c.a.at(i, r, k), c.a);
      for (std::int64_t n = 0; n < p.size.n; ++n)
        for (std::int64_t k = 0; k < p.size.k; ++k) b[n * p.size.k + k] = rounded(c.b.at(i, k, n), c.b);
      for (std::int64_t r = 0; r < p.size.m; ++r)
        for (std::int64_t n = 0; n < p.size.n; ++n) {
          double sum = 0, magnitude = 0;
          for (std::int64_t k = 0; k < p.size.k; ++k) {
            sum += a[r * p.size.k + k] * b[n * p.size.k + k];
            magnitude += std::fabs(a[r * p.size.k + k] * b[n * p.size.k + k]);
          }
          const std::int64_t at =
              margin + c.d.shift + (i * p.d.batch_stride + r * p.d.row_stride + n * p.d.col_stride) * bytes;
          std::fill_n(owned.begin() + at, bytes, true);
          const double got = c.d.at(i, r, n);
          double want = 0, tolerance = 0;
          expect(c, sum, magnitude, {i, r, n}, want, tolerance);
          if (!is_right(c, got, want, tolerance))
            return fail(c, "path " + std::to_string(static_cast<int>(plan.path)) + " tile " +
                               std::to_string(plan.config) + " splits " + std::to_string(plan.splits) + ": element " +
                               std::to_string(i) + " " + std::to_string(r) + " " + std::to_string(n) + " expected " +
                               std::to_string(want) + " +- " + std::to_string(tolerance) + " found " +
                               std::to_string(got));
        }
    }
    for (std::size_t i = 0; i < owned.size(); ++i)
      if (!owned[i] && c.d.memory[i] != before[i])
        return fail(c, "byte " + std::to_string(i) + " outside D was written");
    return true;
  }
  struct Element {
    std::int64_t batch, row, col;
  };
  static void expect(WeightCase& c, double sum, double magnitude, const Element& at, double& y, double& tolerance) {
    const MatmulEpilogue& e = c.call.epilogue;
    y = e.alpha * sum;
    tolerance =
        2.0 * static_cast<double>(c.call.problem.size.k) * 0x1p-24 * magnitude + 0x1p-23 * std::fabs(y) + 0x1p-126;
    const auto read = [&](HostMatrix& x) { return x.at(at.batch, at.row, at.col); };
    if (e.scale.data) {
      const double v = read(c.scale);
      y *= v;
      tolerance = tolerance * std::fabs(v) + 0x1p-23 * std::fabs(y);
    }
    if (e.bias.data) {
      const double v = read(c.bias);
      y += v;
      tolerance += 0x1p-23 * (std::fabs(y) + std::fabs(v));
    }
    const double before = y;
    y = ops::apply_activation(e.activation, y);
    if (e.activation != EpilogueActivation::none)
      tolerance = 1.2 * tolerance + 0x1p-20 * (std::fabs(y) + std::fabs(before) * (std::fabs(before) < 12 ? 1 : 0));
    if (e.gate.data) {
      const double v = read(c.gate);
      y *= v;
      tolerance = tolerance * std::fabs(v) + 0x1p-23 * std::fabs(y);
    }
    if (e.addend.data) {
      const double v = e.beta * read(c.addend);
      y += v;
      tolerance += 0x1p-23 * (std::fabs(y) + std::fabs(v));
    }
  }
  bool is_right(const WeightCase& c, double got, double want, double tolerance) {
    const DType out = c.call.problem.d.dtype;
    if (std::isnan(want) || std::isinf(want)) return !std::isfinite(got);
    if (c.values == WeightValues::integers && !c.call.epilogue.gate.data) {
      double stored = 0;
      ops::write_element({out, 1, 1, 0}, &stored, 0, 0, 0, want);
      return got == ops::read_element({out, 1, 1, 0}, &stored, 0, 0, 0);
    }
    double unit = 0x1p-24;
    if (out == DType::bf16) unit = 0x1p-8;
    if (out == DType::f16) unit = 0x1p-11;
    tolerance += unit * (std::fabs(want) + tolerance) + (out == DType::f16 ? 0x1p-24 : 0x1p-126);
    if (!std::isfinite(got)) return std::fabs(want) + tolerance > (out == DType::f16 ? 65500 : 1e38);
    worst_ = std::max(worst_, std::fabs(got - want) / tolerance);
    return std::fabs(got - want) <= tolerance;
  }

  DeviceMemory memory_[7];
  cudaStream_t stream_ = nullptr;
  ops::DeviceNumbers device_ = {};
  std::array<std::array<int, tile::max_cluster_splits + 1>, weight_only_tiles.size()> plans_ = {};
  double worst_ = 0;
};

}  // namespace

// Arguments: weights [CASES] [MAX_SIZE] [SEED].
int check_weights(int argc, char** argv) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 600, max_size = argc > 1 ? std::atoi(argv[1]) : 1200;
  Random r(argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 1);
  WeightChecker checker(std::size_t{64} << 20);
  int wrong = 0;
  for (int i = 0; i < cases && wrong < 12; ++i) {
    WeightCase c = random_case(r, max_size);
    wrong += !checker.run(c);
  }
  checker.print_summary();
  std::printf("%d cases, %d wrong\n", cases, wrong);
  return wrong == 0 ? 0 : 1;
}

// Arguments: weights_times [ROWS] [LINES] [K]. Prints the time of every tile and number of splits; weights alternate
// between buffers that exceed the L2.
int time_weights(int argc, char** argv) {
  const std::int64_t rows = argc > 0 ? std::atoll(argv[0]) : 1, lines = argc > 1 ? std::atoll(argv[1]) : 8192,
                     k = argc > 2 ? std::atoll(argv[2]) : 8192;
  const ops::DeviceNumbers device = *current_device_numbers();
  constexpr int repeats = 20;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  check_cuda(cudaStreamCreate(&stream), "creating a stream");
  check_cuda(cudaEventCreate(&begin), "creating an event");
  check_cuda(cudaEventCreate(&end), "creating an event");
  DeviceMemory x(static_cast<std::size_t>(rows * k * 2)), d(static_cast<std::size_t>(rows * lines * 2));
  check_cuda(cudaMemset(x.data(), 0x3c, x.size()), "filling x");
  for (const DType weights : narrow_dtypes) {
    const std::size_t bytes = static_cast<std::size_t>(stored_bytes(weights, lines * k));
    const int buffers = static_cast<int>(std::max<std::size_t>(2, (std::size_t{256} << 20) / bytes + 1));
    DeviceMemory w(bytes * static_cast<std::size_t>(buffers));
    check_cuda(cudaMemset(w.data(), 0x3c, w.size()), "filling the weights");
    MatmulCall call{
        .problem = {1, {rows, lines, k}, {DType::bf16, k, 1, 0}, {weights, 1, k, 0}, {DType::bf16, lines, 1, 0}},
        .a = x.data(),
        .b = w.data(),
        .d = d.data(),
        .constant_b = true};
    for (MatmulPlan plan : list_weight_only_plans(call, device)) {
      const WeightOnlyTile tile = weight_only_tiles[plan.config];
      const int chosen = plan.splits;
      if (plan.predicted_s > 2 * list_weight_only_plans(call, device).front().predicted_s) break;
      for (int splits = 1; splits <= tile::max_cluster_splits; ++splits) {
        if (splits > 1 && !has_clusters(plan, splits, count_columns(rows), device)) break;
        if (splits != chosen && splits != chosen - 1 && splits != chosen + 1) continue;
        plan.splits = splits;
        plan.blocks = count_blocks(plan, count_columns(rows), device);
        cudaGraph_t graph;
        cudaGraphExec_t recorded;
        check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "recording");
        for (int i = 0; i < repeats; ++i) {
          call.b = w.data() + bytes * static_cast<std::size_t>(i % buffers);
          if (!launch(call, plan, {}, stream)) return 1;
        }
        check_cuda(cudaStreamEndCapture(stream, &graph), "recording");
        check_cuda(cudaGraphInstantiate(&recorded, graph, 0), "recording");
        float best = 1e30F;
        for (int round = 0; round < 3; ++round) {
          check_cuda(cudaEventRecord(begin, stream), "timing");
          check_cuda(cudaGraphLaunch(recorded, stream), "timing");
          check_cuda(cudaEventRecord(end, stream), "timing");
          check_cuda(cudaEventSynchronize(end), "timing");
          float ms = 0;
          check_cuda(cudaEventElapsedTime(&ms, begin, end), "timing");
          best = std::min(best, ms / repeats);
        }
        std::printf("%s %ld x %ld x %ld: %d lines, %d splits: %.2f us, %.0f GB/s, predicted %.2f us%s\n",
                    std::string(dtype_name(weights)).c_str(), rows, lines, k, tile.lines, splits, 1e3 * best,
                    static_cast<double>(bytes) / best / 1e6, 1e6 * plan.predicted_s, splits == chosen ? " *" : "");
        cudaGraphExecDestroy(recorded);
        cudaGraphDestroy(graph);
      }
    }
  }
  return 0;
}

}  // namespace ridge::gpu
