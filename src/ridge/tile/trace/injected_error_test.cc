// Each test injects one error into the recorded program of a correct kernel, as found in other systems (a reused slot,
// a barrier dropped by a compiler, a missing fence, a counter that is polled without acquire). The checker must report
// it under each of a thousand schedules, by a sentence that names the kernel, the stage, the tile and the missing wait.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record.h"

namespace ridge::tile::trace {
namespace {

using ops::Matmul, ops::MatmulConfig;

constexpr MatmulConfig cooperative{.m = 128, .n = 128, .k = 64, .stages = 3, .consumers = 2};
constexpr MatmulConfig pingpong{.m = 128, .n = 128, .k = 64, .stages = 3, .consumers = 2, .roles = Roles::pingpong};
constexpr MatmulConfig pair{.m = 128, .n = 128, .k = 64, .stages = 3, .consumers = 2, .cluster_m = 2};

constexpr MatmulConfig scaled{
    .m = 128, .n = 128, .k = 128, .stages = 3, .consumers = 2, .adds_pieces = true, .scales_blocks = true};

template <MatmulConfig config> RecordedProgram recorded(ProductShape sizes, int blocks = 1) {
  return record_program<Matmul<config, Bf16, Bf16, Bf16>>({.kernel = "matmul", .sizes = sizes, .blocks = blocks});
}

using StepPredicate = std::function<bool(const RecordedProgram&, const RecordedThread&, std::size_t step)>;

// Returns the program without some of its steps.
RecordedProgram drop_steps(RecordedProgram p, const StepPredicate& is_dropped) {
  int dropped = 0;
  const RecordedProgram whole = p;
  for (std::size_t t = 0; t < p.threads.size(); ++t) {
    const RecordedThread& from = whole.threads[t];
    std::vector<RecordedStep>& steps = p.threads[t].steps;
    steps.clear();
    for (std::size_t i = 0; i < from.steps.size(); ++i) {
      if (is_dropped(whole, from, i))
        ++dropped;
      else
        steps.push_back(from.steps[i]);
    }
  }
  EXPECT_GT(dropped, 0) << "no step was dropped";
  return p;
}
RecordedProgram drop_steps(const RecordedProgram& p, RecordedStepKind what) {
  return drop_steps(
      p, [what](const RecordedProgram&, const RecordedThread& t, std::size_t i) { return t.steps[i].what == what; });
}
bool ends_with(const std::string& s, const std::string& end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}
bool is_step_at_barrier(const RecordedProgram& p, const RecordedStep& s, RecordedStepKind what,
                        const std::string& end) {
  return s.what == what && ends_with(p.barriers[s.object].name, end);
}

// Returns the error of the first of a thousand schedules; the checker must find an error in each of them.
std::string error_found(const RecordedProgram& clean, const RecordedProgram& faulty) {
  EXPECT_EQ(check_schedules(clean, 200).first_error, "");
  const CheckResult v = check_schedules(faulty);
  EXPECT_EQ(v.failed, 1000);
  return v.first_error;
}

const ProductShape two_tiles{.m = 256, .n = 128, .k = 320};

TEST(InjectedError, ASlotIsReusedBeforeItsRelease) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
                                            return is_step_at_barrier(p, t.steps[i], RecordedStepKind::wait, "empty");
                                          })),
            "matmul: slot 0 tile a: the copy for stage 3 of tile 0 races with the copy for stage 0 of tile 0; "
            "missing: the producer's wait for the slot to be released");
}

TEST(InjectedError, ReleaseBeforeTheMultiplyHasFinished) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  RecordedProgram faulty = clean;
  for (RecordedThread& t : faulty.threads)
    for (std::size_t i = 1; i < t.steps.size(); ++i)
      if (t.steps[i].what == RecordedStepKind::arrive && t.steps[i - 1].what == RecordedStepKind::wait_multiply)
        std::swap(t.steps[i], t.steps[i - 1]);
  EXPECT_EQ(error_found(clean, faulty),
            "matmul: slot 0 tile a: the copy for stage 3 of tile 0 overwrites stage 0 of tile 0 while the multiply "
            "of consumer 1 may still read it; missing: consumer 1's wait for its multiply before it releases the "
            "slot");
}

