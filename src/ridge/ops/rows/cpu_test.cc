#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/program.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float read_element(const char* data, DType dtype, std::int64_t i) {
  const char* at = data + i * (dtype_bits(dtype) / 8);
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (dtype == DType::f32) return as(float{});
  return dtype == DType::bf16 ? to_float(as(Bf16{})) : to_float(as(F16{}));
}
void write_element(char* data, DType dtype, std::int64_t i, float x) {
  char* at = data + i * (dtype_bits(dtype) / 8);
  const Bf16 brain = to_bf16(x);
  const F16 half = to_f16(x);
  if (dtype == DType::f32) std::memcpy(at, &x, 4);
  if (dtype == DType::bf16) std::memcpy(at, &brain, 2);
  if (dtype == DType::f16) std::memcpy(at, &half, 2);
}

// Memory that ends directly before a protected page.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes) : accessible_bytes_((bytes + page) / page * page) {
    map_ = static_cast<char*>(
        mmap(nullptr, accessible_bytes_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + accessible_bytes_, page, PROT_NONE);
    std::memset(map_, 0x7b, accessible_bytes_);
    data_ = map_ + accessible_bytes_ - bytes;
  }
  ~GuardedMemory() { munmap(map_, accessible_bytes_ + page); }
  GuardedMemory(const GuardedMemory&) = delete;
  char* data() const { return data_; }
  bool is_unchanged_before_data() const {
    for (char* p = map_; p < data_; ++p)
      if (*p != 0x7b) return false;
    return true;
  }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t accessible_bytes_;
  char *map_ = nullptr, *data_ = nullptr;
};

std::vector<double> evaluate_directly(const RowProblem& p, const char* x, const char* weight, std::int64_t row) {
  std::vector<double> v;
  for (std::int64_t c = 0; c < p.columns; ++c) v.push_back(read_element(x, p.x.dtype, row * p.x.row_stride + c));
  double top = -infinity, sum = 0, mean = 0;
  for (const double each : v) {
    top = std::max(top, each);
    mean += each / static_cast<double>(p.columns);
  }
  for (double& each : v) {
    if (p.function == RowFunction::layernorm) each -= mean;
    if (p.function == RowFunction::softmax) each = std::exp(each - top);
    sum += p.function == RowFunction::softmax ? each : each * each;
  }
  const double scale =
      p.function == RowFunction::softmax ? 1 / sum : 1 / std::sqrt(sum / static_cast<double>(p.columns) + p.epsilon);
  for (std::int64_t c = 0; c < p.columns; ++c)
    v[c] *= scale * (weight == nullptr ? 1 : read_element(weight, p.weight_dtype, c));
  return v;
}

// Evaluates all rows with the reference implementation in f64.
std::vector<double> evaluate_reference(const RowProblem& p, const char* x, const char* weight,
                                       const char* dy = nullptr) {
  std::vector<double> y;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    RowInputs row;
    for (std::int64_t c = 0; c < p.columns; ++c) {
      row.x.push_back(read_element(x, p.x.dtype, r * p.x.row_stride + c));
      row.weight.push_back(weight == nullptr ? 1 : read_element(weight, p.weight_dtype, c));
      if (dy != nullptr) row.dy.push_back(read_element(dy, p.dy.dtype, r * p.dy.row_stride + c));
    }
    const std::vector<double> one = evaluate_in_f64(p, row);
    y.insert(y.end(), one.begin(), one.end());
  }
  return y;
}
constexpr RowFunction all_functions[] = {RowFunction::softmax, RowFunction::rmsnorm, RowFunction::layernorm};

class Rows : public pool::IsaTest {};

