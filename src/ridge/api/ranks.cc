// Runs of one program on several ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ridge/api/command.h"
#include "ridge/api/task.h"
#include "ridge/api/tune_options.h"
#include "ridge/base/cores.h"
#include "ridge/distributed/grid.h"
#include "ridge/measure/ranks/machine.h"
#include "ridge/measure/ranks/run.h"
#include "ridge/transport/first_ranks.h"
#include "ridge/transport/launch.h"
#include "ridge/transport/launcher.h"
#include "ridge/transport/mpi.h"

namespace ridge::api {
namespace {

RunOptions options_of(const Request& request, const RunRequest& how) {
  return {.in = how.in,
          .out = how.out,
          .seed = how.seed,
          .threads = how.threads,
          .cuda = request.on.where() == Where::cuda,
          .fuse = request.fuse,
          .passes = how.passes,
          .seconds = how.seconds,
          .tune = tune_options(how.tuning),
          .progress = how.progress};
}

Status check_place(const Request& request, const RanksRequest& on) {
  if (on.spread && !on.mesh.empty()) return usage_error("expected --spread without --mesh: it chooses the grid itself");
  if (request.on.where() == Where::elsewhere)
    return usage_error(
        fmt::format("ranks run on what is here; expected --on cpu or --on cuda, found '{}'", request.on.name()),
        fmt::format("ridge explain --on {} says what that machine would do", request.on.name()));
  if (on.in_turn && request.on.where() != Where::cuda)
    return usage_error("expected --in-turn with --on cuda: ranks on CPUs always compute and send in turn");
  return Done{};
}

// The program and its sizes, those of the mesh among them, and how many ranks that are.
struct Planned {
  const Request& request;
  Task task;
  Bindings dims;
  int ranks = 1;
};

Status take_mesh(const std::string& text, const Program& program, Bindings& dims) {
  if (text.empty()) return Done{};
  const auto mesh = mesh_named(text);
  if (!mesh) return mesh.error();
  if (program.mesh.empty()) return Done{};  // its sharding is searched on this mesh
  for (const auto& [letter, size] : mesh->axes) {
    const std::string name(1, letter);
    const auto is = [&](const MeshAxis& axis) { return axis.name == name; };
    if (std::none_of(program.mesh.begin(), program.mesh.end(), is))
      return usage_error(
          fmt::format("--mesh {} has an axis {}, and nothing in the program is split over it", text, name),
          "leave it out");
    dims[name] = size;
  }
  return Done{};
}

// `started`: how many ranks there are already; 0: none.
Result<Planned> planned(const Request& request, const RanksRequest& on, int started) {
  auto task = request.on.where() == Where::cuda ? read(request) : understood(request);  // ranks have devices, not this
  if (!task) return task.error();
  Planned out{request, *std::move(task), request.dims, on.ranks != 0 ? on.ranks : started};
  if (const Status taken = take_mesh(on.mesh, out.task.program, out.dims); !taken) return taken.error();
  const auto sizes = out.task.program.bind(out.dims);
  if (!sizes) return sizes.error();
  for (const std::string& dim : out.task.program.dim_names())
    if (!sizes->contains(dim))
      return input_error(fmt::format("dimension '{}' has no value; expected one to run the program", dim),
                         fmt::format("-d {}=64", dim));
  const auto mesh = out.task.program.mesh.empty() && !on.mesh.empty() ? mesh_named(on.mesh)
                                                                      : ranks::mesh_of(out.task.program, *sizes);
  if (!mesh) return mesh.error();
  const bool is_open = out.task.program.mesh.empty() && on.mesh.empty();  // any number will do
  if (out.ranks == 0 || !is_open) out.ranks = static_cast<int>(mesh->devices());
  if (on.ranks != 0 && on.ranks != out.ranks)
    return usage_error(fmt::format("the mesh has {} devices ({}), --ranks says {}", out.ranks, text(*mesh), on.ranks),
                       "leave --ranks out");
  return out;
}

// Rank 0's text, at every rank.
Result<std::string> told(transport::Ranks& ranks, const Result<std::string>& mine) {
  if (const Status there = transport::agree(ranks, mine ? Status(Done{}) : mine.error()); !there) return there.error();
  std::uint64_t length = mine->size();
  if (const Status done = transport::broadcast(ranks, std::as_writable_bytes(std::span(&length, 1))); !done)
    return done.error();
  std::string out = ranks.rank() == 0 ? *mine : "";
  if (length > max_program_bytes) return input_error("rank 0 sends a program that is too long");
  out.resize(length);
  if (const Status done = transport::broadcast(ranks, std::as_writable_bytes(std::span(out))); !done)
    return done.error();
  return out;
}

// How a program that does not say it is split: found by rank 0.
Result<SpreadProduct> split(const Planned& what, const RanksRequest& on, const Machine& machine, int ranks) {
  if (on.spread) return spread_product(what.task.program, machine, what.dims, ranks);
  const auto found = shard(what.task.program, machine, what.dims, {.chips = ranks, .mesh = on.mesh, .best = 1});
  if (!found) return found.error();
  if (found->best.empty())
    return input_error("no sharding fits into the memory of so many ranks", "give more ranks, or smaller dimensions");
  SpreadProduct out;
  out.written = found->best.front().written;
  out.grid.m = ranks;
  return out;
}

struct Split {
  Program program;
  int devices = 1;
  std::string grid = {};  // of a product that is spread
};
Result<Split> split_by_first(const Planned& what, const RanksRequest& on, const Machine& machine,
                             transport::Ranks& ranks) {
  std::optional<Result<SpreadProduct>> found;
  if (ranks.rank() == 0) found = split(what, on, machine, ranks.size());
  Result<std::string> text = std::string();
  if (found) text = *found ? Result<std::string>((*found)->written) : found->error();
  const auto all = told(ranks, text);
  if (!all) return all.error();
  auto program = parse(*all, {.source = what.task.program.source});
  if (!program)
    return input_error("the first of its shardings splits what ranks do not run split: " + program.error().message,
                       "write yourself how it is split, as in D_X, and give --mesh");
  Split out{*std::move(program)};
  const auto mesh = ranks::mesh_of(out.program, out.program.bind({}).value());
  if (!mesh) return mesh.error();
  out.devices = static_cast<int>(mesh->devices());
  if (on.spread && found) out.grid = ridge::text(**found);
  return out;
}

// Ranks that were started apart may differ in more than their number.
Status same_everywhere(const Planned& what, const RanksRequest& on, const RunOptions& o, transport::Ranks& ranks) {
  std::string sizes = on.mesh + (on.spread ? " spread" : "");
  for (const auto& [name, value] : what.dims) sizes += fmt::format(" {}={}", name, value);
  const transport::Same all[] = {
      {"version of ridge", fmt::format("{} {}", version(), commit())},
      {"program", what.task.program.text},
      {"size or mesh", sizes},
      {"option", fmt::format("{} {} {} {} {} {}", o.seed, o.threads, o.fuse, o.passes, o.seconds, o.out.size())}};
  return transport::agree_same(ranks, all);
}

// Runs the task on these ranks; with what they know of how it was split.
Result<Report> run_split(const Task& task, const Bindings& dims, const Split& split, const RanksRequest& on,
                         const RunOptions& options, transport::Ranks& ranks) {
  auto explanation = explain(split.program, task.machine, dims);
  if (const Status there = transport::agree(ranks, explanation ? Status(Done{}) : explanation.error()); !there)
    return there.error();
  const double bound = least_words(split.program, explanation->dims, ranks.size());
  const char* const nccl = std::getenv("RIDGE_NCCL");
  const ranks::Task sharded{split.program,
                            *explanation,
                            bound,
                            nccl != nullptr ? nccl : "",
                            {.when = on.in_turn ? ranks::Chunks::When::never : ranks::Chunks::When::where_faster}};
  auto result = ranks::run(sharded, ranks, options);
  if (!result) return result.error();
  if (task.program.mesh.empty() && result->measurement.ranks && ranks.size() > 1) {
    result->measurement.ranks->written = split.program.text;
    result->measurement.ranks->grid = split.grid;
  }
  return Report{"run", task.title, std::move(result->explanation), std::move(result->measurement), today()};
}

Result<Report> on_rank(const Planned& what, const RanksRequest& on, const RunOptions& options,
                       transport::Ranks& ranks) {
  if (const Status same = same_everywhere(what, on, options, ranks); !same) return same.error();
  Task task = what.task;
  if (options.cuda) {
    Status found = ranks::take_device(ranks);
    if (found) found = take_machine(what.request, task);
    if (const Status there = transport::agree(ranks, found); !there) return there.error();
  } else if (ranks.size() > 1 && task.machine.links.empty()) {
    auto link = ranks::measured_link(ranks);
    if (!link) return link.error();
    task.machine.links.push_back(*std::move(link));
  }
  const int threads = options.threads > 0 ? options.threads : std::max(1, usable_cores() / ranks.neighbours());
  if (!options.cuda) task.machine = ranks::seen_by_a_rank(std::move(task.machine), ranks.neighbours(), threads);
  if (!task.program.mesh.empty() || ranks.size() == 1)
    return run_split(task, what.dims, {task.program, ranks.size()}, on, options, ranks);
  const auto split = split_by_first(what, on, task.machine, ranks);
  if (!split) return split.error();
  if (split->devices == ranks.size()) return run_split(task, {}, *split, on, options, ranks);
  if (ranks.rank() >= split->devices) return Report{};  // idle
  transport::FirstRanks first(ranks, split->devices);
  auto report = run_split(task, {}, *split, on, options, first);
  if (!report) first.abandon(report.error());
  return report;
}

using Deliver = std::function<int(const Report&)>;

int work(const Planned& what, const RanksRequest& on, const RunOptions& options, transport::Ranks& ranks,
         const Deliver& deliver) {
  const auto report = on_rank(what, on, options, ranks);
  if (report) return ranks.rank() == 0 ? deliver(*report) : 0;
  ranks.abandon(report.error());
  return static_cast<int>(report.error().kind);
}

// As one of the ranks that somebody else started: what all of them know rank 0 says.
Result<int> as_started(const Planned& what, const RanksRequest& on, const RunOptions& options,
                       const transport::Launcher& launcher, const Deliver& deliver) {
  const char* const library = std::getenv("RIDGE_MPI");
  auto ranks = transport::mpi_ranks(
      launcher,
      {.patience_s = on.patience_s, .last_words = on.last_words, .library = library != nullptr ? library : ""});
  if (!ranks) return ranks.error();
  const auto report = on_rank(what, on, options, **ranks);
  if (report) return launcher.rank == 0 ? deliver(*report) : 0;
  (*ranks)->abandon(report.error());
  return report.error();
}

// An error that every rank has: rank 0 tells it and ends with its code. A launcher ends all as soon as one ends with
// another code than 0, and rank 0 might not have told it then.
Result<int> once(const std::optional<transport::Launcher>& launcher, const Error& error) {
  return launcher && launcher->rank != 0 ? Result<int>(0) : error;
}

}  // namespace

int ranks_started() {
  const auto launcher = transport::launcher_of([](const char* name) { return std::getenv(name); });
  return launcher ? launcher->size : 1;
}

Result<int> run_on_ranks(const Request& request, const RunRequest& how, const RanksRequest& on,
                         const std::function<int(const Report&)>& deliver) {
  const auto launcher = transport::launcher_of([](const char* name) { return std::getenv(name); });
  if (const Status here = check_place(request, on); !here) return once(launcher, here.error());
  const auto what = planned(request, on, launcher ? launcher->size : 0);
  if (!what) return once(launcher, what.error());
  const RunOptions options = options_of(request, how);
  if (launcher) {
    if (what->ranks != launcher->size)
      return once(launcher, usage_error(fmt::format("{} started {} ranks; expected {}", launcher->name, launcher->size,
                                                    what->ranks),
                                        fmt::format("mpirun -n {} ridge run …", what->ranks)));
    const auto code = as_started(*what, on, options, *launcher, deliver);
    return code ? code : once(launcher, code.error());
  }
  const auto launched = transport::launch(
      what->ranks, on.patience_s, [&](transport::Ranks& ranks) { return work(*what, on, options, ranks, deliver); });
  if (!launched) return launched.error();
  return launched->cause ? Result<int>(*launched->cause) : launched->code;
}

}  // namespace ridge::api
