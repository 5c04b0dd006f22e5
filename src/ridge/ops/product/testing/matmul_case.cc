#include "ridge/ops/product/testing/matmul_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/ops/product/reference.h"
#include "ridge/pool/isa.h"

namespace ridge::ops::oracle {
namespace {

constexpr unsigned char poison = 0xfb;  // A large finite number in f32, bf16 and f16

Index elements(const MatrixLayout& x, Index batch, Index rows, Index cols) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  return (batch - 1) * x.batch_stride + (rows - 1) * x.row_stride + (cols - 1) * x.col_stride + 1;
}

std::size_t bytes(const MatrixLayout& x, Index batch, Index rows, Index cols) {
  return static_cast<std::size_t>(elements(x, batch, rows, cols) * bits(x.dtype) / 8);
}

struct Extra {  // An operand of the epilogue
  EpilogueOperand MatmulEpilogue::*member;
  const char* name;
};
constexpr Extra extras[] = {{&MatmulEpilogue::scale, "scale"},
                            {&MatmulEpilogue::bias, "bias"},
                            {&MatmulEpilogue::gate, "gate"},
                            {&MatmulEpilogue::addend, "addend"}};

MatrixLayout as_matrix(const EpilogueOperand& x) { return {x.dtype, x.row_stride, x.col_stride, x.batch_stride}; }

// Returns x rounded to `dtype`.
double stored(DType dtype, double x) {
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

double activated(Activation activation, double y) {
  switch (activation) {
    case Activation::none: return y;
    case Activation::relu: return y < 0 ? 0 : y;
    case Activation::gelu: return 0.5 * y * std::erfc(-y * 0.7071067811865476);
    case Activation::gelu_tanh: return 0.5 * y * (1 + std::tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)));
    case Activation::silu: return y / (1 + std::exp(-y));
  }
  return y;
}

struct Wanted {
  double value = 0, slack = 0;  // Error bound of a correct kernel
};

class Check {
 public:
  explicit Check(const MatmulCase& c) : c_(c), call_(c.call), p_(call_.problem) {}

  std::string operator()() {
    place();
    if (const auto refusal = refuse(call_)) return text(c_) + ": refused: " + *refusal;
    if (p_.a.dtype != DType::int8 && c_.values == Values::nan_row && p_.m > 0 && p_.k > 0) set_nan_row();
    for (const auto& memory : inputs_) memory->read_only();
    before_.assign(d_->data(), d_->data() + d_->size());
    run(c_.threads);
    const std::vector<char> first(d_->data(), d_->data() + d_->size());
    for (int i = 1; i < c_.runs; ++i) {
      std::copy(before_.begin(), before_.end(), d_->data());
      run(1 + i % 3);
      if (!std::equal(first.begin(), first.end(), d_->data()))
        return text(c_) + fmt::format(": run {} with {} threads gave other bits", i + 1, 1 + i % 3);
    }
    if (!d_->edges_are_whole()) return text(c_) + ": bytes outside D were overwritten";
    for (Index i = 0; i < p_.batch; ++i)
      if (std::string wrong = compare(i); !wrong.empty()) return text(c_) + wrong;
    return gaps();
  }

 private:
  char* input(const MatrixLayout& x, Index rows, Index cols, unsigned salt, unsigned shift) {
    inputs_.push_back(std::make_unique<Guarded>(bytes(x, p_.batch, rows, cols), c_.side, shift));
    inputs_.back()->fill(0xff);
    const Values values = salt > 1 && c_.values != Values::integers ? Values::normals : c_.values;
    fill_matrix(x, inputs_.back()->data(), p_.batch, rows, cols, values, c_.seed * 8 + salt);
    return inputs_.back()->data();
  }

  void place() {
    if (p_.grouped) call_.starts = c_.starts.data();
    call_.a = input(p_.a, p_.m, p_.k, 0, c_.shifts[0]);
    call_.b = input(p_.b, p_.k, p_.n, 1, c_.shifts[1]);
    d_ = std::make_unique<Guarded>(bytes(p_.d, p_.batch, p_.m, p_.n), c_.side, c_.shifts[2]);
    d_->fill(poison);
    call_.d = d_->data();
    unsigned salt = 2;
    for (const Extra& extra : extras) {
      EpilogueOperand& x = call_.epilogue.*extra.member;
      ++salt;
      if (!x.data) continue;
      if (c_.in_place && &x == &call_.epilogue.addend) {
        x = {d_->data(), p_.d.dtype, p_.d.row_stride, p_.d.col_stride, p_.d.batch_stride};
        fill_matrix(p_.d, d_->data(), p_.batch, p_.m, p_.n, c_.values, c_.seed);
      } else {
        x.data = input(as_matrix(x), p_.m, p_.n, salt, c_.shifts[salt % 3]);
      }
    }
  }

