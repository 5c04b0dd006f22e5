// Functions behind the public C++ API and the command line. They resolve requests (types of ridge.h), call the modules
// and return complete reports. The functions of ridge.h summarize these reports (summary.cc); the command line prints
// them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ridge/distributed/collective.h"
#include "ridge/distributed/mesh_sizing.h"
#include "ridge/distributed/shard.h"
#include "ridge/model/count.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/plan/model/call_modes.h"
#include "ridge/plan/model/fit_serving.h"
#include "ridge/plan/model/layouts.h"
#include "ridge/plan/model/machine.h"
#include "ridge/plan/model/training_layouts.h"
#include "ridge/plan/streaming/metapipe_mapping.h"
#include "ridge/report/advice.h"
#include "ridge/report/calibrate.h"
#include "ridge/report/page/model_page.h"
#include "ridge/report/page/page.h"
#include "ridge/report/report.h"
#include "ridge/report/stripes.h"
#include "ridge/report/trace/trace.h"
#include "ridge/ridge.h"
#include "ridge/roofline/memory_lines.h"
#include "ridge/roofline/pointwise_chain.h"
#include "ridge/roofline/sizes/compare_statements.h"
#include "ridge/roofline/sweep.h"
#include "ridge/roofline/tile_waves.h"
#include "ridge/simulate/systolic_request.h"

