// Tests of splits that wait for each other. Any of them may time out and give up its slice before the others have
// arrived; still each slice of the tile must be stored once, and the counters must be zero at the end. The other tests
// replace one operation of the protocol by a wrong one; the checker must report the kernel, the stage, the tile and the
// missing wait.
#include "ridge/tile/trace/split_operations.h"

#include <gtest/gtest.h>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record.h"

namespace ridge::tile::trace {
namespace {

using ops::Matmul, ops::MatmulConfig;

constexpr MatmulConfig one{.m = 64, .n = 64, .k = 64, .stages = 2, .consumers = 1};
constexpr MatmulConfig two{.m = 128, .n = 64, .k = 64, .stages = 3, .consumers = 2};
constexpr MatmulConfig pingpong{.m = 64, .n = 64, .k = 64, .stages = 3, .consumers = 2, .roles = Roles::pingpong};
constexpr MatmulConfig pair{.m = 128, .n = 64, .k = 64, .stages = 3, .consumers = 2, .cluster_m = 2};

template <MatmulConfig config, class Operations = SplitOperations> CheckResult check_matmul(int splits, int tiles = 1) {
  const ProductShape sizes{.m = tiles * config.m * config.cluster_m,
                           .n = config.n,
                           .k = config.k * 2 * splits,
                           .splits = splits,
                           .split_mode = SplitMode::cooperative_split_k};
  const int blocks = tiles * splits * config.cluster();
  return check_schedules(record_program<Matmul<config, Bf16, Bf16, Bf16>, Operations>(
      {.kernel = "matmul", .sizes = sizes, .blocks = blocks}));
}

TEST(SplitWait, AnySubsetOfWaitingSplitsMayGiveUp) {
  const CheckResult v = check_matmul<one>(4);
  EXPECT_EQ(v.first_error, "");
  EXPECT_EQ(v.gave_up.size(), 15U);  // all subsets of four splits but the full one: the last to arrive does not wait
  for (const auto& [threads, schedules] : v.gave_up) EXPECT_GE(schedules, 5) << threads.size() << " gave up";
}
TEST(SplitWait, SplitsMayGiveUpInEveryConfig) {
  const CheckResult cooperative = check_matmul<two>(3), turns = check_matmul<pingpong>(3, 2),
                    clusters = check_matmul<pair>(2), most = check_matmul<one>(8);
  EXPECT_EQ(cooperative.first_error, "");
  EXPECT_GE(cooperative.gave_up.size(), 45U);  // of 49: 7 for each consumer
  EXPECT_EQ(turns.first_error, "");
  EXPECT_GT(turns.gave_up.size(), 20U);
  EXPECT_EQ(clusters.first_error, "");
  EXPECT_GT(clusters.gave_up.size(), 40U);
  EXPECT_EQ(most.first_error, "");
  EXPECT_GT(most.gave_up.size(), 100U);
}

// Returns the error of the changed operations. The error must occur in some schedules only.
template <class Operations> std::string error_found() {
  const CheckResult v = check_matmul<two, Operations>(3);
  EXPECT_GT(v.failed, 10);
  EXPECT_LT(v.failed, 1000);
  return v.first_error;
}
template <class Operations> std::string error_always_found() {
  const CheckResult v = check_matmul<two, Operations>(3);
  EXPECT_EQ(v.failed, 1000);
  return v.first_error;
}
constexpr bool is_give_up(std::uint32_t by) { return by >= one_skipped_slice; }

struct LastIgnoresGiveUps : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    const std::uint32_t before = SplitOperations::add_acquire_release(x, by);
    return is_give_up(by) ? before : before & (one_skipped_slice - 1);
  }
};
TEST(SplitWait, LastArrivalIgnoresSplitsThatGaveUp) {
  EXPECT_EQ(error_found<LastIgnoresGiveUps>(),
            "matmul: output at row 0, column 0 slice 1 of consumer 0: not stored when the kernel ends; missing: a "
            "check of block 0 consumer 0, after stage 1 of tile 0, for splits that gave up before it arrived last: "
            "block 1 consumer 0, after stage 3 of tile 0");
}