  void set_nan_row() {
    nan_row_ = static_cast<Index>(c_.seed) % p_.m;
    for (Index i = 0; i < p_.batch; ++i)
      write_element(p_.a, inputs_[0]->data(), i, nan_row_, static_cast<Index>(c_.seed / 7) % p_.k, NAN);
  }

  void run(int threads) {
    if (!c_.packed) return matmul(call_, threads);
    const PackedWeights packed(p_, call_.b);
    matmul(call_, packed, threads);
  }

  // Returns rows of A or columns of B contiguously, in f64.
  static std::vector<double> lines(const MatrixLayout& x, const void* data, Index batch, Index count, Index k,
                                   bool rows) {
    std::vector<double> out(static_cast<std::size_t>(count * k));
    for (Index i = 0; i < count; ++i)
      for (Index j = 0; j < k; ++j)
        out[static_cast<std::size_t>(i * k + j)] = read_element(x, data, batch, rows ? i : j, rows ? j : i);
    return out;
  }

  double operand(const Extra& extra, Index i, Index r, Index col) const {
    const EpilogueOperand& x = call_.epilogue.*extra.member;
    const bool overwritten = x.data == d_->data();
    return read_element(as_matrix(x), overwritten ? before_.data() : x.data, i, r, col);
  }

  Wanted finish(double sum, double magnitude, Index i, Index r, Index col) const {
    const MatmulEpilogue& e = call_.epilogue;
    double y = e.alpha * sum;
    double slack = 2.0 * static_cast<double>(p_.k) * 0x1p-24 * magnitude * std::fabs(e.alpha) + 0x1p-23 * std::fabs(y);
    if (e.scale.data) {
      const double v = operand(extras[0], i, r, col);
      y *= v;
      slack = slack * std::fabs(v) + 0x1p-23 * std::fabs(y);
    }
    if (e.bias.data) {
      const double v = operand(extras[1], i, r, col);
      y += v;
      slack += 0x1p-23 * (std::fabs(y) + std::fabs(v));
    }
    const double x = y;
    y = activated(e.activation, y);
    if (e.activation != Activation::none)
      slack = 1.2 * slack + 0x1p-20 * (std::fabs(y) + std::fabs(x) * (std::fabs(x) < 12 ? 1 : 0));
    if (e.gate.data) {
      const double v = operand(extras[2], i, r, col);
      y *= v;
      slack = slack * std::fabs(v) + 0x1p-23 * std::fabs(y);
    }
    if (e.addend.data) {
      const double v = e.beta * operand(extras[3], i, r, col);
      y += v;
      slack += 0x1p-23 * (std::fabs(y) + std::fabs(v));
    }
    if (p_.d.dtype == DType::int32 || exact()) return {stored(p_.d.dtype, y), 0};
    if (p_.d.dtype == DType::int8) return {std::clamp(y, -128.0, 127.0), 0.5 + slack};
    slack += unit_roundoff(p_.d.dtype) * (std::fabs(y) + slack) + (p_.d.dtype == DType::f16 ? 0x1p-24 : 0x1p-126);
    return {y, slack};
  }
  bool right(double got, const Wanted& wanted) const {
    if (got == wanted.value || std::fabs(got - wanted.value) <= wanted.slack) return true;
    const bool may_overflow = p_.d.dtype == DType::f16 && std::fabs(wanted.value) + wanted.slack >= 65520;
    return may_overflow && std::isinf(got) && std::signbit(got) == std::signbit(wanted.value);
  }
  bool exact() const { return c_.values == Values::integers; }

  Index first_row(Index i) const { return p_.grouped ? c_.starts[static_cast<std::size_t>(i)] : 0; }
  Index end_row(Index i) const { return p_.grouped ? c_.starts[static_cast<std::size_t>(i) + 1] : p_.m; }

  std::string compare(Index i) const {
    const std::vector<double> a = lines(p_.a, call_.a, i, p_.m, p_.k, true),
                              b = lines(p_.b, call_.b, i, p_.n, p_.k, false);
    for (Index r = first_row(i); r < end_row(i); ++r)
      for (Index col = 0; col < p_.n; ++col) {
        double sum = 0, magnitude = 0;
        const double *const x = a.data() + r * p_.k, *const y = b.data() + col * p_.k;
        for (Index k = 0; k < p_.k; ++k) {
          sum += x[k] * y[k];
          magnitude += std::fabs(x[k] * y[k]);
        }
        const double got = read_element(p_.d, call_.d, i, r, col);
        const Wanted wanted = finish(sum, magnitude, i, r, col);
        if (!(r == nan_row_ ? std::isnan(got) : right(got, wanted)))
          return fmt::format(": element {} {} {}: expected {} within {:.2g}, found {}", i, r, col, wanted.value,
                             wanted.slack, got);
      }
    return "";
  }

