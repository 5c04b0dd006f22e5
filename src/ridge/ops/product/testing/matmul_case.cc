#include "ridge/ops/product/testing/matmul_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "ridge/base/block_scale.h"
#include "ridge/base/dtype_set.h"
#include "ridge/base/float16.h"
#include "ridge/ops/product/reference.h"
#include "ridge/pool/isa.h"

namespace ridge::ops::product_testing {
namespace {

constexpr unsigned char poison = 0xfb;  // A large finite number in f32, bf16 and f16

Index element_count(const MatrixLayout& x, Index batch, Index rows, Index cols) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  return (batch - 1) * x.batch_stride + (rows - 1) * x.row_stride + (cols - 1) * x.col_stride + 1;
}

std::size_t byte_count(const MatrixLayout& x, Index batch, Index rows, Index cols) {
  return static_cast<std::size_t>(stored_bytes(x.dtype, element_count(x, batch, rows, cols)));
}

struct EpilogueField {  // An operand of the epilogue
  EpilogueOperand MatmulEpilogue::*member;
  const char* name;
};
constexpr EpilogueField epilogue_fields[] = {{&MatmulEpilogue::scale, "scale"},
                                             {&MatmulEpilogue::bias, "bias"},
                                             {&MatmulEpilogue::gate, "gate"},
                                             {&MatmulEpilogue::addend, "addend"}};

MatrixLayout as_matrix(const EpilogueOperand& x) { return {x.dtype, x.row_stride, x.col_stride, x.batch_stride}; }

// Returns x rounded to `dtype`.
double round_to_stored(DType dtype, double x) {
  char memory[8] = {};
  if (dtype == DType::int8) return std::clamp(std::nearbyint(x), -128.0, 127.0);
  write_element({dtype}, memory, 0, 0, 0, x);
  return read_element({dtype}, memory, 0, 0, 0);
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    case DType::f32: return 0x1p-24;
    default: return 0;
  }
}

struct ExpectedValue {
  double value = 0, tolerance = 0;  // Result in f64, and the error bound of a correct kernel
};

class CaseChecker {
 public:
  explicit CaseChecker(const MatmulCase& c) : c_(c), call_(c.call), p_(call_.problem) {}

  std::string operator()() {
    allocate_operands();
    if (const auto refusal = unsupported_reason(call_)) return describe_case(c_) + ": refused: " + refusal.text();
    if (StoredFloats::contains(p_.a.dtype) && c_.values == TestValues::nan_row && p_.size.m > 0 && p_.size.k > 0)
      set_nan_row();
    for (const auto& memory : inputs_) memory->make_read_only();
    before_.assign(d_->data(), d_->data() + d_->size());
    run_call(c_.threads);
    const std::vector<char> first(d_->data(), d_->data() + d_->size());
    for (int i = 1; i < c_.runs; ++i) {
      std::copy(before_.begin(), before_.end(), d_->data());
      run_call(1 + i % 3);
      if (!std::equal(first.begin(), first.end(), d_->data()))
        return describe_case(c_) + fmt::format(": run {} with {} threads gave other bits", i + 1, 1 + i % 3);
    }
    if (!d_->are_edges_intact()) return describe_case(c_) + ": bytes outside D were overwritten";
    for (Index i = 0; i < p_.batch; ++i)
      if (std::string wrong = compare_product(i); !wrong.empty()) return describe_case(c_) + wrong;
    return check_gaps();
  }

 private:
  char* add_input(const MatrixLayout& x, Index rows, Index cols, unsigned salt, unsigned shift) {
    inputs_.push_back(std::make_unique<GuardedBuffer>(byte_count(x, p_.batch, rows, cols), c_.side, shift));
    inputs_.back()->fill(0xff);
    const TestValues values = salt > 1 && c_.values != TestValues::integers ? TestValues::normals : c_.values;
    fill_matrix(x, inputs_.back()->data(), p_.batch, rows, cols, values, c_.seed * 8 + salt);
    return inputs_.back()->data();
  }

