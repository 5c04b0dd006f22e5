// The fourth oracle of the design: every engine that this CPU has against the f64 loop nest, small integers bit for
// bit, odd shapes, the four layouts, strides, batches, poisoned outputs between guard pages, NaN in one row only, any
// number of threads. RIDGE_SLOW_TESTS=n multiplies the number of random cases by n.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ridge/base/float16.h"
#include "ridge/kernels/reference.h"
#include "ridge/kernels/run.h"
#include "ridge/tile/target/cpu/isa.h"

namespace ridge::kernels {
namespace {

using Index = std::int64_t;

// Memory that ends where a page without rights begins (or starts where one ends), so that one byte too far is a crash.
class Guarded {
 public:
  enum class At { end, start };
  Guarded(std::size_t bytes, At at) : bytes_(bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (bytes + page - 1) / page * page;
    map_ = static_cast<char*>(mmap(nullptr, inside_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mapped_ = inside_ + 2 * page;
    if (inside_ != 0) {
      EXPECT_EQ(mprotect(map_ + page, inside_, PROT_READ | PROT_WRITE), 0);
    }
    data_ = at == At::end ? map_ + page + inside_ - bytes : map_ + page;
  }
  ~Guarded() { munmap(map_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  char* data() { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_, inside_ = 0, mapped_ = 0;
  char *map_ = nullptr, *data_ = nullptr;
};

Index elements(const MatrixLayout& x, Index batch, Index rows, Index cols) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  return (batch - 1) * x.batch_stride + (rows - 1) * x.row_stride + (cols - 1) * x.col_stride + 1;
}

MatrixLayout layout(DType dtype, Index rows, Index cols, bool transposed, Index extra = 0) {
  MatrixLayout x{dtype};
  x.row_stride = transposed ? 1 : cols + extra;
  x.col_stride = transposed ? rows + extra : 1;
  x.batch_stride = (transposed ? cols : rows) * ((transposed ? rows : cols) + extra);
  return x;
}

struct Case {
  MatmulProblem problem;
  int threads = 1;
  bool integers = true;
  Guarded::At guard = Guarded::At::end;
};

Case simple(Index m, Index n, Index k, DType in = DType::f32, DType out = DType::f32, int layouts = 0) {
  Case c;
  c.problem = {
      1, m, n, k, layout(in, m, k, layouts & 1), layout(in, k, n, layouts & 2), layout(out, m, n, layouts & 4)};
  return c;
}

std::string text(const Case& c) {
  const MatmulProblem& p = c.problem;
  std::string s = "isa " + isa() + ", threads " + std::to_string(c.threads) + ": batch " + std::to_string(p.batch) +
                  " m " + std::to_string(p.m) + " n " + std::to_string(p.n) + " k " + std::to_string(p.k);
  for (const MatrixLayout* x : {&p.a, &p.b, &p.d}) {
    s += ", " + std::string(name(x->dtype)) + " strides " + std::to_string(x->batch_stride) + " " +
         std::to_string(x->row_stride) + " " + std::to_string(x->col_stride);
  }
  return s;
}

struct Data {
  Guarded a, b, d;
};

void fill(const MatrixLayout& x, void* data, Index batch, Index rows, Index cols, bool integers, std::mt19937& random) {
  std::normal_distribution<float> normal;
  for (Index i = 0; i < (x.batch_stride == 0 ? std::min<Index>(1, batch) : batch); ++i)
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c)
        write_element(x, data, i, r, c, integers ? static_cast<double>(random() % 9) - 4 : double{normal(random)});
}

constexpr unsigned char poison = 0xfb;  // as f32, bf16 and f16: a large finite number

// Runs the case; "" or what is wrong.
std::string check(const Case& c, unsigned seed = 1) {
  const MatmulProblem& p = c.problem;
  if (const auto refusal = refuse(p)) return text(c) + ": refused: " + *refusal;
  const auto bytes = [](const MatrixLayout& x, Index batch, Index rows, Index cols) {
    return static_cast<std::size_t>(elements(x, batch, rows, cols) * bits(x.dtype) / 8);
  };
  Data data{{bytes(p.a, p.batch, p.m, p.k), c.guard},
            {bytes(p.b, p.batch, p.k, p.n), c.guard},
            {bytes(p.d, p.batch, p.m, p.n), c.guard}};
  std::mt19937 random(seed);
  fill(p.a, data.a.data(), p.batch, p.m, p.k, c.integers, random);
  fill(p.b, data.b.data(), p.batch, p.k, p.n, c.integers, random);
  std::memset(data.d.data(), poison, data.d.size());
  matmul(p, data.a.data(), data.b.data(), data.d.data(), c.threads);
  std::vector<char> written(data.d.size(), 0);
  const std::size_t size = static_cast<std::size_t>(bits(p.d.dtype)) / 8;
  for (Index i = 0; i < p.batch; ++i)
    for (Index r = 0; r < p.m; ++r)
      for (Index col = 0; col < p.n; ++col) {
        const Index at = i * p.d.batch_stride + r * p.d.row_stride + col * p.d.col_stride;
        std::memset(written.data() + static_cast<std::size_t>(at) * size, 1, size);
        const double got = read_element(p.d, data.d.data(), i, r, col);
        const ReferenceElement want = reference_element(p, data.a.data(), data.b.data(), i, r, col);
        double expected = want.value, allowed = c.integers ? 0 : matmul_bound(p, want);
        if (c.integers && p.d.dtype == DType::bf16) expected = to_float(to_bf16(static_cast<float>(want.value)));
        if (!(std::fabs(got - expected) <= allowed)) {
          return text(c) + ": element " + std::to_string(i) + " " + std::to_string(r) + " " + std::to_string(col) +
                 ": expected " + std::to_string(expected) + ", found " + std::to_string(got);
        }
      }
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] == 0 && static_cast<unsigned char>(data.d.data()[i]) != poison)
      return text(c) + ": byte " + std::to_string(i) + " between the rows was overwritten";
  }
  return "";
}

class EveryIsa : public testing::TestWithParam<tile::cpu::Isa> {
 protected:
  void SetUp() override { ASSERT_TRUE(tile::cpu::use_isa(GetParam())); }
  void TearDown() override { tile::cpu::use_isa(before_); }
  tile::cpu::Isa before_ = tile::cpu::isa();
};
INSTANTIATE_TEST_SUITE_P(Matmul, EveryIsa, testing::ValuesIn(tile::cpu::available_isas()),
                         [](const auto& param) { return std::string(tile::cpu::name(param.param)); });

TEST_P(EveryIsa, SmallIntegersComeOutBitForBit) {
  for (const DType in : {DType::f32, DType::bf16})
    for (const Index m : {1, 2, 5, 7, 13, 14, 15, 29, 113})
      for (const Index n : {1, 3, 8, 16, 17, 31, 33, 65})
        for (const Index k : {1, 2, 3, 17, 64, 65})
          for (int layouts = 0; layouts < 8; ++layouts) {
            if ((m * n + k + layouts) % 3 != 0 && m * n * k > 3000) continue;
            Case c = simple(m, n, k, in, in == DType::bf16 && n % 2 ? DType::bf16 : DType::f32, layouts);
            c.guard = layouts % 2 ? Guarded::At::start : Guarded::At::end;
            ASSERT_EQ(check(c), "");
          }
}

TEST_P(EveryIsa, LargerShapesCrossEveryCut) {
  for (const DType in : {DType::f32, DType::bf16}) {
    for (const auto& [m, n, k] : {std::array<Index, 3>{113, 129, 700},
                                  {225, 257, 71},
                                  {3, 1025, 300},
                                  {1, 700, 901},
                                  {500, 3, 333},
                                  {9, 600, 385},
                                  {64, 64, 1049},
                                  {11, 1501, 1401},
                                  {33, 100, 1200}}) {
      Case c = simple(m, n, k, in, DType::f32, static_cast<int>((m + n) % 8));
      ASSERT_EQ(check(c), "");
      c.threads = 2;
      c.integers = false;
      ASSERT_EQ(check(c), "");
    }
  }
}

TEST_P(EveryIsa, RandomShapesStridesBatchesAndThreads) {
  const char* const more = std::getenv("RIDGE_SLOW_TESTS");
  const int cases = 500 * (more == nullptr ? 1 : std::max(1, std::atoi(more)));
  std::mt19937 random(7);
  const auto below = [&](Index n) { return static_cast<Index>(random() % static_cast<unsigned>(n)); };
  const auto extent = [&] { return below(4) == 0 ? below(4) : below(2) == 0 ? below(40) : below(150); };
  for (int i = 0; i < cases; ++i) {
    const Index m = extent(), n = extent(), k = below(8) == 0 ? below(900) : extent();
    const DType in = below(2) ? DType::f32 : DType::bf16;
    const DType out = in == DType::bf16 && below(2) ? DType::bf16 : DType::f32;
    Case c;
    c.problem = {below(6) == 0 ? below(5) : 1,
                 m,
                 n,
                 k,
                 layout(in, m, k, below(2), below(3) ? 0 : below(70)),
                 layout(in, k, n, below(2), below(3) ? 0 : below(70)),
                 layout(out, m, n, below(2), below(3) ? 0 : below(70))};
    if (below(3) == 0) c.problem.a.batch_stride = 0;
    if (below(3) == 0) c.problem.b.batch_stride = 0;
    if (c.problem.d.batch_stride == 0) c.problem.batch = std::min<Index>(c.problem.batch, 1);
    c.threads = 1 + static_cast<int>(below(3));
    c.integers = below(2) == 0;
    c.guard = below(2) ? Guarded::At::start : Guarded::At::end;
    ASSERT_EQ(check(c, static_cast<unsigned>(i)), "");
  }
}

TEST_P(EveryIsa, NanStaysInItsRowAndInItsColumn) {
  for (const Index m : {1, 6, 40}) {
    const Case c = simple(m, 70, 90);
    const MatmulProblem& p = c.problem;
    std::vector<float> a(static_cast<std::size_t>(m * 90), 1), b(90 * 70, 1), d(static_cast<std::size_t>(m * 70), -1);
    a[static_cast<std::size_t>((m - 1) * 90 + 89)] = NAN;
    b[50 * 70 + 33] = NAN;
    matmul(p, a.data(), b.data(), d.data(), 1);
    for (Index r = 0; r < m; ++r)
      for (Index j = 0; j < 70; ++j)
        ASSERT_EQ(std::isnan(d[static_cast<std::size_t>(r * 70 + j)]), r == m - 1 || j == 33) << r << " " << j;
  }
}

TEST_P(EveryIsa, SumsDoNotDependOnTheNumberOfThreadsOrTheRun) {
  for (const DType in : {DType::f32, DType::bf16})
    for (const auto& [m, n, k] : {std::array<Index, 3>{100, 700, 900},
                                  {700, 40, 900},
                                  {7, 900, 901},
                                  {1, 800, 1000},
                                  {13, 1100, 2000},
                                  {37, 500, 700}}) {
      Case c = simple(m, n, k, in, DType::f32, static_cast<int>(n % 3));
      std::mt19937 random(3);
      const std::size_t size = static_cast<std::size_t>(bits(in)) / 8;
      std::vector<char> a(static_cast<std::size_t>(m * k) * size), b(static_cast<std::size_t>(k * n) * size);
      fill(c.problem.a, a.data(), 1, m, k, false, random);
      fill(c.problem.b, b.data(), 1, k, n, false, random);
      std::vector<float> first(static_cast<std::size_t>(m * n)), other(first.size());
      matmul(c.problem, a.data(), b.data(), first.data(), 1);
      for (const int threads : {1, 2, 3, 5, 2}) {
        matmul(c.problem, a.data(), b.data(), other.data(), threads);
        ASSERT_EQ(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)), 0) << text(c) << threads;
      }
    }
}