TEST_P(Rows, all_widths_strides_and_dtypes_are_right_and_write_only_y) {
  std::mt19937 random(3);
  const DType types[] = {DType::f32, DType::bf16, DType::f16};
  for (const RowFunction function : all_functions)
    for (std::int64_t columns = 0; columns <= 150; ++columns) {
      RowProblem p;
      p.function = function;
      p.rows = 3;
      p.columns = columns;
      p.x = {types[random() % 3], columns + static_cast<std::int64_t>(random() % 5)};
      p.y = {types[random() % 3], columns + static_cast<std::int64_t>(random() % 5)};
      p.weight_dtype = types[random() % 3];
      ASSERT_FALSE(unsupported_reason(p));
      const auto bytes = [&](const RowLayout& l) {
        return static_cast<std::size_t>((2 * l.row_stride + columns) * (dtype_bits(l.dtype) / 8));
      };
      const GuardedMemory x(bytes(p.x)), y(bytes(p.y)),
          w(static_cast<std::size_t>(columns * dtype_bits(p.weight_dtype) / 8));
      std::normal_distribution<float> normal(0, 3);
      for (std::int64_t i = 0; i < 2 * p.x.row_stride + columns; ++i)
        write_element(x.data(), p.x.dtype, i, normal(random));
      for (std::int64_t i = 0; i < columns; ++i) write_element(w.data(), p.weight_dtype, i, normal(random));
      const char* weight = function != RowFunction::softmax && columns % 2 == 0 ? w.data() : nullptr;
      run_row_function(p, {x.data(), weight, y.data()}, 1);
      double unit = p.y.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
      if (p.y.dtype == DType::f32) unit = 2e-6;
      const std::vector<double> text = evaluate_reference(p, x.data(), weight);
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::vector<double> exact = evaluate_directly(p, x.data(), weight, r);
        for (std::int64_t c = 0; c < columns; ++c) {
          const double want = exact[c], said = text[r * columns + c];
          const auto place = [&] {
            return std::to_string(static_cast<int>(function)) + ", " + std::to_string(columns) + " columns, row " +
                   std::to_string(r) + ", column " + std::to_string(c);
          };
          ASSERT_NEAR(said, want, 2e-7 * std::abs(want) + (function == RowFunction::layernorm ? 2e-7 : 1e-12))
              << place();
          ASSERT_NEAR(read_element(y.data(), p.y.dtype, r * p.y.row_stride + c), said,
                      1.01 * unit * std::abs(said) + 1e-7)
              << place();
        }
      }
      ASSERT_TRUE(y.is_unchanged_before_data()) << columns;
      for (std::int64_t r = 0; r < 2; ++r)
        for (std::int64_t i = columns * dtype_bits(p.y.dtype) / 8; i < p.y.row_stride * dtype_bits(p.y.dtype) / 8; ++i)
          ASSERT_EQ(y.data()[r * p.y.row_stride * dtype_bits(p.y.dtype) / 8 + i], 0x7b) << "between rows";
    }
}

// Mixed formats with f16 are computed in batches of f32 rows: 40 rows of 1, 300 and 5003 columns are several batches.
TEST_P(Rows, mixed_formats_give_the_f32_result) {
  constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};
  constexpr std::int64_t rows = 40;
  for (const RowFunction function : all_functions)
    for (const std::int64_t columns : {1, 300, 5003})
      for (int combination = 0; combination < 27; ++combination) {
        const RowProblem p{function,
                           rows,
                           columns,
                           {types[combination % 3], columns + 2},
                           {types[combination / 3 % 3], columns + 5},
                           types[combination / 9]};
        if (p.x.dtype == p.y.dtype || (p.x.dtype != DType::f16 && p.y.dtype != DType::f16)) continue;
        if (function == RowFunction::softmax && combination >= 9) continue;
        const std::size_t elements = rows * (columns + 5);
        std::vector<char> x(4 * elements), w(4 * elements), y(4 * elements, 0x7b);
        std::vector<float> x_f32(elements), w_f32(static_cast<std::size_t>(columns)), y_f32(elements);
        for (std::size_t i = 0; i < elements; ++i) {
          write_element(x.data(), p.x.dtype, static_cast<std::int64_t>(i), static_cast<float>(i % 101) * 0.37f - 5);
          x_f32[i] = read_element(x.data(), p.x.dtype, static_cast<std::int64_t>(i));
        }
        for (std::size_t c = 0; c < w_f32.size(); ++c) {
          write_element(w.data(), p.weight_dtype, static_cast<std::int64_t>(c), static_cast<float>(c % 7) * 0.3f + 1);
          w_f32[c] = read_element(w.data(), p.weight_dtype, static_cast<std::int64_t>(c));
        }
        const bool has_weight = function != RowFunction::softmax && combination % 2 == 0;
        run_row_function(p, {x.data(), has_weight ? w.data() : nullptr, y.data()}, 1 + combination % 2);
        run_row_function({function, rows, columns, {DType::f32, columns + 2}, {DType::f32, columns + 5}, DType::f32},
                         {x_f32.data(), has_weight ? w_f32.data() : nullptr, y_f32.data()}, 1);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns + 5; ++c) {
            const std::int64_t i = r * (columns + 5) + c;
            std::vector<char> want(4, 0x7b);
            if (c < columns) write_element(want.data(), p.y.dtype, 0, y_f32[i]);
            ASSERT_EQ(std::memcmp(y.data() + i * dtype_bits(p.y.dtype) / 8, want.data(), dtype_bits(p.y.dtype) / 8), 0)
                << static_cast<int>(function) << ": " << dtype_name(p.x.dtype) << " to " << dtype_name(p.y.dtype)
                << ", row " << r << ", column " << c << " of " << columns;
          }
      }
}

