#include "ridge/measure/ranks/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ridge/base/cores.h"
#include "ridge/base/text.h"
#include "ridge/measure/clocks.h"
#include "ridge/measure/inputs.h"
#include "ridge/measure/npy.h"
#include "ridge/measure/passes.h"
#include "ridge/measure/ranks/check.h"
#include "ridge/measure/ranks/device_part.h"
#include "ridge/measure/ranks/part.h"
#include "ridge/measure/ranks/whole.h"
#include "ridge/measure/summary.h"
#include "ridge/plan/shape.h"
#include "ridge/pool/isa.h"

namespace ridge::ranks {
namespace {

// A rank's kernels: for each statement the first statement of its kernel, then for each slot 1 if it is stored.
using Said = std::vector<std::int64_t>;

constexpr double tick_s = 1e-9;  // resolution of the timeline

// Columns of a pass: the seconds of each statement, then the totals of PassTimes.
constexpr std::size_t sums = 4;  // number of totals
std::vector<double> row_of(const PassTimes& t) {
  std::vector<double> out = t.statements;
  for (const double seconds : {t.compute_s, t.network_s, t.wait_s, t.wall_s}) out.push_back(seconds);
  return out;
}

double median(std::vector<double> samples) { return statistics(std::move(samples)).median; }

class Runner {
 public:
  Runner(const Task& task, transport::Ranks& ranks, const RunOptions& options)
      : task_(task), ranks_(ranks), options_(options) {
    if (options_.threads == 0) options_.threads = std::max(1, usable_cores() / ranks.neighbours());
    if (ranks.rank() != 0) options_.progress = {};
  }

  Result<RankRun> perform() {
    if (const Status ready = transport::agree(ranks_, prepare()); !ready) return ready.error();
    for (const auto& step : {&Runner::agree_on_kernels, &Runner::allocate, &Runner::fill})
      if (const Status done = transport::agree(ranks_, (this->*step)()); !done) return done.error();
    if (options_.cuda)
      if (const Status there = carry_up(); !there) return there.error();
    for (const auto& step : {&Runner::measure, &Runner::sum_up, &Runner::judge, &Runner::write})
      if (const Status done = (this->*step)(); !done) return done.error();
    return std::move(out_);
  }

 private:
  const Program& program() const { return task_.program; }
  const Bindings& sizes() const { return task_.explanation.dims; }
  void say(double done, const std::string& doing) const {
    if (options_.progress) options_.progress(done, doing);
  }

  Status prepare() {
    auto mesh = mesh_of(program(), sizes());
    if (!mesh) return mesh.error();
    if (mesh->devices() != ranks_.size())
      return usage_error(fmt::format("expected as many ranks as the mesh has devices, {} ({}), found {}",
                                     mesh->devices(), text(*mesh), ranks_.size()),
                         fmt::format("--ranks {}", mesh->devices()));
    device_ = {*std::move(mesh), ranks_.rank()};
    if (const Status named = check_files(program(), options_.in, options_.out); !named) return named;
    for (const Stack& stack : program().stacks)
      if (options_.in.contains(stack.name))
        return input_error(fmt::format("'{}' in --in holds several inputs, which cannot be split on ranks", stack.name),
                           "declare its parts as inputs of their own");
    return make_part();
  }

  Status make_part() {
    auto part = Part::make(program(), sizes(), device_, options_);
    if (!part) return part.error();
    part_.emplace(*std::move(part));
    return Done{};
  }

  Said said() const {
    Said out;
    for (const int kernel : part_->kernel_of_statements()) out.push_back(kernel);
    for (std::size_t s = 0; s < part_->acts().slots.size(); ++s)
      out.push_back(part_->lies_in_memory(static_cast<int>(s)));
    return out;
  }

  // Ranks with shards of different sizes may fuse differently: fusion is then off. Ranks without work do not count.
  Status agree_on_kernels() {
    for (const bool again : {true, false}) {
      const Said mine = said();
      Said first = mine;
      if (const Status told = transport::broadcast(ranks_, std::as_writable_bytes(std::span(first))); !told)
        return told;
      const std::size_t statements = program().statements.size();
      std::int64_t differs = 0;
      for (std::size_t i = 0; i < mine.size(); ++i)
        if (i < statements ? mine[i] >= 0 && mine[i] != first[i] : mine[i] < first[i]) differs = 1;
      auto all = transport::gather(ranks_, std::as_bytes(std::span(&differs, 1)));
      if (!all) return all.error();
      for (const auto& one : *all)
        if (one[0] != std::byte{0}) differs = 1;
      if (const Status told = transport::broadcast(ranks_, std::as_writable_bytes(std::span(&differs, 1))); !told)
        return told;
      if (differs == 0 || !again) return take(first);
      options_.fuse = false;
      if (const Status made = make_part(); !made) return made;
    }
    return Done{};
  }