TEST(InjectedError, NoWaitForFull) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
                                            return is_step_at_barrier(p, t.steps[i], RecordedStepKind::wait, "full");
                                          })),
            "matmul: slot 0 tile a: the multiply of consumer 1 may read stage 0 of tile 0 before its copy "
            "has arrived; missing: consumer 1's wait for the slot to be full");
}

// Returns the error of two tiles of 9 blocks of k without some steps. Their scales take each of two buffers three
// times.
std::string error_without_scale_steps(const StepPredicate& is_dropped) {
  const RecordedProgram clean = record_program<Matmul<scaled, E4m3, E4m3, Bf16>>(
      {.kernel = "matmul", .sizes = {.m = 256, .n = 128, .k = 9 * 128}});
  return error_found(clean, drop_steps(clean, is_dropped));
}
StepPredicate is_at_scales(RecordedStepKind what, const std::string& end) {
  return [what, end](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
    return t.steps[i].what == what && is_step_at_barrier(p, t.steps[i], what, end) &&
           p.barriers[t.steps[i].object].name.rfind("scales", 0) == 0;
  };
}

TEST(InjectedError, ABufferOfScalesIsUsedWithoutItsBarriers) {
  EXPECT_EQ(error_without_scale_steps(is_at_scales(RecordedStepKind::wait, "empty")),
            "matmul: scales 0: those for stage 8 of tile 0 overwrite those for stage 0 of tile 0 while consumer 0 may "
            "still read them; missing: its release of the buffer, or the scale loader's wait for it");
  EXPECT_EQ(error_without_scale_steps(is_at_scales(RecordedStepKind::wait, "full")),
            "matmul: scales 0: consumer 0 may read those for stage 0 of tile 0 before they are stored; missing: its "
            "wait for the buffer to be full, or the scale loader's barrier");
  const StepPredicate releases = is_at_scales(RecordedStepKind::arrive, "empty");
  EXPECT_EQ(
      error_without_scale_steps([&](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
        return t.group == 1 && !t.leads && releases(p, t, i);
      }),
      "matmul: deadlock: producer waits for slot 2 empty (after stage 1 of tile 1), scale loader waits for "
      "scales 0 empty (after stage 8 of tile 0), scale loader waits for scales 0 empty (after stage 8 of tile 0), "
      "consumer 0 waits for scales 0 full (after stage 7 of tile 0), consumer 1 waits for scales 0 full (after "
      "stage 7 of tile 0); missing: 2 of 2 arrivals at slot 2 empty");
  EXPECT_EQ(error_without_scale_steps([](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
              return t.steps[i].what == RecordedStepKind::sync &&
                     ends_with(p.named_barriers[t.steps[i].object], "scale loader");
            }),
            "matmul: scales 0 (other threads): scale loader may read those for stage 0 of tile 0 before they are "
            "stored; missing: its wait for the buffer to be full, or the scale loader's barrier");
}

// Releases the last slot only in the next iteration of the loop, which is right for two and more stages.
RecordedProgram delay_last_release(const RecordedProgram& clean) {
  std::set<int> longer;
  for (const RecordedStep& s : clean.threads[0].steps)
    if (s.stage > 0) longer.insert(s.item);
  RecordedProgram p = clean;
  for (RecordedThread& t : p.threads)
    std::erase_if(t.steps, [&](const RecordedStep& s) {
      return t.group >= 0 && is_step_at_barrier(clean, s, RecordedStepKind::arrive, "empty") &&
             !longer.contains(s.item);
    });
  return p;
}

TEST(InjectedError, ThePipelineOfOneIterationDeadlocks) {
  const RecordedProgram one = recorded<cooperative>({.m = 640, .n = 128, .k = 64});
  EXPECT_EQ(error_found(one, delay_last_release(one)),
            "matmul: deadlock: producer waits for slot 0 empty (after stage 0 of tile 2), consumer 0 waits "
            "for slot 0 full (after stage 0 of tile 2), consumer 1 waits for slot 0 full (after stage 0 of "
            "tile 2); missing: 2 of 2 arrivals at slot 0 empty");
  const RecordedProgram two = recorded<cooperative>({.m = 640, .n = 128, .k = 128});
  EXPECT_EQ(check_schedules(delay_last_release(two)).first_error, "");
}

