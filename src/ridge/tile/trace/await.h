// Operations by which concurrent splits of a tile wait for each other (`wait_for_splits`, ring.h). Each is a step, so
// that the checker can run steps of other blocks between any two, and can let any wait time out.
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/trace/protocol.h"

namespace ridge::tile::trace {


struct Awaiting {
  Asking& asking;
  int counter, flag;  // `flag` is the cell by which a group's first thread sends the grant to the others

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
