#include "ridge/plan/streaming/metapipe_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/program/bindings.h"
#include "ridge/program/routine.h"
#include "ridge/program/tensor_uses.h"
#include "ridge/roofline/work.h"

namespace ridge {
namespace {

constexpr std::size_t max_placed_statements = 2048;  // twice the number of units of the largest chip

class MetapipeMapper {
 public:
  MetapipeMapper(const Program& program, const Fabric& fabric, const MappingOptions& options)
      : program_(program), fabric_(fabric), options_(options) {}

  Result<MappedProgram> map_program(const Bindings& given) {
    RIDGE_TRY_STATUS(check_options());
    RIDGE_TRY_STATUS(require_unsharded(program_, "simulate"));
    RIDGE_TRY_STATUS(check_simulated_statements(program_));
    RIDGE_TRY(dims, program_.bind_sizes(given));
    PassContext context{program_, dims, fabric_, options_.tile, "", 0, {}, {}, PipeSchedule::pipelined, {}};
    RIDGE_TRY_STATUS(read_options(context));
    RIDGE_TRY_STATUS(count_statement_work(dims));
    context.flops = flops_;
    for (const StreamingPass& pass : split_into_passes(program_, dims)) {
      if (!pass.streamed_dim.empty() && !dims.contains(pass.streamed_dim))
        return input_error(fmt::format("dimension '{}' has no value", pass.streamed_dim),
                           fmt::format("-d {}=1024", pass.streamed_dim));
      RIDGE_TRY(mapped, map_pass_to_pipe(context, pass));
      mapped_.passes.push_back(std::move(mapped));
      add_pass_time(pass, mapped_.passes.back(), dims);
    }
    const auto has_inner = [](const MappedPass& p) { return !p.inner_dim.empty(); };
    if (!context.inner_dim.empty() && std::none_of(mapped_.passes.begin(), mapped_.passes.end(), has_inner))
      return usage_error(fmt::format("expected an inner dimension that does not stream, found '{}'", context.inner_dim),
                         "rows stream along it already; --tile sets how many at a time");
    mapped_.layers = options_.layers;
    mapped_.fabric = std::string(fabric_.name);
    mapped_.schedule = options_.schedule;
    compare_launch_modes();
    return std::move(mapped_);
  }

 private:
  Status check_options() const {
    if (options_.layers < 1 || options_.layers > 1 << 20)
      return usage_error(fmt::format("expected 1 to {} layers, found {}", 1 << 20, options_.layers));
    if (options_.tile < 0)
      return usage_error(fmt::format("expected a tile of at least 1 row, found {}", options_.tile));
    for (const double sync : options_.sync_seconds)
      if (!(sync >= 0) || !(sync < 1e6))
        return usage_error(fmt::format("expected seconds of at least 0 for a call's synchronisation, found {}", sync));
    if (program_.statements.size() > max_placed_statements)
      return input_error(fmt::format("expected at most {} statements to place on a chip, found {}",
                                     max_placed_statements, program_.statements.size()),
                         "simulate one layer and pass --layers");
    return Done{};
  }

  // Parses the "NAME=NUMBER" arguments of one option; each name must be in `names`.
  static Result<Bindings> parse_counts(const std::vector<std::string>& texts, const std::string& option,
                                       const std::vector<std::string>& names, const std::string& what) {
    auto parse_counts = parse_assignments(texts);
    if (!parse_counts)
      return usage_error(fmt::format("expected {} and a whole number of at least 1 after {}, found '{}'", what, option,
                                     fmt::join(texts, " ")),
                         fmt::format("{} {}=4", option, names.empty() ? "c" : names.back()));
    for (const auto& [name, value] : *parse_counts) {
      if (value < 1)
        return usage_error(
            fmt::format("expected a whole number of at least 1 for {} after {}, found {}", name, option, value),
            fmt::format("{} {}=4", option, name));
      if (contains(names, name)) continue;
      const std::string closest = find_nearest(name, names);
      return usage_error(fmt::format("expected {} after {}, found '{}'", what, option, name),
                         closest.empty() ? fmt::format("one of {}", fmt::join(names, ", "))
                                         : fmt::format("did you mean {}?", closest));
    }
    return parse_counts;
  }

