#include "ridge/measure/ranks/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ridge/base/cores.h"
#include "ridge/base/string_util.h"
#include "ridge/measure/clocks.h"
#include "ridge/measure/run.h"
#include "ridge/plan/shape.h"
#include "ridge/pool/isa.h"
#include "ridge/run/inputs.h"
#include "ridge/run/npy.h"
#include "ridge/run/pass_counter.h"
#include "ridge/run/ranks/device_rank_program.h"
#include "ridge/run/ranks/rank_program.h"

namespace ridge::ranks {
namespace {

// A rank's kernels: for each statement the first statement of its kernel, then for each slot 1 if it is stored.
using KernelChoices = std::vector<std::int64_t>;

constexpr double tick_s = 1e-9;  // resolution of the timeline

// Columns of a pass: the seconds of each statement, then the totals of PassTimes.
constexpr std::size_t total_columns = 4;  // number of totals
std::vector<double> make_pass_row(const PassTimes& t) {
  std::vector<double> out = t.statement_s;
  for (const double seconds : {t.compute_s, t.network_s, t.wait_s, t.wall_s}) out.push_back(seconds);
  return out;
}

double median_seconds(std::vector<double> samples) { return compute_statistics(std::move(samples)).median; }

class RankRunner {
 public:
  RankRunner(const RankRunRequest& request, transport::Communicator& comm, const RunOptions& options)
      : request_(request), comm_(comm), options_(options) {
    if (options_.threads == 0) options_.threads = std::max(1, usable_cores() / comm.local_size());
    if (comm.rank() != 0) options_.progress = {};
  }

  Result<RankRunResult> run_all() {
    RIDGE_TRY_STATUS(transport::agree_on_status(comm_, prepare_run()));
    for (const auto& step : {&RankRunner::unify_kernel_choices, &RankRunner::allocate_memory, &RankRunner::fill_inputs})
      RIDGE_TRY_STATUS(transport::agree_on_status(comm_, (this->*step)()));
    if (options_.cuda) RIDGE_TRY_STATUS(move_to_device());
    for (const auto& step : {&RankRunner::measure_passes, &RankRunner::gather_times, &RankRunner::verify_outputs,
                             &RankRunner::write_outputs})
      RIDGE_TRY_STATUS((this->*step)());
    return std::move(out_);
  }

 private:
  const Program& program() const { return request_.program; }
  const Bindings& sizes() const { return request_.explanation.dims; }
  void report_progress(double done, const std::string& doing) const {
    if (options_.progress) options_.progress(done, doing);
  }

  Status prepare_run() {
    RIDGE_TRY(mesh, mesh_of(program(), sizes()));
    if (mesh.devices() != comm_.size())
      return usage_error(fmt::format("expected as many ranks as the mesh has devices, {} ({}), found {}",
                                     mesh.devices(), format_mesh(mesh), comm_.size()),
                         fmt::format("--ranks {}", mesh.devices()));
    device_ = {std::move(mesh), comm_.rank()};
    RIDGE_TRY_STATUS(check_file_names(program(), options_.in, options_.out));
    for (const StackedInput& stack : program().stacks)
      if (options_.in.contains(stack.name))
        return input_error(fmt::format("'{}' in --in holds several inputs, which cannot be split on ranks", stack.name),
                           "declare its parts as inputs of their own");
    return make_rank_program();
  }

  Status make_rank_program() {
    RIDGE_TRY(rank_program, RankProgram::make(program(), sizes(), device_, options_));
    rank_program_.emplace(std::move(rank_program));
    return Done{};
  }

  KernelChoices kernel_choices() const {
    KernelChoices out;
    for (const int kernel : rank_program_->kernel_first_statements()) out.push_back(kernel);
    for (std::size_t s = 0; s < rank_program_->schedule().slots.size(); ++s)
      out.push_back(rank_program_->is_stored(static_cast<int>(s)));
    return out;
  }