TEST_P(Rows, log_sum_exp_gives_one_number_per_row) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t n : {1, 7, 8, 65, 2048, 2049, 5000}) {
      std::vector<char> x(3 * n * 4), rounded(14, 0x7b);
      std::vector<float> y(7, -7);
      for (std::int64_t i = 0; i < 3 * n; ++i)
        write_element(x.data(), dtype, i, static_cast<float>(i * 37 % 101) * 0.5f - 20);
      if (dtype == DType::f32) write_element(x.data(), dtype, 2 * n, 1e4f);  // exp overflows f32
      const RowProblem p{RowFunction::log_sum_exp, 3, n, {dtype, n}, {DType::f32, 3}};
      ASSERT_FALSE(unsupported_reason(p));
      run_row_function(p, {x.data(), nullptr, y.data()}, 1);
      const std::vector<double> text = evaluate_reference(p, x.data(), nullptr);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double want = i % 3 == 0 ? text[i / 3] : -7;
        ASSERT_NEAR(y[i], want, 1e-6 * std::abs(want) + 1e-6) << dtype_name(dtype) << " " << n << " " << i;
      }
      run_row_function({RowFunction::log_sum_exp, 3, n, {dtype, n}, {DType::bf16, 3}},
                       {x.data(), nullptr, rounded.data()}, 1);
      for (std::int64_t i = 0; i < 7; ++i)
        ASSERT_EQ(read_element(rounded.data(), DType::bf16, i),
                  i % 3 == 0 ? to_float(to_bf16(y[i])) : to_float(Bf16{0x7b7b}));
    }
}

TEST_P(Rows, large_numbers_do_not_overflow) {
  std::vector<float> x{1e4f, 1e4f, -3e38f, 3e38f}, y(4);
  RowProblem p{RowFunction::softmax, 2, 2, {DType::f32, 2}, {DType::f32, 2}};
  run_row_function(p, {x.data(), nullptr, y.data()}, 1);
  EXPECT_EQ(y, (std::vector<float>{0.5f, 0.5f, 0, 1}));
  p.function = RowFunction::rmsnorm;
  x = {2e30f, -2e30f, 3e38f, 3e38f};
  run_row_function(p, {x.data(), nullptr, y.data()}, 1);
  EXPECT_EQ(y, (std::vector<float>{1, -1, 1, 1}));
  p.function = RowFunction::layernorm;
  x = {2e30f, -2e30f, 3e38f, 3e38f};
  run_row_function(p, {x.data(), nullptr, y.data()}, 1);
  EXPECT_EQ(y, (std::vector<float>{1, -1, 0, 0}));
  p.function = RowFunction::rmsnorm;
  p.epsilon = 0;
  x = {2e-30f, -2e-30f, 1e-40f, 1e-40f};
  run_row_function(p, {x.data(), nullptr, y.data()}, 1);
  EXPECT_EQ(y, (std::vector<float>{1, -1, 1, 1}));
}

