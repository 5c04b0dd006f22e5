// Sharded programs on the devices of several ranks. Random programs are compared with fp64, with chunks where possible.
// The products of the table in docs/distributed.md are timed in sequence and in chunks.
//   ranks_gpu check RANKS COUNT [FIRST]
//   ranks_gpu times RANKS KIND B D F [N]  KIND: gather, scatter, reduce, or moves (only the all-gather). N: chunks
//   ranks_gpu small RANKS ROUNDS KIND:B:D:F ...  ROUNDS rounds of each: unsharded, in sequence, in chunks
// Without a device it exits with 77.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "ridge/measure/ranks/run.h"
#include "ridge/measure/ranks/testing/random_sharding.h"
#include "ridge/plan/plan.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/ranks/rank_machine.h"
#include "ridge/transport/launch_ranks.h"
#include "ridge/transport/nccl.h"

namespace ridge {
namespace {

using ChunkMode = ranks::ChunkOptions::ChunkMode;

constexpr double timeout_s = 60;
constexpr ranks::ChunkOptions no_chunks{ChunkMode::never};

constexpr std::array programs{
    "x: bf16[B, D]  w: bf16[D, F]\ny: bf16[B, F] = x * w",
    "x: bf16[B, D]  u: bf16[D, F]  v: bf16[F, E]\nh[B, F] = x * u\ng[B, F] = gelu(h)\ny: bf16[B, E] = g * v",
    "x: f16[B, D]  w: f16[D, F]  b: f16[F]\nh[B, F] = x * w\ny: f16[B, F] = rmsnorm(h + b over F)",
    "q: bf16[B, S, D]  k: bf16[B, T, D]  v: bf16[B, T, E]\ns[B, S, T] = q * k\np[B, S, T] = softmax(s over T)\n"
    "o: bf16[B, S, E] = p * v",
    "x: f32[B, D]  y: f32[B, D]\nz: f32[B] = sum(x * y over D)\nw: f32[B, D] = x * exp(z)",
};

struct RunArgs {
  std::string text;
  Bindings sizes;
  ranks::ChunkOptions chunks = {};
  int passes = 2;
  bool checked = true;
};

// Communicator with a single rank, for unsharded runs in a process of several ranks.
class SingleRankCommunicator final : public transport::Communicator {
 public:
  SingleRankCommunicator() : Communicator(0, 1) {}
  std::string_view transport_name() const override { return "none"; }
  void abort_all(const Error&) noexcept override {}