  // Ranks with shards of different sizes may fuse differently: fusion is then off. Ranks without work do not count.
  Status unify_kernel_choices() {
    for (const bool may_retry : {true, false}) {
      const KernelChoices mine = kernel_choices();
      KernelChoices first = mine;
      RIDGE_TRY_STATUS(transport::broadcast(comm_, std::as_writable_bytes(std::span(first))));
      const std::size_t statements = program().statements.size();
      std::int64_t differs = 0;
      for (std::size_t i = 0; i < mine.size(); ++i)
        if (i < statements ? mine[i] >= 0 && mine[i] != first[i] : mine[i] < first[i]) differs = 1;
      RIDGE_TRY(all, transport::gather_at_root(comm_, std::as_bytes(std::span(&differs, 1))));
      for (const auto& one : all)
        if (one[0] != std::byte{0}) differs = 1;
      RIDGE_TRY_STATUS(transport::broadcast(comm_, std::as_writable_bytes(std::span(&differs, 1))));
      if (differs == 0 || !may_retry) return set_operations(first);
      options_.fuse = false;
      RIDGE_TRY_STATUS(make_rank_program());
    }
    return Done{};
  }

  Status set_operations(const KernelChoices& first) {
    const std::size_t statements = program().statements.size();
    for (std::size_t s = 0; s < statements; ++s) {
      const int kernel = first[s] < 0 ? static_cast<int>(s) : static_cast<int>(first[s]);
      if (kernel == static_cast<int>(s)) operations_.emplace_back();
      for (std::vector<int>& operation : operations_)
        if (operation.empty() || operation.front() == kernel) {
          operation.push_back(static_cast<int>(s));
          break;
        }
    }
    stored_.assign(first.begin() + static_cast<std::ptrdiff_t>(statements), first.end());
    return Done{};
  }

  Status allocate_memory() {
    const auto available = available_bytes();
    const std::int64_t needed = rank_program_->memory_bytes();
    if (available && needed > *available / comm_.local_size())
      return input_error(
          fmt::format("the shards of a rank take {}; expected at most the {} available to each of {} ranks",
                      format_with_prefix(static_cast<double>(needed), "B"),
                      format_with_prefix(static_cast<double>(*available) / comm_.local_size(), "B"),
                      comm_.local_size()),
          "give smaller dimensions with -d");
    return rank_program_->allocate_memory();
  }

  Status fill_inputs() {
    std::vector<Array> arrays;
    for (const Tensor& tensor : program().tensors) arrays.push_back({tensor.dtype, 0, nullptr});
    const FillRequest request{.program = program(),
                              .dims = sizes(),
                              .buffers = {},
                              .arrays = arrays,
                              .in = options_.in,
                              .seed = options_.seed,
                              .threads = options_.threads};
    return rank_program_->fill_inputs(program(), [&](int tensor, const Array& full) {
      report_progress(0.05, "filling " + program().tensors[tensor].name);
      arrays[tensor] = full;
      return fill_one_input(request, tensor);
    });
  }

  Status move_to_device() {
    for (const auto& [name, path] : options_.out)
      if (const auto tensor = find_tensor(program(), name)) stored_tensors_.push_back(*tensor);
    RIDGE_TRY(made, DeviceRankProgram::make(*rank_program_, comm_,
                                            {request_.explanation.machine, options_, stored_tensors_,
                                             request_.nccl_library, request_.nccl_world, request_.chunk_options}));
    device_program_ = std::move(made);
    return transport::agree_on_status(comm_, device_program_->upload_slots());
  }

  Result<PassTimes> run_pass() {
    return device_program_ ? device_program_->run_pass(comm_) : rank_program_->run_pass(comm_);
  }

  // Returns rank 0's decision on every rank.
  Result<bool> needs_another_pass(const PassCounter& passes) {
    std::byte more{passes.needs_more()};
    RIDGE_TRY_STATUS(transport::broadcast(comm_, {&more, 1}));
    return more != std::byte{0};
  }

