// What both doors go through: requests in the types of ridge.h become what the rooms answer, whole. ridge.h's functions
// sum these up for other programs (summary.cc); the command line prints them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ridge/distributed/collective.h"
#include "ridge/distributed/open_mesh.h"
#include "ridge/distributed/shard.h"
#include "ridge/plan/as_metapipe.h"
#include "ridge/plan/decode.h"
#include "ridge/plan/menu_list.h"
#include "ridge/report/advice.h"
#include "ridge/report/calibrate.h"
#include "ridge/report/page/page.h"
#include "ridge/report/report.h"
#include "ridge/report/stripes.h"
#include "ridge/ridge.h"
#include "ridge/roofline/chain.h"
#include "ridge/roofline/lines.h"
#include "ridge/roofline/sizes/between.h"
#include "ridge/roofline/sweep.h"
#include "ridge/roofline/tile_waves.h"
#include "ridge/simulate/request.h"

namespace ridge::api {

// Errors: of the program (its place), of the machine, of a dimension.
Result<Report> explain(const Request& request);
Result<Report> explain(const BareWork& work);
// A page about reports, each with what was asked; the first is what it is about, with every machine of the catalog to
// choose from. Errors: understood()'s.
struct Answered {
  Request request;  // no program: bare numbers
  Report report;
};
Result<Page> page_of(std::vector<Answered> answered);
// The same of a sweep: at the first of each dimension's sizes, with the curves below.
Result<Page> page_of(const SweepRequest& request, const Sweep& sweep);
// One report for each of these machines, in place of the request's.
Result<std::vector<Report>> explain_on(const Request& request, const std::vector<MachineChoice>& machines);
// One report for each row; a row's value goes before the request's.
Result<std::vector<Report>> explain_each(const Request& request, const std::vector<Bindings>& rows);
// What would make it faster; with `confirming`, each of these that can run here is run. Errors: of running, too.
Result<AdviceReport> advise(const Request& request, const std::optional<RunRequest>& confirming);
// A library's numbers on a machine, fitted to the timings of a CSV; or without a path this CPU's, to a run of its own,
// which are kept where `ridge probe` keeps what it measures. Errors: of the machine, of the file, too few lines.
struct CalibrationRequest {
  std::string path;
  MachineChoice on = {};
  DType dtype = DType::bf16;
  std::string column = {}, source = {};  // of the times; who measured them; empty: found by its name; the path
  std::string out = {};                  // the machine file to write; empty: none
  std::function<void(double done, const std::string& doing)> progress = {};  // of the run
  std::string points = {};  // the CSV to write of the kernels kept apart; empty: none
};
Result<CalibrationReport> calibrate(const CalibrationRequest& request);
// The same as the next steps of a report.
std::vector<SuggestedStep> suggested(const Request& request, const Advices& all);
// A product along the one dimension with several values. Errors: several such dimensions, or none; no product.
struct StripesRequest {
  std::string tile = "256x128";  // of machines without a planner
  bool is_tile_given = false;    // of those with one, too
  bool measure = false;          // each size is run here
};
Result<Stripes> stripes(const SweepRequest& request, const StripesRequest& how);
// Runs it on this CPU or a CUDA device; `measured` holds the times, and the first mismatch if there is one.
Result<Report> run(const Request& request, const RunRequest& how);

// The same on several ranks, processes that share the work and exchange what must move.
struct RanksRequest {
  int ranks = 0;          // 0: as many as the mesh has devices
  std::string mesh = {};  // "X=2,Y=2"; empty: what the program says, or the one that shard() ranks first
  // A program of one product: each tensor lies once, evenly spread, on the grid that takes least time.
  bool spread = false;
  bool in_turn = false;     // on devices: no product in chunks beside what moves
  double patience_s = 120;  // how long a rank waits for another one before it ends the run
  // Of a rank that MPI started and that ends all of them: it is told here, before it is too late.
  std::function<void(const Error&)> last_words = {};
  bool asked() const { return ranks != 0 || !mesh.empty(); }
};
// How many ranks a launcher (mpirun, srun, torchrun) started, of which this process is one; 1: none did.
int ranks_started();
// `deliver` is called at rank 0 with the report, and what it returns is the exit code. To be called where no other
// thread runs: ranks are copies of this process. Errors: run()'s, with the rank where one has it alone.
Result<int> run_on_ranks(const Request& request, const RunRequest& how, const RanksRequest& on,
                         const std::function<int(const Report&)>& deliver);

// The same of two programs in one run on this CPU, a pass of each in turn; the other one at the request's sizes, too.
struct RunTogether {
  Report first, second;
  MedianInterval ratio;  // the second one's time over the first one's
};
Result<RunTogether> run_against(const Request& request, const std::string& other, const RunRequest& how);

// The tensors' cache lines, read in tiles of some columns; chains fused and unfused.
Result<std::vector<OperandLines>> lines(const Request& request, const LinesRequest& tiles);
// How many tiles and waves each product is; from which size on some statements cost more than others ("s, o = q, k").
Result<std::vector<TileWaves>> tile_waves(const Request& request, const std::string& tile);
Result<Between> between(const Request& request, const std::string& sides);
// From one chip of the machine to another.
Result<Passage> passage(const MachineChoice& on, const std::optional<LinkChoice>& link, double bytes,
                        std::int64_t hops);
// A collective by itself, on so many chips of the machine.
Result<CollectiveTime> collective(const MachineChoice& on, const std::optional<LinkChoice>& link,
                                  const CollectiveRequest& request);
// The best shardings of a program; of one that is sharded already, what its mesh's sizes decide.
Result<ShardAnswer> shard(const Request& request, const ShardOptions& options);
Result<bool> is_sharded(const Request& request);
Result<OpenMesh> open_mesh(const Request& request, std::int64_t chips);
Result<std::vector<Chain>> chains(const Request& request, const FunctionCosts& costs);

// A product on a systolic array, or a topology's layers. With `csv_path`: a run for each row of M, N, K and, where the
// array changes too, R and C; what a row lacks is the request's.
Result<std::vector<SystolicRun>> simulate(const SystolicRequest& request, const std::string& csv_path = "");

// A program's statements as stages of a dataflow chip (plasticine, sn10, sn40l); a token of Llama-3.1-8B on `on`.
Result<MappedProgram> simulate(const Request& request, const MappingOptions& options);
Result<DecodeReport> decode(const MachineChoice& on, const DecodeOptions& options);

// The CUDA kernels that a plan chooses from whose name contains this. Error: none does.
Result<std::vector<MenuEntry>> kernel_menu(const std::string& name = "");
// One of them with its machine code or PTX; `in` is bf16 or f16. Errors: none or several are called so, no tool that
// reads this binary (ops/product/machine_code.h).
Result<KernelCode> kernel_code(const std::string& name, Listing what, DType in);

}  // namespace ridge::api