 private:
  Status transfer_messages(std::span<const transport::SendRequest>,
                           std::span<const transport::ReceiveRequest>) override {
    return Done{};
  }
};

// Communicators of the ranks, which are connected once for all cases.
struct ConnectedRanks {
  transport::Communicator& ranks;
  std::shared_ptr<const transport::NcclCommunicator> nccl = {};
};

std::string nccl_library_path() {
  const char* const named = std::getenv("RIDGE_NCCL");
  return named != nullptr ? named : "";
}

Result<ConnectedRanks> connect_ranks(transport::Communicator& ranks) {
  RIDGE_TRY_STATUS(ranks::use_rank_device(ranks));
  auto nccl = transport::NcclCommunicator::connect(ranks, nccl_library_path());
  if (nccl) return ConnectedRanks{ranks, *std::move(nccl)};
  if (nccl.error().kind != ErrorKind::absent) return nccl.error();
  return ConnectedRanks{ranks};
}

Result<ranks::RankRunResult> run_sharded(const RunArgs& args, const ConnectedRanks& on) {
  RIDGE_TRY(program, parse(args.text, {.dtype = DType::bf16}));
  RIDGE_TRY(machine, find_device_machine());
  RIDGE_TRY(explanation, explain(program, machine, args.sizes, {}, Thresholds::skipped));
  RunOptions options;
  options.cuda = true;
  options.passes = args.passes;
  ranks::RankRunRequest task{program, explanation, 0, nccl_library_path(), args.chunks, args.checked, on.nccl};
  return ranks::run_on_ranks(task, on.ranks, options);
}

// Returns the predicted time of one rank that computes everything.
std::string format_prediction(const RunArgs& args) {
  const auto program = parse(args.text, {.dtype = DType::bf16});
  const auto device = current_device_numbers();
  const auto planned = plan_fastest_fusion(*program, args.sizes, {.target = Target::cuda}, *device);
  const auto seconds = planned ? predict_plan_seconds(*planned, *device) : std::nullopt;
  return seconds ? fmt::format("  | {:.1f} us predicted", *seconds * 1e6) : std::string();
}

// Returns the output line of a correct run, or the error.
Result<std::string> run_and_format(const RunArgs& args, const ConnectedRanks& on) {
  RIDGE_TRY(done, run_sharded(args, on));
  if (on.ranks.rank() != 0) return std::string();
  const Measurement& m = done.measurement;
  if (m.mismatch) return *m.mismatch;
  std::string out = fmt::format("{:.4f} ms  error {:.1e}", m.total.time.median * 1e3, m.total.max_rel_error);
  for (const RankTimes& rank : m.ranks->ranks)
    out += fmt::format("  (computing {:.4f}, network {:.4f})", rank.compute_s * 1e3, rank.network_s * 1e3);
  if (on.ranks.size() == 1) out += format_prediction(args);
  for (const std::string& line : m.ranks->overlap_notes) out += "  | " + line;
  return out;
}

std::string describe_run(const RunArgs& args) {
  std::string out = args.text + "\n";
  for (const auto& [dim, size] : args.sizes) out += fmt::format(" {}={}", dim, size);
  return out;
}

struct Case {
  std::string name;
  RunArgs args;
  bool only_rank_0 = false;  // true if only rank 0 runs the case, unsharded
};

// Runs the cases in sequence until one fails.
Status run_all_cases(std::span<const Case> cases, transport::Communicator& ranks) {
  RIDGE_TRY(joined, connect_ranks(ranks));
  SingleRankCommunicator one_rank;
  const bool is_wanted =
      ranks.rank() == 0 && std::any_of(cases.begin(), cases.end(), [](const Case& c) { return c.only_rank_0; });
  RIDGE_TRY(one, is_wanted ? connect_ranks(one_rank) : ConnectedRanks{one_rank});
  for (const Case& next : cases) {
    if (next.only_rank_0 && ranks.rank() != 0) continue;
    const auto done = run_and_format(next.args, next.only_rank_0 ? one : joined);
    if (!done) return input_error(next.name + ": " + done.error().to_string() + "\n" + describe_run(next.args));
    if (ranks.rank() != 0) continue;
    std::printf("%s: %s\n", next.name.c_str(), done->c_str());
    std::fflush(stdout);
  }
  return Done{};
}

// Launches one process per rank, which runs the cases. True if all cases were correct.
bool launch_ranks_and_run(int count, std::span<const Case> cases) {
  const auto launched = transport::launch_ranks(count, timeout_s, [&](transport::Communicator& ranks) {
    const Status done = run_all_cases(cases, ranks);
    if (!done) ranks.abort_all(done.error());
    return done ? 0 : 1;
  });
  std::string why;
  if (!launched) why = launched.error().to_string();
  if (launched && launched->cause) why = launched->cause->to_string();
  if (!why.empty()) std::printf("WRONG: %s\n", why.c_str());
  return why.empty();
}

RunArgs random_run(int seed, int count) {
  ranks::Random random{std::mt19937(static_cast<unsigned>(seed))};
  const auto program = parse(programs[random.below(programs.size())]);
  const Mesh mesh{{{'X', count}}};
  RunArgs args{.text = ranks::random_sharding(*program, mesh, random),
               .sizes = {},
               .chunks = {seed % 4 == 0 ? ChunkMode::never : ChunkMode::always, seed % 5},
               .passes = 1 + seed % 3};
  const std::vector<std::string> dims = program->dim_names();
  const bool has_f = std::find(dims.begin(), dims.end(), "F") != dims.end();  // a matrix product
  for (const std::string& dim : dims) {
    const std::int64_t most = dim == "B" && seed % 2 == 0 ? 1500 : 200;
    std::int64_t size = 1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(most)));
    if (random.below(2) == 0) size = (size + 7) / 8 * 8;
    const int pieces = seed % 9 == 0 ? 1 : 4, steps = 1 + seed % 4;
    if (seed % 3 == 0)  // one kernel for all chunks
      size = dim == "B" ? (1 + size % pieces) * 256 * count : (size + 63) / 64 * 64 * steps;
    if (seed % 9 == 0 && has_f && dim == (seed % 2 == 0 ? "F" : "D")) size += 4096;  // several column ranges
    args.sizes[dim] = size;
  }
  return args;
}

constexpr int cases_per_launch = 50;

