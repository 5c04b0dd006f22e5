// How the pieces of a tile that run at once wait for each other (Cuts::gathered), and what becomes of the share of one
// that does not wait to the end. The steps are those of Consuming::await_pieces (target/sm90/run.h), which has why;
// here they are asked for one by one, so that the checker may put what other blocks do between any two, and let any of
// those who wait give up.
#pragma once

#include "ridge/tile/target/trace/protocol.h"
#include "ridge/tile/walk.h"

namespace ridge::tile::trace {

// The parts of a tile's counter: the pieces that have come, those that have gone, a bit for each that has left its
// share.
inline constexpr std::uint32_t one_come = 1, one_gone = 1 << 8, one_left = 1 << 16, count_mask = 255;

// The words of the text, each a step.
struct Awaiting {
  Asking& asking;
  int counter, flag;  // flag: the cell through which a group's first thread tells the others

  std::uint32_t add_acquire_release(const Item&, std::uint32_t by) { return add(by, Order::acquire_release); }
  std::uint32_t add_relaxed(const Item&, std::uint32_t by) { return add(by, Order::relaxed); }
  bool all_come(const Item& item) { return poll(Do::poll_awhile, item.pieces, Order::acquire); }
  void tell(std::uint32_t shares) { asking.ask({.what = Do::tell, .object = flag, .amount = shares}); }
  void clear(const Item&) { asking.ask({.what = Do::clear, .object = counter}); }

  std::uint32_t add(std::uint32_t by, Order order) {
    return static_cast<std::uint32_t>(asking.ask({.what = Do::add, .object = counter, .by = by, .order = order}));
  }
  bool poll(Do what, int pieces, Order order) {
    return asking.ask({.what = what, .object = counter, .other = count_mask, .amount = pieces, .order = order}) != 0;
  }
};

template <class On> void await_pieces(On& on, const Item& item) {
  const std::uint32_t pieces = item.pieces, mine = 1U << item.piece, before = on.add_acquire_release(item, one_come);
  std::uint32_t told = mine;
  if ((before & count_mask) + 1 == pieces)
    told |= before / one_left;
  else if (!on.all_come(item) && (on.add_acquire_release(item, mine * one_left) & count_mask) != pieces)
    told = 0;
  on.tell(told);
  if ((on.add_relaxed(item, one_gone) / one_gone & count_mask) + 1 == pieces) on.clear(item);
}

}  // namespace ridge::tile::trace