TEST_P(EveryIsa, DataMayBeMisaligned) {
  for (std::size_t shift = 1; shift < 64; shift += 3) {
    const Case c = simple(9, 37, 45, DType::bf16, DType::f32, static_cast<int>(shift % 4));
    std::vector<char> a(9 * 45 * 2 + 64), b(45 * 37 * 2 + 64);
    std::vector<float> d(9 * 37);
    std::mt19937 random(3);
    fill(c.problem.a, a.data() + shift, 1, 9, 45, true, random);
    fill(c.problem.b, b.data() + shift, 1, 45, 37, true, random);
    matmul(c.problem, a.data() + shift, b.data() + shift, d.data(), 1);
    for (Index r = 0; r < 9; ++r)
      for (Index j = 0; j < 37; ++j)
        ASSERT_EQ(d[static_cast<std::size_t>(r * 37 + j)],
                  reference_element(c.problem, a.data() + shift, b.data() + shift, 0, r, j).value);
  }
}

TEST_P(EveryIsa, PackedWeightsGiveTheSameProducts) {
  for (const DType in : {DType::f32, DType::bf16})
    for (const auto& [m, n, k] : {std::array<Index, 3>{1, 70, 900}, {8, 300, 33}, {40, 129, 1500}, {3, 5, 0}}) {
      Case c = simple(m, n, k, in, DType::f32, static_cast<int>(m % 4));
      const MatmulProblem& p = c.problem;
      const std::size_t size = static_cast<std::size_t>(bits(in)) / 8;
      std::vector<char> a(static_cast<std::size_t>(m * k) * size), b(static_cast<std::size_t>(k * n) * size);
      std::vector<float> d(static_cast<std::size_t>(m * n), -1);
      std::mt19937 random(3);
      fill(p.a, a.data(), 1, m, k, true, random);
      fill(p.b, b.data(), 1, k, n, true, random);
      const PackedWeights packed(p, b.data());
      ASSERT_EQ(refuse(p, packed), std::nullopt);
      for (const int threads : {1, 2}) {
        matmul(p, a.data(), packed, d.data(), threads);
        for (Index r = 0; r < m; ++r)
          for (Index j = 0; j < n; ++j)
            ASSERT_EQ(d[static_cast<std::size_t>(r * n + j)], reference_element(p, a.data(), b.data(), 0, r, j).value)
                << text(c);
      }
    }
}

