// Generates kernels of row programs, which keep full rows in registers (tile/cuda/rows.h): at most 64 elements per
// lane, fewer if many values are live. Persistent clusters prefetch the next rows to registers or shared memory, but
// only by vector loads: the addresses and predicates of scalar loads would take the registers of a second block.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>

#include "ridge/ops/rows/source.h"

#include "ridge/ops/chain/lower.h"
#include "ridge/ops/chain/source.h"

namespace ridge::ops {
namespace {

using namespace generated;

constexpr std::int64_t max_cluster_blocks = 8;
constexpr std::int64_t max_narrow_index = std::int64_t{1} << 30;
// In shorter rows the partial vectors at the ends cost too much.
constexpr std::int64_t min_shifted_columns = 256;
constexpr std::int64_t max_prefetched_rows = 4;
constexpr int max_registers = 128;  // Per lane.

std::int64_t count_elements(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (const std::int64_t extent : extents) n *= extent;
  return n;
}

class RowKernelWriter {
 public:
  RowKernelWriter(const RowProgram& program, std::span<void* const> data, const device::MultiprocessorLimits& device)
      : program_(program),
        data_(data),
        device_(device),
        arguments_(out_.arguments),
        rows_(count_elements(program.rows)),
        splits_(max_row_splits(program)),
        slots_(splits_ > 0 ? "1" : "0") {}

  device::GeneratedKernel write_kernel() {
    if (rows_ == 0 || program_.columns == 0) return {};
    choose_layout();
    std::string steps = write_tensors();
    for (std::size_t i = 0; i < program_.steps.size(); ++i) step_code_ += write_step(i);
    steps = write_header() + steps + setup_code_ + write_prefetch() +
            "  at.for_each_row(rows, [&](const Index row) {\n" + shift_code_ + row_start_code_ + step_code_ +
            "  });\n" + final_code_;
    out_.source = device::make_kernel_source(out_, "ridge/ops/rows/gradient_kernels.h", wide_indices_, steps);
    return std::move(out_);
  }

 private:
  struct NamedValue {
    std::string name;
    bool is_wide = false;  // One value per element, else one per row.
  };

  std::size_t column_axis() const { return program_.rows.size(); }
  bool varies_along_columns(std::size_t t) const {
    return program_.columns > 1 && program_.tensors[t].strides[column_axis()] != 0;
  }
  int element_bytes(std::size_t t) const { return dtype_bits(program_.tensors[t].dtype) / 8; }

  void choose_layout() {
    vector_widths_.assign(program_.tensors.size(), 1);
    double bytes = 0, max_span = 0;
    int narrowest = vector_bytes;
    bool all_in_vectors = true;  // All tensors that vary by row are loaded in vectors.
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      const ChainTensor& x = program_.tensors[t];
      std::vector<std::int64_t> strides;
      double tensor_span = static_cast<double>(program_.columns);
      for (std::size_t axis = 0; axis < column_axis(); ++axis) {
        if (program_.rows[axis] > 1) strides.push_back(x.strides[axis]);
        tensor_span += static_cast<double>(std::abs(x.strides[axis])) * static_cast<double>(program_.rows[axis]);
      }
      max_span = std::max(max_span, tensor_span);
      if (!varies_along_columns(t)) continue;
      bytes += static_cast<double>(rows_) * static_cast<double>(program_.columns) * element_bytes(t);
      vector_widths_[t] = vector_width(data_[t], x.dtype, strides, vector_bytes / element_bytes(t));
      width_ = std::max(width_, vector_widths_[t]);
      if (!is_shared_by_rows(t)) narrowest = std::min(narrowest, vector_widths_[t]);
      all_in_vectors &= is_shared_by_rows(t) || vector_widths_[t] * element_bytes(t) == vector_bytes;
      full_vectors_ &= vector_widths_[t] * element_bytes(t) == vector_bytes;
    }
    // Adjacent lanes read adjacent elements; wider lanes of scalar loads would waste memory sectors.
    if (!all_in_vectors && !choose_shift()) width_ = narrowest;
    while (width_ > program_.columns) width_ /= 2;
    for (int& width : vector_widths_) width = std::min(width, width_);
    streamed_ = bytes > static_cast<double>(min_streaming_bytes);
    choose_lanes();
    choose_prefetch();
    wide_indices_ = max_span >= static_cast<double>(max_narrow_index) || rows_ >= max_narrow_index / 32;
  }

