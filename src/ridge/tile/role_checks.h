// Compile-time errors for operations in the wrong function of a kernel. load, compute and store each receive an `at` of
// another type. OnlyLoads, OnlyMultiplies and OnlyStores add to such a type the operations of the other functions,
// which fail to compile with a message that names the right function.
#pragma once

#include <type_traits>

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

// Checks the shapes of what a loader of a host target loads, then calls its `load_rows`.
template <class Loader, class Position> struct CheckedLoads : OnlyLoads<Position> {
  template <class Tile, class Box, class Along, bool is_constant, class Where>
  void load(Tile& tile, const GlobalView<Box, Along, is_constant>& view, Where where, Range k) const {
    static_assert(std::is_same_v<Along, Where>,
                  "load: a view along rows is loaded at a row, one along columns at a column");
    load(rows<0, Tile::rows>(tile), view, where, k);
  }
  template <int first, int count, class Tile, class Box, class Along, bool is_constant>
  void load(TileRows<first, count, Tile> part, const GlobalView<Box, Along, is_constant>& view, Along where,
            Range k) const {
    static_assert(Box::rows == count && Box::cols == Tile::cols,
                  "load: a view is loaded into a tile of its own shape, or into as many rows of one");
    static_cast<const Loader&>(*this).load_rows(part, view, where, k);
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
