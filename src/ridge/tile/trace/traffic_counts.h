// Exact counts of a kernel's traffic and multiplications. They depend on the schedule: with tiles of 128 x 128 a
// product loads M*K*ceil(N/128) + K*N*ceil(M/128) elements; a cluster of two blocks that share B loads B half as often;
// a CPU that keeps its packed panels reads A once. So a kernel is counted by running it under a schedule, not by a
// separate formula.
//
// Levels of the hierarchy: memory (only if the schedule has a cache size) -> global (requests of the blocks to the
// cache) -> shared (tiles as they are filled) -> registers (tiles as they are multiplied).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ridge/tile/tile.h"

namespace ridge::tile::trace {

// Traffic of one view of a kernel's globals. Elements outside the matrix count only in the last two members.
struct ViewTraffic {
  const void* view = nullptr;
  int element_bytes = 0;
  Index calls = 0;            // calls of at.load or at.store
  Index requested_bytes = 0;  // bytes that these calls name
  Index global_bytes = 0;     // bytes requested, without those that other blocks load or that are still packed
  Index memory_bytes = 0;     // global_bytes that miss the schedule's cache; all of them without a cache
  Index shared_bytes = 0;     // full size of the tiles that are filled
  Index register_bytes = 0;   // bytes that multiplies read from tiles, with elements outside the matrix
};

struct TrafficCounts {
  std::vector<ViewTraffic> loads, stores;  // in the order of their first call
  Index flops = 0;                         // 2 for each multiply-add inside the matrices
  Index issued_flops = 0;                  // the same for full tiles, as the hardware multiplies them
  Index items = 0, stages = 0;             // work items, and stages that are loaded
  Index partial_written_bytes = 0;         // partial sums of splits of k, through memory
  Index partial_read_bytes = 0;

  // Returns the traffic of a view; all zeros if the kernel does not use it.
  ViewTraffic load(const void* view) const { return find(loads, view); }
  ViewTraffic store(const void* view) const { return find(stores, view); }

 private:
  static ViewTraffic find(const std::vector<ViewTraffic>& rows, const void* view) {
    for (const ViewTraffic& x : rows)
      if (x.view == view) return x;
    return {.view = view};
  }
};

// Register blocking of a multiply: a tile of A is read once for every `cols` columns (0: all), a tile of B once for
// every `rows` rows. On Hopper an instruction has 64 rows of A and all columns.
struct RegisterBlock {
  Index rows = 64, cols = 0;
};

// Selects the loaded tiles that a target keeps. Loading a kept tile again causes no traffic.
enum class Retention : std::uint8_t { no, newest, all };

// LRU cache of boxes. A box larger than the cache is never stored.
class Cache {
 public:
  explicit Cache(Index bytes) : capacity_(bytes) {}
  using Key = std::tuple<const void*, Index, Index, Index>;  // view, batch, along, k
  bool find_or_insert(const Key& key, Index bytes);          // Returns true on a hit; on a miss, inserts the box.

 private:
  Index capacity_ = 0, used_ = 0;
  std::list<std::pair<Key, Index>> order_;
  std::map<Key, std::list<std::pair<Key, Index>>::iterator> where_;
};

// A requested box: rows `along` and columns `k` of a view, of which this block loads the rows `share`.
struct BoxLoad {
  const Matrix* view = nullptr;
  int element_bytes = 0;
  Range along, k, share;
  Index batch = 0;
  bool is_left = true;  // true if its rows are the output's rows
};

// Counts the operations of a kernel.
class TrafficCounter {
 public:
  TrafficCounter(RegisterBlock block, Retention left, Retention right, Index cache_bytes)
      : block_(block), left_(left), right_(right), cache_(cache_bytes), has_cache_(cache_bytes > 0) {}

  TrafficCounts counts;

  void load(const BoxLoad& x);
  void count_multiply(const RecordedLoad* a, int a_parts, const RecordedLoad* b, int b_parts);
  void store(const void* view, int element_bytes, Index rows, Index cols);
  void count_read(const EpilogueInput& x, Index rows, Index cols);  // counts an operand that an epilogue reads
  // Counts an operand that an epilogue reads, but only once if consecutive work items of a column share the operand.
  void count_column_read(const EpilogueInput& x, Index rows, Index cols, Index first_column);
  void forget_tiles() {
    kept_.clear();
    newest_.clear();
  }  // called before each new group of work items

 private:
  ViewTraffic& find_load_traffic(const void* view, int element_bytes);
  bool mark_kept(const BoxLoad& x);  // Returns true if the target has kept this tile since an earlier load.

  RegisterBlock block_;
  Retention left_, right_;
  Cache cache_;
  bool has_cache_ = false;
  std::set<Cache::Key> kept_;
  std::map<const void*, Cache::Key> newest_;
};

// Returns the size of the part of `range` inside 0 … limit.
constexpr Index size_inside(Range range, Index limit) {
  const Index begin = range.begin < 0 ? 0 : range.begin, end = range.end() < limit ? range.end() : limit;
  return end > begin ? end - begin : 0;
}

}  // namespace ridge::tile::trace
