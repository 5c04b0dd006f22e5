// Tests ranks as processes of this machine: their messages, and what happens to the others when one fails.
#include "ridge/transport/launch_ranks.h"

#include <dirent.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "ridge/base/float16.h"
#include "ridge/transport/collectives.h"

namespace ridge::transport {
namespace {

constexpr double timeout_s = 30;

int kind_of(const Error& error) { return static_cast<int>(error.kind); }

// Ends the run with the error of `status`, if it is one. Returns the rank's exit code.
int abort_on_error(Communicator& comm, const Status& status) {
  if (status) return 0;
  comm.abort_all(status.error());
  return kind_of(status.error());
}

Status mismatch_error(std::string what) { return Error{.kind = ErrorKind::mismatch, .message = std::move(what)}; }

std::string failure_message(const Result<LaunchResult>& launched) {
  if (!launched) return launched.error().message;
  return launched->cause ? launched->cause->message : "";
}

std::byte expected_byte(int from, int to, std::size_t message, std::size_t at) {
  return static_cast<std::byte>((static_cast<std::size_t>(from * 31 + to * 7) + message * 13 + at) & 0xFF);
}

// Every rank sends every other one 0 to 3 messages of random lengths, some of them longer than a ring.
Status random_exchange(Communicator& comm, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::byte>> out, in;
  std::vector<SendRequest> sent;
  std::vector<ReceiveRequest> received;
  std::vector<std::array<int, 3>> of_received;
  for (int from = 0; from < comm.size(); ++from)
    for (int to = 0; to < comm.size(); ++to)
      for (std::size_t message = 0, count = random() % 4; message < count; ++message) {
        const std::size_t length = random() % 3 == 0 ? random() % 700'000 : random() % 50;
        if (from == to) continue;
        if (from == comm.rank()) {
          auto& bytes = out.emplace_back(length);
          for (std::size_t i = 0; i < length; ++i) bytes[i] = expected_byte(from, to, message, i);
          sent.push_back({to, bytes});
        } else if (to == comm.rank()) {
          received.push_back({from, in.emplace_back(length)});
          of_received.push_back({from, to, static_cast<int>(message)});
        }
      }
  RIDGE_TRY_STATUS(comm.exchange_messages(sent, received));
  for (std::size_t k = 0; k < in.size(); ++k)
    for (std::size_t i = 0; i < in[k].size(); ++i)
      if (in[k][i] !=
          expected_byte(of_received[k][0], of_received[k][1], static_cast<std::size_t>(of_received[k][2]), i))
        return mismatch_error("a received byte differs from the sent one");
  return Done{};
}

TEST(Launch, ranks_exchange_random_messages) {
  for (const int n : {1, 2, 3, 4, 5, 7}) {
    const auto launched = launch_ranks(n, timeout_s, [](Communicator& comm) {
      for (unsigned seed = 0; seed < 20; ++seed)
        if (const int code = abort_on_error(comm, random_exchange(comm, seed)); code != 0) return code;
      return 0;
    });
    EXPECT_EQ(failure_message(launched), "") << n << " ranks";
    EXPECT_EQ(launched->exit_code, 0);
  }
}

// Compares with the sums of one process that adds in rank order, in f32.
Status check_sum_order(Communicator& comm) {
  const auto value = [](int rank, std::size_t i) {
    return static_cast<float>((rank + 1) * 1000.1 / (1.0 + static_cast<double>(i % 977)));
  };
  std::vector<int> group;
  for (int r = 0; r < comm.size(); ++r) group.push_back(r);
  for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{100'003}}) {
    std::vector<float> floats(elements);
    std::vector<Bf16> halves(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      floats[i] = value(comm.rank(), i);
      halves[i] = to_bf16(floats[i]);
    }
    if (const Status done =
            all_reduce(comm, group, {DType::f32, ReduceOp::sum}, std::as_writable_bytes(std::span(floats)));
        !done)
      return done;
    if (const Status done =
            all_reduce(comm, group, {DType::bf16, ReduceOp::sum}, std::as_writable_bytes(std::span(halves)));
        !done)
      return done;
    for (std::size_t i = 0; i < elements; ++i) {
      float sum = value(0, i), sum16 = to_float(to_bf16(sum));
      for (int r = 1; r < comm.size(); ++r) {
        sum += value(r, i);
        sum16 += to_float(to_bf16(value(r, i)));
      }
      if (sum != floats[i] || to_float(to_bf16(sum16)) != to_float(halves[i])) return mismatch_error("a sum differs");
    }
  }
  return Done{};
}

TEST(Launch, all_reduce_adds_in_rank_order) {
  for (const int n : {1, 2, 3, 4, 5, 7})
    EXPECT_EQ(failure_message(
                  launch_ranks(n, timeout_s, [](Communicator& r) { return abort_on_error(r, check_sum_order(r)); })),
              "")
        << n;
}

TEST(Launch, max_and_min_keep_a_NaN) {
  const float nan = std::nanf("");
  const std::vector<float> a{1, nan, -3}, b{2, 5, -4};
  std::vector<float> out(3);
  ReduceInputs inputs{DType::f32,
                      ReduceOp::max,
                      {reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data())}};
  reduce_elements(inputs, 3, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out[0], 2);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_EQ(out[2], -3);
  inputs.op = ReduceOp::min;
  reduce_elements(inputs, 3, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out[2], -4);
}

TEST(Launch, all_ranks_agree_on_the_lowest_ranks_error) {
  const auto launched = launch_ranks(5, timeout_s, [](Communicator& comm) {
    const Status mine =
        comm.rank() >= 2 ? Status(input_error(fmt::format("no {}", comm.rank()), "mend it")) : Status(Done{});
    const Status all = agree_on_status(comm, mine);
    const bool right = !all && all.error() == input_error("rank 2: no 2", "mend it");
    return right ? kind_of(all.error()) : 1;
  });
  EXPECT_EQ(failure_message(launched), "");
  EXPECT_EQ(launched->exit_code, 3);
}

TEST(Launch, abort_all_ends_all_ranks_and_reports_its_error) {
  const auto launched = launch_ranks(4, timeout_s, [](Communicator& comm) {
    if (comm.rank() == 3) {
      comm.abort_all(input_error("no file", "make one"));
      return 3;
    }
    return abort_on_error(comm, barrier(comm));
  });
  EXPECT_EQ(failure_message(launched), "rank 3: no file");
  EXPECT_EQ(launched->cause->hint, "make one");
  EXPECT_EQ(launched->exit_code, 3);
}

TEST(Launch, a_rank_that_throws_ends_all) {
  const auto launched = launch_ranks(3, timeout_s, [](Communicator& comm) -> int {
    if (comm.rank() == 1) throw std::bad_alloc();
    return abort_on_error(comm, barrier(comm));
  });
  EXPECT_EQ(failure_message(launched), "rank 1: out of memory");
}

TEST(Launch, a_rank_that_hangs_causes_a_timeout) {
  const auto launched = launch_ranks(2, 0.3, [](Communicator& comm) {
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
    return abort_on_error(comm, barrier(comm));
  });
  EXPECT_EQ(failure_message(launched), "rank 0: timed out after 0.3 s of waiting for rank 1");
  EXPECT_EQ(launched->cause->hint, "if that rank computes for longer, raise --patience");
}

TEST(Launch, a_message_of_unexpected_length_is_an_error) {
  const auto launched = launch_ranks(2, timeout_s, [](Communicator& comm) {
    std::vector<std::byte> bytes(16 + 8 * static_cast<std::size_t>(comm.rank()));
    const SendRequest sent{1 - comm.rank(), bytes};
    std::vector<std::byte> in(comm.rank() == 0 ? 16u : 16u);
    const ReceiveRequest received{1 - comm.rank(), in};
    return abort_on_error(comm, comm.exchange_messages({&sent, 1}, {&received, 1}));
  });
  EXPECT_EQ(failure_message(launched), "rank 0: rank 1 sends 24 bytes where 16 are expected");
}

TEST(Launch, an_invalid_number_of_ranks_is_an_error) {
  EXPECT_EQ(failure_message(launch_ranks(0, timeout_s, [](Communicator&) { return 0; })),
            "expected 1 to 256 ranks on one machine, found 0");
  EXPECT_EQ(failure_message(launch_ranks(257, timeout_s, [](Communicator&) { return 0; })),
            "expected 1 to 256 ranks on one machine, found 257");
}

// Returns the number of child processes of this process.
int count_child_processes() {
  int out = 0;
  DIR* const folder = ::opendir("/proc");
  while (const dirent* entry = ::readdir(folder)) {
    const int process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    FILE* const file = std::fopen(fmt::format("/proc/{}/stat", process).c_str(), "r");
    int parent = 0;
    if (file != nullptr && std::fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == ::getpid()) ++out;
    if (file != nullptr) std::fclose(file);
  }
  ::closedir(folder);
  return out;
}

// A rank is killed at a random moment of a run that exchanges messages continuously. The others must end within
// seconds, the error must name the killed rank, and no process may remain.
TEST(Launch, a_rank_killed_at_any_moment_ends_all) {
  auto* const pids =
      static_cast<std::atomic<int>*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    for (int r = 0; r < 4; ++r) pids[r] = 0;
    const int victim = static_cast<int>(random() % 4), signal = i % 2 == 0 ? SIGKILL : SIGTERM;
    const auto delay = std::chrono::microseconds(random() % 20'000);
    const auto start = std::chrono::steady_clock::now();
    const auto launched = launch_ranks(4, timeout_s, [&](Communicator& comm) {
      pids[comm.rank()] = ::getpid();
      if (comm.rank() == (victim + 1) % 4) {  // this rank kills the victim
        while (pids[victim] == 0) std::this_thread::yield();
        std::this_thread::sleep_for(delay);
        ::kill(pids[victim], signal);
      }
      for (unsigned seed = 0;; ++seed)
        if (const int code = abort_on_error(comm, random_exchange(comm, seed)); code != 0) return code;
    });
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_EQ(failure_message(launched),
              fmt::format("rank {}: killed by signal {} ({})", victim, signal, ::strsignal(signal)));
    EXPECT_EQ(launched->exit_code, 1);
    EXPECT_LT(took, 10);
    ASSERT_EQ(count_child_processes(), 0);
  }
  ::munmap(pids, 4096);
}

}  // namespace
}  // namespace ridge::transport