namespace ridge::api {

// Returns work, bounds and limiter. Errors: of the program (with its position), the machine or a dimension.
Result<Report> explain(const Request& request);
Result<Report> explain(const BareWork& work);
// True if the program of a request names a file of another format that `explain_file` reads: .onnx.
bool is_file_of_operators(const std::string& program);
// Returns a report about the operators of such a file; equal ones share a row. Uses the sizes and the machine of the
// request. Errors: of the file (with its path), a size or the machine.
Result<Report> explain_file(const Request& request);
// Compares the times in a profiler's trace with the bounds of its operators. Errors: of the file (with its path) or the
// machine; kernels in the trace without a machine. A trace of a host alone is compared with this CPU by default.
Result<TraceReport> read_trace(const std::string& path, const std::optional<MachineChoice>& on);
// A report with its request.
struct AnsweredRequest {
  Request request;  // Without a program if the report is about bare FLOPs and bytes
  Report report;
};
// Returns an HTML page about the reports; the first is its main subject, and all machines of the catalog can be
// selected. Errors: those of `resolve_request`.
Result<Page> make_page(std::vector<AnsweredRequest> requests);
// Returns a page about a sweep: reports at the first size of each dimension, and the curves below them.
Result<Page> make_page(const SweepRequest& request, const Sweep& sweep);
// Returns one report for each of these machines, which replace the request's. A machine without the peak of a product
// has a report without times that says so, unless all lack one.
Result<std::vector<Report>> explain_on(const Request& request, const std::vector<MachineChoice>& machines);
// Returns one report for each row of dimension values; these override the request's.
Result<std::vector<Report>> explain_each(const Request& request, const std::vector<Bindings>& rows);
// Returns advice that would make a program faster. With `confirming`, runs all advice that this computer can run.
// Errors: those of `explain` and `run`.
Result<AdviceReport> advise(const Request& request, const std::optional<RunRequest>& confirming);
struct CalibrationRequest {
  std::string path;
  MachineChoice on = {};
  DType dtype = DType::bf16;
  std::string column = {}, source = {};  // Column of the times; provenance. Default: found by its name; the path
  std::string out = {};                  // Machine file to write; not written if empty
  std::function<void(double done, const std::string& doing)> progress = {};  // Progress of the run
  std::string points = {};  // CSV file to write with the held-out kernels; not written if empty
};
// Fits a library's parameters on a machine to the timings in a CSV file; without a path, this CPU's parameters to a
// benchmark run, stored in the file of `ridge probe`. Errors: of the machine or the file; too few lines.
Result<CalibrationReport> calibrate(const CalibrationRequest& request);
// Converts advice to the next steps of a report.
std::vector<SuggestedStep> to_suggested_steps(const Request& request, const AdviceList& advices);
struct StripesRequest {
  std::string tile = {};  // "256x128" times the library's kernels of this tile; if empty, the model or plan chooses it
  bool measure = false;   // Run each size on this computer
};
// Returns times of a product along the only dimension with several values. Errors: several such dimensions or none; not
// a single product.
Result<Stripes> predict_stripes(const SweepRequest& request, const StripesRequest& options);
// Runs a program on this CPU or a CUDA device; `measured` holds the times and the first mismatch, if any.
Result<Report> run(const Request& request, const RunRequest& run_request);

// Options of a run on several ranks: processes that divide the work and exchange data.
struct RanksRequest {
  int ranks = 0;          // Number of ranks; 0 for the number of devices in the mesh
  std::string mesh = {};  // "X=2,Y=2"; if empty, the program's mesh or the best one
  // If true, distributes the tensors of a single product evenly, without replication, on the fastest grid.
  bool distribute_evenly = false;
  bool no_overlap = false;  // On devices: do not overlap products with communication
  double timeout_s = 120;   // Timeout of a rank that waits for another rank
  // Called on a rank started by MPI with its error, before it aborts all ranks.
  std::function<void(const Error&)> on_abort = {};
  bool is_requested() const { return ranks != 0 || !mesh.empty(); }
};
// Returns the number of ranks started by a launcher (mpirun, srun, torchrun), or 1 without a launcher.
int count_launched_ranks();
// Runs a program on several ranks and returns the exit code. Rank 0 calls `deliver` with the report; its result is the
// exit code. Call it while no other thread runs, because ranks are forked from this process. Errors: those of `run`,
// with the rank if only one has it.
Result<int> run_on_ranks(const Request& request, const RunRequest& run_request, const RanksRequest& ranks_request,
                         const std::function<int(const Report&)>& deliver);

struct PairedRun {
  Report first, second;
  MedianInterval ratio;  // Time of the second over that of the first
};
// Runs two programs on this CPU with alternating passes, both at the sizes of the request.
Result<PairedRun> run_alternating(const Request& request, const std::string& other, const RunRequest& run_request);

// Counts the cache lines of each tensor if it is read in tiles of some columns.
Result<std::vector<OperandLines>> count_cache_lines(const Request& request, const LinesRequest& tiles);
// Returns the number of tiles and waves of each product.
Result<std::vector<TileWaves>> count_tile_waves(const Request& request, const std::string& tile);
// Returns the size from which some statements cost more than others ("s, o = q, k").
Result<StatementComparison> find_crossover(const Request& request, const std::string& statements);
// Returns the time of a transfer from one chip of the machine to another.
Result<PointToPointTransfer> predict_transfer(const MachineChoice& on, const std::optional<LinkChoice>& link,
                                              double bytes, std::int64_t hops);
// Returns the time of a single collective.
Result<CollectiveTime> predict_collective(const MachineChoice& on, const std::optional<LinkChoice>& link,
                                          const CollectiveRequest& request);
// Returns the best shardings of a program.
Result<ShardingReport> find_shardings(const Request& request, const ShardOptions& options);
Result<bool> is_sharded(const Request& request);
// Returns thresholds of the mesh sizes of a sharded program, or with `chips` its best meshes.
Result<MeshSizing> analyze_mesh_sizes(const Request& request, std::int64_t chips);
// Returns the cost of chains of pointwise statements, fused and unfused.
Result<std::vector<PointwiseChain>> compare_chains(const Request& request, const FunctionCosts& costs);

// Simulates a product, or the layers of a topology, on a systolic array. With `csv_path`, one run for each row with
// columns M, N, K and optionally R and C (rows and columns of the array); missing columns come from the request.
Result<std::vector<SystolicRun>> simulate_systolic(const SystolicRequest& request, const std::string& csv_path = "");

// Maps a program's statements to stages of a dataflow chip (plasticine, sn10, sn40l) and simulates it.
Result<MappedProgram> simulate_mapping(const Request& request, const MappingOptions& options);
// Predicts the time of one token of a language model, kernel by kernel, fused and looped.
Result<DecodeReport> predict_decode(const MachineChoice& on, const DecodeOptions& options);

// Returns the CUDA kernels of the planner whose names contain `name`. Error: there are none.
Result<std::vector<KernelListEntry>> find_kernels(const std::string& name = "");
// Returns one kernel with its machine code or PTX; `in` is bf16 or f16. Errors: no or several kernels match; the CUDA
// toolkit's disassembler is missing (ops/product/machine_code.h).
Result<KernelCode> read_kernel_code(const std::string& name, CodeFormat format, DType dtype);

// Counts the parameters, weights and cache of a model: `config` is a name of models/, a .json file or a folder. Errors:
// those of `find_config` and of the options.
Result<model::ModelCount> count_model(const std::string& config, const model::CountOptions& options);
// Predicts prefill and decoding of the model on each machine, in each of `formats` of the weights; without any, in that
// of the request. The answers are in the order of the machines. Of several machines, one that lacks a rate says so in
// its answer. Of two answers, and of two formats on each of several machines, the second has the batch at which they
// change places. Errors: those of `count_model`, of the machines, and of `predict_model`.
Result<std::vector<ModelOnMachine>> predict_model(const std::string& config, const ModelRequest& request,
                                                  const std::vector<MachineChoice>& machines,
                                                  const std::vector<DType>& formats = {});
// Ranks layouts of chips on each machine. Same errors, and those of `rank_layouts`.
Result<std::vector<LayoutRanking>> rank_layouts(const std::string& config, const LayoutRequest& request,
                                                const std::vector<MachineChoice>& machines);
// Returns the page about these answers of `predict_model` to the request; all machines of the catalog can be selected.
Result<ModelPage> make_page(const std::string& config, const ModelRequest& request,
                            const std::vector<MachineChoice>& machines, std::vector<ModelOnMachine> answers);
// Fits the constants of served times to a file of measured points, and writes them into `out` unless it is empty.
Result<ServingFit> fit_serving(const std::string& points, const std::string& out);
// Returns the program of a step: of one layer, or of the whole model.
Result<std::string> write_model_program(const std::string& config, const model::StepOptions& options,
                                        const std::optional<std::int64_t>& layer);
// Returns the program of a model's vision encoder. Errors: those of model::write_vision_program and of an unknown
// model.
Result<std::string> write_vision_program(const std::string& config, const model::VisionOptions& options);
// Returns the config of a name, file or folder; errors as above.
Result<model::ModelConfig> find_model_config(const std::string& config);
// Predicts a training step, and a run, on each machine. Errors: as above.
Result<std::vector<TrainingStep>> predict_training(const std::string& config, const TrainingRequest& request,
                                                   const std::vector<MachineChoice>& machines);
// Ranks layouts of training steps on each machine. Same errors, and those of `rank_training_layouts`.
Result<std::vector<TrainingRanking>> rank_training_layouts(const std::string& config,
                                                           const TrainingLayoutRequest& request,
                                                           const std::vector<MachineChoice>& machines);
// Returns forward and backward pass of one layer, or of the whole model.
Result<std::string> write_training_program(const std::string& config, const model::StepOptions& options,
                                           const std::optional<std::int64_t>& layer);

}  // namespace ridge::api
