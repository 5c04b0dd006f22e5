// A collective of few bytes between devices that reach each other's memory, as one kernel (device/small_messages.h).
#pragma once

#include <memory>
#include <vector>

#include "ridge/device/small_messages.h"
#include "ridge/measure/ranks/reach.h"

namespace ridge::ranks {

// What is said to each: `bytes` from `from` + place * apart; added up in `to`, or laid there one behind the other.
struct SmallWords {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0, apart = 0;
  bool sums = false;
  DType dtype = DType::f32;
};

class SmallMover {
 public:
  // The most that is tried: a room is 2 * ranks times as large.
  static constexpr std::int64_t most_bytes = std::int64_t{4} << 20;
  // Between `group`, this rank among them, up to so many bytes. To be called by all ranks at once, whatever their
  // group. Null: more bytes, or more ranks, than rooms are made for.
  static Result<std::unique_ptr<SmallMover>> make(Reach& reach, const std::vector<int>& group, std::int64_t bytes);
  Status queue(const ops::cuda::Queue& queue, const SmallWords& words) const;

 private:
  explicit SmallMover(ops::cuda::Memory room) : room_(std::move(room)) {}
  ops::cuda::Memory room_;  // behind it the calls of this rank
  ops::cuda::SmallRoom shape_;
  ops::cuda::SmallMessage message_;
};

}  // namespace ridge::ranks
