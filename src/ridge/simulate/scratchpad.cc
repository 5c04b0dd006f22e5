#include "ridge/simulate/scratchpad.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ridge/simulate/scratchpad_buffers.h"

namespace ridge {
namespace {

constexpr std::int64_t max_requests = std::int64_t{1} << 34;
constexpr std::int64_t max_addresses = std::int64_t{1} << 28;

using simulate::padding_address;
using simulate::ReadBuffer;
using simulate::WriteBuffer;

// Addresses of the elements of A and B; only their equality matters.
struct OperandAddresses {
  ProductSize product;
  std::optional<Convolution> convolution;

  std::int64_t a_address(std::int64_t m, std::int64_t k) const {
    if (!convolution) return m * product.k + k;
    const Convolution& v = *convolution;
    const std::int64_t row = m / v.out_width() * v.stride_height + k / (v.filter_width * v.channels);
    const std::int64_t col = m % v.out_width() * v.stride_width + k % (v.filter_width * v.channels) / v.channels;
    if (row >= v.height || col >= v.width) return padding_address;
    return (row * v.width + col) * v.channels + k % v.channels;
  }
  std::int64_t b_address(std::int64_t k, std::int64_t n) const { return k * product.n + n; }
  std::int64_t count_a() const {
    return convolution ? convolution->height * convolution->width * convolution->channels : product.m * product.k;
  }
  std::int64_t count_b() const { return product.k * product.n; }
};

class StallSimulator {
 public:
  StallSimulator(const SystolicArray& array, const OperandAddresses& addresses, const Scratchpads& pads)
      : array_(array),
        map_(make_mapping(array, addresses.product)),
        addresses_(addresses),
        a_(pads.a, addresses.count_a(), pads.charges_waits_twice),
        b_(pads.b, addresses.count_b(), pads.charges_waits_twice),
        c_(pads.c),
        moving_buffer_(map_.is_transposed ? b_ : a_),
        second_buffer_(map_.is_transposed ? a_ : b_) {}

  StallReport run() {
    build_prefetch_orders();
    for (std::int64_t col = 0; col < map_.sc; col += array_.cols)
      for (std::int64_t row = 0; row < map_.sr; row += array_.rows)
        for (std::int64_t t = 0; t < map_.fold_cycles(); ++t) run_cycle(row, col, t);
    c_.drain_all(last_written_at_);
    report_.cycles_with_prefetch = c_.last_write_cycle() + std::max(a_.initial_requests(), b_.initial_requests());
    report_.memory_reads_a = a_.words_read();
    report_.memory_reads_b = b_.words_read();
    report_.memory_writes_c = c_.words_written();
    return report_;
  }

 private:
  // Returns the address of step s of the operand that moves right, for index i of Sr.
  std::int64_t moving_address(std::int64_t s, std::int64_t i) const {
    if (map_.is_output_stationary) return addresses_.a_address(i, s);
    return map_.is_transposed ? addresses_.b_address(i, s) : addresses_.a_address(s, i);
  }
  // Returns an address of the other operand: row i of the stationary tile, or step i of the operand that moves down.
  std::int64_t stationary_or_down_address(std::int64_t i, std::int64_t j) const {
    return map_.is_transposed ? addresses_.a_address(j, i) : addresses_.b_address(i, j);
  }

  // Sets the prefetch orders: skewed operands along the diagonals of their stacked folds, a stationary operand by rows.
  void build_prefetch_orders() {
    visit_diagonals(map_.row_folds * map_.t, array_.rows, [&](std::int64_t row, std::int64_t lane) {
      const std::int64_t i = row / map_.t * array_.rows + lane;
      moving_buffer_.append_prefetch_word(i < map_.sr ? moving_address(row % map_.t, i) : padding_address);
    });
    const std::int64_t depth = map_.is_output_stationary ? map_.t : map_.sr;
    const auto append_second = [&](std::int64_t row, std::int64_t lane) {
      const std::int64_t j = row / depth * array_.cols + lane;
      second_buffer_.append_prefetch_word(j < map_.sc ? stationary_or_down_address(row % depth, j) : padding_address);
    };
    if (map_.is_output_stationary)
      visit_diagonals(map_.col_folds * depth, array_.cols, append_second);
    else
      for (std::int64_t row = 0; row < map_.col_folds * depth; ++row)
        for (std::int64_t lane = 0; lane < array_.cols; ++lane) append_second(row, lane);
    moving_buffer_.finish_prefetch_order();
    second_buffer_.finish_prefetch_order();
  }

  template <class Visit> static void visit_diagonals(std::int64_t rows, std::int64_t lanes, const Visit& visit) {
    for (std::int64_t d = 0; d < rows + lanes - 1; ++d)
      for (std::int64_t row = std::min(d, rows - 1); row >= std::max<std::int64_t>(0, d - lanes + 1); --row)
        visit(row, d - row);
  }

