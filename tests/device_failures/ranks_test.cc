// Makes each call to a device and each message fail in turn on one of several ranks, and expects that this rank returns
// the error and neither queues work nor sends data after it (recorded_device.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "recorded_device.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/ranks/run.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/ranks/chunked_executor.h"
#include "ridge/run/ranks/device_redistribute.h"
#include "ridge/transport/collectives.h"
#include "ridge/transport/launch_ranks.h"

namespace ridge::ranks {
namespace {

using testing::fail_each_call;
using testing::RecordingCommunicator;

constexpr double timeout_s = 10;
constexpr const char* no_more_calls = "no more calls";

using RankWork = std::function<Status(transport::Communicator&)>;

// Returns the message of the first rank that ended the run, without its number.
std::string run_ranks(int ranks, const RankWork& work) {
  const auto launched = transport::launch_ranks(ranks, timeout_s, [&](transport::Communicator& comm) {
    const Status done = work(comm);
    if (!done) comm.abort_all(done.error());
    return 0;
  });
  if (!launched) return launched.error().message;
  if (!launched->cause) return "";
  const std::string& text = launched->cause->message;
  return text.substr(text.find(": ") + 2);
}

// Runs `prepare` on all ranks, then what it returned, of which one call fails on one rank. Repeats that with every
// call; from `repeated_calls` on with every fifth, because a timing repeats the same calls nine times. Returns the
// errors.
constexpr std::size_t repeated_calls = 50;
using Preparation = std::function<Result<std::function<Status()>>(transport::Communicator&)>;
std::string fail_each_call_of_rank(int ranks, int failing_rank, std::size_t min_calls, const Preparation& prepare) {
  for (std::size_t failing_call = 0;; failing_call += failing_call < repeated_calls ? 1 : 5) {
    const std::string verdict = run_ranks(ranks, [&](transport::Communicator& parent) -> Status {
      RecordingCommunicator comm(parent);
      const auto work = prepare(comm);
      if (!work) return work.error();
      if (comm.rank() != failing_rank) {
        (void)(*work)();
        return Done{};
      }
      const auto error = testing::find_error_after_failure(failing_call, *work);
      return input_error(error.value_or(no_more_calls));
    });
    if (verdict == no_more_calls)
      return failing_call < min_calls ? fmt::format("expected at least {} calls, found {}", min_calls, failing_call)
                                      : "";
    if (!verdict.empty()) return fmt::format("rank {} of {}: {}", failing_rank, ranks, verdict);
  }
}

// Memory that cannot be exported or opened means that there is no peer access: the result is null.
TEST(RankFailures, stop_sharing_memory) {
  for (const int failing_rank : {0, 1})
    EXPECT_EQ(fail_each_call_of_rank(2, failing_rank, 700,
                                     [](transport::Communicator& comm) {
                                       return std::function<Status()>([&]() -> Status {
                                         RIDGE_TRY(made, PeerMemory::make(comm, 4));
                                         if (made == nullptr) return testing::injected_error();  // no peer access
                                         return Done{};
                                       });
                                     }),
              "");
}

TEST(RankFailures, stop_a_small_collective) {
  for (const int failing_rank : {0, 1})
    EXPECT_EQ(fail_each_call_of_rank(2, failing_rank, 11,
                                     [](transport::Communicator& comm) -> Result<std::function<Status()>> {
                                       RIDGE_TRY(made, PeerMemory::make(comm, 4));
                                       std::shared_ptr<PeerMemory> peer_memory = std::move(made);
                                       return std::function<Status()>([=]() -> Status {
                                         RIDGE_TRY_STATUS(SmallCollective::make(*peer_memory, {0, 1}, 4096));
                                         return Done{};
                                       });
                                     }),
              "");
}

// A product with its collective in chunks, and everything that it refers to.
class ChunkedPairOnRank {
 public:
  ChunkedPairOnRank(const std::string& text, const Bindings& sizes)
      : program_(parse(text, {.dtype = DType::bf16}).value()), sizes_(program_.bind_sizes(sizes).value()) {
    options_.cuda = true;
  }

  Status prepare(transport::Communicator& comm) {
    mesh_device_ = {mesh_of(program_, sizes_).value(), comm.rank()};
    RIDGE_TRY(rank_program, RankProgram::make(program_, sizes_, mesh_device_, options_));
    rank_program_ = std::move(rank_program);
    pair_ = find_chunked_pair(rank_program_->schedule(), 0, mesh_device_, {});
    if (!pair_) return input_error("no pair was found");
    RIDGE_TRY(slots, SlotMemory::make(*rank_program_));
    slots_ = std::move(slots);
    RIDGE_TRY(peer_memory,
              PeerMemory::make(comm, ChunkedExecutor::flags_per_pair(static_cast<std::size_t>(comm.size()))));
    peer_memory_ = std::move(peer_memory);
    return Done{};
  }
  Status make_executor(transport::Communicator& comm) {
    RIDGE_TRY(made, ChunkedExecutor::make(*pair_, {*rank_program_,
                                                   *slots_,
                                                   machine_,
                                                   options_,
                                                   {ChunkOptions::ChunkMode::always},
                                                   comm,
                                                   *peer_memory_,
                                                   0,
                                                   {}}));
    choice_ = std::move(made);
    return Done{};
  }
  const ChunkedExecutor& executor() const { return *choice_.executor; }

