// Sharded programs on the devices of several ranks: random ones are held against fp64, with chunks wherever they can
// be, and the products of the table in docs/distributed.md are timed in turn and in chunks.
//   ranks_gpu check RANKS COUNT [FIRST]
//   ranks_gpu times RANKS KIND B D F [N]  KIND: gather, scatter or reduce; moves: the gathering alone. N: chunks
//   ranks_gpu small RANKS KIND B D F ROUNDS  so many rounds of each: not sharded, in turn, in chunks
// Without a device it says so and ends with 77.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "ridge/measure/device_machine.h"
#include "ridge/measure/ranks/machine.h"
#include "ridge/measure/ranks/run.h"
#include "ridge/measure/ranks/testing/random_sharding.h"
#include "ridge/plan/soonest.h"
#include "ridge/transport/launch.h"

namespace ridge {
namespace {

using When = ranks::Chunks::When;

constexpr double patience_s = 60;
constexpr ranks::Chunks never{When::never};

constexpr std::array programs{
    "x: bf16[B, D]  w: bf16[D, F]\ny: bf16[B, F] = x * w",
    "x: bf16[B, D]  u: bf16[D, F]  v: bf16[F, E]\nh[B, F] = x * u\ng[B, F] = gelu(h)\ny: bf16[B, E] = g * v",
    "x: f16[B, D]  w: f16[D, F]  b: f16[F]\nh[B, F] = x * w\ny: f16[B, F] = rmsnorm(h + b over F)",
    "q: bf16[B, S, D]  k: bf16[B, T, D]  v: bf16[B, T, E]\ns[B, S, T] = q * k\np[B, S, T] = softmax(s over T)\n"
    "o: bf16[B, S, E] = p * v",
    "x: f32[B, D]  y: f32[B, D]\nz: f32[B] = sum(x * y over D)\nw: f32[B, D] = x * exp(z)",
};

struct Asked {
  std::string text;
  Bindings sizes;
  ranks::Chunks chunks = {};
  int passes = 2;
  bool checked = true;
};

Result<ranks::RankRun> run_once(const Asked& asked, transport::Ranks& ranks) {
  if (const Status taken = ranks::take_device(ranks); !taken) return taken.error();
  const auto program = parse(asked.text, {.dtype = DType::bf16});
  if (!program) return program.error();
  const auto machine = find_device_machine();
  if (!machine) return machine.error();
  const auto explanation = explain(*program, *machine, asked.sizes, {}, Thresholds::left_out);
  if (!explanation) return explanation.error();
  RunOptions options;
  options.cuda = true;
  options.passes = asked.passes;
  const char* const nccl = std::getenv("RIDGE_NCCL");
  ranks::Task task{*program, *explanation, 0, nccl != nullptr ? nccl : "", asked.chunks, asked.checked};
  return ranks::run(task, ranks, options);
}

// Of one rank that computes all: what the model says of its kernels.
std::string predicted(const Asked& asked) {
  const auto program = parse(asked.text, {.dtype = DType::bf16});
  const auto device = device_numbers_here();
  const auto planned = soonest_plan(*program, asked.sizes, {.target = Target::cuda}, *device);
  const auto seconds = planned ? forecast_s(*planned, *device) : std::nullopt;
  return seconds ? fmt::format("  | {:.1f} us predicted", *seconds * 1e6) : std::string();
}

// What is printed of a run that was right; the error else.
Result<std::string> tried(const Asked& asked, transport::Ranks& ranks) {
  const auto done = run_once(asked, ranks);
  if (!done) return done.error();
  if (ranks.rank() != 0) return std::string();
  const Measurement& m = done->measurement;
  if (m.mismatch) return *m.mismatch;
  std::string out = fmt::format("{:.4f} ms  error {:.1e}", m.total.time.median * 1e3, m.total.max_rel_error);
  for (const RankShare& rank : m.ranks->ranks)
    out += fmt::format("  (computing {:.4f}, network {:.4f})", rank.compute_s * 1e3, rank.network_s * 1e3);
  if (ranks.size() == 1) out += predicted(asked);
  for (const std::string& line : m.ranks->in_chunks) out += "  | " + line;
  return out;
}

std::string text(const Asked& asked) {
  std::string out = asked.text + "\n";
  for (const auto& [dim, size] : asked.sizes) out += fmt::format(" {}={}", dim, size);
  return out;
}

struct Case {
  std::string name;
  Asked asked;
};

// The cases one behind the other in one process a rank, until one is wrong: whether none was.
bool show(int count, std::span<const Case> cases) {
  const auto launched = transport::launch(count, patience_s, [&](transport::Ranks& ranks) {
    for (const Case& one : cases) {
      const auto done = tried(one.asked, ranks);
      if (!done) ranks.abandon(input_error(one.name + ": " + done.error().text() + "\n" + text(one.asked)));
      if (!done) return 1;
      if (ranks.rank() != 0) continue;
      std::printf("%s: %s\n", one.name.c_str(), done->c_str());
      std::fflush(stdout);
    }
    return 0;
  });
  std::string why;
  if (!launched) why = launched.error().text();
  if (launched && launched->cause) why = launched->cause->text();
  if (!why.empty()) std::printf("WRONG: %s\n", why.c_str());
  return why.empty();
}

Asked drawn(int seed, int count) {
  ranks::Random random{std::mt19937(static_cast<unsigned>(seed))};
  const auto program = parse(programs[random.below(programs.size())]);
  const Mesh mesh{{{'X', count}}};
  Asked asked{.text = ranks::random_sharding(*program, mesh, random),
              .sizes = {},
              .chunks = {seed % 4 == 0 ? When::never : When::always, seed % 5},
              .passes = 1 + seed % 3};
  for (const std::string& dim : program->dim_names()) {
    const std::int64_t most = dim == "B" && seed % 2 == 0 ? 1500 : 200;
    std::int64_t size = 1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(most)));
    if (random.below(2) == 0) size = (size + 7) / 8 * 8;
    if (seed % 3 == 0)  // one kernel for all
      size = dim == "B" ? (1 + size % 4) * 256 * count : (size + 63) / 64 * 64 * (1 + seed % 4);
    asked.sizes[dim] = size;
  }
  return asked;
}