TEST(MatmulTest, PackedWeightsOfAnotherShapeAreRefused) {
  const std::vector<float> b(30);
  const PackedWeights packed(simple(4, 5, 6).problem, b.data());
  EXPECT_EQ(refuse(simple(4, 5, 6).problem, packed), std::nullopt);
  EXPECT_EQ(refuse(simple(4, 6, 5).problem, packed), "b: expected weights of k 5 and n 6, found k 6 and n 5");
  EXPECT_EQ(refuse(simple(4, 5, 6, DType::f32, DType::f32, 4).problem, packed),
            "d: expected contiguous rows where the weights are packed, found contiguous columns");
}

TEST(MatmulTest, LargeOutputsThatAreStreamedAreWhole) {
  const Case c = simple(2900, 3008, 3);
  std::vector<float> a(2900 * 3), b(3 * 3008);
  float* const d = static_cast<float*>(std::aligned_alloc(64, 2900 * 3008 * sizeof(float)));
  std::mt19937 random(3);
  fill(c.problem.a, a.data(), 1, 2900, 3, true, random);
  fill(c.problem.b, b.data(), 1, 3, 3008, true, random);
  matmul(c.problem, a.data(), b.data(), d, 2);
  Index wrong = 0;
  for (Index r = 0; r < 2900; ++r)
    for (Index j = 0; j < 3008; ++j)
      wrong += d[r * 3008 + j] != reference_element(c.problem, a.data(), b.data(), 0, r, j).value;
  EXPECT_EQ(wrong, 0);
  std::free(d);
}

