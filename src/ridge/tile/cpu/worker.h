// One thread's part of a product: turns announced tiles into packed panels (once, remembered) and panels into sums.
// Left operands are packed for all row blocks of a group and shared by the threads of a team; a stage of a right
// operand is packed into a slot of the worker's own and serves every row block before the next replaces it.
#pragma once

#include <atomic>
#include <cstddef>

#include "ridge/tile/cpu/schedule.h"

namespace ridge::tile::cpu {

struct Team {  // what the workers of one group share
  Problem problem;
  Schedule schedule;
  Operands operands;
  Index batch = 0;
  Range rows;            // of the group
  Unit* left = nullptr;  // packed: block after block, panel after panel, as Engine::left packs them
  std::atomic<unsigned char>* done = nullptr;  // by panel and stage: 0 no, 1 somebody packs it, 2 packed
  Index panels = 0;                            // in the largest row block
};

struct Sums {  // where a product goes
  void* data = nullptr;
  Index stride = 0;
  bool add = false;
};

struct Upcoming {  // what the schedule will multiply next, for the prefetcher; null or empty: nothing is known
  const Matrix* right = nullptr;
  Range k, columns;
  Index row_block = -1, stage = 0;
};

// A right operand ([n, k]) in the order of its engine, for Matrix::prepacked: panels of e.cols columns, each whole in
// k.
std::size_t prepacked_bytes(const Matrix& b, const Engine& e);
void prepack(const Matrix& b, const Engine& e, int bytes, void* out);

class Worker {
 public:
  explicit Worker(const Team& team) : team_(team) {}
  ~Worker();  // what was streamed past the caches is visible from here on
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The place in the schedule, set before each work item.
  Index row_block = 0, stage = 0;
  Index panels = 0, panels_left = 0;  // of A: that pass over this stage of B, and how many have not yet
  Upcoming next;

  // `part`: of the right operand's tile.
  void multiply(const Sums& sums, const Announced& a, const Announced& b, int part = 0);

 private:
  void multiply_thin(const Sums& sums, const Announced& a, const Announced& b);
  const Unit* left(const Announced& a, Index panel, Range rows);
  Unit* packed_left(Index row, Index rows, Index k, Index k_stage) const;
  std::atomic<unsigned char>& done(Index block, Index panel, Index k_stage) const {
    return team_.done[(block * team_.panels + panel) * team_.schedule.stages + k_stage];
  }
  struct RightPanels {
    const Unit* data = nullptr;
    Index panel = 0, stride = 0;  // units from panel to panel, from step to step
    Unit* keep = nullptr;         // where the block is to leave them packed
  };
  RightPanels right(const Announced& b, int part);
  void pack_right(const Announced& b, Unit* out) const;
  void prefetch_left(Block& block, Index panel, Index count, const Announced& a, Index from) const;
  void prefetch_right(Block& block, Index panel, Index column) const;

  const Team& team_;
  int shape_ = 0;  // Block::shape
  bool streamed_ = false;
  struct Slot {  // what of a right operand is packed
    Unit* data = nullptr;
    const Matrix* matrix = nullptr;
    Index k = -1, column = -1;
  };
  Slot slots_[2];
};

}  // namespace ridge::tile::cpu
