#include "ridge/simulate/scratchpad.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace ridge {
namespace {

constexpr std::int64_t nothing = -1;  // the address of a padded element
constexpr std::int64_t max_requests = std::int64_t{1} << 34;
constexpr std::int64_t max_addresses = std::int64_t{1} << 28;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// An SRAM that prefetches one fixed order of words, in lines of a hundredth of its size, round and round.
class ReadBuffer {
 public:
  ReadBuffer(Scratchpad pad, std::int64_t addresses, bool waits_twice)
      : active_words_(ceil_div(pad.words, 2)),
        prefetch_words_(pad.words - active_words_),
        line_words_(ceil_div(pad.words, 100)),
        bandwidth_(pad.bandwidth),
        waits_twice_(waits_twice),
        order_(),
        first_(static_cast<std::size_t>(addresses) + 1) {}

  // The prefetch order, padding included: it takes bandwidth though it brings nothing.
  void append(std::int64_t address) {
    ++fetched_;
    if (address == nothing) return;
    order_.push_back(static_cast<std::int32_t>(address));
  }

  void finish() {
    line_count_ = static_cast<std::int64_t>(order_.size()) / line_words_ + 1;
    active_lines_ = std::min(line_count_, ceil_div(active_words_, line_words_));
    prefetch_lines_ = std::min(line_count_ - active_lines_, ceil_div(prefetch_words_, line_words_));
    window_end_ = active_lines_ % line_count_;
    initial_requests_ = std::min(ceil_div(active_words_, bandwidth_), ceil_div(fetched_, bandwidth_));
    reads_ = initial_requests_ * bandwidth_;
    if (!always_hits()) index_lines();
    order_ = {};
  }

  bool always_hits() const { return prefetch_lines_ == 0; }
  std::int64_t initial_requests() const { return initial_requests_; }
  std::int64_t reads() const { return reads_; }

  void begin(std::int64_t cycle) {
    cycle_ = cycle;
    offset_ = 1;  // a hit takes a cycle
  }
  void request(std::int64_t address) {
    if (address == nothing) return;
    while (!hit(address)) {
      prefetch();
      const std::int64_t wait = ready_ - (cycle_ + offset_);
      if (waits_twice_)
        offset_ += wait > 0 ? 2 * wait : wait;
      else
        offset_ += std::max<std::int64_t>(wait, 0);
    }
  }
  std::int64_t stall() const { return offset_ - 1; }

 private:
  // For every address the lines that hold it, ascending: first_[a] … first_[a + 1] in lines_.
  void index_lines() {
    for (const std::int32_t a : order_) ++first_[static_cast<std::size_t>(a) + 1];
    for (std::size_t a = 1; a < first_.size(); ++a) first_[a] += first_[a - 1];
    std::vector<std::int32_t> next(first_.begin(), first_.end() - 1);
    lines_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      std::int32_t& slot = next[static_cast<std::size_t>(order_[i])];
      lines_[static_cast<std::size_t>(slot++)] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / line_words_);
    }
  }

  bool hit(std::int64_t address) const {
    const auto a = static_cast<std::size_t>(address);
    for (std::int32_t i = first_[a]; i < first_[a + 1]; ++i) {
      const std::int64_t line = lines_[static_cast<std::size_t>(i)];
      if (window_start_ < window_end_ ? line >= window_start_ && line < window_end_
                                      : line >= window_start_ || line < window_end_)
        return true;
    }
    return false;
  }

  void prefetch() {
    window_start_ = (window_start_ + prefetch_lines_) % line_count_;
    window_end_ = (window_start_ + active_lines_) % line_count_;
    const std::int64_t requests = ceil_div(prefetch_words_, bandwidth_);
    ready_ += requests + 1;
    reads_ += requests * bandwidth_;
  }

  std::int64_t active_words_, prefetch_words_, line_words_, bandwidth_;
  bool waits_twice_;
  std::vector<std::int32_t> order_, first_, lines_;
  std::int64_t fetched_ = 0, line_count_ = 0, active_lines_ = 0, prefetch_lines_ = 0;
  std::int64_t window_start_ = 0, window_end_ = 0;
  std::int64_t ready_ = -1;  // the cycle at which the last prefetch was complete
  std::int64_t initial_requests_ = 0, reads_ = 0, cycle_ = 0, offset_ = 1;
};

// An SRAM that collects words into lines as wide as the memory's port and drains half of itself once it is half full.
class WriteBuffer {
 public:
  explicit WriteBuffer(Scratchpad pad)
      : words_(pad.words), drain_words_(pad.words / 2), bandwidth_(pad.bandwidth), free_(pad.words) {}

  // Writes `count` words that arrive at `cycle`; returns when the last one is in.
  std::int64_t write(std::int64_t count, std::int64_t cycle) {
    std::int64_t now = cycle;
    for (std::int64_t i = 0; i < count; ++i) {
      store();
      if (now < drained_) {
        if (free_ <= 0) now = drained_;
      } else if (free_ < words_ - drain_words_) {
        close_line();
        drained_ = drain(now);
      }
    }
    return now;
  }

  void drain_all(std::int64_t cycle) {
    close_line();
    while (!lines_.empty()) {
      drained_ = drain(cycle);
      cycle = drained_ + 1;
    }
  }
  std::int64_t last_write() const { return last_write_; }
  std::int64_t writes() const { return writes_; }

 private:
  void store() {
    --free_;
    if (++filling_ == bandwidth_) close_line();
  }
  void close_line() {
    if (filling_ > 0) lines_.push_back(filling_);
    filling_ = 0;
  }
  // A line that was closed early counts in full unless it is the last of its batch: SCALE-Sim's way.
  std::int64_t drain(std::int64_t cycle) {
    const auto count = static_cast<std::size_t>(ceil_div(drain_words_, bandwidth_));
    const std::size_t taken = std::min(count, lines_.size());
    const std::int64_t words = (static_cast<std::int64_t>(taken) - 1) * bandwidth_ + lines_[taken - 1];
    lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(taken));
    free_ += words;
    writes_ += words;
    last_write_ = std::max(last_write_, cycle + static_cast<std::int64_t>(taken) - 1);
    return cycle + static_cast<std::int64_t>(taken) - 1;
  }

  std::int64_t words_, drain_words_, bandwidth_, free_;
  std::int64_t filling_ = 0, drained_ = 0, last_write_ = 0, writes_ = 0;
  std::deque<std::int64_t> lines_;  // words in each, of those not yet drained
};

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
      return input_error(fmt::format("expected a scratchpad of at least 2 words for {}, found {}", name, pad.words));
    if (pad.bandwidth < 1)
      return input_error(
          fmt::format("expected a bandwidth of at least 1 word a cycle for {}, found {}", name, pad.bandwidth));
    if (pad.words > max_requests || pad.bandwidth > max_requests)
      return input_error(fmt::format("expected at most {} words and words a cycle for {}, found {} and {}",
                                     max_requests, name, pad.words, pad.bandwidth));
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