TEST_P(Rows, layernorm_is_accurate_for_a_large_mean) {
  for (const std::int64_t n : {3, 70, 5000})
    for (const float step : {0.0f, 0.5f}) {
      std::vector<float> x, y(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) x.push_back(12345.7f + step * static_cast<float>(i % 3));
      RowProblem p{RowFunction::layernorm, 1, n, {DType::f32, n}, {DType::f32, n}};
      run_row_function(p, {x.data(), nullptr, y.data()}, 1);
      const std::vector<double> exact = evaluate_directly(p, reinterpret_cast<const char*>(x.data()), nullptr, 0);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], exact[i], 3e-6) << n << " columns, " << step;
    }
}

TEST_P(Rows, nan_and_masks_stay_in_their_row) {
  const std::int64_t n = 37;
  for (const RowFunction function : all_functions)
    for (const std::size_t place : {0, 20, 36}) {
      std::vector<float> x(3 * n, 1), y(x.size());
      x[static_cast<std::size_t>(n) + place] = std::numeric_limits<float>::quiet_NaN();
      run_row_function({function, 3, n, {DType::f32, n}, {DType::f32, n}}, {x.data(), nullptr, y.data()}, 1);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / static_cast<std::size_t>(n) == 1) << i;
    }
  std::vector<float> x(n, -infinity), y(x.size());
  x[5] = 2;
  x[6] = 2;
  run_row_function({RowFunction::softmax, 1, n, {DType::f32, n}, {DType::f32, n}}, {x.data(), nullptr, y.data()}, 1);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i == 5 || i == 6 ? 0.5f : 0.0f);
}

TEST_P(Rows, rows_processed_together_are_independent) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::int64_t n = 70;
  const float fills[] = {1, -infinity, 2, infinity, 3, nan, 1e30f, -1e30f, 0.5f};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const RowFunction function : all_functions) {
      std::vector<char> x(std::size(fills) * n * 4), y(x.size());
      for (std::size_t i = 0; i < std::size(fills) * n; ++i)
        write_element(x.data(), dtype, static_cast<std::int64_t>(i), i % n == 1 ? 1 : fills[i / n]);
      run_row_function({function, std::size(fills), n, {dtype, n}, {dtype, n}}, {x.data(), nullptr, y.data()}, 1);
      for (std::int64_t r = 0; r < static_cast<std::int64_t>(std::size(fills)); ++r) {
        std::vector<char> alone(n * 4);
        run_row_function({function, 1, n, {dtype, n}, {dtype, n}},
                         {x.data() + r * n * dtype_bits(dtype) / 8, nullptr, alone.data()}, 1);
        ASSERT_EQ(std::memcmp(alone.data(), y.data() + r * n * dtype_bits(dtype) / 8, n * dtype_bits(dtype) / 8), 0)
            << r;
      }
      if (function != RowFunction::softmax) continue;
      const auto at = [&](int row, int column) { return read_element(y.data(), dtype, row * n + column); };
      EXPECT_EQ(at(1, 1), 1);
      EXPECT_EQ(at(1, 0), 0);
      EXPECT_TRUE(std::isnan(at(3, 1)) && std::isnan(at(5, 69)));
      EXPECT_EQ(at(7, 1), 1);
      EXPECT_EQ(at(7, 69), 0);
    }
}