StepPredicate is_group_barrier(bool before_store) {
  return [before_store](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
    const RecordedStep& s = t.steps[i];
    if (s.what != RecordedStepKind::sync || ends_with(p.named_barriers[s.object], "turn")) return false;
    return (t.steps[i - 1].what == RecordedStepKind::fence_proxy) == before_store;
  };
}

TEST(InjectedError, TheBarrierBetweenWriteAndStoreIsDropped) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean, is_group_barrier(true))),
            "matmul: consumer 1 buffer 0 (other threads): the sums of tile 0 may be read before the threads of "
            "consumer 1 have written them; missing: the group's barrier after the write");
}
TEST(InjectedError, TheBarrierBeforeReusingABufferIsDropped) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean, is_group_barrier(false))),
            "matmul: consumer 1 buffer 0 (other threads): the sums of tile 1 overwrite those of tile 0 while the "
            "store of consumer 1 may still read them; missing: the group's barrier after its first thread has "
            "waited for the store");
}
TEST(InjectedError, TheProxyFenceIsMissing) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean, RecordedStepKind::fence_proxy)),
            "matmul: consumer 1 buffer 0: the store of consumer 1 of tile 0 may not see what threads of "
            "consumer 1 wrote; missing: a proxy fence between the write and the asynchronous operation");
}
TEST(InjectedError, NoWaitForAStoreBeforeItsBufferIsReused) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram&, const RecordedThread& t, std::size_t i) {
                                            return t.steps[i].what == RecordedStepKind::wait_read &&
                                                   t.steps[i].amount > 0;
                                          })),
            "matmul: consumer 0 buffer 0 (other threads): the sums of tile 1 overwrite those of tile 0 while the "
            "store of consumer 0 may still read them; missing: the wait until the store has read the buffer, before "
            "it is written again");
}
TEST(InjectedError, NoWaitForAStoreBeforeTheBlockEnds) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram&, const RecordedThread& t, std::size_t i) {
                                            return t.steps[i].what == RecordedStepKind::wait_read &&
                                                   t.steps[i].amount == 0;
                                          })),
            "matmul: consumer 1 ends while the store of tile 1 may still read its buffer; missing: the wait "
            "until all stores have read");
}
TEST(InjectedError, SumsAreUsedBeforeTheLastMultiplyHasFinished) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram&, const RecordedThread& t, std::size_t i) {
                                            return t.steps[i].what == RecordedStepKind::wait_multiply &&
                                                   t.steps[i].amount == 0;
                                          })),
            "matmul: consumer 1 sums: the sums of tile 0 are read while the multiply for stage 4 of tile 0 "
            "may still add to them; missing: the wait for all multiplies before the sums are used");
}
TEST(InjectedError, TheFenceBeforeTheFirstMultiplyIsMissing) {
  const RecordedProgram clean = recorded<cooperative>(two_tiles);
  EXPECT_EQ(error_found(clean, drop_steps(clean, RecordedStepKind::fence_sums)),
            "matmul: consumer 1 sums: the multiply for stage 0 of tile 0 may overtake what consumer 1 did "
            "to the sums before; missing: the fence between the two");
}

const ProductShape split{.m = 128, .n = 128, .k = 640, .splits = 3};
RecordedProgram with_order(RecordedProgram p, MemoryOrder order) {
  for (RecordedThread& t : p.threads)
    for (RecordedStep& s : t.steps)
      if (s.what == RecordedStepKind::add) s.order = order;
  return p;
}