  Status read_options(PassContext& context) const {
    std::vector<std::string> results;
    for (const Statement& s : program_.statements) results.push_back(program_.tensors[s.result()].name);
    RIDGE_TRY(par, parse_counts(options_.par, "--par", results, "a statement's result"));
    RIDGE_TRY(buffer, parse_counts(options_.buffer, "--buffer", results, "a statement's result"));
    context.par = {par.begin(), par.end()};
    context.buffer = {buffer.begin(), buffer.end()};
    if (!options_.inner.empty()) {
      RIDGE_TRY(inner, parse_counts({options_.inner}, "--inner", program_.dim_names(), "a dimension"));
      context.inner_dim = inner.begin()->first;
      context.inner_tile = inner.begin()->second;
    }
    const auto schedule = parse_schedule(options_.schedule);
    if (!schedule || *schedule == PipeSchedule::fork_join)
      return usage_error(
          fmt::format("expected a schedule sequential, pipelined or streaming, found '{}'", options_.schedule),
          schedule ? "statements that read one another cannot start together; simulate metapipe takes fork-join" : "");
    context.schedule = *schedule;
    return Done{};
  }

  // Returns the bytes of a statement's tensors, also of those that a mask reads in part.
  Polynomial whole_bytes_of(const Statement& statement) const {
    Polynomial out = stored_bytes(program_, program_.tensors[statement.result()]);
    for (const int t : distinct_operands(statement)) out += stored_bytes(program_, program_.tensors[t]);
    return out;
  }

  // Counts operations and bytes of each statement. Masked elements count, since tiles are computed in full.
  Status count_statement_work(const Bindings& dims) {
    const std::vector<Work> all = count_work(program_);
    for (std::size_t s = 0; s < all.size(); ++s) {
      RIDGE_TRY(flops, get_flops_without_masks(all[s]).evaluate(dims));
      Polynomial moved = all[s].bytes();
      if (!moved.has_all_values(dims)) moved = whole_bytes_of(program_.statements[s]);
      RIDGE_TRY(bytes, moved.evaluate(dims));
      flops_.push_back(static_cast<double>(flops));
      op_bytes_.push_back(static_cast<double>(bytes));
    }
    return Done{};
  }

  // Returns the bytes that statement s reads from tensors without the streamed dimension.
  double weight_bytes_of(int s, const std::string& streamed_dim, const Bindings& dims) const {
    std::vector<int> operands = statement_operands(program_.statements[s]);
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    double bytes = 0;
    for (const int operand : operands) {
      const Tensor& t = program_.tensors[operand];
      if (streamed_dim.empty() || has_dim(t.axes, streamed_dim)) continue;
      double elements = 1;
      for (const Axis& axis : t.axes)
        elements *= static_cast<double>(axis.is_named() ? dims.at(axis.dim) : axis.literal);
      bytes += elements * bytes_per_element(t.dtype);
    }
    return bytes;
  }