TEST_P(Rows, streamed_rows_and_any_number_of_threads_give_the_same_bits) {
  struct Case {
    DType x, y;
    std::int64_t columns;
    std::int64_t past;  // Offset of y from a cache line, in elements.
  };
  for (const Case& c : {Case{DType::f32, DType::f32, 1003, 1}, Case{DType::bf16, DType::bf16, 1056, 0},
                        Case{DType::bf16, DType::bf16, 1003, 1}, Case{DType::f16, DType::bf16, 1003, 1},
                        Case{DType::f32, DType::f16, 1056, 0}, Case{DType::f16, DType::f32, 1003, 3}}) {
    const std::int64_t x_bytes = dtype_bits(c.x) / 8, y_bytes = dtype_bits(c.y) / 8;
    const std::int64_t many = pool::cache_sizes().l3 / (x_bytes + y_bytes) / c.columns + 1;
    std::vector<char> x(many * c.columns * x_bytes), y(static_cast<std::size_t>(c.columns * y_bytes)),
        memory(static_cast<std::size_t>(many * c.columns * y_bytes) + 128);
    char* const line = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
    char* const streamed = line + c.past * y_bytes;
    const char* const end = streamed + many * c.columns * y_bytes;
    for (std::int64_t i = 0; i < many * c.columns; ++i)
      write_element(x.data(), c.x, i, static_cast<float>(i % 1009) * 0.01f);
    for (const RowFunction function : all_functions)
      for (int threads = 1; threads <= 4; ++threads) {
        std::fill(memory.begin(), memory.end(), '\x7b');
        const RowLayout x_layout{c.x, c.columns}, y_layout{c.y, c.columns};
        run_row_function({function, many, c.columns, x_layout, y_layout}, {x.data(), nullptr, streamed}, threads);
        const auto is_poison = [](char each) { return each == 0x7b; };
        EXPECT_TRUE(
            std::all_of(static_cast<const char*>(memory.data()), static_cast<const char*>(streamed), is_poison));
        EXPECT_TRUE(std::all_of(end, static_cast<const char*>(memory.data()) + memory.size(), is_poison));
        for (std::int64_t r = 0; r < many; r += 97) {  // A single row is not streamed.
          run_row_function({function, 1, c.columns, x_layout, y_layout},
                           {x.data() + r * c.columns * x_bytes, nullptr, y.data()}, 1);
          ASSERT_EQ(std::memcmp(y.data(), streamed + r * c.columns * y_bytes, y.size()), 0)
              << dtype_name(c.x) << " to " << dtype_name(c.y) << ", row " << r;
        }
      }
  }
}

// With 16-bit formats, more than 4096 columns and data beyond the L2, rmsnorm processes two rows together if vectors
// have 16 lanes.
TEST_P(Rows, rows_processed_in_pairs_equal_single_rows) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t columns : {4160, 5003})
      for (int odd = 0; odd < 2; ++odd) {
        const std::int64_t many = pool::cache_sizes().l2 / (4 * columns) / 2 * 2 + 2 + odd,
                           stride = (columns + 63) / 64 * 64;
        const std::size_t row = columns * 2;
        const GuardedMemory x(static_cast<std::size_t>((many - 1) * stride * 2) + row), w(row),
            y(static_cast<std::size_t>((many - 1) * stride * 2) + row), alone(row);
        for (std::int64_t r = 0; r < many; ++r)
          for (std::int64_t c = 0; c < columns; ++c)  // Squares underflow or overflow f32.
            write_element(
                x.data(), dtype, r * stride + c,
                static_cast<float>((r * 31 + c) % 257 - 128) * (dtype == DType::f16 || r % 5 != 2 ? 0.01f : 1e25f));
        for (std::int64_t c = 0; c < columns; ++c) write_element(w.data(), dtype, c, static_cast<float>(c % 13) - 6);
        RowProblem p;
        p.function = RowFunction::rmsnorm;
        p.rows = many;
        p.columns = columns;
        p.x = p.y = {dtype, stride};
        p.weight_dtype = dtype;
        run_row_function(p, {x.data(), w.data(), y.data()}, 1);
        ASSERT_TRUE(y.is_unchanged_before_data());
        p.rows = 1;
        for (std::int64_t r = 0; r < many; ++r) {
          run_row_function(p, {x.data() + r * stride * 2, w.data(), alone.data()}, 1);
          ASSERT_EQ(std::memcmp(alone.data(), y.data() + r * stride * 2, row), 0)
              << dtype_name(dtype) << " " << columns << " columns, row " << r << " of " << many;
        }
      }
}

