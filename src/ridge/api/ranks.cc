// Runs of one program on several ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ridge/api/command.h"
#include "ridge/api/resolve_request.h"
#include "ridge/api/tune_options.h"
#include "ridge/base/cores.h"
#include "ridge/distributed/process_grid.h"
#include "ridge/measure/ranks/run.h"
#include "ridge/run/ranks/rank_machine.h"
#include "ridge/transport/communicator.h"
#include "ridge/transport/launch_ranks.h"
#include "ridge/transport/mpi.h"

namespace ridge::api {
namespace {

Status check_request(const Request& request, const RanksRequest& ranks_request) {
  if (ranks_request.distribute_evenly && !ranks_request.mesh.empty())
    return usage_error("expected --spread without --mesh: --spread chooses the grid");
  if (request.on.where() == RunTarget::prediction_only)
    return usage_error(
        fmt::format("ranks run on this computer; expected --on cpu or --on cuda, found '{}'", request.on.name()),
        fmt::format("`ridge explain --on {}` predicts times on that machine", request.on.name()));
  if (ranks_request.no_overlap && request.on.where() != RunTarget::cuda)
    return usage_error("expected --in-turn with --on cuda: ranks on CPUs never overlap computing and sending");
  return Done{};
}

// A resolved request with all sizes, including those of the mesh, and the number of ranks.
struct RanksPlan {
  const Request& request;
  ResolvedRequest resolved;
  Bindings dims;
  int ranks = 1;
};

Status bind_mesh(const std::string& text, const Program& program, Bindings& dims) {
  if (text.empty()) return Done{};
  RIDGE_TRY(mesh, parse_mesh(text));
  if (program.mesh.empty()) return Done{};  // A sharding on this mesh is searched later
  for (const auto& [letter, size] : mesh.axes) {
    const std::string name(1, letter);
    const auto has_axis_name = [&](const MeshAxis& axis) { return axis.name == name; };
    if (std::none_of(program.mesh.begin(), program.mesh.end(), has_axis_name))
      return usage_error(fmt::format("--mesh {} has an axis {} that the program does not use", text, name),
                         "remove it");
    dims[name] = size;
  }
  return Done{};
}

// `started` is the number of ranks that a launcher has started, or 0 without a launcher.
Result<RanksPlan> plan_ranks(const Request& request, const RanksRequest& ranks_request, int launched_count) {
  RIDGE_TRY(resolved, request.on.where() == RunTarget::cuda ? load_without_machine(request)
                                                            : resolve_request(request));  // The ranks open the devices
  RanksPlan out{request, std::move(resolved), request.dims,
                ranks_request.ranks != 0 ? ranks_request.ranks : launched_count};
  RIDGE_TRY_STATUS(bind_mesh(ranks_request.mesh, out.resolved.program, out.dims));
  RIDGE_TRY(sizes, out.resolved.program.bind_sizes(out.dims));
  for (const std::string& dim : out.resolved.program.dim_names())
    if (!sizes.contains(dim))
      return input_error(fmt::format("dimension '{}' has no value; expected one to run the program", dim),
                         fmt::format("-d {}=64", dim));
  RIDGE_TRY(mesh, out.resolved.program.mesh.empty() && !ranks_request.mesh.empty()
                      ? parse_mesh(ranks_request.mesh)
                      : ranks::mesh_of(out.resolved.program, sizes));
  const bool has_any_rank_count =
      out.resolved.program.mesh.empty() && ranks_request.mesh.empty();  // Any number of ranks is possible
  if (out.ranks == 0 || !has_any_rank_count) out.ranks = static_cast<int>(mesh.devices());
  if (ranks_request.ranks != 0 && ranks_request.ranks != out.ranks)
    return usage_error(fmt::format("the mesh has {} devices ({}), but --ranks is {}", out.ranks, format_mesh(mesh),
                                   ranks_request.ranks),
                       "remove --ranks");
  return out;
}

// Returns rank 0's text on every rank.
Result<std::string> broadcast_text(transport::Communicator& ranks, const Result<std::string>& own_text) {
  RIDGE_TRY_STATUS(transport::agree_on_status(ranks, own_text ? Status(Done{}) : own_text.error()));
  std::uint64_t length = own_text->size();
  RIDGE_TRY_STATUS(transport::broadcast(ranks, std::as_writable_bytes(std::span(&length, 1))));
  std::string out = ranks.rank() == 0 ? *own_text : "";
  if (length > max_program_bytes) return input_error("rank 0's program is too long");
  out.resize(length);
  RIDGE_TRY_STATUS(transport::broadcast(ranks, std::as_writable_bytes(std::span(out))));
  return out;
}

// Returns the best sharding of an unsharded program. Rank 0 calls this.
Result<DistributedProduct> find_sharding(const RanksPlan& plan, const RanksRequest& ranks_request,
                                         const Machine& machine, int ranks) {
  if (ranks_request.distribute_evenly) return distribute_product(plan.resolved.program, machine, plan.dims, ranks);
  RIDGE_TRY(found, search_shardings(plan.resolved.program, machine, plan.dims,
                                    {.chips = ranks, .mesh = ranks_request.mesh, .max_results = 1}));
  if (found.best.empty())
    return input_error("no sharding fits into the memory of the ranks", "use more ranks or smaller dimensions");
  DistributedProduct out;
  out.program_text = found.best.front().program_text;
  out.grid.m = ranks;
  return out;
}

struct SplitProgram {
  Program program;
  int devices = 1;
  std::string grid = {};  // Grid of a product with --spread
};
Result<SplitProgram> split_on_first_rank(const RanksPlan& plan, const RanksRequest& ranks_request,
                                         const Machine& machine, transport::Communicator& ranks) {
  std::optional<Result<DistributedProduct>> found;
  if (ranks.rank() == 0) found = find_sharding(plan, ranks_request, machine, ranks.size());
  Result<std::string> text = std::string();
  if (found) text = *found ? Result<std::string>((*found)->program_text) : found->error();
  RIDGE_TRY(program_text, broadcast_text(ranks, text));
  auto program = parse(program_text, {.source = plan.resolved.program.source});
  if (!program)
    return input_error("ranks cannot run the best sharding of the program: " + program.error().message,
                       "write a sharding into the program, such as D_X, and give --mesh");
  SplitProgram out{*std::move(program)};
  RIDGE_TRY(mesh, ranks::mesh_of(out.program, out.program.bind_sizes({}).value()));
  out.devices = static_cast<int>(mesh.devices());
  if (ranks_request.distribute_evenly && found) out.grid = ridge::format_product(**found);
  return out;
}

// Checks that all ranks have the same request; a launcher may have started them with different arguments.
Status check_same_request(const RanksPlan& plan, const RanksRequest& ranks_request, const RunOptions& o,
                          transport::Communicator& ranks) {
  std::string sizes = ranks_request.mesh + (ranks_request.distribute_evenly ? " spread" : "");
  for (const auto& [name, value] : plan.dims) sizes += fmt::format(" {}={}", name, value);
  const transport::ComparedText compared[] = {
      {"version of ridge", fmt::format("{} {}", version(), commit())},
      {"program", plan.resolved.program.text},
      {"size or mesh", sizes},
      {"option", fmt::format("{} {} {} {} {} {}", o.seed, o.threads, o.fuse, o.passes, o.seconds, o.out.size())}};
  return transport::check_same_on_all_ranks(ranks, compared);
}

// Runs the sharded program on these ranks.
Result<Report> run_split(const ResolvedRequest& resolved, const Bindings& dims, const SplitProgram& split,
                         const RanksRequest& ranks_request, const RunOptions& options, transport::Communicator& ranks) {
  auto explanation = explain(split.program, resolved.machine, dims);
  RIDGE_TRY_STATUS(transport::agree_on_status(ranks, explanation ? Status(Done{}) : explanation.error()));
  const double bound = min_words_moved(split.program, explanation->dims, ranks.size());
  const char* const nccl = std::getenv("RIDGE_NCCL");
  const ranks::RankRunRequest sharded{
      split.program,
      *explanation,
      bound,
      nccl != nullptr ? nccl : "",
      {.mode = ranks_request.no_overlap ? ranks::ChunkOptions::ChunkMode::never
                                        : ranks::ChunkOptions::ChunkMode::where_faster}};
  RIDGE_TRY(result, ranks::run_on_ranks(sharded, ranks, options));
  if (resolved.program.mesh.empty() && result.measurement.ranks && ranks.size() > 1) {
    result.measurement.ranks->sharding_note = split.program.text;
    result.measurement.ranks->product_grid = split.grid;
  }
  return Report{"run", resolved.title, std::move(result.explanation), std::move(result.measurement), today_utc()};
}

Result<Report> run_on_rank(const RanksPlan& plan, const RanksRequest& ranks_request, const RunOptions& options,
                           transport::Communicator& ranks) {
  RIDGE_TRY_STATUS(check_same_request(plan, ranks_request, options, ranks));
  ResolvedRequest resolved = plan.resolved;
  if (options.cuda) {
    Status found = ranks::use_rank_device(ranks);
    if (found) found = resolve_machine(plan.request, resolved);
    RIDGE_TRY_STATUS(transport::agree_on_status(ranks, found));
  } else if (ranks.size() > 1 && resolved.machine.links.empty()) {
    RIDGE_TRY(link, ranks::measure_link(ranks));
    resolved.machine.links.push_back(std::move(link));
  }
  const int threads = options.threads > 0 ? options.threads : std::max(1, usable_cores() / ranks.local_size());
  if (!options.cuda)
    resolved.machine = ranks::machine_for_rank(std::move(resolved.machine), ranks.local_size(), threads);
  if (!resolved.program.mesh.empty() || ranks.size() == 1)
    return run_split(resolved, plan.dims, {resolved.program, ranks.size()}, ranks_request, options, ranks);
  RIDGE_TRY(sharded, split_on_first_rank(plan, ranks_request, resolved.machine, ranks));
  if (sharded.devices == ranks.size()) return run_split(resolved, {}, sharded, ranks_request, options, ranks);
  if (ranks.rank() >= sharded.devices) return Report{};  // This rank has no work
  transport::SubsetCommunicator first(ranks, sharded.devices);
  auto report = run_split(resolved, {}, sharded, ranks_request, options, first);
  if (!report) first.abort_all(report.error());
  return report;
}

using ReportHandler = std::function<int(const Report&)>;

int run_and_deliver(const RanksPlan& plan, const RanksRequest& ranks_request, const RunOptions& options,
                    transport::Communicator& ranks, const ReportHandler& deliver) {
  const auto report = run_on_rank(plan, ranks_request, options, ranks);
  if (report) return ranks.rank() == 0 ? deliver(*report) : 0;
  ranks.abort_all(report.error());
  return static_cast<int>(report.error().kind);
}

// Runs as one of the ranks that a launcher started. Rank 0 reports the result.
Result<int> run_as_launched_rank(const RanksPlan& plan, const RanksRequest& ranks_request, const RunOptions& options,
                                 const transport::Launcher& launcher, const ReportHandler& deliver) {
  const char* const library = std::getenv("RIDGE_MPI");
  RIDGE_TRY(ranks, transport::connect_mpi(launcher, {.timeout_s = ranks_request.timeout_s,
                                                     .on_abort = ranks_request.on_abort,
                                                     .library_path = library != nullptr ? library : ""}));
  const auto report = run_on_rank(plan, ranks_request, options, *ranks);
  if (report) return launcher.rank == 0 ? deliver(*report) : 0;
  ranks->abort_all(report.error());
  return report.error();
}

// Returns an error that every rank has, on rank 0 only; other ranks exit with 0. A launcher stops all ranks when one
// exits with another code, possibly before rank 0 has printed the error.
Result<int> report_once(const std::optional<transport::Launcher>& launcher, const Error& error) {
  return launcher && launcher->rank != 0 ? Result<int>(0) : error;
}

}  // namespace

int count_launched_ranks() {
  const auto launcher = transport::detect_launcher([](const char* name) { return std::getenv(name); });
  return launcher ? launcher->size : 1;
}

Result<int> run_on_ranks(const Request& request, const RunRequest& run_request, const RanksRequest& ranks_request,
                         const std::function<int(const Report&)>& deliver) {
  const auto launcher = transport::detect_launcher([](const char* name) { return std::getenv(name); });
  if (const Status valid = check_request(request, ranks_request); !valid) return report_once(launcher, valid.error());
  const auto plan = plan_ranks(request, ranks_request, launcher ? launcher->size : 0);
  if (!plan) return report_once(launcher, plan.error());
  const RunOptions options = make_run_options(request, run_request);
  if (launcher) {
    if (plan->ranks != launcher->size)
      return report_once(launcher, usage_error(fmt::format("{} started {} ranks; expected {}", launcher->name,
                                                           launcher->size, plan->ranks),
                                               fmt::format("mpirun -n {} ridge run …", plan->ranks)));
    const auto code = run_as_launched_rank(*plan, ranks_request, options, *launcher, deliver);
    return code ? code : report_once(launcher, code.error());
  }
  RIDGE_TRY(launched,
            transport::launch_ranks(plan->ranks, ranks_request.timeout_s, [&](transport::Communicator& ranks) {
              return run_and_deliver(*plan, ranks_request, options, ranks, deliver);
            }));
  return launched.cause ? Result<int>(*launched.cause) : launched.exit_code;
}

}  // namespace ridge::api