TEST(MatmulTest, EmptySumsAreZeroAndEmptyOutputsAreLeftAlone) {
  EXPECT_EQ(check(simple(5, 7, 0)), "");
  EXPECT_EQ(check(simple(5, 7, 0, DType::bf16, DType::bf16, 4)), "");
  EXPECT_EQ(check(simple(0, 7, 3)), "");
  EXPECT_EQ(check(simple(5, 0, 3)), "");
}

TEST(MatmulTest, RefusalsSayWhatWasExpectedAndFound) {
  const MatmulProblem good = simple(4, 5, 6).problem;
  EXPECT_EQ(refuse(good), std::nullopt);
  MatmulProblem p = good;
  p.m = -1;
  EXPECT_EQ(refuse(p), "expected sizes of at least 0, found batch 1, m -1, n 5, k 6");
  p = good;
  p.b.dtype = DType::bf16;
  EXPECT_EQ(refuse(p), "expected f32 * f32 -> f32 or bf16 * bf16 -> f32 or bf16, found f32 * bf16 -> f32");
  p = good;
  p.a.col_stride = 2;
  EXPECT_EQ(refuse(p), "a: expected rows or columns that are contiguous, found strides 6 and 2");
  p = good;
  p.d.row_stride = 4;
  EXPECT_EQ(refuse(p), "d: expected a stride of at least 5, found 4: its rows would overlap");
  p = good;
  p.batch = 2, p.d.batch_stride = 0;
  EXPECT_EQ(refuse(p), "d: expected a batch stride, found 0: the products would overlap");
  p = good;
  p.b.batch_stride = -20;
  EXPECT_EQ(refuse(p), "b: expected strides of at least 0, found 5, 1 and -20");
}

}  // namespace
}  // namespace ridge::kernels
