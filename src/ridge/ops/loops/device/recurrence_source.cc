// Generates a recurrence's kernel: each thread runs a line. It loads the operands of several steps together, and those
// of the next steps before it computes these, so that loads and arithmetic overlap. h = a * h + x with contiguous steps
// in f32 loads 4 x 16 bytes of a and of x, computes 16 steps and stores 4 x 16 bytes.
#include <algorithm>
#include <cstdlib>

#include "ridge/ops/chain/lower.h"
#include "ridge/ops/chain/source.h"
#include "ridge/ops/loops/device/source.h"
#include "ridge/ops/loops/recurrence.h"

namespace ridge::ops {
namespace {

using namespace generated;

constexpr std::int64_t max_narrow_index = std::int64_t{1} << 30;

class RecurrenceKernelWriter {
 public:
  RecurrenceKernelWriter(const ScanProblem& p, int multiprocessors)
      : p_(p), multiprocessors_(multiprocessors), arguments_(out_.arguments) {}

  device::GeneratedKernel write_kernel() {
    if (p_.lines == 0 || p_.steps == 0) return {};
    choose_layout();
    std::string body = "  const Index line = blockIdx.x * Index{" + std::to_string(out_.threads) +
                       "} + threadIdx.x;\n  if (line >= (Index)" + number(p_.lines) + ") return;\n";
    body += axis_index_code(arguments_, p_.line_extents, "line", wide_indices_);
    body += "  const Offset steps = (Offset)" + number(p_.steps) + ";\n" + write_declarations();
    body += "  float h = 0;\n" + write_loads("0");
    body += "  for (Offset first = 0; first < steps; first += " + width_text() + ") {\n" + write_moves() +
            write_loads("first + " + width_text()) + "    float y[" + width_text() +
            "];\n#pragma unroll\n    for (int u = 0; u < " + width_text() + "; ++u) {\n" + write_step() +
            "      y[u] = h;\n    }\n" + write_store() + "  }\n";
    out_.blocks = (p_.lines + out_.threads - 1) / out_.threads;
    out_.source = device::make_kernel_source(out_, device::pointwise_header, wide_indices_, body);
    return std::move(out_);
  }

 private:
  // A tensor is the same at all steps (uniform), an index, or read step by step; in vectors if its steps are
  // contiguous.
  enum class StepAccess { uniform, index, contiguous, strided };
  struct TensorSource {
    StepAccess access = StepAccess::strided;
    int vector_width = 1;
    std::string data, stride;
  };

  std::string number(std::int64_t n) { return arguments_.add_argument(static_cast<std::uint64_t>(n)); }
  std::string width_text() const { return std::to_string(width_); }
  bool is_ragged() const { return p_.steps % width_ != 0; }
  bool is_result(std::size_t t) const { return t + 1 == p_.tensors.size(); }
  std::string format_of(std::size_t t) const { return std::string(number_format_name(p_.tensors[t].dtype)); }
  std::string name(std::size_t t) const { return is_result(t) ? "r" : "x" + std::to_string(t); }
  bool is_loaded_ahead(std::size_t t) const {
    return !is_result(t) && (tensors_[t].access == StepAccess::contiguous || tensors_[t].access == StepAccess::strided);
  }

  void choose_layout() {
    width_ = count_steps_per_load(p_);
    out_.threads = count_recurrence_threads(p_, multiprocessors_);
    double max_span = static_cast<double>(p_.lines);
    for (const ScanTensor& tensor : p_.tensors) {
      double span = static_cast<double>(std::abs(tensor.step_stride)) * static_cast<double>(p_.steps + 2 * width_);
      for (std::size_t a = 0; a < p_.line_extents.size(); ++a)
        span += static_cast<double>(std::abs(tensor.line_strides[a])) * static_cast<double>(p_.line_extents[a]);
      max_span = std::max(max_span, span);
    }
    wide_indices_ = max_span >= static_cast<double>(max_narrow_index);
    for (const ScanTensor& tensor : p_.tensors) tensors_.push_back(describe_tensor(tensor));
  }
  TensorSource describe_tensor(const ScanTensor& tensor) {
    TensorSource out;
    if (tensor.data == nullptr)
      out.access = StepAccess::index;
    else if (tensor.step_stride == 0 && &tensor != &p_.tensors.back())
      out.access = StepAccess::uniform;
    else if (tensor.step_stride == 1)
      out.access = StepAccess::contiguous;
    if (out.access == StepAccess::contiguous)
      out.vector_width = generated::vector_width(tensor.data, tensor.dtype, tensor.line_strides, width_);
    if (tensor.data != nullptr) out.data = arguments_.add_argument(tensor.data);
    if (out.access == StepAccess::strided || out.access == StepAccess::index)
      out.stride = arguments_.add_signed_argument(tensor.step_stride);
    return out;
  }