  void allocate_operands() {
    if (p_.grouped) call_.starts = c_.starts.data();
    call_.a = add_input(p_.a, p_.size.m, p_.size.k, 0, c_.shifts[0]);
    call_.b = add_input(p_.b, p_.size.k, p_.size.n, 1, c_.shifts[1]);
    d_ = std::make_unique<GuardedBuffer>(byte_count(p_.d, p_.batch, p_.size.m, p_.size.n), c_.side, c_.shifts[2]);
    d_->fill(poison);
    call_.d = d_->data();
    unsigned salt = 2;
    for (const EpilogueField& field : epilogue_fields) {
      EpilogueOperand& x = call_.epilogue.*field.member;
      ++salt;
      if (!x.data) continue;
      if (c_.in_place && &x == &call_.epilogue.addend) {
        x = {d_->data(), p_.d.dtype, p_.d.row_stride, p_.d.col_stride, p_.d.batch_stride};
        fill_matrix(p_.d, d_->data(), p_.batch, p_.size.m, p_.size.n, c_.values, c_.seed);
      } else {
        x.data = add_input(as_matrix(x), p_.size.m, p_.size.n, salt, c_.shifts[salt % 3]);
      }
    }
  }

  void set_nan_row() {
    nan_row_ = static_cast<Index>(c_.seed) % p_.size.m;
    for (Index i = 0; i < p_.batch; ++i)
      write_element(p_.a, inputs_[0]->data(), i, nan_row_, static_cast<Index>(c_.seed / 7) % p_.size.k, NAN);
  }

  void run_call(int threads) {
    if (!c_.packed) return matmul(call_, threads);
    const PackedWeights packed(p_, call_.b);
    matmul(call_, packed, threads);
  }

  // Returns rows of A or columns of B contiguously, in f64.
  static std::vector<double> to_rows(const MatrixLayout& x, const void* data, Index batch, Index count, Index k,
                                     bool rows) {
    std::vector<double> out(count * k);
    for (Index i = 0; i < count; ++i)
      for (Index j = 0; j < k; ++j) out[i * k + j] = read_element(x, data, batch, rows ? i : j, rows ? j : i);
    return out;
  }

  double read_epilogue_operand(const EpilogueField& field, Index i, Index r, Index col) const {
    const EpilogueOperand& x = call_.epilogue.*field.member;
    const bool is_in_place = x.data == d_->data();
    return read_element(as_matrix(x), is_in_place ? before_.data() : x.data, i, r, col);
  }

  ExpectedValue expect_element(double sum, double magnitude, Index i, Index r, Index col) const {
    const MatmulEpilogue& e = call_.epilogue;
    double y = e.alpha * sum;
    double tolerance =
        2.0 * static_cast<double>(p_.size.k) * 0x1p-24 * magnitude * std::fabs(e.alpha) + 0x1p-23 * std::fabs(y);
    if (e.scale.data) {
      const double v = read_epilogue_operand(epilogue_fields[0], i, r, col);
      y *= v;
      tolerance = tolerance * std::fabs(v) + 0x1p-23 * std::fabs(y);
    }
    if (e.bias.data) {
      const double v = read_epilogue_operand(epilogue_fields[1], i, r, col);
      y += v;
      tolerance += 0x1p-23 * (std::fabs(y) + std::fabs(v));
    }
    const double x = y;
    y = apply_activation(e.activation, y);
    if (e.activation != EpilogueActivation::none)
      tolerance = 1.2 * tolerance + 0x1p-20 * (std::fabs(y) + std::fabs(x) * (std::fabs(x) < 12 ? 1 : 0));
    if (e.gate.data) {
      const double v = read_epilogue_operand(epilogue_fields[2], i, r, col);
      y *= v;
      tolerance = tolerance * std::fabs(v) + 0x1p-23 * std::fabs(y);
    }
    if (e.addend.data) {
      const double v = e.beta * read_epilogue_operand(epilogue_fields[3], i, r, col);
      y += v;
      tolerance += 0x1p-23 * (std::fabs(y) + std::fabs(v));
    }
    if (p_.d.dtype == DType::int32 || is_exact()) return {round_to_stored(p_.d.dtype, y), 0};
    if (p_.d.dtype == DType::int8) return {std::clamp(y, -128.0, 127.0), 0.5 + tolerance};
    tolerance +=
        unit_roundoff(p_.d.dtype) * (std::fabs(y) + tolerance) + (p_.d.dtype == DType::f16 ? 0x1p-24 : 0x1p-126);
    return {y, tolerance};
  }
  bool is_within_tolerance(double got, const ExpectedValue& wanted) const {
    if (got == wanted.value || std::fabs(got - wanted.value) <= wanted.tolerance) return true;
    const bool may_overflow = p_.d.dtype == DType::f16 && std::fabs(wanted.value) + wanted.tolerance >= 65520;
    return may_overflow && std::isinf(got) && std::signbit(got) == std::signbit(wanted.value);
  }
  bool is_exact() const { return c_.values == TestValues::integers; }

