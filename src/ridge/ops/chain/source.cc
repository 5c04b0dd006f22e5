// Generates a chain's kernel. A thread processes `items_per_thread_` items of `width_` adjacent elements of the last
// axis: it issues all loads before it needs the first value, computes in registers and stores the results. y =
// gelu(1.3*x + 0.2) in f32 takes four 16-byte loads per thread, the arithmetic and four 16-byte stores.
#include <algorithm>
#include <cstdlib>

#include "ridge/ops/chain/lower.h"
#include "ridge/ops/chain/source.h"

namespace ridge::ops {
namespace {

using namespace generated;

constexpr int threads = 256;
constexpr std::int64_t max_bytes_in_flight = 64;  // Bytes that a thread loads before it waits.
constexpr std::int64_t busy_items_per_sm = 2048;  // With fewer items per SM a thread processes one item.
constexpr std::int64_t max_narrow_index = std::int64_t{1} << 30;

// Returns for each step whether it may be approximate: its value passes only through operations that keep the relative
// error and is stored in 16 bits.
std::vector<bool> approximable_steps(const ChainProgram& program) {
  std::vector<bool> approximable(program.steps.size(), true);
  std::vector<std::size_t> producer(program.registers);
  std::vector<std::vector<std::size_t>> producers(program.steps.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const ChainStep& s = program.steps[i];
    const int in[] = {s.a, s.b, s.c};
    for (int k = 0; k < operand_count(s.op); ++k) producers[i].push_back(producer[in[k]]);
    if (s.op != ChainOp::store) producer[s.result] = i;
  }
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    const ChainStep& s = program.steps[i];
    const bool keeps = function_info(s.op).keeps_relative_error;
    const bool ends = s.op == ChainOp::store && program.tensors[s.slot].dtype != DType::f32;
    for (const std::size_t from : producers[i])
      approximable[from] = approximable[from] && (ends || (keeps && approximable[i]));
  }
  return approximable;
}

class ChainKernelWriter {
 public:
  ChainKernelWriter(const ChainProgram& program, std::span<void* const> data, int multiprocessors)
      : program_(program),
        data_(data),
        multiprocessors_(multiprocessors),
        code_(lower_chain(program)),
        arguments_(out_.arguments) {}

  device::GeneratedKernel write_kernel() {
    if (code_.elements == 0) return {};
    choose_layout();
    write_index_code();
    std::string body = "  const Index first = blockIdx.x * Index{" + std::to_string(threads * items_per_thread_) +
                       "} + threadIdx.x, items = (Index)" +
                       arguments_.add_argument(static_cast<std::uint64_t>(item_count_)) + ";\n";
    body += write_declarations() + write_loop(write_loads()) + write_loop(write_steps());
    out_.threads = threads;
    out_.blocks = (item_count_ + threads * items_per_thread_ - 1) / (threads * items_per_thread_);
    out_.source = device::make_kernel_source(out_, device::pointwise_header, wide_indices_, body);
    return std::move(out_);
  }

 private:
  enum class AxisAccess {
    contiguous,
    uniform,
    strided
  };  // Distance of adjacent elements of the last axis: 1, 0, other.
  struct TensorSource {
    AxisAccess axis_access = AxisAccess::contiguous;
    int vector_width = 1;
    bool loaded = false, stored = false, streamed = false;
    std::string data, offset;
  };

  std::size_t last_axis() const { return static_cast<std::size_t>(code_.axes - 1); }
  std::int64_t column_count() const { return code_.extents[last_axis()]; }
  int element_bytes(std::size_t t) const { return dtype_bits(code_.tensors[t].dtype) / 8; }

  void choose_layout() {
    for (const ChainStep& s : program_.steps) {
      tensors_.resize(code_.tensors.size());
      if (s.op == ChainOp::load) tensors_[s.slot].loaded = true;
      if (s.op == ChainOp::store) tensors_[s.slot].stored = true;
    }
    double bytes = 0, max_span = 0;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!is_used(t)) continue;
      double tensor_bytes = element_bytes(t), tensor_span = 0;
      for (std::size_t axis = 0; axis <= last_axis(); ++axis) {
        const std::int64_t stride = code_.tensors[t].strides[axis];
        if (stride != 0) tensor_bytes *= static_cast<double>(code_.extents[axis]);
        tensor_span += static_cast<double>(std::abs(stride)) * static_cast<double>(code_.extents[axis]);
      }
      bytes += tensor_bytes;
      max_span = std::max(max_span, tensor_span);
      tensors_[t].streamed = tensor_bytes >= static_cast<double>(code_.elements) * element_bytes(t);
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      tensors_[t].streamed &= bytes > static_cast<double>(min_streaming_bytes);
    choose_width();
    item_count_ = (column_count() + width_ - 1) / width_;
    for (std::size_t axis = 0; axis < last_axis(); ++axis) item_count_ *= code_.extents[axis];
    wide_indices_ = max_span >= static_cast<double>(max_narrow_index) || item_count_ >= max_narrow_index;
    std::int64_t bytes_in_flight = 0;
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      if (tensors_[t].loaded && tensors_[t].axis_access != AxisAccess::uniform)
        bytes_in_flight += width_ * element_bytes(t);
    items_per_thread_ = item_count_ < busy_items_per_sm * multiprocessors_
                            ? 1
                            : static_cast<int>(std::clamp<std::int64_t>(
                                  max_bytes_in_flight / std::max<std::int64_t>(bytes_in_flight, 1), 1, 4));
    if (items_per_thread_ == 3) items_per_thread_ = 2;
  }

