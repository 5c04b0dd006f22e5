#include "ridge/simulate/scratchpad.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ridge/simulate/scratchpad_buffers.h"

namespace ridge {
namespace {

constexpr std::int64_t max_requests = std::int64_t{1} << 34;
constexpr std::int64_t max_addresses = std::int64_t{1} << 28;

using scratchpad::nothing;
using scratchpad::ReadBuffer;
using scratchpad::WriteBuffer;

// Where the numbers of A and B lie; only which are the same matters.
struct Addresses {
  ProductSize product;
  std::optional<Convolution> convolution;

  std::int64_t a(std::int64_t m, std::int64_t k) const {
    if (!convolution) return m * product.k + k;
    const Convolution& v = *convolution;
    const std::int64_t row = m / v.out_width() * v.stride + k / (v.filter_width * v.channels);
    const std::int64_t col = m % v.out_width() * v.stride + k % (v.filter_width * v.channels) / v.channels;
    if (row >= v.height || col >= v.width) return nothing;
    return (row * v.width + col) * v.channels + k % v.channels;
  }
  std::int64_t b(std::int64_t k, std::int64_t n) const { return k * product.n + n; }
  std::int64_t count_a() const {
    return convolution ? convolution->height * convolution->width * convolution->channels : product.m * product.k;
  }
  std::int64_t count_b() const { return product.k * product.n; }
};

class Walk {
 public:
  Walk(const SystolicArray& array, const Addresses& addresses, const Scratchpads& pads)
      : array_(array),
        map_(map_product(array, addresses.product)),
        addresses_(addresses),
        a_(pads.a, addresses.count_a(), pads.waits_twice),
        b_(pads.b, addresses.count_b(), pads.waits_twice),
        c_(pads.c),
        moves_(map_.transposed ? b_ : a_),
        other_(map_.transposed ? a_ : b_) {}

  StallReport run() {
    prefetch_orders();
    for (std::int64_t col = 0; col < map_.sc; col += array_.cols)
      for (std::int64_t row = 0; row < map_.sr; row += array_.rows)
        for (std::int64_t t = 0; t < map_.fold(); ++t) tick(row, col, t);
    c_.drain_all(last_);
    report_.cycles_with_prefetch = c_.last_write() + std::max(a_.initial_requests(), b_.initial_requests());
    report_.memory_reads_a = a_.reads();
    report_.memory_reads_b = b_.reads();
    report_.memory_writes_c = c_.writes();
    return report_;
  }

 private:
  // Step s of the operand that moves right, for index i of Sr.
  std::int64_t moving(std::int64_t s, std::int64_t i) const {
    if (map_.output_stays) return addresses_.a(i, s);
    return map_.transposed ? addresses_.b(i, s) : addresses_.a(s, i);
  }
  // The other operand: row i of the stationary tile, or step i of what moves down.
  std::int64_t other(std::int64_t i, std::int64_t j) const {
    return map_.transposed ? addresses_.a(j, i) : addresses_.b(i, j);
  }

  // Skewed operands are fetched along the diagonals of their folds stacked upon one another, the stationary one by
  // rows.
  void prefetch_orders() {
    diagonals(map_.row_folds * map_.t, array_.rows, [&](std::int64_t row, std::int64_t lane) {
      const std::int64_t i = row / map_.t * array_.rows + lane;
      moves_.append(i < map_.sr ? moving(row % map_.t, i) : nothing);
    });
    const std::int64_t depth = map_.output_stays ? map_.t : map_.sr;
    const auto other_at = [&](std::int64_t row, std::int64_t lane) {
      const std::int64_t j = row / depth * array_.cols + lane;
      other_.append(j < map_.sc ? other(row % depth, j) : nothing);
    };
    if (map_.output_stays)
      diagonals(map_.col_folds * depth, array_.cols, other_at);
    else
      for (std::int64_t row = 0; row < map_.col_folds * depth; ++row)
        for (std::int64_t lane = 0; lane < array_.cols; ++lane) other_at(row, lane);
    moves_.finish();
    other_.finish();
  }

  template <class Visit> static void diagonals(std::int64_t rows, std::int64_t lanes, const Visit& visit) {
    for (std::int64_t d = 0; d < rows + lanes - 1; ++d)
      for (std::int64_t row = std::min(d, rows - 1); row >= std::max<std::int64_t>(0, d - lanes + 1); --row)
        visit(row, d - row);
  }