  Index first_row(Index i) const { return p_.grouped ? c_.starts[i] : 0; }
  Index end_row(Index i) const { return p_.grouped ? c_.starts[static_cast<std::size_t>(i) + 1] : p_.size.m; }

  std::string compare_product(Index i) const {
    const std::vector<double> a = to_rows(p_.a, call_.a, i, p_.size.m, p_.size.k, true),
                              b = to_rows(p_.b, call_.b, i, p_.size.n, p_.size.k, false);
    for (Index r = first_row(i); r < end_row(i); ++r)
      for (Index col = 0; col < p_.size.n; ++col) {
        double sum = 0, magnitude = 0;
        const double *const x = a.data() + r * p_.size.k, *const y = b.data() + col * p_.size.k;
        for (Index k = 0; k < p_.size.k; ++k) {
          sum += x[k] * y[k];
          magnitude += std::fabs(x[k] * y[k]);
        }
        const double got = read_element(p_.d, call_.d, i, r, col);
        const ExpectedValue wanted = expect_element(sum, magnitude, i, r, col);
        if (!(r == nan_row_ ? std::isnan(got) : is_within_tolerance(got, wanted)))
          return fmt::format(": element {} {} {}: expected {} within {:.2g}, found {}", i, r, col, wanted.value,
                             wanted.tolerance, got);
      }
    return "";
  }

  std::string check_gaps() const {
    std::vector<char> written(d_->size(), 0);
    const std::size_t size = static_cast<std::size_t>(dtype_bits(p_.d.dtype)) / 8;
    for (Index i = 0; i < p_.batch; ++i)
      for (Index r = first_row(i); r < end_row(i); ++r)
        for (Index col = 0; col < p_.size.n; ++col) {
          const Index at = i * p_.d.batch_stride + r * p_.d.row_stride + col * p_.d.col_stride;
          std::memset(written.data() + static_cast<std::size_t>(at) * size, 1, size);
        }
    for (std::size_t i = 0; i < written.size(); ++i)
      if (written[i] == 0 && d_->data()[i] != before_[i])
        return describe_case(c_) + fmt::format(": byte {} between D's rows was overwritten", i);
    return "";
  }

  const MatmulCase& c_;
  MatmulCall call_;
  const MatmulProblem& p_;
  std::vector<std::unique_ptr<GuardedBuffer>> inputs_;
  std::unique_ptr<GuardedBuffer> d_;
  std::vector<char> before_;
  Index nan_row_ = -1;
};

}  // namespace

MatrixLayout make_layout(DType dtype, Index rows, Index cols, bool transposed, Index padding) {
  MatrixLayout x{dtype};
  x.row_stride = transposed ? 1 : cols + padding;
  x.col_stride = transposed ? rows + padding : 1;
  x.batch_stride = (transposed ? cols : rows) * ((transposed ? rows : cols) + padding);
  return x;
}

MatmulCase make_simple_case(Index m, Index n, Index k, DType in, DType out, int layouts) {
  MatmulCase c;
  c.call.problem = {1,
                    m,
                    n,
                    k,
                    make_layout(in, m, k, layouts & 1),
                    make_layout(in, k, n, layouts & 2),
                    make_layout(out, m, n, layouts & 4)};
  return c;
}

