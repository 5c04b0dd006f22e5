// Runs sharded programs on ranks: results must agree with fp64 for every split, even or uneven, and the number
// of words sent must equal the count of distributed/redistribution.h.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "ridge/distributed/shard.h"
#include "ridge/measure/ranks/run.h"
#include "ridge/measure/ranks/testing/random_sharding.h"
#include "ridge/measure/run.h"
#include "ridge/transport/launch_ranks.h"

namespace ridge::ranks {
namespace {

constexpr double timeout_s = 60;

// Any machine with all peaks and a link; its numbers do not matter.
Machine make_test_machine() { return find_machine("h200").value(); }

Bindings merge_bindings(Bindings a, const Bindings& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

Status mismatch_error(std::string what) { return Error{.kind = ErrorKind::mismatch, .message = std::move(what)}; }

std::int64_t count_words_sent(const Program& program, const Bindings& sizes, const Mesh& mesh) {
  std::int64_t out = 0;
  const auto schedule = build_rank_schedule(program, sizes, {mesh, 0});
  for (const auto& schedule_step : schedule->steps)
    if (const auto* redistribution = std::get_if<Redistribution>(&schedule_step))
      out += words_moved(redistribution->move, schedule->slots[redistribution->from].extents, mesh);
  return out;
}

using RunCheck = std::function<Status(const RankRunResult&)>;

// Runs one rank of a test.
Status run_one(const Program& program, const Bindings& given, transport::Communicator& comm, const RunCheck& check) {
  RIDGE_TRY(explanation, explain(program, make_test_machine(), given, {}, Thresholds::skipped));
  RunOptions options;
  options.passes = 1;
  options.threads = 1;
  RIDGE_TRY(done, run_on_ranks({program, explanation}, comm, options));
  if (comm.rank() != 0) return Done{};
  if (done.measurement.mismatch) return *done.measurement.mismatch;
  const auto mesh = mesh_of(program, explanation.dims);
  const std::int64_t expected = count_words_sent(program, explanation.dims, *mesh),
                     sent = done.measurement.ranks->words_sent;
  if (sent != expected) return mismatch_error(fmt::format("sends {} words, expected {}", sent, expected));
  return check ? check(done) : Status(Done{});
}

// Returns the error, or "" if the run was correct.
std::string run_text(const std::string& text, const Bindings& given, const RunCheck& check = {}) {
  const auto program = parse(text, {.dtype = DType::f32});
  if (!program) return program.error().to_string();
  const auto sizes = program->bind_sizes(given);
  if (!sizes) return sizes.error().message;
  const auto mesh = mesh_of(*program, *sizes);
  if (!mesh) return mesh.error().message;
  const auto launched =
      transport::launch_ranks(static_cast<int>(mesh->devices()), timeout_s, [&](transport::Communicator& comm) {
        const Status done = run_one(*program, given, comm, check);
        if (!done) comm.abort_all(done.error());
        return done ? 0 : 1;
      });
  if (!launched) return launched.error().message;
  return launched->cause ? launched->cause->message : "";
}

TEST(Ranks, run_every_collective) {
  const Bindings sizes{{"B", 8}, {"D", 12}, {"F", 16}};
  for (const int x : {1, 2, 3, 4, 5, 7}) {
    const Bindings all = merge_bindings(sizes, {{"X", x}}), two{{"B", 8}, {"D", 12}, {"X", x}};
    EXPECT_EQ(run_text("x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w", all), "") << x;
    EXPECT_EQ(run_text("x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F_X] = x * w", all), "") << x;
    EXPECT_EQ(run_text("x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F]{U_X} = x * w", all), "") << x;
    EXPECT_EQ(run_text("x: f32[B_X, D]\ny: f32[B, D] = x", two), "") << x;
    EXPECT_EQ(run_text("x: f32[B_X, D]\ny: f32[B, D_X] = x", two), "") << x;
    EXPECT_EQ(run_text("x: f32[B, D]\ny: f32[B, D_X] = x", two), "") << x;
    EXPECT_EQ(run_text("x: f16[B_X, D]\ny: bf16[D, B] = x", two), "") << x;
    EXPECT_EQ(run_text("x: bf16[B, D_X]  w: bf16[D_X, F]\np[B, F]{U_X} = x * w\ny: bf16[F_X, B] = p", all), "") << x;
  }
}

TEST(Ranks, run_functions_along_split_dimensions) {
  for (const char* const value :
       {"softmax(s over T)", "rmsnorm(s over T)", "layernorm(s over T)", "s / sum(s * s over T)",
        "s - max(s over T) + min(s over T)", "s - mean(s + index(T) over T)",
        "softmax(where(index(T) <= index(B), s, -1e30) over T)", "s * size(T)"})
    for (const int x : {1, 2, 3, 4})
      for (const int t : {3, 8, 13})
        EXPECT_EQ(run_text(fmt::format("s: f32[B, T_X]\ny: f32[B, T_X] = {}", value), {{"B", 9}, {"T", t}, {"X", x}}),
                  "")
            << value << " over " << t << " on " << x;
}

TEST(Ranks, run_with_empty_shards) {
  EXPECT_EQ(run_text("x: f32[B, D_X]  w: f32[D_X, F]\ny: f32[B, F] = x * w", {{"B", 2}, {"D", 3}, {"F", 5}, {"X", 7}}),
            "");
  EXPECT_EQ(run_text("s: f32[B, T_X]\ny: f32[B, T_X] = softmax(s over T)", {{"B", 2}, {"T", 2}, {"X", 5}}), "");
  EXPECT_EQ(run_text("x: f32[B_XY, D]\ny: f32[B_X, D] = x", {{"B", 5}, {"D", 3}, {"X", 2}, {"Y", 2}}), "");
}

TEST(Ranks, run_a_tensor_parallel_layer_with_grouped_heads) {
  const char* const text = R"(dims G = H/2
x: bf16[S, D]   z: bf16[T, D]   q: bf16[H_X, E, D]   k: bf16[G_X, E, D]   o: bf16[H_X, E, D]
qs[S, H_X, E] = x * q
ks[T, G_X, E] = z * k
s[S, T, H_X] = qs * ks
p[S, T, H_X] = softmax(s over T)
a[S, H_X, E] = p * ks
y: bf16[S, D] = a * o
)";
  EXPECT_EQ(run_text(text, {{"S", 6}, {"T", 10}, {"D", 16}, {"H", 8}, {"E", 4}, {"X", 4}}), "");
}

// Several statements share a compute step, and some ranks have no heads.
TEST(Ranks, run_a_layer_of_fewer_heads_than_ranks) {
  const std::string text =
      "x: bf16[S, D]   q: bf16[D, H_X, E]   k: bf16[T, H_X, E]   v: bf16[T, H_X, E]   o: bf16[H_X, E, D]\n"
      "a[S, H_X, E] = x * q\ns[S, T, H_X] = a * k\np[S, T, H_X] = softmax(s over T)\nc[S, H_X, E] = p * v\n"
      "y[S, D] = c * o\nz: bf16[S, D] = x + y";
  for (const std::int64_t ranks : {3, 4, 7})
    EXPECT_EQ(run_text(text, {{"S", 6}, {"T", 10}, {"D", 16}, {"H", 3}, {"E", 4}, {"X", ranks}}), "") << ranks;
}

TEST(Ranks, send_nothing_along_an_axis_of_size_one) {
  const char* const text =
      "x: f32[B, D_X]  w: f32[D_X, F_Y]  v: f32[F_Y]{U_X}\nh[B, F_Y] = x * w\n"
      "y: f32[B, F_Y] = softmax(h over F)\nz: f32[B_X, F] = y\nu: f32[F] = v";
  const Bindings sizes{{"B", 5}, {"D", 7}, {"F", 6}, {"X", 1}, {"Y", 1}};
  const auto schedule =
      build_rank_schedule(*parse(text, {.dtype = DType::f32}), sizes, {Mesh{{{'X', 1}, {'Y', 1}}}, 0});
  ASSERT_TRUE(schedule) << schedule.error().to_string();
  for (const auto& schedule_step : schedule->steps) EXPECT_TRUE(std::holds_alternative<ComputeStep>(schedule_step));
  EXPECT_EQ(run_text(text, sizes), "");
  EXPECT_EQ(run_text(text, merge_bindings(sizes, {{"Y", 2}})), "");
}

// --- random shardings of programs, with sizes that the mesh does not divide

constexpr std::array programs{
    "x: bf16[B, D]  u: bf16[D, F]  v: bf16[F, E]\nh[B, F] = x * u\ng[B, F] = gelu(h)\ny: bf16[B, E] = g * v",
    "x: f32[B, D]  w: f32[D, F]  b: f32[F]\nh[B, F] = x * w\ny: f32[B, F] = rmsnorm(h + b over F)",
    "q: f32[B, S, D]  k: f32[B, T, D]  v: f32[B, T, E]\ns[B, S, T] = q * k\np[B, S, T] = softmax(s over T)\n"
    "o: f32[B, S, E] = p * v",
    "x: bf16[B, D]  y: bf16[B, D]\nz: bf16[B] = sum(x * y over D)\nw: bf16[B, D] = x * exp(z)",
};

TEST(Ranks, run_random_shardings_of_uneven_sizes) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    Random random{std::mt19937(seed)};
    const auto program = parse(programs[random.below(programs.size())]);
    const Mesh mesh{
        {{'X', 1 + static_cast<std::int64_t>(random.below(4))}, {'Y', 1 + static_cast<std::int64_t>(random.below(2))}}};
    const std::string text = random_sharding(*program, mesh, random);
    Bindings given;
    for (const std::string& dim : program->dim_names()) given[dim] = 1 + static_cast<std::int64_t>(random.below(17));
    ASSERT_EQ(run_text(text, given), "") << "seed " << seed << "\n" << text;
  }
}