  // Adds one pass of one layer to the totals of the three launch modes. Each call loads its resident weights before the
  // first tile; in kernel-by-kernel mode every statement is a call.
  void add_pass_time(const StreamingPass& pass, const MappedPass& mapped, const Bindings& dims) {
    const double peak = static_cast<double>(fabric_.pcus) * fabric_.pcu_flops_per_second;
    const double memory = fabric_.memory_bytes_per_second;
    for (const int s : pass.statements) {
      const double weight_bytes_of_op = weight_bytes_of(s, mapped.streamed_dim, dims), compute = flops_[s] / peak;
      const bool stay = weight_bytes_of_op <= static_cast<double>(fabric_.pmus * fabric_.pmu_bytes);
      const double bytes = op_bytes_[s] + (stay ? 0 : weight_bytes_of_op * static_cast<double>(mapped.tiles - 1));
      const bool first = stay && mapped.tiles > 1;  // the weights are loaded before the first tile
      unfused_bytes_ += bytes;
      unfused_seconds_ += first ? weight_bytes_of_op / memory + std::max(compute, (bytes - weight_bytes_of_op) / memory)
                                : std::max(compute, bytes / memory);
    }
    fused_bytes_ += mapped.off_chip_bytes();
    const double pipe = static_cast<double>(mapped.run.cycles) / 1e9;
    fused_seconds_ += mapped.load_seconds + pipe;
    // While a layer computes, the next layer's weights load into the free memory units. Weights that are streamed need
    // none, so then either memory or the compute units are always busy.
    const double free_pmus = static_cast<double>(std::max<std::int64_t>(
        0, fabric_.pmus - mapped.placement.pmus - (mapped.weights_resident ? mapped.weight_pmus : 0)));
    const double hidden =
        mapped.weights_resident ? std::min(1.0, free_pmus / std::max(1.0, static_cast<double>(mapped.weight_pmus))) : 1;
    double work = pipe;
    if (mapped.tiles == 1) {
      work = 0;
      for (const PlacedStage& stage : mapped.placement.stages) work += stage.seconds;
    }
    const double weights = mapped.weights_resident ? static_cast<double>(mapped.weight_bytes) : 0;
    loop_iteration_seconds_ +=
        std::max(work, (mapped.off_chip_bytes() - (1 - hidden) * weights) / memory) + (1 - hidden) * weights / memory;
  }

  void compare_launch_modes() {
    const double layers = static_cast<double>(options_.layers);
    const auto passes = static_cast<std::int64_t>(mapped_.passes.size());
    const std::int64_t kernels = options_.layers * static_cast<std::int64_t>(flops_.size());
    const bool loops = passes == 1;  // with several passes, each is launched again for every layer
    const bool fits = std::all_of(mapped_.passes.begin(), mapped_.passes.end(),
                                  [](const MappedPass& pass) { return pass.placement.fits; });
    const double looped = loops ? fused_seconds_ + (layers - 1) * loop_iteration_seconds_ : layers * fused_seconds_;
    for (const double sync : options_.sync_seconds) {
      CallModeReport report{
          {{{CallMode::kernel_by_kernel, kernels, layers * unfused_bytes_, 0, layers * unfused_seconds_, 0, 0},
            {CallMode::fused, options_.layers * passes, layers * fused_bytes_, 0, layers * fused_seconds_, 0, 0},
            {CallMode::looped, loops ? 1 : options_.layers * passes, layers * fused_bytes_, 0, looped, 0, 0}}}};
      for (CallModeCost& c : report.costs) {
        c.is_possible = c.mode == CallMode::kernel_by_kernel || fits;
        c.sync_seconds = static_cast<double>(c.calls) * sync;
        c.seconds = c.sync_seconds + c.work_seconds;
        c.bandwidth_fraction = c.seconds > 0 ? c.bytes / fabric_.memory_bytes_per_second / c.seconds : 0;
      }
      mapped_.launch_modes.push_back(report);
    }
  }

  const Program& program_;
  const Fabric& fabric_;
  const MappingOptions& options_;
  std::vector<double> flops_, op_bytes_;
  double unfused_seconds_ = 0, unfused_bytes_ = 0, fused_seconds_ = 0, fused_bytes_ = 0, loop_iteration_seconds_ = 0;
  MappedProgram mapped_;
};

}  // namespace

double MappedPass::off_chip_bytes() const {
  return static_cast<double>(weight_bytes) * (weights_resident ? 1 : static_cast<double>(tiles)) +
         static_cast<double>(streamed_bytes) + static_cast<double>(inner_bytes);
}

Result<MappedProgram> map_to_metapipe(const Program& program, const Bindings& given, const Fabric& fabric,
                                      const MappingOptions& options) {
  return MetapipeMapper(program, fabric, options).map_program(given);
}

}  // namespace ridge
