// What a role may not say, in words: a target's `at` has another type in load, compute and store, and whoever uses a
// word of another role reads why it is not there. `OnlyLoads<Position>` is a Position with the other roles' words
// refused.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

template <class...> inline constexpr bool refused = false;

template <class Position> struct OnlyLoads : Position {
  template <class... X> TILE_FN void mma(X&&...) const {
    static_assert(refused<X...>, "mma: multiplies belong in compute; load only asks for tiles");
  }
  template <class... X> TILE_FN void store(X&&...) const {
    static_assert(refused<X...>, "store: sums leave in store; load only asks for tiles");
  }
  template <class... X> TILE_FN void map(X&&...) const {
    static_assert(refused<X...>, "map: sums are worked on in compute and store; load only asks for tiles");
  }
  template <class... X> TILE_FN void fold(X&&...) const {
    static_assert(refused<X...>, "fold: sums are worked on in store; load only asks for tiles");
  }
  template <class... X> TILE_FN void settle(X&&...) const {
    static_assert(refused<X...>, "settle: products belong in compute; load only asks for tiles");
  }
};

template <class Position> struct OnlyMultiplies : Position {
  template <class... X> TILE_FN void load(X&&...) const {
    static_assert(refused<X...>, "load: tiles are asked for in load, one stage ahead; compute only multiplies");
  }
  template <class... X> TILE_FN void store(X&&...) const {
    static_assert(refused<X...>,
                  "store: sums leave in store, when all stages have been added; compute only multiplies");
  }
  template <class... X> TILE_FN void fold(X&&...) const {
    static_assert(refused<X...>, "fold: pairs of columns become one on their way out, in store; compute has only map");
  }
};

template <class Position> struct OnlyStores : Position {
  template <class... X> TILE_FN void load(X&&...) const {
    static_assert(refused<X...>, "load: tiles are asked for in load; in store there is no stage left to hold them");
  }
  template <class... X> TILE_FN void mma(X&&...) const {
    static_assert(refused<X...>, "mma: multiplies belong in compute; in store there is no stage left to multiply");
  }
  template <class... X> TILE_FN void settle(X&&...) const {
    static_assert(refused<X...>, "settle: in store all products are finished; only compute has to wait for its own");
  }
};

}  // namespace ridge::tile
