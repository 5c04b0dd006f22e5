// The words with which the pieces of a tile that run at once wait for each other (await_splits, ring.h), asked for one
// by one, so that the checker may put what other blocks do between any two, and let any of those who wait give up.
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/trace/protocol.h"

namespace ridge::tile::trace {

// Each is a step.
struct Awaiting {
  Asking& asking;
  int counter, flag;  // flag: the cell through which a group's first thread tells the others

  std::uint32_t add_acquire_release(const Item&, std::uint32_t by) { return add(by, Order::acquire_release); }
  std::uint32_t add_relaxed(const Item&, std::uint32_t by) { return add(by, Order::relaxed); }
  bool all_arrived(const Item& item) { return poll(Do::poll_awhile, item.splits, Order::acquire); }
  void grant(std::uint32_t shares) { asking.ask({.what = Do::grant, .object = flag, .amount = shares}); }
  void clear(const Item&) { asking.ask({.what = Do::clear, .object = counter}); }

  std::uint32_t add(std::uint32_t by, Order order) {
    return static_cast<std::uint32_t>(asking.ask({.what = Do::add, .object = counter, .by = by, .order = order}));
  }
  bool poll(Do what, int splits, Order order) {
    return asking.ask({.what = what, .object = counter, .other = count_mask, .amount = splits, .order = order}) != 0;
  }
};

}  // namespace ridge::tile::trace