  void run_cycle(std::int64_t row, std::int64_t col, std::int64_t t) {
    const std::int64_t cycle = cycles_without_stalls_++ + report_.stall_cycles;
    const std::int64_t rows = std::min(array_.rows, map_.sr - row), cols = std::min(array_.cols, map_.sc - col);
    const std::int64_t s = t - map_.load_cycles;  // step of the stream
    moving_buffer_.begin_cycle(cycle);
    if (!moving_buffer_.always_hits())
      for (std::int64_t r = std::max<std::int64_t>(0, s - map_.t + 1); r < std::min(rows, s + 1); ++r)
        moving_buffer_.request_word(moving_address(s - r, row + r));
    second_buffer_.begin_cycle(cycle);
    if (!second_buffer_.always_hits()) request_second_operand(row, col, cols, t);
    const std::int64_t written_at = c_.write_words(count_outputs(rows, cols, t), cycle);
    report_.stall_cycles +=
        std::max({moving_buffer_.stall_cycles(), second_buffer_.stall_cycles(), written_at - cycle});
    report_.cycles = std::max(report_.cycles, written_at);
    last_written_at_ = written_at;
  }

  void request_second_operand(std::int64_t row, std::int64_t col, std::int64_t cols, std::int64_t t) {
    if (map_.is_output_stationary) {
      for (std::int64_t c = std::max<std::int64_t>(0, t - map_.t + 1); c < std::min(cols, t + 1); ++c)
        second_buffer_.request_word(stationary_or_down_address(t - c, col + c));
    } else if (const std::int64_t r = array_.rows - 1 - t; r >= 0 && row + r < map_.sr) {
      for (std::int64_t c = 0; c < cols; ++c) second_buffer_.request_word(stationary_or_down_address(row + r, col + c));
    }
  }

  // Returns the number of words that leave the array at fold cycle t; os writes its last row first.
  std::int64_t count_outputs(std::int64_t rows, std::int64_t cols, std::int64_t t) const {
    const std::int64_t cycles_after_first =
        t - (map_.is_output_stationary ? map_.t - 1 + array_.rows - rows : 2 * array_.rows - 1);
    const std::int64_t count = map_.is_output_stationary ? rows : map_.t;
    return std::max<std::int64_t>(
        0, std::min(cols, cycles_after_first + 1) - std::max<std::int64_t>(0, cycles_after_first - count + 1));
  }

  const SystolicArray& array_;
  const SystolicMapping map_;
  const OperandAddresses& addresses_;
  ReadBuffer a_, b_;
  WriteBuffer c_;
  ReadBuffer &moving_buffer_, &second_buffer_;
  StallReport report_;
  std::int64_t cycles_without_stalls_ = 0, last_written_at_ = 0;
};

Status check_pads(const SystolicArray& array, const Scratchpads& pads, const OperandAddresses& addresses) {
  if (array.preload)
    return input_error("expected an array that loads its stationary operand, found preload",
                       "only SCALE-Sim's stall model is available");
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
  const SystolicMapping map = make_mapping(array, addresses.product);
  std::int64_t requests = 0;
  if (__builtin_mul_overflow(map.fold_count(), map.fold_cycles(), &requests) ||
      __builtin_mul_overflow(requests, array.rows + 2 * array.cols, &requests) || requests > max_requests ||
      addresses.count_a() > max_addresses || addresses.product.m * addresses.product.k > max_addresses ||
      addresses.count_b() > max_addresses)
    return input_error(
        fmt::format("expected at most {} words to simulate, found {} cycles of {} on {} and {} addresses", max_requests,
                    map.fold_count() * map.fold_cycles(), array.rows + 2 * array.cols, addresses.count_a(),
                    addresses.count_b()),
        "the closed form counts the cycles without stalls");
  return Done{};
}

}  // namespace

Result<StallReport> simulate_stalls(const SystolicArray& array, const ProductSize& product, const Scratchpads& pads,
                                    const std::optional<Convolution>& convolution) {
  RIDGE_TRY_STATUS(check_systolic(array, product));
  if (convolution) {
    RIDGE_TRY(size, to_product_size(*convolution));
    if (size != product || convolution->batch != 1)
      return input_error(
          fmt::format("expected the product of one image, M {} N {} K {}, found M {} N {} K {} of batch {}", size.m,
                      size.n, size.k, product.m, product.n, product.k, convolution->batch));
  }
  const OperandAddresses addresses{product, convolution};
  RIDGE_TRY_STATUS(check_pads(array, pads, addresses));
  return StallSimulator(array, addresses, pads).run();
}

std::string StallReport::to_text() const {
  return fmt::format(
      "  stalls       {} of {} cycles ({} with the first fetch and the last write)\n"
      "  memory words a {} b {} c {}\n",
      stall_cycles, cycles, cycles_with_prefetch, memory_reads_a, memory_reads_b, memory_writes_c);
}

}  // namespace ridge