TEST(InjectedError, TheCounterOfSplitsIsReadWithoutAcquire) {
  const RecordedProgram clean = recorded<cooperative>(split, 3);
  EXPECT_EQ(error_found(clean, with_order(clean, MemoryOrder::release)),
            "matmul: partial sums 0 of tile 0 part 1: block 2 consumer 1 may not see what block 0 consumer "
            "1 writes of tile 0; missing: an acquire where block 2 consumer 1 reads the counter of tile 0 "
            "part 1");
}
TEST(InjectedError, TheCounterOfSplitsIsIncrementedWithoutRelease) {
  const RecordedProgram clean = recorded<cooperative>(split, 3);
  EXPECT_EQ(error_found(clean, with_order(clean, MemoryOrder::acquire)),
            "matmul: partial sums 0 of tile 0 part 1: block 2 consumer 1 may not see what block 0 consumer 1 writes "
            "of tile 0; missing: a release where block 0 consumer 1 adds to the counter of tile 0 part 1");
}
TEST(InjectedError, TheBarrierBeforeTheCounterIsDropped) {
  const RecordedProgram clean = recorded<cooperative>(split, 3);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram&, const RecordedThread& t, std::size_t i) {
                                            return t.steps[i].what == RecordedStepKind::sync &&
                                                   t.steps[i - 1].what == RecordedStepKind::write &&
                                                   t.steps[i - 2].what == RecordedStepKind::read &&
                                                   t.steps[i].required_bit < 0;
                                          })),
            "matmul: partial sums 0 of tile 0 part 1 (other threads): block 2 consumer 1 may not see what block 0 "
            "consumer 1 writes of tile 0; missing: the group's barrier before the first thread of block 0 consumer "
            "1 adds to the counter of tile 0 part 1");
}
TEST(InjectedError, MoreSplitsThanStages) {
  EXPECT_EQ(check_schedules(recorded<cooperative>({.m = 128, .n = 128, .k = 128, .splits = 3}, 3)).first_error,
            "matmul: block 0 consumer 0 sums: the sums are used and no multiply has written them; missing: "
            "a stage of k for this work item");
}

// Three blocks, each with one split of k, wait for each other (split_operations_test.cc has more).
const ProductShape cooperative_sizes{
    .m = 128, .n = 128, .k = 640, .splits = 3, .split_mode = SplitMode::cooperative_split_k};
TEST(InjectedError, ASplitArrivesBeforeItsSumsAreWritten) {
  const RecordedProgram clean = recorded<cooperative>(cooperative_sizes, 3);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram&, const RecordedThread& t, std::size_t i) {
                                            return t.steps[i].what == RecordedStepKind::sync &&
                                                   t.steps[i - 1].what == RecordedStepKind::write &&
                                                   t.steps[i - 2].what == RecordedStepKind::read;
                                          })),
            "matmul: partial sums 0 of tile 0 part 1 (other threads): block 1 consumer 1 may not see what block 0 "
            "consumer 1 writes of tile 0; missing: the group's barrier before the first thread of block 0 consumer "
            "1 adds to the counter of tile 0 part 1");
}

// Three blocks of a cluster, each with one split of k, divide the tile.
const ProductShape cluster_sizes{.m = 128, .n = 128, .k = 640, .splits = 3, .split_mode = SplitMode::cluster_split_k};
StepPredicate is_barrier_of(const std::string& whom,
                            bool is_last) {  // the barrier at the end, or the one before the slices
  return [=](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
    return t.steps[i].what == RecordedStepKind::sync && ends_with(p.named_barriers[t.steps[i].object], whom) &&
           (i + 1 == t.steps.size()) == is_last;
  };
}
TEST(InjectedError, ASliceIsReadBeforeTheOtherBlocksWriteTheirSums) {
  const RecordedProgram clean = recorded<cooperative>(cluster_sizes, 3);
  EXPECT_EQ(error_found(clean, drop_steps(clean, is_barrier_of("of the cluster", false))),
            "matmul: block 0 consumer 1 shared sums: the sums of tile 0 may be read before the threads of block 1 "
            "consumer 1 have written them; missing: the group's barrier after the write");
}
TEST(InjectedError, ABlockEndsWhileOthersReadItsSums) {
  const RecordedProgram clean = recorded<cooperative>(cluster_sizes, 3);
  EXPECT_EQ(error_found(clean, drop_steps(clean, is_barrier_of("of the cluster", true))),
            "matmul: block 0 consumer 0 shared sums: block 1 consumer 0 may still read it when its block has ended; "
            "missing: the cluster's barrier at the end");
}
TEST(InjectedError, SumsOverwriteATileThatAnotherConsumerMultiplies) {
  const RecordedProgram clean = recorded<cooperative>(cluster_sizes, 3);
  EXPECT_EQ(
      error_found(clean, drop_steps(clean, is_barrier_of("of the consumers", false))),
      "matmul: block 0 slot 0 tile a: block 0 consumer 0 writes sums to it while the multiply of block 0 consumer 1 "
      "may still read stage 0 of tile 0; missing: the barrier of the block's consumers before the write");
}