  bool is_used(std::size_t t) const { return tensors_[t].loaded || tensors_[t].stored; }

  static AxisAccess choose_axis_access(std::int64_t step, bool stored) {
    if (step == 1 || (step == 0 && stored)) return AxisAccess::contiguous;
    return step == 0 ? AxisAccess::uniform : AxisAccess::strided;
  }

  // Chooses for each tensor the width of vector accesses along the last axis; width_ is the largest.
  void choose_width() {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!is_used(t)) continue;
      const LoweredTensor& access = code_.tensors[t];
      const std::int64_t step = column_count() == 1 ? 0 : access.strides[last_axis()];
      tensors_[t].axis_access = choose_axis_access(step, tensors_[t].stored);
      if (tensors_[t].axis_access != AxisAccess::contiguous) continue;
      std::vector<std::int64_t> strides;
      for (std::size_t axis = 0; axis < last_axis(); ++axis)
        if (code_.extents[axis] > 1) strides.push_back(access.strides[axis]);
      tensors_[t].vector_width =
          generated::vector_width(data_[t], access.dtype, strides, vector_bytes / element_bytes(t));
      width_ = std::max(width_, tensors_[t].vector_width);
    }
    while (width_ > column_count()) width_ /= 2;
    for (TensorSource& t : tensors_) t.vector_width = std::min(t.vector_width, width_);
    ragged_ = column_count() % width_ != 0;
  }

  void write_index_code() {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!is_used(t)) continue;
      tensors_[t].data = arguments_.add_argument(data_[t]);
      std::string& at = tensors_[t].offset;
      const auto add = [&](const std::string& term) { at += (at.empty() ? "" : " + ") + term; };
      for (std::size_t axis = 0; axis < last_axis(); ++axis)
        if (code_.extents[axis] > 1 && code_.tensors[t].strides[axis] != 0)
          add("(Offset)i" + std::to_string(axis) + " * " +
              arguments_.add_signed_argument(code_.tensors[t].strides[axis]));
      if (tensors_[t].axis_access == AxisAccess::contiguous) add("(Offset)column");
      if (tensors_[t].axis_access == AxisAccess::strided)
        add("(Offset)column * " + arguments_.add_signed_argument(code_.tensors[t].strides[last_axis()]));
      if (at.empty()) at = "0";
    }
    // The code computes an item's column and its index along each other axis.
    const std::int64_t chunks = (column_count() + width_ - 1) / width_;
    std::string rest = "item";
    index_code_ =
        "    const Index item = first + u * " + std::to_string(threads) + ";\n    if (item >= items) continue;\n";
    if (code_.elements == column_count()) {
      index_code_ += "    const Index column = item * " + std::to_string(width_) + ";\n";
    } else if (chunks == 1) {
      index_code_ += "    const Index column = 0;\n";
    } else {
      index_code_ += "    const Index row = divide_by(item, " +
                     arguments_.add_argument(encode_divisor(chunks, wide_indices_)) + ");\n";
      index_code_ += "    const Index column = (item - row * (Index)" +
                     arguments_.add_argument(static_cast<std::uint64_t>(chunks)) + ") * " + std::to_string(width_) +
                     ";\n";
      rest = "row";
    }
    index_code_ += axis_index_code(arguments_, std::span(code_.extents).first(last_axis()), rest, wide_indices_);
    if (ragged_) {
      const std::string all = arguments_.add_argument(static_cast<std::uint64_t>(column_count()));
      index_code_ += "    const Offset count = (Offset)((Index)" + all + " - column);\n";
    }
  }

  std::string write_loop(const std::string& inside) const {
    return "#pragma unroll\n  for (int u = 0; u < " + std::to_string(items_per_thread_) + "; ++u) {\n" + index_code_ +
           inside + "  }\n";
  }
  std::string pack_template_args(std::size_t t) const {
    return "<" + std::string(number_format_name(code_.tensors[t].dtype)) + ", " + std::to_string(width_);
  }
  std::string access_template_args(std::size_t t) const {
    return pack_template_args(t) + ", " + std::to_string(tensors_[t].vector_width) +
           (tensors_[t].streamed ? ", CachePolicy::streamed>" : ", CachePolicy::cached>");
  }
  std::string count_argument() const { return ragged_ ? ", count" : ""; }

  std::string write_declarations() const {
    std::string out;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!tensors_[t].loaded) continue;
      const std::string name = " x" + std::to_string(t) + "[" + std::to_string(items_per_thread_) + "]";
      switch (tensors_[t].axis_access) {
        case AxisAccess::contiguous: out += "  Pack" + pack_template_args(t) + ">" + name + ";\n"; break;
        case AxisAccess::uniform: out += "  float" + name + ";\n"; break;
        case AxisAccess::strided: out += "  float" + name + "[" + std::to_string(width_) + "];\n"; break;
      }
    }
    return out;
  }

  std::string write_loads() const {
    std::string out;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const TensorSource& x = tensors_[t];
      if (!x.loaded) continue;
      const std::string to = "x" + std::to_string(t) + "[u]",
                        dtype = std::string(number_format_name(code_.tensors[t].dtype));
      if (x.axis_access == AxisAccess::contiguous)
        out += "    " + to + " = read" + (ragged_ ? "_some" : "") + access_template_args(t) + "(" + x.data + ", " +
               x.offset + count_argument() + ");\n";
      else if (x.axis_access == AxisAccess::uniform)
        out += "    " + to + " = read_one<" + dtype + ">(" + x.data + ", " + x.offset + ");\n";
      else
        out += "#pragma unroll\n    for (int i = 0; i < " + std::to_string(width_) + "; ++i)\n      " + to +
               "[i] = read_one<" + dtype + ">(" + x.data + ", " + x.offset + " + i * " + stride_expression(t) +
               (ragged_ ? ", i < count" : "") + ");\n";
    }
    return out;
  }
  std::string stride_expression(std::size_t t) const {  // Returns the last axis' stride, the last term of the offset.
    return tensors_[t].offset.substr(tensors_[t].offset.rfind("(Offset)a.word"));
  }

  std::string write_steps() const {
    std::string inside, stores, outs;
    const std::vector<bool> approximable = approximable_steps(program_);
    std::vector<std::string> register_names(program_.registers);
    const auto in = [&](int reg) -> const std::string& { return register_names[reg]; };
    const std::string width = std::to_string(width_);
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const ChainStep& s = program_.steps[i];
      const std::size_t t = s.slot;
      if (s.op == ChainOp::store) {
        const std::string y = "y" + std::to_string(t);
        outs += "    float " + y + "[" + width + "];\n";
        inside += "      " + y + "[i] = " + in(s.a) + ";\n";
        stores += write_store(t, y);
        continue;
      }
      const std::string value = "v" + std::to_string(i);
      const int operands = ops::operand_count(s.op);
      std::string expression;
      if (s.op == ChainOp::load)
        expression = "x" + std::to_string(t) + "[u]" + (tensors_[t].axis_access == AxisAccess::uniform ? "" : "[i]");
      else if (s.op == ChainOp::constant)
        expression = float_literal(s.constant);
      else
        expression =
            step_expression(s, {in(s.a), operands > 1 ? in(s.b) : "", operands > 2 ? in(s.c) : "", approximable[i]});
      inside += "      const float " + value + " = " + expression + ";\n";
      register_names[s.result] = value;
    }
    return outs + "#pragma unroll\n    for (int i = 0; i < " + width + "; ++i) {\n" + inside + "    }\n" + stores;
  }
  std::string write_store(std::size_t t, const std::string& y) const {
    const TensorSource& x = tensors_[t];
    if (x.axis_access == AxisAccess::contiguous)
      return "    write" + access_template_args(t) + "(" + x.data + ", " + x.offset + ", " + y + count_argument() +
             ");\n";
    return "#pragma unroll\n    for (int i = 0; i < " + std::to_string(width_) + "; ++i)\n      " +
           (ragged_ ? "if (i < count) " : "") + "write_one<" + std::string(number_format_name(code_.tensors[t].dtype)) +
           ">(" + x.data + ", " + x.offset + " + i * " + stride_expression(t) + ", " + y + "[i]);\n";
  }

  const ChainProgram& program_;
  std::span<void* const> data_;
  int multiprocessors_;
  const LoweredChain code_;
  device::GeneratedKernel out_;
  ArgumentWords arguments_;
  std::vector<TensorSource> tensors_;
  std::string index_code_;
  std::int64_t item_count_ = 0;
  int width_ = 1, items_per_thread_ = 1;
  bool ragged_ = false, wide_indices_ = false;
};

}  // namespace

device::GeneratedKernel generate_chain_kernel(const ChainProgram& program, std::span<void* const> tensors,
                                              int multiprocessors) {
  return ChainKernelWriter(program, tensors, multiprocessors).write_kernel();
}

}  // namespace ridge::ops
