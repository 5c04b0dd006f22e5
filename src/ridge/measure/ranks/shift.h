// Redistribution of a tensor in host memory, by messages between ranks.
#pragma once

#include <vector>

#include "ridge/measure/ranks/route.h"

namespace ridge::ranks {

class Mover {
 public:
  explicit Mover(Route route) : route_(std::move(route)) {}
  const Route& route() const { return route_; }

  // Collective call. `from` and `to` are the rank's shards before and after the redistribution.
  Status perform(transport::Ranks& ranks, const std::byte* from, std::byte* to);

 private:
  void unpack(std::byte* to);
  void add_up(std::byte* to);

  Route route_;
  std::vector<std::byte> staging_;  // allocated by the first call
};

// Copies a box from the memory of `block` to contiguous memory, and back.
void pack(const std::byte* from, const Block& block, const Block& box, std::int64_t width, std::byte* to);
void unpack(const std::byte* from, const Block& box, const Block& block, std::int64_t width, std::byte* to);

}  // namespace ridge::ranks