  std::string gaps() const {
    std::vector<char> written(d_->size(), 0);
    const std::size_t size = static_cast<std::size_t>(bits(p_.d.dtype)) / 8;
    for (Index i = 0; i < p_.batch; ++i)
      for (Index r = first_row(i); r < end_row(i); ++r)
        for (Index col = 0; col < p_.n; ++col) {
          const Index at = i * p_.d.batch_stride + r * p_.d.row_stride + col * p_.d.col_stride;
          std::memset(written.data() + static_cast<std::size_t>(at) * size, 1, size);
        }
    for (std::size_t i = 0; i < written.size(); ++i)
      if (written[i] == 0 && d_->data()[i] != before_[i])
        return text(c_) + fmt::format(": byte {} between D's rows was overwritten", i);
    return "";
  }

  const MatmulCase& c_;
  MatmulCall call_;
  const MatmulProblem& p_;
  std::vector<std::unique_ptr<Guarded>> inputs_;
  std::unique_ptr<Guarded> d_;
  std::vector<char> before_;
  Index nan_row_ = -1;
};

}  // namespace

MatrixLayout layout(DType dtype, Index rows, Index cols, bool transposed, Index extra) {
  MatrixLayout x{dtype};
  x.row_stride = transposed ? 1 : cols + extra;
  x.col_stride = transposed ? rows + extra : 1;
  x.batch_stride = (transposed ? cols : rows) * ((transposed ? rows : cols) + extra);
  return x;
}

MatmulCase simple(Index m, Index n, Index k, DType in, DType out, int layouts) {
  MatmulCase c;
  c.call.problem = {
      1, m, n, k, layout(in, m, k, layouts & 1), layout(in, k, n, layouts & 2), layout(out, m, n, layouts & 4)};
  return c;
}

std::string text(const MatmulCase& c) {
  const MatmulProblem& p = c.call.problem;
  std::string s =
      fmt::format("isa {}, seed {}, threads {}, runs {}{}: batch {} m {} n {} k {}", tile::cpu::name(tile::cpu::isa()),
                  c.seed, c.threads, c.runs, c.packed ? ", packed" : "", p.batch, p.m, p.n, p.k);
  for (const MatrixLayout* x : {&p.a, &p.b, &p.d})
    s += fmt::format(", {} strides {} {} {}", name(x->dtype), x->batch_stride, x->row_stride, x->col_stride);
  if (p.grouped) s += fmt::format(", groups begin at {}", fmt::join(c.starts, " "));
  const MatmulEpilogue& e = c.call.epilogue;
  s += fmt::format(", alpha {} beta {} activation {}", e.alpha, e.beta, static_cast<int>(e.activation));
  for (const Extra& extra : extras)
    if (const EpilogueOperand& x = e.*extra.member; x.data)
      s += fmt::format(", {} {} strides {} {} {}{}", extra.name, name(x.dtype), x.batch_stride, x.row_stride,
                       x.col_stride, c.in_place && &x == &e.addend ? " (D itself)" : "");
  return s;
}

std::string check(const MatmulCase& c) { return Check(c)(); }

void fill_matrix(const MatrixLayout& x, void* data, Index batch, Index rows, Index cols, Values values, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto value = [&]() -> double {
    if (values == Values::integers) return static_cast<double>(random() % 9) - 4;
    if (x.dtype == DType::int8) return static_cast<double>(random() % 256) - 128;
    return normal(random);
  };
  for (Index i = 0; i < (x.batch_stride == 0 ? std::min<Index>(1, batch) : batch); ++i)
    for (Index r = 0; r < (x.row_stride == 0 ? std::min<Index>(1, rows) : rows); ++r)
      for (Index c = 0; c < (x.col_stride == 0 ? std::min<Index>(1, cols) : cols); ++c)
        write_element(x, data, i, r, c, value());
}

namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed * 2654435761u + 1) {}
  Index below(Index n) { return static_cast<Index>(random_() % static_cast<unsigned>(n)); }
  bool one_in(Index n) { return below(n) == 0; }
  template <class T, std::size_t n> T of(const T (&all)[n]) { return all[below(static_cast<Index>(n))]; }
  Index extent() {
    static constexpr Index edges[] = {1,  2,  3,  5,  6,  7,  8,  9,  13, 14,  15,  16,  17,  29,  31,
                                      32, 33, 41, 47, 63, 64, 65, 97, 99, 111, 112, 113, 127, 128, 129};
    if (one_in(12)) return below(2);
    if (one_in(2)) return of(edges);
    return one_in(3) ? below(160) : below(40);
  }

 private:
  std::mt19937 random_;
};

constexpr DType floats[] = {DType::f32, DType::bf16, DType::f16};