  Status measure_passes() {
    report_progress(0.1, "warming up");
    Measurement& m = out_.measurement;
    if (!options_.cuda) m.clocks.base_hz = read_base_hz();
    RIDGE_TRY_STATUS(run_pass());
    m.clocks.before_hz = read_running_hz();
    PassCounter passes(options_);
    for (;;) {
      RIDGE_TRY(more, needs_another_pass(passes));
      if (!more) break;
      report_progress(passes.run_progress(), passes.describe_pass());
      RIDGE_TRY(times, run_pass());
      pass_rows_.push_back(make_pass_row(times));
      last_pass_ = times.step_times;
      passes.add_pass(times.wall_s);
    }
    m.clocks.after_hz = read_running_hz();
    return device_program_ ? transport::agree_on_status(comm_, device_program_->download_slots()) : Status(Done{});
  }

  // Gathers the rows of every rank at rank 0.
  Status gather_times() {
    std::vector<double> mine;
    for (const auto& row : pass_rows_) mine.insert(mine.end(), row.begin(), row.end());
    mine.push_back(static_cast<double>(rank_program_->words_sent_per_pass()));
    mine.push_back(static_cast<double>(rank_program_->memory_bytes()));
    for (const PassTimes::StepTime& step_time : last_pass_)
      for (const double seconds : {step_time.wait_begin_s, step_time.begin_s, step_time.end_s}) mine.push_back(seconds);
    RIDGE_TRY(all, transport::gather_at_root(comm_, std::as_bytes(std::span(mine))));
    if (comm_.rank() != 0) return Done{};
    std::vector<std::vector<double>> numbers;
    for (const auto& bytes : all) {
      numbers.emplace_back(bytes.size() / sizeof(double));
      std::memcpy(numbers.back().data(), bytes.data(), bytes.size());
    }
    RIDGE_TRY(per_kernel, predict_groups(program(), request_.explanation, operations_, stored_outputs()));
    out_.explanation = std::move(per_kernel);
    summarize_passes(numbers);
    return Done{};
  }

  std::vector<int> stored_outputs() const {
    std::vector<int> out;
    for (const auto& [name, path] : options_.out)
      if (const auto tensor = find_tensor(program(), name)) out.push_back(*tensor);
    return out;
  }

  // Returns the maximum of a column over all ranks, for one pass.
  double slowest_rank_s(const std::vector<std::vector<double>>& numbers, std::size_t pass, std::size_t column) const {
    const std::size_t width = program().statements.size() + total_columns;
    double out = 0;
    for (const auto& rank : numbers) out = std::max(out, rank[pass * width + column]);
    return out;
  }

  void summarize_passes(const std::vector<std::vector<double>>& numbers) {
    Measurement& m = out_.measurement;
    const std::size_t statements = program().statements.size();
    std::vector<std::vector<double>> samples(operations_.size());
    std::vector<double> walls, network;
    for (std::size_t pass = 0; pass < pass_rows_.size(); ++pass) {
      for (std::size_t o = 0; o < operations_.size(); ++o) {
        double seconds = 0;
        for (const int s : operations_[o]) seconds += slowest_rank_s(numbers, pass, static_cast<std::size_t>(s));
        samples[o].push_back(seconds);
      }
      network.push_back(slowest_rank_s(numbers, pass, statements + 1));
      walls.push_back(slowest_rank_s(numbers, pass, statements + 3));
    }
    summarize_samples(out_.explanation, samples, walls, OverheadMethod::sums, m);
    RanksMeasurement& notes = m.ranks.emplace();
    notes.transport = device_program_ ? device_program_->transport_name() : std::string(comm_.transport_name());
    if (device_program_) {
      const auto properties = device::device_properties();
      notes.device = properties ? properties->name : "";
      notes.overlap_notes = device_program_->notes();
      notes.predicted_compute_s = device_program_->predicted_compute_s();
    }
    notes.min_words = request_.min_words;
    const auto predicted_network = device_program_ ? device_program_->predicted_network_s() : std::nullopt;
    notes.predicted_s = predicted_network ? *predicted_network : request_.explanation.total.time_network_s;
    notes.measured_s = median_seconds(network);
    for (std::size_t r = 0; r < numbers.size(); ++r) add_rank_times(static_cast<int>(r), numbers[r]);
    for (const std::vector<int>& operation : operations_) {
      m.result_names.emplace_back();
      for (const int s : operation) m.result_names.back().push_back(name_of(s));
    }
    m.threads = options_.threads;
    m.isa = std::string(isa_name(pool::active_isa()));
    m.seed = options_.seed;
    const std::vector<std::string> copies = rank_program_->layout_copies();
    if (!m.ops.empty()) m.ops.front().copies = copies;
  }