std::string describe_case(const MatmulCase& c) {
  const MatmulProblem& p = c.call.problem;
  std::string s =
      fmt::format("isa {}, seed {}, threads {}, runs {}{}: batch {} m {} n {} k {}", pool::isa_name(pool::active_isa()),
                  c.seed, c.threads, c.runs, c.packed ? ", packed" : "", p.batch, p.size.m, p.size.n, p.size.k);
  for (const MatrixLayout* x : {&p.a, &p.b, &p.d})
    s += fmt::format(", {} strides {} {} {}", dtype_name(x->dtype), x->batch_stride, x->row_stride, x->col_stride);
  if (p.grouped) s += fmt::format(", groups begin at {}", fmt::join(c.starts, " "));
  const MatmulEpilogue& e = c.call.epilogue;
  s += fmt::format(", alpha {} beta {} activation {}", e.alpha, e.beta, static_cast<int>(e.activation));
  for (const EpilogueField& field : epilogue_fields)
    if (const EpilogueOperand& x = e.*field.member; x.data)
      s += fmt::format(", {} {} strides {} {} {}{}", field.name, dtype_name(x.dtype), x.batch_stride, x.row_stride,
                       x.col_stride, c.in_place && &x == &e.addend ? " (D itself)" : "");
  return s;
}

std::string check_case(const MatmulCase& c) { return CaseChecker(c)(); }

// Writes a block of int4 or u4 whose scale is 1 or 2, and whose elements are integers from -4 to 4.
static void write_small_integers(DType dtype, char* at, std::mt19937& random) {
  const F16 scale = to_f16(random() % 2 == 0 ? 1 : 2);
  const unsigned zero = has_zero_points(dtype) ? 4 + random() % 8 : 0;
  const char zero_bytes[] = {static_cast<char>(zero), 0};
  std::memcpy(at, &scale, sizeof scale);
  if (has_zero_points(dtype)) std::memcpy(at + sizeof scale, zero_bytes, sizeof zero_bytes);
  at += dtype_info(dtype).scale_bits / 8;
  const auto code = [&] { return (random() % 9 - 4 + zero) & 0xf; };
  for (int i = 0; i < dtype_info(dtype).block / 2; ++i) at[i] = static_cast<char>(code() | code() << 4);
}

static void write_scaled_block(DType dtype, char* at, TestValues values, std::mt19937& random) {
  const DTypeInfo& info = dtype_info(dtype);
  if (values != TestValues::integers) {
    std::normal_distribution<double> normal;
    std::vector<double> block(info.block);
    for (double& value : block) value = normal(random);
    return store_scaled_block(dtype, at, 0, block.data());
  }
  if (has_integer_blocks(dtype)) return write_small_integers(dtype, at, random);
  // The scale is 1 or 2, and the elements are integers from -4 to 4.
  const int exponent = static_cast<int>(random() % 2);
  const float scale = exponent == 0 ? 1 : 2;
  const auto code = static_cast<std::uint8_t>(dtype == DType::nvfp4 ? 0x38 + 8 * exponent : 127 + exponent);
  info.scale_bits == 8 ? std::memcpy(at, &code, 1) : std::memcpy(at, &scale, sizeof scale);
  constexpr std::uint8_t e2m1[] = {0, 2, 4, 5, 6, 8, 10, 12, 13, 14},
                         e4m3[] = {0, 0x38, 0x40, 0x44, 0x48, 0x80, 0xb8, 0xc0, 0xc4, 0xc8};
  at += info.scale_bits / 8;
  for (int i = 0; i < info.block * info.bits / 8; ++i)
    at[i] = static_cast<char>(info.bits == 8 ? e4m3[random() % 10] : e2m1[random() % 10] | e2m1[random() % 10] << 4);
}

// Fills blocks along the contiguous axis.
static void fill_scaled_matrix(const MatrixLayout& x, char* data, Index batch, Index rows, Index cols,
                               TestValues values, unsigned seed) {
  std::mt19937 random(seed);
  const Index block = dtype_info(x.dtype).block, row_step = x.row_stride == 1 ? block : 1,
              col_step = x.row_stride == 1 ? 1 : block;
  for (Index i = 0; i < (x.batch_stride == 0 ? std::min<Index>(1, batch) : batch); ++i)
    for (Index r = 0; r < rows; r += row_step)
      for (Index c = 0; c < cols; c += col_step)
        write_scaled_block(x.dtype,
                           data + stored_bytes(x.dtype, i * x.batch_stride + r * x.row_stride + c * x.col_stride),
                           values, random);
}

