// A move of memory of this process, through its ranks.
#pragma once

#include <vector>

#include "ridge/measure/ranks/route.h"

namespace ridge::ranks {

class Mover {
 public:
  explicit Mover(Route route) : route_(std::move(route)) {}
  const Route& route() const { return route_; }

  // `from` and `to` hold the device's parts, before and after.
  Status perform(transport::Ranks& ranks, const std::byte* from, std::byte* to);

 private:
  void unpack(std::byte* to);
  void add_up(std::byte* to);

  Route route_;
  std::vector<std::byte> staging_;  // from the first time on
};

// Copies a box out of the memory of `block`, densely, and back.
void pack(const std::byte* from, const Block& block, const Block& box, std::int64_t width, std::byte* to);
void unpack(const std::byte* from, const Block& box, const Block& block, std::int64_t width, std::byte* to);

}  // namespace ridge::ranks