// Columns of every remainder of a vector, more rows than a partial sum has, and y directly before a protected page.
TEST_P(Rows, softmax_goes_down_columns) {
  std::mt19937 random(1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [extent, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 3}, {5, 1}, {7, 15}, {64, 64}, {300, 70}, {3, 201}}) {
      const ColumnSoftmaxProblem p{dtype, 2, extent, columns};
      const std::int64_t elements = 2 * extent * columns, bytes = dtype_bits(dtype) / 8;
      GuardedMemory x(static_cast<std::size_t>(elements * bytes)), y(static_cast<std::size_t>(elements * bytes)),
          y3(static_cast<std::size_t>(elements * bytes));
      for (std::int64_t i = 0; i < elements; ++i)
        write_element(x.data(), dtype, i, static_cast<float>(random() % 2000) / 100 - 10);
      run_column_softmax(p, x.data(), y.data(), 1);
      run_column_softmax(p, x.data(), y3.data(), 3);
      EXPECT_EQ(std::memcmp(y.data(), y3.data(), static_cast<std::size_t>(elements * bytes)), 0);
      EXPECT_TRUE(y.is_unchanged_before_data());
      const double rounding = dtype == DType::f32 ? 1e-6 : 8e-3;
      for (std::int64_t column = 0; column < 2 * columns; ++column) {
        const std::int64_t first = column / columns * extent * columns + column % columns;
        double sum = 0;
        for (std::int64_t r = 0; r < extent; ++r)
          sum += std::exp(static_cast<double>(read_element(x.data(), dtype, first + r * columns)));
        for (std::int64_t r = 0; r < extent; ++r) {
          const double want = std::exp(static_cast<double>(read_element(x.data(), dtype, first + r * columns))) / sum;
          ASSERT_NEAR(read_element(y.data(), dtype, first + r * columns), want, rounding * want + 1e-7)
              << dtype_name(dtype) << " " << extent << " " << columns;
        }
      }
    }
  // Columns are independent: a NaN, an infinity and only -infinity make theirs NaN; a mask gives 0.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{nan, infinity, -infinity, -infinity, 1, 1, 1, 1, -infinity, 1};
  std::vector<float> y(x.size());
  run_column_softmax({DType::f32, 1, 2, 5}, x.data(), y.data(), 1);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 5 < 2 || i % 5 == 3) << i;
  EXPECT_EQ(std::vector<float>({y[2], y[7], y[4], y[9]}), std::vector<float>({0, 1, 0.5f, 0.5f}));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, Rows, testing::ValuesIn(pool::available_isas()),
                         [](const auto& isa) { return std::string(pool::isa_name(isa.param)); });

TEST(RowErrors, unsupported_problems_are_reported) {
  const RowProblem good{RowFunction::rmsnorm, 4, 8, {DType::f32, 8}, {DType::f32, 8}};
  const auto reason = [](const RowProblem& p) {
    const Reason why = unsupported_reason(p);
    return why ? why.text() : "none";
  };
  EXPECT_EQ(reason(good), "none");
  RowProblem p = good;
  p.columns = -1;
  EXPECT_EQ(reason(p), "expected rows and columns of at least 0, found 4 and -1");
  p = good;
  p.x.dtype = DType::int8;
  EXPECT_EQ(reason(p), "x is int8; row functions store f32, bf16 and f16");
  p = good;
  p.y.row_stride = 7;
  EXPECT_EQ(reason(p), "y's rows overlap: expected a row stride of at least 8, found 7");
  p = good;
  p.x.row_stride = std::int64_t{1} << 60;
  EXPECT_EQ(reason(p), "x reaches beyond 2^59 elements");
  p = good;
  p.weight_dtype = DType::f64;
  EXPECT_EQ(reason(p), "weight is f64; row functions store f32, bf16 and f16");
  p = good;
  p.epsilon = -1;
  EXPECT_EQ(reason(p), "expected an epsilon of at least 0, found -1.000000");
}

}  // namespace
}  // namespace ridge::ops