  std::string write_offset(const ScanTensor& tensor) {
    std::string out;
    for (std::size_t a = 0; a < p_.line_extents.size(); ++a)
      if (p_.line_extents[a] > 1 && tensor.line_strides[a] != 0)
        out += (out.empty() ? "" : " + ") + ("(Offset)i" + std::to_string(a)) + " * " +
               arguments_.add_signed_argument(tensor.line_strides[a]);
    return out.empty() ? "0" : out;
  }
  std::string pack_type(std::size_t t) const { return "Pack<" + format_of(t) + ", " + width_text() + ">"; }
  std::string write_declarations() {
    std::string out;
    for (std::size_t t = 0; t < p_.tensors.size(); ++t) {
      out += "  const Offset at_" + name(t) + " = " + write_offset(p_.tensors[t]) + ";\n";
      if (tensors_[t].access == StepAccess::uniform)
        out += "  const float " + name(t) + " = read_one<" + format_of(t) + ">(" + tensors_[t].data + ", at_" +
               name(t) + ");\n";
      if (!is_loaded_ahead(t)) continue;
      const bool packed = tensors_[t].access == StepAccess::contiguous;
      out += "  " +
             (packed ? pack_type(t) + " " + name(t) + ", next_" + name(t)
                     : "float " + name(t) + "[" + width_text() + "], next_" + name(t) + "[" + width_text() + "]") +
             ";\n";
    }
    return out;
  }

  // Loads the steps from `first` on to next_x; elements after the last step are 0.
  std::string write_loads(const std::string& first) const {
    std::string out;
    for (std::size_t t = 0; t < p_.tensors.size(); ++t) {
      if (!is_loaded_ahead(t)) continue;
      const TensorSource& x = tensors_[t];
      const std::string from = "(" + x.data + ", at_" + name(t) + " + ";
      if (x.access == StepAccess::contiguous)
        out += "    next_" + name(t) + " = read" + (is_ragged() ? "_some" : "") + "<" + format_of(t) + ", " +
               width_text() + ", " + std::to_string(x.vector_width) + ", CachePolicy::cached>" + from + first + ", " +
               (is_ragged() ? "steps - (" + first + ")" : first + " < steps") + ");\n";
      else
        out += "#pragma unroll\n    for (int u = 0; u < " + width_text() + "; ++u)\n      next_" + name(t) +
               "[u] = read_one<" + format_of(t) + ">" + from + "(" + first + " + u) * " + x.stride + ", " + first +
               " + u < steps);\n";
    }
    return out;
  }
  std::string write_moves() const {
    std::string out;
    for (std::size_t t = 0; t < p_.tensors.size(); ++t) {
      if (!is_loaded_ahead(t)) continue;
      if (tensors_[t].access == StepAccess::contiguous)
        out += "    " + name(t) + " = next_" + name(t) + ";\n";
      else
        out += "#pragma unroll\n    for (int u = 0; u < " + width_text() + "; ++u) " + name(t) + "[u] = next_" +
               name(t) + "[u];\n";
    }
    return out;
  }

  std::string load_expression(std::size_t slot) const {
    if (slot == p_.tensors.size()) return "h";
    switch (tensors_[slot].access) {
      case StepAccess::uniform: return name(slot);
      case StepAccess::index: return "(float)(at_" + name(slot) + " + (first + u) * " + tensors_[slot].stride + ")";
      default: return name(slot) + "[u]";
    }
  }
  std::string write_step() const {
    std::string out;
    std::vector<std::string> registers(p_.step.registers);
    for (std::size_t i = 0; i < p_.step.steps.size(); ++i) {
      const ChainStep& s = p_.step.steps[i];
      if (s.op == ChainOp::store) continue;  // Both stores are of the last value.
      const std::string value = "v" + std::to_string(i);
      const int operands = operand_count(s.op);
      std::string expression;
      if (s.op == ChainOp::load)
        expression = load_expression(s.slot);
      else if (s.op == ChainOp::constant)
        expression = float_literal(s.constant);
      else
        expression = step_expression(
            s, {registers[s.a], operands > 1 ? registers[s.b] : "", operands > 2 ? registers[s.c] : ""});
      out += "      const float " + value + " = " + expression + ";\n";
      registers[s.result] = value;
    }
    return out + "      h = " + registers[p_.step.registers - 1] + ";\n";
  }
  std::string write_store() const {
    const std::size_t t = p_.tensors.size() - 1;
    const TensorSource& r = tensors_[t];
    if (r.access == StepAccess::contiguous)
      return "    write<" + format_of(t) + ", " + width_text() + ", " + std::to_string(r.vector_width) +
             ", CachePolicy::cached>(" + r.data + ", at_r + first, y" + (is_ragged() ? ", steps - first" : "") + ");\n";
    return "#pragma unroll\n    for (int u = 0; u < " + width_text() + "; ++u)\n      " +
           (is_ragged() ? "if (first + u < steps) " : "") + "write_one<" + format_of(t) + ">(" + r.data +
           ", at_r + (first + u) * " + r.stride + ", y[u]);\n";
  }

  const ScanProblem& p_;
  int multiprocessors_;
  device::GeneratedKernel out_;
  ArgumentWords arguments_;
  std::vector<TensorSource> tensors_;
  int width_ = 1;
  bool wide_indices_ = false;
};

}  // namespace

device::GeneratedKernel generate_recurrence_kernel(const RecurrenceLoops& l, std::span<void* const> data,
                                                   int multiprocessors) {
  const ScanProblem problem = make_scan_problem(l, data);
  return RecurrenceKernelWriter(problem, multiprocessors).write_kernel();
}

}  // namespace ridge::ops