TEST(InjectedError, AConsumerDoesNotPassItsTurn) {
  const RecordedProgram clean = recorded<pingpong>({.m = 512, .n = 128, .k = 192});
  EXPECT_EQ(error_found(clean, drop_steps(clean, RecordedStepKind::bar_arrive)),
            "matmul: deadlock: producer waits for slot 0 empty (after stage 2 of tile 0), consumer 0 waits "
            "for barrier of consumer 0's turn, consumer 1 waits for barrier of consumer 1's turn; missing: "
            "1 of 1 arrivals at slot 0 empty");
}
TEST(InjectedError, AClusterEndsWithoutItsBarrier) {
  const RecordedProgram clean = recorded<pair>({.m = 256, .n = 128, .k = 320}, 2);
  EXPECT_EQ(check_schedules(clean).first_error, "");
  const CheckResult v =
      check_schedules(drop_steps(clean, [](const RecordedProgram&, const RecordedThread& t, std::size_t i) {
        return t.steps[i].what == RecordedStepKind::sync && i + 1 == t.steps.size();
      }));
  EXPECT_GT(v.failed, 0);
  EXPECT_EQ(v.first_error,
            "matmul: block 0 slot 2 empty: block 1 consumer 0 may arrive when the block has ended; missing: "
            "the cluster's barrier at the end");
}
TEST(InjectedError, AnArrivalIsMissingInACluster) {
  const RecordedProgram clean = recorded<pair>({.m = 256, .n = 128, .k = 320}, 2);
  EXPECT_EQ(error_found(clean, drop_steps(clean,
                                          [](const RecordedProgram& p, const RecordedThread& t, std::size_t i) {
                                            const RecordedStep& s = t.steps[i];
                                            return s.what == RecordedStepKind::arrive && t.group >= 0 &&
                                                   p.barriers[s.object].block != t.block;
                                          })),
            "matmul: deadlock: block 0 producer waits for block 0 slot 0 empty (after stage 2 of tile 0), "
            "block 1 producer waits for block 1 slot 0 empty (after stage 2 of tile 0), block 0 consumer 0 "
            "waits for block 0 slot 0 full (after stage 2 of tile 0), block 0 consumer 1 waits for block 0 "
            "slot 0 full (after stage 2 of tile 0), block 1 consumer 0 waits for block 1 slot 0 full (after "
            "stage 2 of tile 0), block 1 consumer 1 waits for block 1 slot 0 full (after stage 2 of tile "
            "0); missing: 2 of 4 arrivals at block 0 slot 0 empty");
}

struct Unloaded : Matmul<cooperative, Bf16, Bf16, Bf16> {
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) { at.load(s.a, g.a, at.row(), k); }
};
TEST(InjectedError, ATileIsMultipliedWithoutALoad) {
  EXPECT_EQ(check_schedule(record_program<Unloaded>({.kernel = "unloaded", .sizes = two_tiles}), 0),
            "unloaded: a multiply reads 128 rows of a tile of which 0 are loaded; missing: at.load of the other rows");
}

// A program written by hand: one block passes a tile to another through memory (a bulk store, a counter, a copy).
RecordedProgram pass_through_memory() {
  RecordedProgram p{.kernel = "pass_through_memory"};
  const int buffer = p.add_cell("buffer", CellKind::buffer, 0), tile = p.add_cell("activations");
  const int counter = p.add_counter("counter of layer 3");
  RecordedThread &giver = p.add_thread("block 0 storer"), &taker = p.add_thread("block 1 producer", 1);
  giver.steps = {{.what = RecordedStepKind::write, .object = buffer},
                 {.what = RecordedStepKind::fence_proxy},
                 {.what = RecordedStepKind::store, .other = tile, .item = 7, .cells = {buffer}},
                 {.what = RecordedStepKind::commit_store},
                 {.what = RecordedStepKind::wait_written},
                 {.what = RecordedStepKind::add, .object = counter, .order = MemoryOrder::release}};
  taker.steps = {{.what = RecordedStepKind::poll, .object = counter, .amount = 1, .order = MemoryOrder::acquire},
                 {.what = RecordedStepKind::read, .object = tile, .item = 7}};
  return p;
}