int check(int count, int cases, int first) {
  int wrong = 0;
  for (int begin = first; begin < first + cases; begin += cases_per_launch) {
    std::vector<Case> some;
    for (int seed = begin; seed < std::min(begin + cases_per_launch, first + cases); ++seed)
      some.push_back({fmt::format("case {}", seed), random_run(seed, count)});
    if (!launch_ranks_and_run(count, some)) ++wrong;
  }
  std::printf("%d cases, %d processes with a wrong one\n", cases, wrong);
  return wrong == 0 ? 0 : 1;
}

std::string program_of_kind(const std::string& kind) {
  if (kind == "moves") return "x: bf16[B_X, D]\ny: bf16[B, D] = x";
  if (kind == "scatter") return "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B_X, F] = x * w";
  if (kind == "reduce") return "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w";
  return "x: bf16[B_X, D]  w: bf16[D, F_X]\ng[B, D] = x\ny: bf16[B, F_X] = g * w";
}

// Times the three modes in alternation and predicts the unsharded one.
int time_small_products(int count, int rounds, std::span<char* const> shapes) {
  const std::string whole = "x: bf16[B, D]  w: bf16[D, F]\ny: bf16[B, F] = x * w";
  std::vector<Case> cases;
  for (const char* const shape : shapes) {
    char kind[16];
    int b = 0, d = 0, f = 0;
    if (std::sscanf(shape, "%15[a-z]:%d:%d:%d", kind, &b, &d, &f) != 4) {
      std::fprintf(stderr, "expected KIND:B:D:F, such as gather:64:4096:4096, found %s\n", shape);
      return 2;
    }
    const Bindings given{{"B", b}, {"D", d}, {"F", f}};
    Bindings sizes = given;
    sizes["X"] = count;
    for (int round = 0; round < rounds; ++round) {
      cases.push_back({std::string(shape) + " not sharded", {whole, given, no_chunks, 9, false}, true});
      cases.push_back({std::string(shape) + " in turn", {program_of_kind(kind), sizes, no_chunks, 9, false}});
      cases.push_back(
          {std::string(shape) + " in chunks", {program_of_kind(kind), sizes, {ChunkMode::always}, 9, false}});
    }
  }
  return launch_ranks_and_run(count, cases) ? 0 : 1;
}

int time_modes(int count, const std::string& kind, const Bindings& given, int chunks) {
  const std::string text = program_of_kind(kind);
  std::string alone = kind == "gather" ? "x: bf16[B, D]  w: bf16[D, F_X]\ny: bf16[B, F_X] = x * w"
                                       : "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F]{U_X} = x * w";
  Bindings sizes = given;
  sizes["X"] = count;
  const std::string name = fmt::format("{} B={} D={} F={}", kind, given.at("B"), given.at("D"), given.at("F"));
  if (kind == "moves") sizes.erase("F");
  std::vector<Case> cases;
  if (kind == "moves") {
    cases.push_back({name, {text, sizes, no_chunks, 9, false}});
  } else if (chunks > 0) {
    cases.push_back(
        {fmt::format("{} in {} chunks", name, chunks), {text, sizes, {ChunkMode::always, chunks}, 9, false}});
  } else {
    cases.push_back({name + " product alone", {alone, sizes, no_chunks, 9, false}});
    cases.push_back({name + " in turn", {text, sizes, no_chunks, 9, false}});
    cases.push_back({name + " in chunks", {text, sizes, {}, 9, false}});
  }
  return launch_ranks_and_run(count, cases) ? 0 : 1;
}

}  // namespace
}  // namespace ridge

int main(int argc, char** argv) {
  if (argc >= 4 && std::strcmp(argv[1], "check") == 0)
    return ridge::check(std::atoi(argv[2]), std::atoi(argv[3]), argc > 4 ? std::atoi(argv[4]) : 0);
  if (argc >= 7 && std::strcmp(argv[1], "times") == 0)
    return ridge::time_modes(std::atoi(argv[2]), argv[3],
                             {{"B", std::atoi(argv[4])}, {"D", std::atoi(argv[5])}, {"F", std::atoi(argv[6])}},
                             argc > 7 ? std::atoi(argv[7]) : 0);
  if (argc > 4 && std::strcmp(argv[1], "small") == 0)
    return ridge::time_small_products(std::atoi(argv[2]), std::atoi(argv[3]),
                                      {argv + 4, static_cast<std::size_t>(argc - 4)});
  std::fprintf(
      stderr, "expected check RANKS COUNT [FIRST], times RANKS KIND B D F [N], or small RANKS ROUNDS KIND:B:D:F ...\n");
  return 2;
}
