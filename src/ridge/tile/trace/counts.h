// What a kernel moves and multiplies, to the byte. The same text costs differently under another schedule: with tiles
// of 128 x 128 a product asks for M*K*ceil(N/128) + K*N*ceil(M/128) elements; a cluster of two blocks that share B asks
// for it half as often; a CPU that remembers what it has packed reads A once. So counts belong to a text and a schedule
// together, and are found by running the one under the other, not by a formula beside it.
//
// Levels, from far to near: memory (only where the schedule names the size of a cache) -> global (what is requested
// from beyond the chip's caches' near side) -> shared (tiles as they are filled) -> registers (as they are multiplied).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ridge/tile/tile.h"

namespace ridge::tile::trace {

// One view of the text's globals. Bytes; what lies outside the matrix costs nothing but room in a tile.
struct Moved {
  const void* view = nullptr;
  int element_bytes = 0;
  Index calls = 0;           // at.load or at.store
  Index asked_bytes = 0;     // by these calls
  Index global_bytes = 0;    // really requested: after sharing and remembering
  Index memory_bytes = 0;    // of these, what the schedule's cache did not hold; without a cache all
  Index shared_bytes = 0;    // tiles filled, whole
  Index register_bytes = 0;  // read from tiles by multiplies, whole
};

struct Counts {
  std::vector<Moved> loads, stores;  // in the order of their first call
  Index flops = 0;                   // 2 for each multiply-add inside the matrices
  Index issued_flops = 0;            // whole tiles, as the hardware multiplies them
  Index items = 0, stages = 0;       // work items, and fillings of a ring's slot
  Index partial_written_bytes = 0;   // sums of pieces of k, through memory
  Index partial_read_bytes = 0;

  // The view's row; a view that was never touched has zeros.
  Moved load(const void* view) const { return find(loads, view); }
  Moved store(const void* view) const { return find(stores, view); }

 private:
  static Moved find(const std::vector<Moved>& rows, const void* view) {
    for (const Moved& x : rows)
      if (x.view == view) return x;
    return {.view = view};
  }
};

// Register blocking of a multiply: a tile of A is read once for every `cols` columns, a tile of B once for every `rows`
// rows. Hopper: 64 rows of A an instruction, all columns (0: all).
struct RegisterBlock {
  Index rows = 64, cols = 0;
};

// How long a loaded tile is remembered, so that a second load of it moves nothing.
enum class Keep : std::uint8_t { no, newest, all };

// The least recently used boxes leave first. Counts by box: a box larger than the cache is never held.
class Cache {
 public:
  explicit Cache(Index bytes) : capacity_(bytes) {}
  using Key = std::tuple<const void*, Index, Index, Index>;  // view, batch, along, k
  bool holds(const Key& key, Index bytes);                   // and uses it

 private:
  Index capacity_ = 0, used_ = 0;
  std::list<std::pair<Key, Index>> order_;
  std::map<Key, std::list<std::pair<Key, Index>>::iterator> where_;
};

// A box as a role asks for it: rows `along` and columns `k` of a view, of which this block fetches `share`.
struct Asked {
  const Matrix* view = nullptr;
  int element_bytes = 0;
  Range along, k, share;
  Index batch = 0;
  bool is_left = true;  // along the output's rows
};

// Where the words of the text are counted.
class Meter {
 public:
  Meter(RegisterBlock block, Keep left, Keep right, Index cache_bytes)
      : block_(block), left_(left), right_(right), cache_(cache_bytes), has_cache_(cache_bytes > 0) {}

  Counts counts;

  void load(const Asked& x);
  void multiply(const Announced* a, int a_parts, const Announced* b, int b_parts);
  void store(const void* view, int element_bytes, Index rows, Index cols);
  void read(const Operand& x, Index rows, Index cols);  // by a store, straight to where the sums are
  // The same, and what a column of work items shares is remembered while they come one after the other.
  void read_with_column(const Operand& x, Index rows, Index cols, Index first_column);
  void forget() {
    kept_.clear();
    newest_.clear();
  }  // a new group of work items: nothing is remembered

 private:
  Moved& load_row(const void* view, int element_bytes);
  bool remembered(const Asked& x);

  RegisterBlock block_;
  Keep left_, right_;
  Cache cache_;
  bool has_cache_ = false;
  std::set<Cache::Key> kept_;
  std::map<const void*, Cache::Key> newest_;
};

// How much of `range` lies in 0 … limit.
constexpr Index inside(Range range, Index limit) {
  const Index begin = range.begin < 0 ? 0 : range.begin, end = range.end() < limit ? range.end() : limit;
  return end > begin ? end - begin : 0;
}

}  // namespace ridge::tile::trace