  Status take(const Said& first) {
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

  Status allocate() {
    const auto available = available_bytes();
    const std::int64_t needed = part_->memory_bytes();
    if (available && needed > *available / ranks_.neighbours())
      return input_error(
          fmt::format("the shards of a rank take {}; expected at most the {} available to each of {} ranks",
                      engineering(static_cast<double>(needed), "B"),
                      engineering(static_cast<double>(*available) / ranks_.neighbours(), "B"), ranks_.neighbours()),
          "give smaller dimensions with -d");
    return part_->allocate();
  }

  Status fill() {
    std::vector<Array> arrays;
    for (const Tensor& tensor : program().tensors) arrays.push_back({tensor.dtype, 0, nullptr});
    const FillRequest request{.program = program(),
                              .dims = sizes(),
                              .buffers = {},
                              .arrays = arrays,
                              .in = options_.in,
                              .seed = options_.seed,
                              .threads = options_.threads};
    return part_->fill(program(), [&](int tensor, const Array& whole) {
      say(0.05, "filling " + program().tensors[static_cast<std::size_t>(tensor)].name);
      arrays[static_cast<std::size_t>(tensor)] = whole;
      return fill_input(request, tensor);
    });
  }

  Status carry_up() {
    for (const auto& [name, path] : options_.out)
      if (const auto tensor = tensor_named(program(), name)) wanted_.push_back(*tensor);
    auto made = DevicePart::make(
        *part_, ranks_, {task_.explanation.machine, options_, wanted_, task_.nccl, task_.joined, task_.chunks});
    if (!made) return made.error();
    on_device_ = *std::move(made);
    return transport::agree(ranks_, on_device_->upload());
  }

  Result<PassTimes> pass() { return on_device_ ? on_device_->pass(ranks_) : part_->pass(ranks_); }

  // Returns rank 0's decision on every rank.
  Result<bool> another(const Passes& passes) {
    std::byte more{passes.more()};
    if (const Status told = transport::broadcast(ranks_, {&more, 1}); !told) return told.error();
    return more != std::byte{0};
  }

  Status measure() {
    say(0.1, "warming up");
    Measurement& m = out_.measurement;
    if (!options_.cuda) m.clocks.base_hz = base_hz();
    if (const auto warm = pass(); !warm) return warm.error();
    m.clocks.before_hz = running_hz();
    Passes passes(options_);
    for (;;) {
      const auto more = another(passes);
      if (!more) return more.error();
      if (!*more) break;
      say(passes.progress(), passes.doing());
      const auto times = pass();
      if (!times) return times.error();
      rows_.push_back(row_of(*times));
      last_ = times->acts;
      passes.add(times->wall_s);
    }
    m.clocks.after_hz = running_hz();
    return on_device_ ? transport::agree(ranks_, on_device_->download()) : Status(Done{});
  }

  // Gathers the rows of every rank at rank 0.
  Status sum_up() {
    std::vector<double> mine;
    for (const auto& row : rows_) mine.insert(mine.end(), row.begin(), row.end());
    mine.push_back(static_cast<double>(part_->words_sent()));
    mine.push_back(static_cast<double>(part_->memory_bytes()));
    for (const PassTimes::Span& span : last_)
      for (const double seconds : {span.wait, span.begin, span.end}) mine.push_back(seconds);
    const auto all = transport::gather(ranks_, std::as_bytes(std::span(mine)));
    if (!all) return all.error();
    if (ranks_.rank() != 0) return Done{};
    std::vector<std::vector<double>> numbers;
    for (const auto& bytes : *all) {
      numbers.emplace_back(bytes.size() / sizeof(double));
      std::memcpy(numbers.back().data(), bytes.data(), bytes.size());
    }
    auto seen = grouped(program(), task_.explanation, operations_, stored_outputs());
    if (!seen) return seen.error();
    out_.explanation = *std::move(seen);
    describe(numbers);
    return Done{};
  }

  std::vector<int> stored_outputs() const {
    std::vector<int> out;
    for (const auto& [name, path] : options_.out)
      if (const auto tensor = tensor_named(program(), name)) out.push_back(*tensor);
    return out;
  }

  // Returns the maximum of a column over all ranks, for one pass.
  double slowest(const std::vector<std::vector<double>>& numbers, std::size_t pass, std::size_t column) const {
    const std::size_t width = program().statements.size() + sums;
    double out = 0;
    for (const auto& rank : numbers) out = std::max(out, rank[pass * width + column]);
    return out;
  }

  void describe(const std::vector<std::vector<double>>& numbers) {
    Measurement& m = out_.measurement;
    const std::size_t statements = program().statements.size();
    std::vector<std::vector<double>> samples(operations_.size());
    std::vector<double> walls, network;
    for (std::size_t pass = 0; pass < rows_.size(); ++pass) {
      for (std::size_t o = 0; o < operations_.size(); ++o) {
        double seconds = 0;
        for (const int s : operations_[o]) seconds += slowest(numbers, pass, static_cast<std::size_t>(s));
        samples[o].push_back(seconds);
      }
      network.push_back(slowest(numbers, pass, statements + 1));
      walls.push_back(slowest(numbers, pass, statements + 3));
    }
    summarize(out_.explanation, samples, walls, Between::sums, m);
    RanksNotes& notes = m.ranks.emplace();
    notes.carrier = on_device_ ? on_device_->carrier() : std::string(ranks_.carrier());
    if (on_device_) {
      const auto facts = ops::cuda::device_facts();
      notes.device = facts ? facts->name : "";
      notes.in_chunks = on_device_->notes();
      notes.computing_s = on_device_->computing_s();
    }
    notes.words_bound = task_.words_bound;
    const auto on_device = on_device_ ? on_device_->network_s() : std::nullopt;
    notes.predicted_s = on_device ? *on_device : task_.explanation.total.time_network_s;
    notes.measured_s = median(network);
    for (std::size_t r = 0; r < numbers.size(); ++r) share_of(static_cast<int>(r), numbers[r]);
    for (const std::vector<int>& operation : operations_) {
      m.names.emplace_back();
      for (const int s : operation) m.names.back().push_back(name_of(s));
    }
    m.threads = options_.threads;
    m.isa = std::string(name(tile::cpu::isa()));
    m.seed = options_.seed;
    const std::vector<std::string> copies = part_->copies();
    if (!m.ops.empty()) m.ops.front().copies = copies;
  }

  // `spans` has three times for each step: start of the wait, start and end of the step.
  void draw(int rank, const double* spans) {
    Timeline& timeline = out_.measurement.ranks->timeline;
    timeline.ticks_per_second = 1 / tick_s;
    const std::int32_t lane = timeline.add_lane(fmt::format("rank {}", rank));
    const auto ticks = [](double seconds) { return static_cast<std::int64_t>(seconds / tick_s); };
    for (std::size_t i = 0; i < last_.size(); ++i, spans += 3) {
      const bool moves = std::holds_alternative<Shift>(part_->acts().acts[i]);
      timeline.add(lane, Phase::sync, ticks(spans[0]), ticks(spans[1]), static_cast<std::int64_t>(i));
      timeline.add(lane, moves ? Phase::load : Phase::compute, ticks(spans[1]), ticks(spans[2]),
                   static_cast<std::int64_t>(i));
    }
  }

  const std::string& name_of(int statement) const {
    const int result = program().statements[static_cast<std::size_t>(statement)].result();
    return program().tensors[static_cast<std::size_t>(result)].name;
  }

  void share_of(int rank, const std::vector<double>& numbers) {
    const std::size_t statements = program().statements.size(), width = statements + sums;
    const auto of = [&](std::size_t column) {
      std::vector<double> samples;
      for (std::size_t pass = 0; pass < rows_.size(); ++pass) samples.push_back(numbers[pass * width + column]);
      return median(std::move(samples));
    };
    RanksNotes& notes = *out_.measurement.ranks;
    const std::size_t behind = rows_.size() * width;
    notes.ranks.push_back({.rank = rank,
                           .words = static_cast<std::int64_t>(numbers[behind]),
                           .compute_s = of(statements),
                           .network_s = of(statements + 1),
                           .wait_s = of(statements + 2)});
    notes.words += notes.ranks.back().words;
    out_.measurement.memory_bytes += static_cast<std::int64_t>(numbers[behind + 1]);
    draw(rank, numbers.data() + behind + 2);
  }

  Status judge() {
    if (!task_.checked) return Done{};
    const Checked what{program(), sizes(), operations_, stored_};
    return check(what, *part_, ranks_, options_, out_.measurement);
  }

  // Rank 0 writes the files. Only rank 0 knows about mismatches, so the others always take part in gathering.
  Status write() {
    for (const auto& [name, path] : options_.out) {
      const int slot = *tensor_named(program(), name);
      const auto whole = whole_of(*part_, slot, ranks_);
      if (!whole) return whole.error();
      if (ranks_.rank() != 0 || out_.measurement.mismatch) continue;
      const Tensor& tensor = program().tensors[static_cast<std::size_t>(slot)];
      const std::vector<std::int64_t> shape = extents(ridge::shape(tensor, sizes()).value());
      if (const Status written = write_npy(path, whole->values->array(), shape); !written) return written;
    }
    return transport::barrier(ranks_);
  }

  const Task& task_;
  transport::Ranks& ranks_;
  RunOptions options_;
  Device device_;
  std::optional<Part> part_;
  std::unique_ptr<DevicePart> on_device_;  // is null if the CPU runs the steps
  std::vector<int> wanted_;                // tensors to be written to files
  std::vector<std::vector<int>> operations_;
  std::vector<bool> stored_;
  std::vector<std::vector<double>> rows_;  // one row for each pass
  std::vector<PassTimes::Span> last_;      // step times of the last pass
  RankRun out_;
};

}  // namespace

Result<RankRun> run(const Task& task, transport::Ranks& ranks, const RunOptions& options) {
  return Runner(task, ranks, options).perform();
}

}  // namespace ridge::ranks
