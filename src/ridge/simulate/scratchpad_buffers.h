// The two kinds of SRAM that scratchpad.h walks: one that prefetches, one that drains. Half of each works while the
// other half is filled or emptied: 64 KiB at 10 words a cycle prefetches its half of 32768 words in 3277 cycles and one
// more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "ridge/simulate/scratchpad.h"

namespace ridge::scratchpad {

constexpr std::int64_t nothing = -1;  // the address of a padded element

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

}  // namespace ridge::scratchpad
