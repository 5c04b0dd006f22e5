// A worker packs tiles into panels and multiplies the panels, for one thread of a product. Panels of A are packed once
// for a group of rows and shared by the threads of the group's team. A stage of B is packed into a slot of the worker
// and used for every row block before the next stage replaces it.
#pragma once

#include <atomic>
#include <cstddef>

#include "ridge/tile/cpu/schedule.h"

namespace ridge::tile::cpu {

struct Team {  // data shared by the workers of one group of rows
  MatmulSizes problem;
  CpuSchedule schedule;
  MatmulOperands operands;
  Index batch = 0;
  Range rows;                                          // rows of the group
  Unit* left = nullptr;                                // packed A by block and panel, see Engine::left_packers
  std::atomic<unsigned char>* packed_state = nullptr;  // by panel and stage of A: 0 unpacked, 1 in progress, 2 packed
  Index panels = 0;                                    // panels in the largest row block
};

struct SumsTarget {  // destination of a product
  void* data = nullptr;
  Index stride = 0;
  bool accumulate = false;
  Bf16* rounded = nullptr;  // if not null, the sums are complete, and are rounded and stored here
  Index rounded_stride = 0;
};

struct NextItem {  // operands of the next work item, to prefetch; null or empty if unknown
  const Matrix* right = nullptr;
  Range k, columns;
  Index row_block = -1, stage = 0;
};

// Pack B ([n, k]) for Matrix::prepacked, into panels of e.cols columns over all of k.
std::size_t prepacked_bytes(const Matrix& b, const Engine& e);
void prepack_right(const Matrix& b, const Engine& e, int bytes, void* out);

class Worker {
 public:
  explicit Worker(const Team& team) : team_(team) {}
  ~Worker();  // releases AMX tiles and fences non-temporal stores
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Position in the schedule, set before each work item.
  Index row_block = 0, stage = 0;
  Index panels = 0, panels_remaining = 0;  // panels of A to multiply with this stage of B: all, and remaining
  NextItem next;

  // Multiplies a stage of A and B. `right_part` is the index of the matrix in the tile of the right operand.
  void multiply_operands(const SumsTarget& sums, const RecordedLoad& a, const RecordedLoad& b, int right_part = 0);

 private:
  void multiply_skinny(const SumsTarget& sums, const RecordedLoad& a, const RecordedLoad& b);
  void multiply_skinny_computed(const SkinnyArgs& args, const RecordedLoad& b) const;
  const Unit* ensure_left_packed(const RecordedLoad& a, Index panel, Range rows);
  Unit* packed_left(Index row, Index rows, Index k, Index k_stage) const;
  std::atomic<unsigned char>& panel_state(Index block, Index panel, Index k_stage) const {
    return team_.packed_state[(block * team_.panels + panel) * team_.schedule.stages + k_stage];
  }
  struct RightPanels {
    const Unit* data = nullptr;
    Index panel = 0, stride = 0;     // units between panels, between steps
    const Index* offsets = nullptr;  // if not null, offsets of the steps (BlockArgs::b_offsets)
    Unit* packed_out = nullptr;      // buffer into which the register block packs the panels, or null
  };
  struct RightSlot {  // the packed stage of a right operand
    Unit* data = nullptr;
    const Matrix* matrix = nullptr;
    const Index* offsets = nullptr;  // offsets of the steps, or null if the stage is packed
    Index k = -1, column = -1;
  };
  bool place_right(const RecordedLoad& b, RightSlot& slot) const;
  RightPanels prepare_right_panels(const RecordedLoad& b, int right_part);
  void pack_right(const RecordedLoad& b, Unit* out) const;
  void pack_computed_rows(const RecordedLoad& b, Unit* out) const;
  void pack_computed_columns(const RecordedLoad& b, Unit* out) const;
  struct LeftPanel {  // panel `index` of the `count` panels of a load of A
    const RecordedLoad& load;
    Index index, count;
  };
  void multiply_column_panels(BlockArgs& block, const RightPanels& from, const SumsTarget& sums, Index columns,
                              const LeftPanel& left);
  void prefetch_left(BlockArgs& block, const LeftPanel& current, Index from) const;
  void prefetch_right(BlockArgs& block, Index panel, Index column) const;

  const Team& team_;
  int shape_ = 0;              // current tile configuration, see BlockArgs::tile_shape
  bool has_streamed_ = false;  // true if non-temporal stores need a fence
  RightSlot slots_[2];
};

}  // namespace ridge::tile::cpu