  // Returns "one kernel, 8 chunks" or "a launch per chunk, 2 chunks".
  std::string describe_choice() const {
    const ChunkPrediction& x = choice_.prediction;
    const char* const how = x.stores_remotely ? "one kernel that stores remotely" : "one kernel";
    return fmt::format("{}, {} chunks", x.single_kernel ? how : "a launch per chunk", x.chunks);
  }

 private:
  Program program_;
  Bindings sizes_;
  Machine machine_ = find_machine("h200").value();
  RunOptions options_ = {};
  MeshDevice mesh_device_ = {};
  std::optional<RankProgram> rank_program_ = {};
  std::optional<ChunkedPair> pair_ = {};
  std::optional<SlotMemory> slots_ = {};
  std::unique_ptr<PeerMemory> peer_memory_ = {};
  ChunkedExecutor::ExecutorChoice choice_ = {};
};

constexpr const char* gather = "x: bf16[B_X, D]  w: bf16[D, F_X]\ng[B, D] = x\ny: bf16[B, F_X] = g * w";
constexpr const char* scatter = "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B_X, F] = x * w";
constexpr const char* all_reduce = "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w";

// Returns how the pair is run on these ranks, then the errors.
std::string fail_each_call_of_pair(const std::string& text, const Bindings& sizes) {
  return run_ranks(static_cast<int>(sizes.at("X")), [&](transport::Communicator& comm) -> Status {
    ChunkedPairOnRank pair(text, sizes);
    RIDGE_TRY_STATUS(pair.prepare(comm));
    RIDGE_TRY_STATUS(pair.make_executor(comm));
    RIDGE_TRY(queue, device::Queue::create());
    std::string errors = fail_each_call(12, [&] { return pair.executor().queue_pair(queue); });
    errors += fail_each_call(1, [&] { return pair.executor().queue_compute_only(queue); });
    errors += fail_each_call(1, [&] { return pair.executor().complete_for_verify(queue); });
    std::int64_t failed_ranks = errors.empty() ? 0 : 1;
    RIDGE_TRY_STATUS(transport::all_reduce_max(comm, failed_ranks));
    if (failed_ranks == 0 && comm.rank() != 0) return Done{};
    return errors.empty() && failed_ranks > 0 ? Status(Done{}) : input_error(pair.describe_choice() + "\n" + errors);
  });
}

Bindings sizes_of(std::int64_t rows, std::int64_t depth, std::int64_t columns, std::int64_t ranks) {
  return {{"B", rows}, {"D", depth}, {"F", columns}, {"X", ranks}};
}

TEST(RankFailures, stop_one_kernel_for_all_chunks) {
  EXPECT_EQ(fail_each_call_of_pair(gather, sizes_of(2048, 4096, 2048, 2)), "one kernel, 2 chunks\n");
  EXPECT_EQ(fail_each_call_of_pair(scatter, sizes_of(2048, 16384, 4096, 2)), "one kernel, 2 chunks\n");
  EXPECT_EQ(fail_each_call_of_pair(all_reduce, sizes_of(2048, 4096, 4096, 2)), "one kernel, 2 chunks\n");
  EXPECT_EQ(fail_each_call_of_pair(all_reduce, sizes_of(3072, 3072, 4096, 3)), "one kernel, 2 chunks\n");
  EXPECT_EQ(fail_each_call_of_pair(scatter, sizes_of(2048, 256, 4096, 2)),
            "one kernel that stores remotely, 2 chunks\n");
}

TEST(RankFailures, stop_a_launch_per_chunk) {
  EXPECT_EQ(fail_each_call_of_pair(gather, sizes_of(1030, 64, 128, 2)), "a launch per chunk, 1 chunks\n");
  EXPECT_EQ(fail_each_call_of_pair(scatter, sizes_of(1030, 64, 128, 2)), "a launch per chunk, 1 chunks\n");
  EXPECT_EQ(fail_each_call_of_pair(all_reduce, sizes_of(1030, 96, 128, 3)), "a launch per chunk, 1 chunks\n");
}

TEST(RankFailures, stop_making_chunks) {
  const auto make_chunks = [](const char* text, const Bindings& sizes) {
    return [=](transport::Communicator& comm) -> Result<std::function<Status()>> {
      auto pair = std::make_shared<ChunkedPairOnRank>(text, sizes);
      RIDGE_TRY_STATUS(pair->prepare(comm));
      return std::function<Status()>([&comm, pair] { return pair->make_executor(comm); });
    };
  };
  for (const int failing_rank : {0, 1}) {
    EXPECT_EQ(fail_each_call_of_rank(2, failing_rank, 20, make_chunks(scatter, sizes_of(2048, 256, 4096, 2))), "");
    EXPECT_EQ(fail_each_call_of_rank(2, failing_rank, 20, make_chunks(gather, sizes_of(1030, 64, 128, 2))), "");
  }
}

TEST(RankFailures, stop_a_run_through_host_memory) {
  const auto program = parse(all_reduce, {.dtype = DType::bf16});
  const auto explanation = explain(*program, find_machine("h200").value(), sizes_of(8, 16, 8, 2));
  RunOptions options;
  options.cuda = true;
  options.passes = options.threads = 1;
  for (const int failing_rank : {0, 1})
    EXPECT_EQ(fail_each_call_of_rank(2, failing_rank, 90,
                                     [&](transport::Communicator& comm) {
                                       return std::function<Status()>([&]() -> Status {
                                         RankRunRequest request{*program, *explanation};
                                         request.nccl_library = "no such library";
                                         RIDGE_TRY_STATUS(run_on_ranks(request, comm, options));
                                         return Done{};
                                       });
                                     }),
              "");
}

}  // namespace
}  // namespace ridge::ranks