constexpr int cases_of_process = 10;

int check(int count, int cases, int first) {
  int wrong = 0;
  for (int begin = first; begin < first + cases; begin += cases_of_process) {
    std::vector<Case> some;
    for (int seed = begin; seed < std::min(begin + cases_of_process, first + cases); ++seed)
      some.push_back({fmt::format("case {}", seed), drawn(seed, count)});
    if (!show(count, some)) ++wrong;
  }
  std::printf("%d cases, %d processes with a wrong one\n", cases, wrong);
  return wrong == 0 ? 0 : 1;
}

std::string text_of(const std::string& kind) {
  if (kind == "moves") return "x: bf16[B_X, D]\ny: bf16[B, D] = x";
  if (kind == "scatter") return "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B_X, F] = x * w";
  if (kind == "reduce") return "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w";
  return "x: bf16[B_X, D]  w: bf16[D, F_X]\ng[B, D] = x\ny: bf16[B, F_X] = g * w";
}

// What each of the three ways takes, by turns, and what the model says of the one that is not sharded.
int small(int count, const std::string& kind, const Bindings& given, int rounds) {
  const std::string whole = "x: bf16[B, D]  w: bf16[D, F]\ny: bf16[B, F] = x * w";
  Bindings sizes = given;
  sizes["X"] = count;
  const std::string name = fmt::format("{} {} {} {}", kind, given.at("B"), given.at("D"), given.at("F"));
  const Case alone{name + " not sharded", {whole, given, never, 9, false}};
  const std::array ways{Case{name + " in turn", {text_of(kind), sizes, never, 9, false}},
                        Case{name + " in chunks", {text_of(kind), sizes, {When::always}, 9, false}}};
  for (int round = 0; round < rounds; ++round)
    if (!show(1, {&alone, 1}) || !show(count, ways)) return 1;
  return 0;
}

int times(int count, const std::string& kind, const Bindings& given, int chunks) {
  const std::string text = text_of(kind);
  std::string alone = kind == "gather" ? "x: bf16[B, D]  w: bf16[D, F_X]\ny: bf16[B, F_X] = x * w"
                                       : "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F]{U_X} = x * w";
  Bindings sizes = given;
  sizes["X"] = count;
  const std::string name = fmt::format("{} B={} D={} F={}", kind, given.at("B"), given.at("D"), given.at("F"));
  if (kind == "moves") sizes.erase("F");
  std::vector<Case> cases;
  if (kind == "moves") {
    cases.push_back({name, {text, sizes, never, 9, false}});
  } else if (chunks > 0) {
    cases.push_back({fmt::format("{} in {} chunks", name, chunks), {text, sizes, {When::always, chunks}, 9, false}});
  } else {
    cases.push_back({name + " product alone", {alone, sizes, never, 9, false}});
    cases.push_back({name + " in turn", {text, sizes, never, 9, false}});
    cases.push_back({name + " in chunks", {text, sizes, {}, 9, false}});
  }
  return show(count, cases) ? 0 : 1;
}

}  // namespace
}  // namespace ridge

int main(int argc, char** argv) {
  if (argc >= 4 && std::strcmp(argv[1], "check") == 0)
    return ridge::check(std::atoi(argv[2]), std::atoi(argv[3]), argc > 4 ? std::atoi(argv[4]) : 0);
  if (argc >= 7 && std::strcmp(argv[1], "times") == 0)
    return ridge::times(std::atoi(argv[2]), argv[3],
                        {{"B", std::atoi(argv[4])}, {"D", std::atoi(argv[5])}, {"F", std::atoi(argv[6])}},
                        argc > 7 ? std::atoi(argv[7]) : 0);
  if (argc == 8 && std::strcmp(argv[1], "small") == 0)
    return ridge::small(std::atoi(argv[2]), argv[3],
                        {{"B", std::atoi(argv[4])}, {"D", std::atoi(argv[5])}, {"F", std::atoi(argv[6])}},
                        std::atoi(argv[7]));
  std::fprintf(stderr,
               "expected check RANKS COUNT [FIRST], times RANKS KIND B D F [N], or small RANKS KIND B D F ROUNDS\n");
  return 2;
}