struct GivesUpWithoutCheck : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    const std::uint32_t before = SplitOperations::add_acquire_release(x, by);
    return is_give_up(by) ? 0 : before;
  }
};
TEST(SplitWait, GiveUpDoesNotCheckForAllArrivals) {
  EXPECT_EQ(
      error_found<GivesUpWithoutCheck>(),
      "matmul: output at row 0, column 0 slice 1 of consumer 1: not stored when the kernel ends; missing: a check "
      "of block 1 consumer 1, after stage 3 of tile 0, whether all splits have arrived when it gives up");
}

struct GivesUpAndStores : SplitOperations {
  std::uint32_t mine = 0;
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    mine = 1U << x.split;
    return SplitOperations::add_acquire_release(x, by);
  }
  void grant_slices(std::uint32_t shares) { SplitOperations::grant_slices(shares | mine); }
};
TEST(SplitWait, SplitStoresItsSliceAfterGivingUp) {
  EXPECT_EQ(error_found<GivesUpAndStores>(),
            "matmul: partial sums 0 of tile 0 part 0 (other threads): block 1 consumer 0 may not see what block 0 "
            "consumer 0 writes of tile 0; missing: a grant of zero for block 1 consumer 0, after stage 3 of tile 0: "
            "it gave up its slice to the split that arrives last");
}

struct LastStoresAll : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    const std::uint32_t before = SplitOperations::add_acquire_release(x, by);
    return is_give_up(by) ? before : before | 7 * one_skipped_slice;
  }
};
TEST(SplitWait, LastArrivalStoresAllSlices) {
  EXPECT_EQ(error_found<LastStoresAll>(),
            "matmul: output at row 0, column 0 slice 2 of consumer 0 (other threads): written by block 2 consumer 0 "
            "(stage 5 of tile 0) and by block 0 consumer 0 (stage 1 of tile 0); missing: a check for splits that "
            "gave up: block 2 consumer 0, after stage 5 of tile 0, has not");
}

struct GivesUpWithoutBit : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    return SplitOperations::add_acquire_release(x, is_give_up(by) ? 0 : by);
  }
};
TEST(SplitWait, GiveUpDoesNotSetItsBit) {
  EXPECT_EQ(error_found<GivesUpWithoutBit>(),
            "matmul: output at row 0, column 0 slice 1 of consumer 0: not stored when the kernel ends; missing: the "
            "bit of block 1 consumer 0, after stage 3 of tile 0, in the counter when it gives up its slice");
}

struct GivesUpWithoutDeparting : SplitOperations {
  bool stays = true;
  void grant_slices(std::uint32_t shares) {
    stays = shares != 0;
    SplitOperations::grant_slices(shares);
  }
  std::uint32_t add_relaxed(const WorkItem& x, std::uint32_t by) {
    return stays ? SplitOperations::add_relaxed(x, by) : 0;
  }
};
TEST(SplitWait, GiveUpDoesNotCountAsDeparture) {
  EXPECT_EQ(error_found<GivesUpWithoutDeparting>(),
            "matmul: counter of tile 0 part 0: 3 splits have arrived and 2 have departed when the kernel ends (gave "
            "up: block 1 consumer 0, after stage 3 of tile 0), expected 0; missing: the departure of block 1 "
            "consumer 0, after stage 3 of tile 0");
}

struct NeverClears : SplitOperations {
  void clear_counter(const WorkItem&) {}
};
TEST(SplitWait, CounterIsNotReset) {
  EXPECT_EQ(error_always_found<NeverClears>(),
            "matmul: counter of tile 0 part 0: 3 splits have arrived and 3 have departed when the kernel ends (gave "
            "up: block 1 consumer 0, after stage 3 of tile 0), expected 0; missing: the reset by the split that "
            "departs last: block 0 consumer 0, after stage 1 of tile 0");
}

struct LastArrivalClears : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    const std::uint32_t before = SplitOperations::add_acquire_release(x, by);
    if (!is_give_up(by) && (before & count_mask) + 1 == static_cast<std::uint32_t>(x.splits))
      SplitOperations::clear_counter(x);
    return before;
  }
};
TEST(SplitWait, CounterIsResetWhileOthersReadIt) {
  EXPECT_EQ(error_found<LastArrivalClears>(),
            "matmul: counter of tile 0 part 0: 0 splits have arrived and 2 have departed when the kernel ends, "
            "expected 0; missing: a split that finds that it departs last, of tile 0");
}