  void tick(std::int64_t row, std::int64_t col, std::int64_t t) {
    const std::int64_t cycle = index_++ + report_.stall_cycles;
    const std::int64_t rows = std::min(array_.rows, map_.sr - row), cols = std::min(array_.cols, map_.sc - col);
    const std::int64_t s = t - map_.load;  // of the stream
    moves_.begin(cycle);
    if (!moves_.always_hits())
      for (std::int64_t r = std::max<std::int64_t>(0, s - map_.t + 1); r < std::min(rows, s + 1); ++r)
        moves_.request(moving(s - r, row + r));
    other_.begin(cycle);
    if (!other_.always_hits()) request_other(row, col, cols, t);
    const std::int64_t written = c_.write(outputs(rows, cols, t), cycle);
    report_.stall_cycles += std::max({moves_.stall(), other_.stall(), written - cycle});
    report_.cycles = std::max(report_.cycles, written);
    last_ = written;
  }

  void request_other(std::int64_t row, std::int64_t col, std::int64_t cols, std::int64_t t) {
    if (map_.output_stays) {
      for (std::int64_t c = std::max<std::int64_t>(0, t - map_.t + 1); c < std::min(cols, t + 1); ++c)
        other_.request(other(t - c, col + c));
    } else if (const std::int64_t r = array_.rows - 1 - t; r >= 0 && row + r < map_.sr) {
      for (std::int64_t c = 0; c < cols; ++c) other_.request(other(row + r, col + c));
    }
  }

  // Words that leave column c at fold cycle t; os writes its last row first.
  std::int64_t outputs(std::int64_t rows, std::int64_t cols, std::int64_t t) const {
    const std::int64_t late = t - (map_.output_stays ? map_.t - 1 + array_.rows - rows : 2 * array_.rows - 1);
    const std::int64_t count = map_.output_stays ? rows : map_.t;
    return std::max<std::int64_t>(0, std::min(cols, late + 1) - std::max<std::int64_t>(0, late - count + 1));
  }

  const SystolicArray& array_;
  const SystolicMapping map_;
  const Addresses& addresses_;
  ReadBuffer a_, b_;
  WriteBuffer c_;
  ReadBuffer &moves_, &other_;
  StallReport report_;
  std::int64_t index_ = 0, last_ = 0;
};

Status check_pads(const SystolicArray& array, const Scratchpads& pads, const Addresses& addresses) {
  if (array.preload)
    return input_error("expected an array that loads its stationary operand, found preload",
                       "stalls are counted SCALE-Sim's way only");
  for (const auto& [name, pad] : {std::pair{"a", pads.a}, {"b", pads.b}, {"c", pads.c}}) {
    if (pad.words < 2)
      return input_error(fmt::format("expected a scratchpad of at least 2 words for {}, found {}", name, pad.words),
                         "--sram 65536");
    if (pad.bandwidth < 1)
      return input_error(
          fmt::format("expected a bandwidth of at least 1 word a cycle for {}, found {}", name, pad.bandwidth));
    if (pad.words > max_requests || pad.bandwidth > max_requests)
      return input_error(fmt::format("expected at most {} words and words a cycle for {}, found {} and {}",
                                     max_requests, name, pad.words, pad.bandwidth),
                         "without --bandwidth the array never waits");
  }
  const SystolicMapping map = map_product(array, addresses.product);
  std::int64_t requests = 0;
  if (__builtin_mul_overflow(map.folds(), map.fold(), &requests) ||
      __builtin_mul_overflow(requests, array.rows + 2 * array.cols, &requests) || requests > max_requests ||
      addresses.count_a() > max_addresses || addresses.product.m * addresses.product.k > max_addresses ||
      addresses.count_b() > max_addresses)
    return input_error(
        fmt::format("expected at most {} words to walk, found {} cycles of {} on {} and {} addresses", max_requests,
                    map.folds() * map.fold(), array.rows + 2 * array.cols, addresses.count_a(), addresses.count_b()),
        "the closed form counts the cycles without stalls");
  return Done{};
}

}  // namespace

Result<StallReport> simulate_stalls(const SystolicArray& array, const ProductSize& product, const Scratchpads& pads,
                                    const std::optional<Convolution>& convolution) {
  if (const Status status = check_systolic(array, product); !status) return status.error();
  if (convolution) {
    const Result<ProductSize> size = as_product(*convolution);
    if (!size) return size.error();
    if (*size != product || convolution->batch != 1)
      return input_error(
          fmt::format("expected the product of one image, M {} N {} K {}, found M {} N {} K {} of batch {}", size->m,
                      size->n, size->k, product.m, product.n, product.k, convolution->batch));
  }
  const Addresses addresses{product, convolution};
  if (const Status status = check_pads(array, pads, addresses); !status) return status.error();
  return Walk(array, addresses, pads).run();
}

std::string StallReport::text() const {
  return fmt::format(
      "  stalls       {} of {} cycles ({} with the first fetch and the last write)\n"
      "  memory words a {} b {} c {}\n",
      stall_cycles, cycles, cycles_with_prefetch, memory_reads_a, memory_reads_b, memory_writes_c);
}

}  // namespace ridge