  // Unaligned rows use full vectors, too, if all tensors that vary by row have the same misalignment: elements of the
  // first vector before the row are masked. Scalar loads of 4-byte elements are as fast, unless a weight is also read.
  // Returns false if this does not apply.
  bool choose_shift() {
    if (splits_ > 0 || program_.columns < min_shifted_columns) return false;
    int narrowest = vector_bytes;
    std::optional<std::size_t> first_tensor;
    bool is_weighted = false;
    const auto is_row_tensor = [&](std::size_t t) { return varies_along_columns(t) && !is_shared_by_rows(t); };
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      is_weighted |= varies_along_columns(t) && is_shared_by_rows(t);
      if (!is_row_tensor(t)) continue;
      if (!first_tensor) first_tensor = t;
      narrowest = std::min(narrowest, element_bytes(t));
    }
    if (!first_tensor || (narrowest == 4 && !is_weighted)) return false;
    const int width = vector_bytes / narrowest;
    const auto misalignment = [&](std::size_t t) {  // Elements after a vector boundary, or -1.
      const auto address = reinterpret_cast<std::uintptr_t>(data_[t]);
      return address % static_cast<unsigned>(element_bytes(t)) == 0
                 ? static_cast<std::int64_t>(address / static_cast<unsigned>(element_bytes(t)) %
                                             static_cast<unsigned>(width))
                 : std::int64_t{-1};
    };
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      if (!is_row_tensor(t)) continue;
      if (misalignment(t) < 0 || misalignment(t) != misalignment(*first_tensor)) return false;
      for (std::size_t axis = 0; axis < column_axis(); ++axis)
        if (program_.rows[axis] > 1 &&
            (program_.tensors[t].strides[axis] - program_.tensors[*first_tensor].strides[axis]) % width != 0)
          return false;
    }
    for (std::size_t t = 0; t < program_.tensors.size(); ++t)
      vector_widths_[t] = is_row_tensor(t) ? vector_bytes / element_bytes(t) : 1;
    width_ = width;
    shift_expression_ =
        "t" + std::to_string(*first_tensor) + ".offset(row) + " + std::to_string(misalignment(*first_tensor));
    shift_code_ = "  at.begin_row(" + shift_expression_ + ");\n";
    return true;
  }

  void choose_lanes() {
    const std::int64_t shifted = shift_code_.empty() ? 0 : width_ - 1;
    const std::int64_t vectors = (program_.columns + shifted + width_ - 1) / width_;
    const std::int64_t max_vectors = std::min<std::int64_t>(max_elements_per_lane(program_) / width_, 32);
    // More lanes hide more latency. Rows longer than a block holds use more elements per lane and fewer blocks.
    const std::int64_t few_vectors = std::min<std::int64_t>(max_vectors, 32 / width_),
                       lane_vectors = vectors > few_vectors * 256 ? max_vectors : few_vectors;
    lanes_ = 1;
    while (lanes_ < 32 && lanes_ < vectors) lanes_ *= 2;
    std::int64_t threads = 256, blocks = 1;
    if (vectors > 32 * lane_vectors) {  // A row takes one or more blocks.
      while (vectors > lane_vectors * 256 * blocks && blocks < max_cluster_blocks) blocks *= 2;
      threads = (vectors + lane_vectors * blocks - 1) / (lane_vectors * blocks);
      threads = (threads + 31) / 32 * 32;
      lanes_ = static_cast<int>(threads * blocks);
    }
    out_.threads = static_cast<int>(threads);
    out_.cluster_blocks = static_cast<int>(blocks);
    vectors_per_lane_ = static_cast<int>((vectors + lanes_ - 1) / lanes_);
    ragged_ = program_.columns != std::int64_t{vectors_per_lane_} * lanes_ * width_;
    out_.blocks = lanes_ > 32 ? rows_ * blocks : (rows_ * lanes_ + threads - 1) / threads;
    out_.persistent = blocks > 1 && (full_vectors_ || (shifted > 0 && prefetches_to_shared())) && splits_ == 0;
    if (lane_vectors > few_vectors || is_persistent()) out_.min_blocks_per_sm = static_cast<int>(512 / threads);
    if (splits_ == 0) return;
    // Launch as many blocks as run concurrently; another wave would be nearly empty. Short lanes allow more blocks.
    if (width_ * 2 == vector_bytes) out_.min_blocks_per_sm = static_cast<int>(768 / threads);
    if (lanes_ <= 32) out_.min_blocks_per_sm = static_cast<int>(1024 / threads);
    out_.blocks = std::clamp<std::int64_t>(out_.min_blocks_per_sm * device_.count / blocks, 1, splits_) * blocks;
  }

  // Persistent blocks prefetch as many of their next rows to shared memory as fit. Tensors that all rows share stay
  // there.
  void choose_prefetch() {
    if (!is_persistent() || lanes_ <= 32 || !prefetches_to_shared()) return;
    std::int64_t row_values = 0;  // Row results exchanged through shared memory.
    for (const RowProgramStep& step : program_.steps) {
      if (step.kind == RowProgramStep::StepKind::row_function) row_values += 8;
      if (step.kind == RowProgramStep::StepKind::row_reduction) ++row_values;
    }
    const std::int64_t warps = out_.threads / 32 * out_.cluster_blocks;
    std::int64_t free_bytes = device_.shared_bytes / std::max(1, out_.min_blocks_per_sm) -
                              device_.reserved_bytes_per_block - row_values * (8 * warps + 16),
                 row_bytes = 0;
    for (const RowProgramStep& given : program_.steps) {
      const std::size_t t = given.step.slot;
      if (given.kind != RowProgramStep::StepKind::element || given.step.op != ChainOp::load) continue;
      if (!varies_along_columns(t) || !(is_vectorized(t) || (!varies_by_row(t) && is_copied_in_order(t)))) continue;
      std::vector<std::size_t>& all = varies_by_row(t) ? prefetched_tensors_ : shared_row_tensors_;
      if ((varies_by_row(t) && is_shared_by_rows(t)) || std::count(all.begin(), all.end(), t) > 0) continue;
      all.push_back(t);
      if (varies_by_row(t)) row_bytes += prefetch_bytes(t);
    }
    std::erase_if(shared_row_tensors_, [&](std::size_t t) {
      const bool fits = prefetch_bytes(t) + row_bytes <= free_bytes;
      if (fits) free_bytes -= prefetch_bytes(t);
      return !fits;
    });
    if (row_bytes > 0) prefetched_rows_ = std::clamp<std::int64_t>(free_bytes / row_bytes, 0, max_prefetched_rows);
    if (prefetched_rows_ > 0) return;
    prefetched_tensors_ = shared_row_tensors_ = {};
    out_.persistent &= full_vectors_;
  }
  // True if rows are prefetched to shared memory: unaligned rows that store elements, and row functions that were
  // faster so (decision 29). Others prefetch to registers if there are enough, since shared memory traffic of the
  // prefetch competes with the lanes' exchange of row results.
  bool prefetches_to_shared() const {
    bool stores = false, is_faster = false, is_slower = false;
    for (const RowProgramStep& each : program_.steps) {
      const std::size_t t = each.step.slot;
      if (each.kind == RowProgramStep::StepKind::element && each.step.op == ChainOp::store)
        stores |= varies_along_columns(t);
      if (each.kind != RowProgramStep::StepKind::row_function) continue;
      const bool is_preferred = each.row_function == RowFunction::softmax ||
                                each.row_function == RowFunction::layernorm ||
                                each.row_function == RowFunction::rmsnorm_gradient;
      (is_preferred ? is_faster : is_slower) = true;
    }
    return splits_ == 0 && stores && (!shift_code_.empty() || (is_faster && !is_slower));
  }
  std::int64_t prefetch_bytes(std::size_t t) const {  // Shared memory per block for one row.
    const bool is_in_order = is_copied_in_order(t) && !is_vectorized(t);
    const std::int64_t lanes = out_.threads + (is_in_order ? 1 : 0),
                       bytes = vectors_per_lane_ * width_ * element_bytes(t) * lanes;
    return is_in_order ? (bytes / vector_bytes + 2) * vector_bytes : bytes;
  }
  // True if an aligned tensor is copied to shared memory in memory order and read with the row's shift.
  bool is_copied_in_order(std::size_t t) const {
    return !shift_code_.empty() && reinterpret_cast<std::uintptr_t>(data_[t]) % vector_bytes == 0 &&
           width_ * element_bytes(t) >= 4;
  }
  bool is_vectorized(std::size_t t) const {
    return varies_along_columns(t) && vector_widths_[t] * element_bytes(t) == vector_bytes;
  }
  bool varies_by_row(std::size_t t) const {
    for (std::size_t axis = 0; axis < column_axis(); ++axis)
      if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] != 0) return true;
    return false;
  }

  bool is_persistent() const { return out_.persistent || splits_ > 0; }  // Blocks loop over rows.

  std::string write_header() {
    std::string extent = "full";
    if (ragged_) extent = program_.columns % width_ == 0 ? "vectors" : "ragged";
    if (!shift_code_.empty()) extent = "shifted";
    std::string out = "  using S = LaneLayout<";
    for (const int number : {lanes_, out_.threads, out_.cluster_blocks, vectors_per_lane_, width_})
      out += std::to_string(number) + ", ";
    out += "TailMode::" + extent + (is_persistent() ? ", true>;\n" : ", false>;\n");
    out += "  __shared__ RowOnLanes<S>::PartialStorage partial_sums[" + slots_ + "];\n";
    out +=
        "  const u32 columns = (u32)" + arguments_.add_argument(static_cast<std::uint64_t>(program_.columns)) + ";\n";
    out += "  RowOnLanes<S> at(partial_sums, columns);\n";
    out += "  const float share = __uint_as_float((u32)" +
           arguments_.add_argument(std::bit_cast<std::uint32_t>(1 / static_cast<float>(program_.columns))) + ");\n";
    return out + "  const Index rows = (Index)" + arguments_.add_argument(static_cast<std::uint64_t>(rows_)) + ";\n";
  }

  std::string write_tensors() {
    register_values_.resize(program_.registers);
    const std::string axes = axis_index_code(arguments_, program_.rows, "row", wide_indices_);
    std::string out;
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      std::string at;
      for (std::size_t axis = 0; axis < column_axis(); ++axis)
        if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] != 0)
          at += (at.empty() ? "" : " + ") + ("(Offset)i" + std::to_string(axis)) + " * " +
                arguments_.add_signed_argument(program_.tensors[t].strides[axis]);
      out += "  const auto t" + std::to_string(t) + " = tensor_rows<" +
             std::string(number_format_name(program_.tensors[t].dtype)) + ", " + std::to_string(vector_widths_[t]) +
             (streamed_ && !is_shared_by_rows(t) ? ", CachePolicy::streamed>(" : ", CachePolicy::cached>(") +
             arguments_.add_argument(data_[t]) + ", [&](const Index row) -> Offset {\n" + (at.empty() ? "" : axes) +
             "  return " + (at.empty() ? "0" : at) + ";\n  });\n";
    }
    return out;
  }
  // Writes the copies to shared memory before the first row and at the start of each row.
  std::string write_prefetch() {
    if (prefetched_rows_ == 0) return {};
    const std::string count = std::to_string(prefetched_rows_), shift = shift_code_.empty() ? "" : ", shift";
    std::string out = "  extern __shared__ uint4 dynamic_shared[];\n", first_copies, copies;
    const auto add = [&](std::size_t t, std::int64_t rows) {
      const std::string number = std::to_string(t);
      out += "  const auto c" + number + " = at.prefetch_buffer<" + std::to_string(rows) + ">(t" + number +
             ", dynamic_shared + " + std::to_string(out_.shared_bytes / vector_bytes) + ");\n";
      out_.shared_bytes += static_cast<int>(rows * prefetch_bytes(t));
      return "at.prefetch(c" + number + ", t" + number;
    };
    for (const std::size_t t : shared_row_tensors_) {
      const std::string number = std::to_string(t);
      if (is_vectorized(t)) {
        first_copies += "  " + add(t, 1) + ", (Index)0, 0);\n";
        continue;
      }
      out += "  const auto c" + number + " = at.constant_buffer(t" + number + ", dynamic_shared + " +
             std::to_string(out_.shared_bytes / vector_bytes) + ");\n  at.copy_constant_row(c" + number + ", t" +
             number + ");\n";
      out_.shared_bytes += static_cast<int>(prefetch_bytes(t));
    }
    row_start_code_ = "  wait_for_all_but<" + count + " - 1>();\n";
    for (const std::size_t t : prefetched_tensors_) {
      copies += "      " + add(t, prefetched_rows_) + ", row, iteration" + shift + ");\n";
      const std::string number = std::to_string(t);
      row_start_code_ += "  const auto p" + number + " = at.read_prefetched(c" + number + ", at.iteration());\n";
    }
    row_start_code_ += "  prefetch(at.next_row(row, (Index)" + count + "), at.iteration() + " + count + ");\n";
    out += "  const auto prefetch = [&](const Index row, const u32 iteration) {\n    if (row < rows) {\n";
    if (!shift_code_.empty()) out += "      const int shift = at.shift_of(" + shift_expression_ + ");\n";
    out += copies + "    }\n    commit_row();\n  };\n" + first_copies;
    return out + "  for (u32 i = 0; i < " + count +
           "; ++i) prefetch(at.next_row(at.first_row<Index>(), (Index)i), i);\n";
  }

  bool is_shared_by_rows(std::size_t t) const {  // True if several rows read the same elements.
    for (std::size_t axis = 0; axis < column_axis(); ++axis)
      if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] == 0) return true;
    return false;
  }

  std::string write_store(const ChainStep& s) const {
    const std::string t = "t" + std::to_string(s.slot);
    if (varies_along_columns(static_cast<std::size_t>(s.slot)))
      return "  at.store(" + t + ", row, " + wide_name(s.a) + ");\n";
    return "  at.store_one(" + t + ", row, " + value_in(s.a).name +
           (value_in(s.a).is_wide ? "[at.row_start_in_lane()]" : "") + ");\n";
  }

  std::string write_step(std::size_t index) {
    const RowProgramStep& given = program_.steps[index];
    const ChainStep& s = given.step;
    const std::string t = "t" + std::to_string(s.slot);
    if (given.kind == RowProgramStep::StepKind::sum_across_rows) {
      setup_code_ += "  auto sums = at.broadcast(0);\n";
      final_code_ = "  at.store_column_sums(" + t + ", sums);\n";
      return "  at.add_column_sums(sums, " + wide_name(s.a) + ");\n";
    }
    if (given.kind == RowProgramStep::StepKind::element && s.op == ChainOp::store) return write_store(s);
    const std::string name = "v" + std::to_string(index);
    NamedValue& result = register_values_[s.result];
    std::string value, next_code;
    bool is_wide = given.kind == RowProgramStep::StepKind::row_function && !is_row_scalar(given.row_function);
    if (given.kind == RowProgramStep::StepKind::row_reduction) {
      value = write_reduction(given);
    } else if (given.kind == RowProgramStep::StepKind::row_function) {
      value = write_row_function(given, name);
    } else if (s.op == ChainOp::load) {
      is_wide = varies_along_columns(static_cast<std::size_t>(s.slot));
      value = is_wide ? write_load(static_cast<std::size_t>(s.slot), name, next_code) : "at.load_one(" + t + ", row)";
    } else if (s.op == ChainOp::constant) {
      value = float_literal(s.constant);
    } else {
      const int in[] = {s.a, s.b, s.c};
      std::string inputs[3];
      for (int i = 0; i < operand_count(s.op); ++i) {
        is_wide |= value_in(in[i]).is_wide;
        inputs[i] = value_in(in[i]).name + (value_in(in[i]).is_wide ? "[i]" : "");
      }
      value = step_expression(s, {inputs[0], inputs[1], inputs[2]});
      if (is_wide) value = "at.each_element([&](int i) -> float { return " + value + "; })";
    }
    result = {name, is_wide};
    return (is_wide ? "  const auto " : "  const float ") + name + " = " + value + ";\n" + next_code;
  }

  const NamedValue& value_in(int reg) const { return register_values_[reg]; }
  std::string wide_name(int reg) const {
    return value_in(reg).is_wide ? value_in(reg).name : "at.broadcast(" + value_in(reg).name + ")";
  }

  // Returns the expression that loads a tensor's row. Persistent blocks load the next row early, in `next_code`.
  std::string write_load(std::size_t t, const std::string& name, std::string& next_code) {
    const std::string number = std::to_string(t);
    const auto is_in = [&](const std::vector<std::size_t>& all) { return std::count(all.begin(), all.end(), t) > 0; };
    if (is_in(prefetched_tensors_)) return "at.unpack(p" + number + ")";
    if (is_in(shared_row_tensors_))
      return "at.unpack(at.read_" +
             (is_vectorized(t) ? "prefetched(c" + number + ", 0))" : "constant(c" + number + "))");
    const int words = vectors_per_lane_ * width_ * element_bytes(t) / 4;
    if (prefetched_rows_ > 0 || !shift_code_.empty() || !is_persistent() || lanes_ <= 32 || is_shared_by_rows(t) ||
        !is_vectorized(t) || prefetched_words_ + words > std::min(max_registers, device_.registers / out_.threads) / 4)
      return "at.load(t" + number + ", row)";
    prefetched_words_ += words;
    const std::string packs = "p" + name;
    setup_code_ += "  auto " + packs + " = at.read(t" + number + ", at.first_row<Index>());\n";
    next_code = "  if (at.next_row(row) < rows) " + packs + " = at.read(t" + number + ", at.next_row(row));\n";
    return "at.unpack(" + packs + ")";
  }

  std::string write_reduction(const RowProgramStep& given) {
    std::string f = given.function == ReduceFunction::max ? "MaxOp" : "SumOp";
    if (given.function == ReduceFunction::min) f = "MinOp";
    const std::string value = "at.reduce_row<" + f + ", " + slots_ + ">(" + wide_name(given.step.a) + ")";
    slots_ += " + 1";
    return given.function == ReduceFunction::mean ? "divide(" + value + ", (float)columns)" : value;
  }

  std::string write_row_function(const RowProgramStep& given, const std::string& name) {
    const std::string kernel = kernel_type(given.row_function), x = wide_name(given.step.a);
    const std::string others = is_gradient(given.row_function) ? ", " + wide_name(given.step.b) : "";
    std::string globals = "{";
    if (is_norm(given.row_function)) globals += ".sum_scale = share, .epsilon = " + float_literal(given.step.constant);
    setup_code_ += "  u32 again_" + name + " = 0;\n";
    const std::string value =
        "at.run_row_kernel<" + kernel + ", " + slots_ + ">(" + x + ", " + globals + "}, again_" + name + others + ")";
    slots_ += " + exchange_slot_count<" + kernel + ">()";
    return value;
  }
  static std::string kernel_type(RowFunction function) {
    switch (function) {
      case RowFunction::rmsnorm: return "ops::Rmsnorm<float, float, float>";
      case RowFunction::layernorm: return "ops::Layernorm<float, float, float>";
      case RowFunction::log_sum_exp: return "ops::LogSumExp<float, float>";
      case RowFunction::softmax_gradient: return "ops::SoftmaxGradient<float, float>";
      case RowFunction::rmsnorm_gradient: return "ops::RmsnormGradient<float, float, float>";
      case RowFunction::layernorm_gradient: return "ops::LayernormGradient<float, float, float>";
      case RowFunction::product_sum_across_rows: return "ops::ProductSumAcrossRows<float, float>";
      case RowFunction::rmsnorm_weight_gradient: return "ops::RmsnormWeightGradient<float, float>";
      case RowFunction::layernorm_weight_gradient: return "ops::LayernormWeightGradient<float, float>";
      default: return "ops::Softmax<float, float>";
    }
  }

  const RowProgram& program_;
  std::span<void* const> data_;
  device::MultiprocessorLimits device_;
  device::GeneratedKernel out_;
  ArgumentWords arguments_;
  std::int64_t rows_, splits_;
  std::vector<int> vector_widths_;
  std::string slots_;                          // Expression: shared memory slots in use.
  std::string shift_expression_, shift_code_;  // Used if rows are not aligned to vectors.
  // Code before the loop, at the start of each row, for each row, and after the loop.
  std::string setup_code_, row_start_code_, step_code_, final_code_;
  std::vector<std::size_t> prefetched_tensors_, shared_row_tensors_;  // Tensors in shared memory.
  std::vector<NamedValue> register_values_;                           // By register.
  int width_ = 1, lanes_ = 1, vectors_per_lane_ = 1, prefetched_words_ = 0;
  std::int64_t prefetched_rows_ = 0;
  bool ragged_ = false, wide_indices_ = false, streamed_ = false,
       full_vectors_ = true;  // full_vectors_: all are 16 bytes.
};

}  // namespace

device::GeneratedKernel generate_row_kernel(const RowProgram& program, std::span<void* const> tensors,
                                            const device::MultiprocessorLimits& device) {
  return RowKernelWriter(program, tensors, device).write_kernel();
}

}  // namespace ridge::ops
