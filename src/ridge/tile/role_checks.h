// Compile-time errors for operations in the wrong function of a kernel. load, compute and store each receive an `at` of
// another type. OnlyLoads, OnlyMultiplies and OnlyStores add to such a type the operations of the other functions,
// which fail to compile with a message that names the right function.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

template <class...> inline constexpr bool is_allowed = false;

template <class Position> struct OnlyLoads : Position {
  template <class... X> TILE_FN void mma(X&&...) const {
    static_assert(is_allowed<X...>, "mma: multiplies belong in compute; load only requests tiles");
  }
  template <class... X> TILE_FN void store(X&&...) const {
    static_assert(is_allowed<X...>, "store: sums are stored in store; load only requests tiles");
  }
  template <class... X> TILE_FN void map(X&&...) const {
    static_assert(is_allowed<X...>, "map: sums are changed in compute and store; load only requests tiles");
  }
  template <class... X> TILE_FN void fold(X&&...) const {
    static_assert(is_allowed<X...>, "fold: sums are folded in store; load only requests tiles");
  }
  template <class... X> TILE_FN void wait_for_product(X&&...) const {
    static_assert(is_allowed<X...>, "wait_for_product: products belong in compute; load only requests tiles");
  }
};

template <class Position> struct OnlyMultiplies : Position {
  template <class... X> TILE_FN void load(X&&...) const {
    static_assert(is_allowed<X...>, "load: tiles are loaded in load, one stage earlier; compute only multiplies");
  }
  template <class... X> TILE_FN void store(X&&...) const {
    static_assert(is_allowed<X...>, "store: sums are stored in store, after the last stage; compute only multiplies");
  }
  template <class... X> TILE_FN void fold(X&&...) const {
    static_assert(is_allowed<X...>, "fold: columns are folded in store; compute has only map");
  }
};

template <class Position> struct OnlyStores : Position {
  template <class... X> TILE_FN void load(X&&...) const {
    static_assert(is_allowed<X...>, "load: tiles are loaded in load; store has no stage to load them into");
  }
  template <class... X> TILE_FN void mma(X&&...) const {
    static_assert(is_allowed<X...>, "mma: multiplies belong in compute; store has no stage to multiply");
  }
  template <class... X> TILE_FN void wait_for_product(X&&...) const {
    static_assert(is_allowed<X...>,
                  "wait_for_product: products have finished before store; only compute waits for them");
  }
};

}  // namespace ridge::tile