struct NeverTimesOut : SplitOperations {
  bool have_all_arrived(const WorkItem& x) {
    return poll_counter(RecordedStepKind::poll, x.splits, MemoryOrder::acquire);
  }
};
TEST(SplitWait, WaitWithoutTimeoutDeadlocksOnABusyDevice) {
  EXPECT_EQ(error_found<NeverTimesOut>(),
            "matmul: deadlock: block 0 producer waits for a free multiprocessor, block 1 producer waits for a free "
            "multiprocessor, block 0 consumer 0 waits for a free multiprocessor, block 0 consumer 1 waits for a "
            "free multiprocessor, block 1 consumer 0 waits for a free multiprocessor, block 1 consumer 1 waits for "
            "a free multiprocessor, block 2 consumer 0 waits for counter of tile 0 part 0 (after stage 5 of tile "
            "0), block 2 consumer 1 waits for counter of tile 0 part 1 (after stage 5 of tile 0); missing: a timeout "
            "of block 2 consumer 0's wait: other blocks start only when its block has ended");
}

struct DoesNotWait : SplitOperations {
  bool have_all_arrived(const WorkItem&) { return true; }
};
TEST(SplitWait, PartialSumsAreReadBeforeAllSplitsArrive) {
  EXPECT_EQ(error_always_found<DoesNotWait>(),
            "matmul: partial sums 0 of tile 0 part 1 (other threads): block 1 consumer 1 may not see what block 0 "
            "consumer 1 writes of tile 0; missing: a wait of block 1 consumer 1 for the counter of tile 0 part 1");
}

struct PollsWithoutAcquire : SplitOperations {
  bool have_all_arrived(const WorkItem& x) {
    return poll_counter(RecordedStepKind::poll_until_timeout, x.splits, MemoryOrder::relaxed);
  }
};
TEST(SplitWait, PollWithoutAcquire) {
  EXPECT_EQ(
      error_found<PollsWithoutAcquire>(),
      "matmul: partial sums 0 of tile 0 part 1 (other threads): block 1 consumer 1 may not see what block 0 "
      "consumer 1 writes of tile 0; missing: an acquire where block 1 consumer 1 reads the counter of tile 0 part 1");
}

struct GivesUpWithoutAcquire : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    return is_give_up(by) ? add_to_counter(by, MemoryOrder::release) : SplitOperations::add_acquire_release(x, by);
  }
};
TEST(SplitWait, GiveUpAddWithoutAcquire) {
  EXPECT_EQ(
      error_found<GivesUpWithoutAcquire>(),
      "matmul: partial sums 2 of tile 0 part 1 (other threads): block 1 consumer 1 may not see what block 2 "
      "consumer 1 writes of tile 0; missing: an acquire where block 1 consumer 1 reads the counter of tile 0 part 1");
}

struct ArrivesWithoutRelease : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    return is_give_up(by) ? SplitOperations::add_acquire_release(x, by) : add_to_counter(by, MemoryOrder::acquire);
  }
};
TEST(SplitWait, ArrivalWithoutRelease) {
  EXPECT_EQ(
      error_found<ArrivesWithoutRelease>(),
      "matmul: partial sums 0 of tile 0 part 1 (other threads): block 1 consumer 1 may not see what block 0 "
      "consumer 1 writes of tile 0; missing: a release where block 0 consumer 1 adds to the counter of tile 0 part 1");
}

// Not an error: a split has released its sums when it arrived; a later add to the counter with any memory order does
// not undo that, and the split writes nothing more before it gives up.
struct GivesUpWithoutRelease : SplitOperations {
  std::uint32_t add_acquire_release(const WorkItem& x, std::uint32_t by) {
    return is_give_up(by) ? add_to_counter(by, MemoryOrder::acquire) : SplitOperations::add_acquire_release(x, by);
  }
};
TEST(SplitWait, GiveUpNeedsNoRelease) { EXPECT_EQ((check_matmul<two, GivesUpWithoutRelease>(3).first_error), ""); }

}  // namespace
}  // namespace ridge::tile::trace
