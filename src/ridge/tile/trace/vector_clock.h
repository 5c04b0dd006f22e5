// A vector clock: for each thread the number of its last step that is known to have happened, and for each asynchronous
// operation a bit that is 1 if its end is known. [5 2 | 101] knows five steps of the first thread, two of the second,
// and the ends of two of three copies.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace ridge::tile::trace {

class VectorClock {
 public:
  static constexpr int max_words = 96;
  VectorClock() = default;
  VectorClock(int threads, int operations) : threads_(threads), words_(threads + (operations + 31) / 32) {}
  static bool fits_in(int threads, int operations) { return threads + (operations + 31) / 32 <= max_words; }

  void merge_clock(const VectorClock& o) {
    for (int i = 0; i < threads_; ++i) word_[i] = std::max(word_[i], o.word_[i]);
    for (int i = threads_; i < words_; ++i) word_[i] |= o.word_[i];
  }
  void advance_thread(int thread) { ++word_[thread]; }
  std::uint32_t step(int thread) const { return word_[thread]; }
  bool knows_step(int thread, std::uint32_t step) const { return word_[thread] >= step; }
  void learn_end(int operation) { word_[threads_ + operation / 32] |= 1U << (operation % 32); }
  bool knows_end(int operation) const { return word_[threads_ + operation / 32] >> (operation % 32) & 1; }

 private:
  int threads_ = 0, words_ = 0;
  std::array<std::uint32_t, max_words> word_{};
};

}  // namespace ridge::tile::trace