TEST(Ranks, two_runs_are_bit_identical) {
  const std::string text = "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w";
  const Bindings sizes{{"B", 33}, {"D", 517}, {"F", 65}, {"X", 3}};
  double first = -1;
  for (int i = 0; i < 3; ++i) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    EXPECT_EQ(run_text(text, sizes,
                       [&](const RankRunResult& run) {
                         const double error = run.measurement.total.max_rel_error;  // of all results
                         return ::write(pipe_ends[1], &error, sizeof error) == sizeof error ? Status(Done{})
                                                                                            : mismatch_error("no pipe");
                       }),
              "");
    double error = 0;
    ASSERT_EQ(::read(pipe_ends[0], &error, sizeof error), static_cast<ssize_t>(sizeof error));
    if (first < 0) first = error;
    EXPECT_EQ(error, first);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
  }
}

TEST(Ranks, report_unsupported_programs) {
  EXPECT_EQ(
      run_text("x: int8[B, D_X]  w: int8[D_X, F]\ny: int8[B, F] = x * w", {{"B", 8}, {"D", 8}, {"F", 8}, {"X", 2}}),
      "rank 0: cannot run 'y: int8[B, F] = x * w' on several ranks: its partial sums in int8 would be truncated");
  EXPECT_EQ(
      run_text("x: mxfp8[B_X, D]  w: f32[D, F]\ny: f32[B_X, F] = x * w", {{"B", 8}, {"D", 64}, {"F", 8}, {"X", 2}}),
      "rank 0: cannot run 'x' on several ranks: it is split, and its mxfp8 elements share scales");
  EXPECT_EQ(run_text("dims S = (3, 5)\nx: f32[S_X, D]\ny: f32[S_X, D] = x + x", {{"D", 8}, {"X", 2}}),
            "rank 0: cannot run 'x' on several ranks: it is split along S, which has sequences of several lengths");
  EXPECT_EQ(
      run_text("dims G = H/2\nx: f32[H_X, D]  k: f32[G_X, D]\ns: f32[H_X] = x * k", {{"H", 6}, {"D", 8}, {"X", 2}}),
      "rank 0: cannot run on several ranks: 'x' splits H into 2 parts, 'k' splits G into 2, and each G covers 2 of H");
}

}  // namespace
}  // namespace ridge::ranks