void fill_matrix(const MatrixLayout& x, void* data, Index batch, Index rows, Index cols, TestValues values,
                 unsigned seed) {
  if (is_block_scaled(x.dtype)) return fill_scaled_matrix(x, static_cast<char*>(data), batch, rows, cols, values, seed);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto value = [&]() -> double {
    if (values == TestValues::integers) return static_cast<double>(random() % 9) - 4;
    if (x.dtype == DType::int8) return static_cast<double>(random() % 256) - 128;
    return normal(random);
  };
  for (Index i = 0; i < (x.batch_stride == 0 ? std::min<Index>(1, batch) : batch); ++i)
    for (Index r = 0; r < (x.row_stride == 0 ? std::min<Index>(1, rows) : rows); ++r)
      for (Index c = 0; c < (x.col_stride == 0 ? std::min<Index>(1, cols) : cols); ++c)
        write_element(x, data, i, r, c, value());
}

namespace {

class RandomSource {
 public:
  explicit RandomSource(unsigned seed) : random_(seed * 2654435761u + 1) {}
  Index below(Index n) { return static_cast<Index>(random_() % static_cast<unsigned>(n)); }
  bool one_in(Index n) { return below(n) == 0; }
  template <class T, std::size_t n> T pick(const T (&all)[n]) { return all[below(static_cast<Index>(n))]; }
  Index random_extent() {
    static constexpr Index edges[] = {1,  2,  3,  5,  6,  7,  8,  9,  13, 14,  15,  16,  17,  29,  31,
                                      32, 33, 41, 47, 63, 64, 65, 97, 99, 111, 112, 113, 127, 128, 129};
    if (one_in(12)) return below(2);
    if (one_in(2)) return pick(edges);
    return one_in(3) ? below(160) : below(40);
  }

 private:
  std::mt19937 random_;
};

constexpr DType floats[] = {DType::f32, DType::bf16, DType::f16};

void choose_dtypes(RandomSource& rng, MatmulProblem& p) {
  p.a.dtype = p.b.dtype = rng.pick(floats);
  p.d.dtype = rng.pick(floats);
  switch (rng.below(4)) {
    case 0: {
      static constexpr DType outs[] = {DType::int32, DType::int32, DType::int8, DType::f32, DType::bf16, DType::f16};
      p.a.dtype = p.b.dtype = DType::int8;
      p.d.dtype = rng.pick(outs);
      break;
    }
    case 1: (rng.one_in(3) ? p.a : p.b).dtype = DType::int8; break;
    default: break;
  }
}

EpilogueOperand random_operand(RandomSource& rng, const MatmulProblem& p) {
  EpilogueOperand x{&epilogue_fields, rng.pick(floats)};
  switch (rng.below(5)) {
    case 0: x.col_stride = 1; break;
    case 1: x.row_stride = 1; break;
    case 2:
      x.row_stride = p.size.n + rng.below(3);
      x.col_stride = 1;
      break;
    case 3:
      x.row_stride = 1;
      x.col_stride = p.size.m;
      break;
    default: break;
  }
  if (p.batch > 1 && rng.one_in(2)) x.batch_stride = p.size.m * (p.size.n + 3);
  return x;
}

void choose_epilogue(RandomSource& rng, MatmulCase& c) {
  static constexpr float alphas[] = {1, -1, 2, 0.5F}, betas[] = {1, 2, -0.5F};
  static constexpr EpilogueActivation exact[] = {EpilogueActivation::none, EpilogueActivation::relu};
  static constexpr EpilogueActivation all[] = {EpilogueActivation::none, EpilogueActivation::relu,
                                               EpilogueActivation::gelu, EpilogueActivation::gelu_tanh,
                                               EpilogueActivation::silu};
  MatmulEpilogue& e = c.call.epilogue;
  const MatmulProblem& p = c.call.problem;
  if (p.d.dtype == DType::int32 || rng.one_in(3)) return;
  e.alpha = rng.pick(alphas);
  e.beta = rng.pick(betas);
  e.activation = c.values == TestValues::integers ? rng.pick(exact) : rng.pick(all);
  for (const EpilogueField& field : epilogue_fields)
    if (rng.one_in(3)) e.*field.member = random_operand(rng, p);
  c.in_place = e.addend.data && p.d.dtype != DType::int8 && rng.one_in(3);
}

}  // namespace