void choose_dtypes(Dice& dice, MatmulProblem& p) {
  p.a.dtype = p.b.dtype = dice.of(floats);
  p.d.dtype = dice.of(floats);
  switch (dice.below(4)) {
    case 0: {
      static constexpr DType outs[] = {DType::int32, DType::int32, DType::int8, DType::f32, DType::bf16, DType::f16};
      p.a.dtype = p.b.dtype = DType::int8;
      p.d.dtype = dice.of(outs);
      break;
    }
    case 1: (dice.one_in(3) ? p.a : p.b).dtype = DType::int8; break;
    default: break;
  }
}

EpilogueOperand random_operand(Dice& dice, const MatmulProblem& p) {
  EpilogueOperand x{&extras, dice.of(floats)};
  switch (dice.below(5)) {
    case 0: x.col_stride = 1; break;
    case 1: x.row_stride = 1; break;
    case 2:
      x.row_stride = p.n + dice.below(3);
      x.col_stride = 1;
      break;
    case 3:
      x.row_stride = 1;
      x.col_stride = p.m;
      break;
    default: break;
  }
  if (p.batch > 1 && dice.one_in(2)) x.batch_stride = p.m * (p.n + 3);
  return x;
}

void choose_epilogue(Dice& dice, MatmulCase& c) {
  static constexpr float alphas[] = {1, -1, 2, 0.5F}, betas[] = {1, 2, -0.5F};
  static constexpr Activation exact[] = {Activation::none, Activation::relu};
  static constexpr Activation all[] = {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                       Activation::silu};
  MatmulEpilogue& e = c.call.epilogue;
  const MatmulProblem& p = c.call.problem;
  if (p.d.dtype == DType::int32 || dice.one_in(3)) return;
  e.alpha = dice.of(alphas);
  e.beta = dice.of(betas);
  e.activation = c.values == Values::integers ? dice.of(exact) : dice.of(all);
  for (const Extra& extra : extras)
    if (dice.one_in(3)) e.*extra.member = random_operand(dice, p);
  c.in_place = e.addend.data && p.d.dtype != DType::int8 && dice.one_in(3);
}

}  // namespace

MatmulCase random_case(unsigned seed) {
  Dice dice(seed);
  MatmulCase c;
  c.seed = seed;
  MatmulProblem& p = c.call.problem;
  p.batch = dice.one_in(5) ? dice.below(5) : 1;
  p.m = dice.extent();
  p.grouped = dice.one_in(6);
  if (p.grouped) p.batch = dice.below(12);
  p.n = dice.one_in(12) ? dice.below(700) : dice.extent();
  p.k = dice.one_in(6) ? dice.below(900) : dice.extent();
  while ((p.grouped ? 1 : p.batch) * p.m * p.n * p.k > 4'000'000) (dice.one_in(2) ? p.n : p.k) /= 2;
  choose_dtypes(dice, p);
  const auto extra = [&] { return dice.one_in(3) ? dice.below(70) : 0; };
  p.a = layout(p.a.dtype, p.m, p.k, dice.one_in(2), extra());
  p.b = layout(p.b.dtype, p.k, p.n, dice.one_in(2), extra());
  p.d = layout(p.d.dtype, p.m, p.n, !p.grouped && dice.one_in(3), extra());
  if (p.grouped || dice.one_in(3)) p.a.batch_stride = 0;
  if (dice.one_in(3)) p.b.batch_stride = 0;
  if (p.grouped) {
    p.d.batch_stride = 0;
    for (Index i = 0; i <= p.batch; ++i) c.starts.push_back(static_cast<std::int32_t>(dice.below(p.m + 1)));
    if (dice.one_in(2)) c.starts.front() = 0;
    if (dice.one_in(2)) c.starts.back() = static_cast<std::int32_t>(p.m);
    std::sort(c.starts.begin(), c.starts.end());
  } else if (p.d.batch_stride == 0)
    p.batch = std::min<Index>(p.batch, 1);
  static constexpr Values values[] = {Values::integers, Values::integers, Values::normals, Values::nan_row};
  c.values = dice.of(values);
  choose_epilogue(dice, c);
  c.threads = 1 + static_cast<int>(dice.below(3));
  c.runs = dice.one_in(20) ? 10 : 1;
  c.side = dice.one_in(2) ? Guarded::before : Guarded::after;
  for (unsigned& shift : c.shifts) shift = dice.one_in(2) ? static_cast<unsigned>(dice.below(64)) : 0;
  const bool rows = p.d.col_stride == 1 || p.n <= 1;
  c.packed = rows && !p.grouped && (p.batch == 1 || (p.batch > 1 && p.b.batch_stride == 0)) && dice.one_in(6);
  return c;
}

}  // namespace ridge::ops::oracle
