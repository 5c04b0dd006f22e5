// The two kinds of double-buffered SRAM of scratchpad.h: one prefetches, one drains. At 10 words/cycle a 64 KiB SRAM
// prefetches its half of 32768 words in 3277 + 1 cycles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "ridge/base/ceil_div.h"
#include "ridge/simulate/scratchpad.h"

namespace ridge::simulate {

constexpr std::int64_t padding_address = -1;  // stands for a padded element, which is not stored in memory

// An SRAM that prefetches a fixed sequence of words cyclically, in lines of 1/100 of its size.
class ReadBuffer {
 public:
  ReadBuffer(Scratchpad pad, std::int64_t addresses, bool charges_waits_twice)
      : active_words_(ceil_div(pad.words, 2)),
        prefetch_words_(pad.words - active_words_),
        line_words_(ceil_div(pad.words, 100)),
        bandwidth_(pad.bandwidth),
        charges_waits_twice_(charges_waits_twice),
        prefetch_order_(),
        first_line_(static_cast<std::size_t>(addresses) + 1) {}

  // Appends a word to the prefetch order. Padding uses bandwidth but is not stored.
  void append_prefetch_word(std::int64_t address) {
    ++fetched_;
    if (address == padding_address) return;
    prefetch_order_.push_back(static_cast<std::int32_t>(address));
  }

  void finish_prefetch_order() {
    line_count_ = static_cast<std::int64_t>(prefetch_order_.size()) / line_words_ + 1;
    active_lines_ = std::min(line_count_, ceil_div(active_words_, line_words_));
    prefetch_lines_ = std::min(line_count_ - active_lines_, ceil_div(prefetch_words_, line_words_));
    window_end_ = active_lines_ % line_count_;
    initial_requests_ = std::min(ceil_div(active_words_, bandwidth_), ceil_div(fetched_, bandwidth_));
    words_read_ = initial_requests_ * bandwidth_;
    if (!always_hits()) index_lines();
    prefetch_order_ = {};
  }

  bool always_hits() const { return prefetch_lines_ == 0; }
  std::int64_t initial_requests() const { return initial_requests_; }
  std::int64_t words_read() const { return words_read_; }

  void begin_cycle(std::int64_t cycle) {
    cycle_ = cycle;
    access_cycles_ = 1;  // a hit takes a cycle
  }
  void request_word(std::int64_t address) {
    if (address == padding_address) return;
    while (!is_in_window(address)) {
      prefetch_half();
      const std::int64_t wait = prefetched_at_ - (cycle_ + access_cycles_);
      if (charges_waits_twice_)
        access_cycles_ += wait > 0 ? 2 * wait : wait;
      else
        access_cycles_ += std::max<std::int64_t>(wait, 0);
    }
  }
  std::int64_t stall_cycles() const { return access_cycles_ - 1; }

 private:
  // Builds the index from an address a to the lines that hold it, ascending: entries first_line_[a] to
  // first_line_[a + 1] of lines_.
  void index_lines() {
    for (const std::int32_t a : prefetch_order_) ++first_line_[static_cast<std::size_t>(a) + 1];
    for (std::size_t a = 1; a < first_line_.size(); ++a) first_line_[a] += first_line_[a - 1];
    std::vector<std::int32_t> next(first_line_.begin(), first_line_.end() - 1);
    lines_.resize(prefetch_order_.size());
    for (std::size_t i = 0; i < prefetch_order_.size(); ++i) {
      std::int32_t& slot = next[prefetch_order_[i]];
      lines_[slot++] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / line_words_);
    }
  }

  bool is_in_window(std::int64_t address) const {
    const std::size_t a = address;
    for (std::int32_t i = first_line_[a]; i < first_line_[a + 1]; ++i) {
      const std::int64_t line = lines_[i];
      if (window_start_ < window_end_ ? line >= window_start_ && line < window_end_
                                      : line >= window_start_ || line < window_end_)
        return true;
    }
    return false;
  }

  void prefetch_half() {
    window_start_ = (window_start_ + prefetch_lines_) % line_count_;
    window_end_ = (window_start_ + active_lines_) % line_count_;
    const std::int64_t requests = ceil_div(prefetch_words_, bandwidth_);
    prefetched_at_ += requests + 1;
    words_read_ += requests * bandwidth_;
  }

  std::int64_t active_words_, prefetch_words_, line_words_, bandwidth_;
  bool charges_waits_twice_;
  std::vector<std::int32_t> prefetch_order_, first_line_, lines_;
  std::int64_t fetched_ = 0, line_count_ = 0, active_lines_ = 0, prefetch_lines_ = 0;
  std::int64_t window_start_ = 0, window_end_ = 0;
  std::int64_t prefetched_at_ = -1;  // the cycle at which the last prefetch was complete
  std::int64_t initial_requests_ = 0, words_read_ = 0, cycle_ = 0, access_cycles_ = 1;
};

// An SRAM that collects words into lines as wide as the memory port and drains half of its size when it is half full.
class WriteBuffer {
 public:
  explicit WriteBuffer(Scratchpad pad)
      : words_(pad.words), drain_words_(pad.words / 2), bandwidth_(pad.bandwidth), free_words_(pad.words) {}

  // Writes `count` words that arrive at `cycle`. Returns the cycle at which the last one is stored.
  std::int64_t write_words(std::int64_t count, std::int64_t cycle) {
    std::int64_t now = cycle;
    for (std::int64_t i = 0; i < count; ++i) {
      store_word();
      if (now < drained_at_) {
        if (free_words_ <= 0) now = drained_at_;
      } else if (free_words_ < words_ - drain_words_) {
        close_line();
        drained_at_ = drain_half(now);
      }
    }
    return now;
  }

  void drain_all(std::int64_t cycle) {
    close_line();
    while (!lines_.empty()) {
      drained_at_ = drain_half(cycle);
      cycle = drained_at_ + 1;
    }
  }
  std::int64_t last_write_cycle() const { return last_write_cycle_; }
  std::int64_t words_written() const { return words_written_; }

 private:
  void store_word() {
    --free_words_;
    if (++open_line_words_ == bandwidth_) close_line();
  }
  void close_line() {
    if (open_line_words_ > 0) lines_.push_back(open_line_words_);
    open_line_words_ = 0;
  }
  // Returns the cycle of the last line. As in SCALE-Sim, a partial line counts as full unless it is the batch's last.
  std::int64_t drain_half(std::int64_t cycle) {
    const std::size_t count = ceil_div(drain_words_, bandwidth_);
    const std::size_t drained_lines = std::min(count, lines_.size());
    const std::int64_t words = (static_cast<std::int64_t>(drained_lines) - 1) * bandwidth_ + lines_[drained_lines - 1];
    lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(drained_lines));
    free_words_ += words;
    words_written_ += words;
    last_write_cycle_ = std::max(last_write_cycle_, cycle + static_cast<std::int64_t>(drained_lines) - 1);
    return cycle + static_cast<std::int64_t>(drained_lines) - 1;
  }

  std::int64_t words_, drain_words_, bandwidth_, free_words_;
  std::int64_t open_line_words_ = 0, drained_at_ = 0, last_write_cycle_ = 0, words_written_ = 0;
  std::deque<std::int64_t> lines_;  // number of words in each line to drain
};

}  // namespace ridge::simulate