TEST(InjectedError, PassingDataThroughMemoryNeedsWaitReleaseAndAcquire) {
  const RecordedProgram clean = pass_through_memory();
  RecordedProgram f = clean;
  f.threads[1].steps[0].order = MemoryOrder::relaxed;
  EXPECT_EQ(error_found(clean, f),
            "pass_through_memory: activations: block 1 producer may not see what block 0 storer writes of tile 7; "
            "missing: an acquire where block 1 producer reads the counter of layer 3");
  f = clean;
  f.threads[0].steps[5].order = MemoryOrder::relaxed;
  EXPECT_EQ(
      error_found(clean, f),
      "pass_through_memory: activations: block 1 producer may not see what block 0 storer writes of tile 7; missing: a "
      "release where block 0 storer adds to the counter of layer 3");
  f = clean;
  f.threads[0].steps[4].what = RecordedStepKind::wait_read;
  EXPECT_EQ(
      error_found(clean, f),
      "pass_through_memory: activations: block 1 producer may not see what block 0 storer writes of tile 7; missing: "
      "block 0 storer's wait until its store has arrived, before it adds to the counter of layer 3");
  EXPECT_EQ(error_found(clean, drop_steps(clean, RecordedStepKind::add)),
            "pass_through_memory: deadlock: block 1 producer waits for counter of layer 3; missing: an add to counter "
            "of layer "
            "3");
}

// The two writes are ordered, so there is no race, but each output must be stored only once.
TEST(InjectedError, AnOutputIsStoredTwiceInOrder) {
  RecordedProgram p{.kernel = "again"};
  const int output = p.add_cell("output at row 64", CellKind::output);
  p.add_thread("consumer 0").steps = {{.what = RecordedStepKind::write, .object = output, .item = 2, .stage = 7},
                                      {.what = RecordedStepKind::write, .object = output, .item = 3, .stage = 7}};
  EXPECT_EQ(check_schedule(p, 0),
            "again: output at row 64: written by consumer 0 (stage 7 of tile 2) and by consumer 0 (stage 7 of tile "
            "3); missing: a single owner of the output");
}
TEST(InjectedError, AnOutputIsNeverStored) {
  RecordedProgram p{.kernel = "never"};
  p.add_cell("output at row 64", CellKind::output);
  EXPECT_EQ(check_schedule(p, 0),
            "never: output at row 64: not stored when the kernel ends; missing: a store of these sums");
}

// Threads write and another block's copy engine reads: without a proxy fence it may read old data.
TEST(InjectedError, StoringDataOfAnotherBlockNeedsAProxyFence) {
  RecordedProgram p{.kernel = "pass_through_memory"};
  const int tile = p.add_cell("activations"), out = p.add_cell("their copy");
  const int counter = p.add_counter("counter of layer 3");
  RecordedThread &giver = p.add_thread("block 0 consumer 0"), &taker = p.add_thread("block 1 producer", 1);
  giver.steps = {{.what = RecordedStepKind::write, .object = tile},
                 {.what = RecordedStepKind::add, .object = counter, .order = MemoryOrder::release}};
  taker.steps = {{.what = RecordedStepKind::poll, .object = counter, .amount = 1, .order = MemoryOrder::acquire},
                 {.what = RecordedStepKind::fence_proxy},
                 {.what = RecordedStepKind::store, .other = out, .cells = {tile}},
                 {.what = RecordedStepKind::commit_store},
                 {.what = RecordedStepKind::wait_written}};
  EXPECT_EQ(error_found(p, drop_steps(p, RecordedStepKind::fence_proxy)),
            "pass_through_memory: activations: the store of block 1 producer may not see what threads of block 0 "
            "consumer 0 wrote; missing: a proxy fence between the write and the asynchronous operation");
}

}  // namespace
}  // namespace ridge::tile::trace