  // `spans` has three times for each step: start of the wait, start and end of the step.
  void add_timeline_lane(int rank, const double* spans) {
    Timeline& timeline = out_.measurement.ranks->timeline;
    timeline.ticks_per_second = 1 / tick_s;
    const std::int32_t lane = timeline.add_lane(fmt::format("rank {}", rank));
    const auto ticks = [](double seconds) { return static_cast<std::int64_t>(seconds / tick_s); };
    for (std::size_t i = 0; i < last_pass_.size(); ++i, spans += 3) {
      const bool moves = std::holds_alternative<Redistribution>(rank_program_->schedule().steps[i]);
      timeline.add_event(lane, Phase::sync, ticks(spans[0]), ticks(spans[1]), static_cast<std::int64_t>(i));
      timeline.add_event(lane, moves ? Phase::load : Phase::compute, ticks(spans[1]), ticks(spans[2]),
                         static_cast<std::int64_t>(i));
    }
  }

  const std::string& name_of(int statement) const {
    const int result = program().statements[statement].result();
    return program().tensors[result].name;
  }

  void add_rank_times(int rank, const std::vector<double>& numbers) {
    const std::size_t statements = program().statements.size(), width = statements + total_columns;
    const auto median_of_column = [&](std::size_t column) {
      std::vector<double> samples;
      for (std::size_t pass = 0; pass < pass_rows_.size(); ++pass) samples.push_back(numbers[pass * width + column]);
      return median_seconds(std::move(samples));
    };
    RanksMeasurement& notes = *out_.measurement.ranks;
    const std::size_t after_passes = pass_rows_.size() * width;
    notes.ranks.push_back({.rank = rank,
                           .words_sent = static_cast<std::int64_t>(numbers[after_passes]),
                           .compute_s = median_of_column(statements),
                           .network_s = median_of_column(statements + 1),
                           .wait_s = median_of_column(statements + 2)});
    notes.words_sent += notes.ranks.back().words_sent;
    out_.measurement.memory_bytes += static_cast<std::int64_t>(numbers[after_passes + 1]);
    add_timeline_lane(rank, numbers.data() + after_passes + 2);
  }

  Status verify_outputs() {
    if (!request_.check_results) return Done{};
    const VerifyRequest verify_request{program(), sizes(), operations_, stored_};
    return verify_results(verify_request, *rank_program_, comm_, options_, out_.measurement);
  }

  // Rank 0 writes the files. Only rank 0 knows about mismatches, so the others always take part in gathering.
  Status write_outputs() {
    for (const auto& [name, path] : options_.out) {
      const int slot = *find_tensor(program(), name);
      RIDGE_TRY(gathered, gather_tensor(*rank_program_, slot, comm_));
      if (comm_.rank() != 0 || out_.measurement.mismatch) continue;
      const Tensor& tensor = program().tensors[slot];
      const std::vector<std::int64_t> shape = shape_extents(ridge::make_shape(tensor, sizes()).value());
      RIDGE_TRY_STATUS(write_npy(path, gathered.values->array(), shape));
    }
    return transport::barrier(comm_);
  }

  const RankRunRequest& request_;
  transport::Communicator& comm_;
  RunOptions options_;
  MeshDevice device_;
  std::optional<RankProgram> rank_program_;
  std::unique_ptr<DeviceRankProgram> device_program_;  // is null if the CPU runs the steps
  std::vector<int> stored_tensors_;                    // tensors to be written to files
  std::vector<std::vector<int>> operations_;
  std::vector<bool> stored_;
  std::vector<std::vector<double>> pass_rows_;  // one row for each pass
  std::vector<PassTimes::StepTime> last_pass_;  // step times of the last pass
  RankRunResult out_;
};

}  // namespace

Result<RankRunResult> run_on_ranks(const RankRunRequest& request, transport::Communicator& comm,
                                   const RunOptions& options) {
  return RankRunner(request, comm, options).run_all();
}

}  // namespace ridge::ranks