// Makes one operand block-scaled: B or, if there are no groups, sometimes A.
static void choose_scaled_operand(RandomSource& rng, MatmulProblem& p) {
  static constexpr DType scaled[] = {DType::mxfp8,   DType::mxfp4,    DType::nvfp4, DType::e4m3_128, DType::int4_32,
                                     DType::int4_64, DType::int4_128, DType::u4_32, DType::u4_64,    DType::u4_128};
  const DType dtype = rng.pick(scaled), other = dtype == DType::e4m3_128 || rng.one_in(2) ? DType::f32 : DType::bf16;
  const Index block = dtype_info(dtype).block;
  p.size.k = (p.size.k + block - 1) / block * block;
  const Index padding = rng.one_in(3) ? block * rng.below(3) : 0;
  const bool is_left = !p.grouped && rng.one_in(3), transposed = rng.one_in(2);
  p.a = is_left ? make_layout(dtype, p.size.m, p.size.k, false, padding)
                : make_layout(other, p.size.m, p.size.k, transposed);
  p.b = is_left ? make_layout(other, p.size.k, p.size.n, transposed)
                : make_layout(dtype, p.size.k, p.size.n, true, padding);
  p.d.dtype = rng.pick(floats);
}

MatmulCase make_random_case(unsigned seed) {
  RandomSource rng(seed);
  MatmulCase c;
  c.seed = seed;
  MatmulProblem& p = c.call.problem;
  p.batch = rng.one_in(5) ? rng.below(5) : 1;
  p.size.m = rng.random_extent();
  p.grouped = rng.one_in(6);
  if (p.grouped) p.batch = rng.below(12);
  p.size.n = rng.one_in(12) ? rng.below(700) : rng.random_extent();
  p.size.k = rng.one_in(6) ? rng.below(900) : rng.random_extent();
  while ((p.grouped ? 1 : p.batch) * p.size.m * p.size.n * p.size.k > 4'000'000)
    (rng.one_in(2) ? p.size.n : p.size.k) /= 2;
  choose_dtypes(rng, p);
  const auto padding = [&] { return rng.one_in(3) ? rng.below(70) : 0; };
  p.a = make_layout(p.a.dtype, p.size.m, p.size.k, rng.one_in(2), padding());
  p.b = make_layout(p.b.dtype, p.size.k, p.size.n, rng.one_in(2), padding());
  p.d = make_layout(p.d.dtype, p.size.m, p.size.n, !p.grouped && rng.one_in(3), padding());
  const bool is_scaled = rng.one_in(5);
  if (is_scaled) choose_scaled_operand(rng, p);
  if (p.grouped || rng.one_in(3)) p.a.batch_stride = 0;
  if (rng.one_in(3)) p.b.batch_stride = 0;
  if (p.grouped) {
    p.d.batch_stride = 0;
    for (Index i = 0; i <= p.batch; ++i) c.starts.push_back(static_cast<std::int32_t>(rng.below(p.size.m + 1)));
    if (rng.one_in(2)) c.starts.front() = 0;
    if (rng.one_in(2)) c.starts.back() = static_cast<std::int32_t>(p.size.m);
    std::sort(c.starts.begin(), c.starts.end());
  } else if (p.d.batch_stride == 0)
    p.batch = std::min<Index>(p.batch, 1);
  static constexpr TestValues values[] = {TestValues::integers, TestValues::integers, TestValues::normals,
                                          TestValues::nan_row};
  c.values = rng.pick(values);
  choose_epilogue(rng, c);
  c.threads = 1 + static_cast<int>(rng.below(3));
  c.runs = rng.one_in(20) ? 10 : 1;
  c.side = rng.one_in(2) ? GuardedBuffer::before : GuardedBuffer::after;
  for (unsigned& shift : c.shifts) shift = rng.one_in(2) ? static_cast<unsigned>(rng.below(64)) : 0;
  const bool rows = p.d.col_stride == 1 || p.size.n <= 1;
  c.packed =
      rows && !p.grouped && !is_scaled && (p.batch == 1 || (p.batch > 1 && p.b.batch_stride == 0)) && rng.one_in(6);
  return c;
}

}  // namespace ridge::ops::product_testing
