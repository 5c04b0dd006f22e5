// Generates a chain's kernel. A thread processes `items_` groups of `width_` adjacent elements along the last axis: it
// issues all loads before the first value is needed, computes in registers and stores the results. y = gelu(1.3*x +
// 0.2) in f32 takes four 16-byte loads per thread, the arithmetic and four 16-byte stores.
#include <algorithm>
#include <cstdlib>

#include "ridge/ops/chain/code.h"
#include "ridge/ops/chain/source.h"

namespace ridge::ops {
namespace {

using namespace generated;

constexpr int threads = 256;
constexpr std::int64_t flying_bytes = 64;  // Loads in flight per thread.
constexpr std::int64_t busy_items = 2048;  // Per SM; with fewer, a thread takes one item.
constexpr std::int64_t most_narrow = std::int64_t{1} << 30;

// Returns the steps that may be approximate: their value only flows through operations that keep the relative error,
// and is stored in 16 bits.
std::vector<bool> rough_steps(const ChainProgram& program) {
  std::vector<bool> rough(program.steps.size(), true);
  std::vector<std::size_t> maker(static_cast<std::size_t>(program.registers));
  std::vector<std::vector<std::size_t>> makers(program.steps.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const ChainStep& s = program.steps[i];
    const int in[] = {s.a, s.b, s.c};
    for (int k = 0; k < operands(s.op); ++k) makers[i].push_back(maker[static_cast<std::size_t>(in[k])]);
    if (s.op != ChainOp::store) maker[static_cast<std::size_t>(s.result)] = i;
  }
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    const ChainStep& s = program.steps[i];
    const bool keeps = row(s.op).keeps_error;
    const bool ends = s.op == ChainOp::store && program.tensors[static_cast<std::size_t>(s.slot)].dtype != DType::f32;
    for (const std::size_t from : makers[i]) rough[from] = rough[from] && (ends || (keeps && rough[i]));
  }
  return rough;
}

class ChainText {
 public:
  ChainText(const ChainProgram& program, std::span<void* const> data, int multiprocessors)
      : program_(program),
        data_(data),
        multiprocessors_(multiprocessors),
        code_(lower(program)),
        words_(out_.arguments) {}

  Generated make() {
    if (code_.elements == 0) return {};
    choose();
    name_arguments();
    std::string body = "  const Index first = blockIdx.x * Index{" + std::to_string(threads * items_) +
                       "} + threadIdx.x, items = (Index)" + words_.add(static_cast<std::uint64_t>(count_)) + ";\n";
    body += declarations() + loop(loads()) + loop(steps());
    out_.threads = threads;
    out_.blocks = (count_ + threads * items_ - 1) / (threads * items_);
    out_.text = kernel_text(out_, plain_words, wide_, body);
    return std::move(out_);
  }

 private:
  enum class Way { along, uniform, strided };  // Adjacent elements of the last axis.
  struct Tensor {
    Way way = Way::along;
    int together = 1;
    bool loaded = false, stored = false, streamed = false;
    std::string data, offset;
  };

  std::size_t last() const { return static_cast<std::size_t>(code_.axes - 1); }
  std::int64_t columns() const { return code_.extents[last()]; }
  int size(std::size_t t) const { return bits(code_.tensors[t].dtype) / 8; }

  void choose() {
    for (const ChainStep& s : program_.steps) {
      tensors_.resize(code_.tensors.size());
      if (s.op == ChainOp::load) tensors_[static_cast<std::size_t>(s.slot)].loaded = true;
      if (s.op == ChainOp::store) tensors_[static_cast<std::size_t>(s.slot)].stored = true;
    }
    double bytes = 0, reach = 0;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!used(t)) continue;
      double tensor_bytes = size(t), far = 0;
      for (std::size_t axis = 0; axis <= last(); ++axis) {
        const std::int64_t stride = code_.tensors[t].strides[axis];
        if (stride != 0) tensor_bytes *= static_cast<double>(code_.extents[axis]);
        far += static_cast<double>(std::abs(stride)) * static_cast<double>(code_.extents[axis]);
      }
      bytes += tensor_bytes;
      reach = std::max(reach, far);
      tensors_[t].streamed = tensor_bytes >= static_cast<double>(code_.elements) * size(t);
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      tensors_[t].streamed &= bytes > static_cast<double>(streamed_bytes);
    choose_width();
    count_ = (columns() + width_ - 1) / width_;
    for (std::size_t axis = 0; axis < last(); ++axis) count_ *= code_.extents[axis];
    wide_ = reach >= static_cast<double>(most_narrow) || count_ >= most_narrow;
    std::int64_t flying = 0;
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      if (tensors_[t].loaded && tensors_[t].way != Way::uniform) flying += width_ * size(t);
    items_ = count_ < busy_items * multiprocessors_
                 ? 1
                 : static_cast<int>(std::clamp<std::int64_t>(flying_bytes / std::max<std::int64_t>(flying, 1), 1, 4));
    if (items_ == 3) items_ = 2;
  }

  bool used(std::size_t t) const { return tensors_[t].loaded || tensors_[t].stored; }

  static Way way_of(std::int64_t step, bool stored) {
    if (step == 1 || (step == 0 && stored)) return Way::along;
    return step == 0 ? Way::uniform : Way::strided;
  }

  // Chooses the width of the widest vector access along the last axis.
  void choose_width() {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!used(t)) continue;
      const ChainAccess& access = code_.tensors[t];
      const std::int64_t step = columns() == 1 ? 0 : access.strides[last()];
      tensors_[t].way = way_of(step, tensors_[t].stored);
      if (tensors_[t].way != Way::along) continue;
      std::vector<std::int64_t> strides;
      for (std::size_t axis = 0; axis < last(); ++axis)
        if (code_.extents[axis] > 1) strides.push_back(access.strides[axis]);
      tensors_[t].together = generated::together(data_[t], access.dtype, strides, vector_bytes / size(t));
      width_ = std::max(width_, tensors_[t].together);
    }
    while (width_ > columns()) width_ /= 2;
    for (Tensor& t : tensors_) t.together = std::min(t.together, width_);
    ragged_ = columns() % width_ != 0;
  }

  void name_arguments() {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!used(t)) continue;
      tensors_[t].data = words_.add(data_[t]);
      std::string& at = tensors_[t].offset;
      const auto add = [&](const std::string& term) { at += (at.empty() ? "" : " + ") + term; };
      for (std::size_t axis = 0; axis < last(); ++axis)
        if (code_.extents[axis] > 1 && code_.tensors[t].strides[axis] != 0)
          add("(Offset)i" + std::to_string(axis) + " * " + words_.add_signed(code_.tensors[t].strides[axis]));
      if (tensors_[t].way == Way::along) add("(Offset)column");
      if (tensors_[t].way == Way::strided)
        add("(Offset)column * " + words_.add_signed(code_.tensors[t].strides[last()]));
      if (at.empty()) at = "0";
    }
    // Indices of an item: its column, and its index along each other axis.
    const std::int64_t chunks = (columns() + width_ - 1) / width_;
    std::string rest = "item";
    place_ = "    const Index item = first + u * " + std::to_string(threads) + ";\n    if (item >= items) continue;\n";
    if (code_.elements == columns()) {
      place_ += "    const Index column = item * " + std::to_string(width_) + ";\n";
    } else if (chunks == 1) {
      place_ += "    const Index column = 0;\n";
    } else {
      place_ += "    const Index row = divided(item, " + words_.add(divisor(chunks, wide_)) + ");\n";
      place_ += "    const Index column = (item - row * (Index)" + words_.add(static_cast<std::uint64_t>(chunks)) +
                ") * " + std::to_string(width_) + ";\n";
      rest = "row";
    }
    place_ += axes_text(words_, std::span(code_.extents).first(last()), rest, wide_);
    if (ragged_) {
      const std::string all = words_.add(static_cast<std::uint64_t>(columns()));
      place_ += "    const Offset count = (Offset)((Index)" + all + " - column);\n";
    }
  }

  std::string loop(const std::string& inside) const {
    return "#pragma unroll\n  for (int u = 0; u < " + std::to_string(items_) + "; ++u) {\n" + place_ + inside + "  }\n";
  }
  std::string pack(std::size_t t) const {
    return "<" + std::string(form(code_.tensors[t].dtype)) + ", " + std::to_string(width_);
  }
  std::string how(std::size_t t) const {
    return pack(t) + ", " + std::to_string(tensors_[t].together) +
           (tensors_[t].streamed ? ", Use::streamed>" : ", Use::kept>");
  }
  std::string count() const { return ragged_ ? ", count" : ""; }

  std::string declarations() const {
    std::string out;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!tensors_[t].loaded) continue;
      const std::string name = " x" + std::to_string(t) + "[" + std::to_string(items_) + "]";
      switch (tensors_[t].way) {
        case Way::along: out += "  Pack" + pack(t) + ">" + name + ";\n"; break;
        case Way::uniform: out += "  float" + name + ";\n"; break;
        case Way::strided: out += "  float" + name + "[" + std::to_string(width_) + "];\n"; break;
      }
    }
    return out;
  }

  std::string loads() const {
    std::string out;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& x = tensors_[t];
      if (!x.loaded) continue;
      const std::string to = "x" + std::to_string(t) + "[u]", dtype = std::string(form(code_.tensors[t].dtype));
      if (x.way == Way::along)
        out += "    " + to + " = read" + (ragged_ ? "_some" : "") + how(t) + "(" + x.data + ", " + x.offset + count() +
               ");\n";
      else if (x.way == Way::uniform)
        out += "    " + to + " = read_one<" + dtype + ">(" + x.data + ", " + x.offset + ");\n";
      else
        out += "#pragma unroll\n    for (int i = 0; i < " + std::to_string(width_) + "; ++i)\n      " + to +
               "[i] = read_one<" + dtype + ">(" + x.data + ", " + x.offset + " + i * " + step(t) +
               (ragged_ ? ", i < count" : "") + ");\n";
    }
    return out;
  }
  std::string step(std::size_t t) const {  // The stride's expression within the offset.
    return tensors_[t].offset.substr(tensors_[t].offset.rfind("(Offset)a.word"));
  }

  std::string steps() const {
    std::string inside, stores, outs;
    const std::vector<bool> rough = rough_steps(program_);
    std::vector<std::string> held(static_cast<std::size_t>(program_.registers));
    const auto in = [&](int reg) -> const std::string& { return held[static_cast<std::size_t>(reg)]; };
    const std::string width = std::to_string(width_);
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const ChainStep& s = program_.steps[i];
      const auto t = static_cast<std::size_t>(s.slot);
      if (s.op == ChainOp::store) {
        const std::string y = "y" + std::to_string(t);
        outs += "    float " + y + "[" + width + "];\n";
        inside += "      " + y + "[i] = " + in(s.a) + ";\n";
        stores += store(t, y);
        continue;
      }
      const std::string value = "v" + std::to_string(i);
      const int operands = ops::operands(s.op);
      std::string made;
      if (s.op == ChainOp::load)
        made = "x" + std::to_string(t) + "[u]" + (tensors_[t].way == Way::uniform ? "" : "[i]");
      else if (s.op == ChainOp::constant)
        made = number(s.constant);
      else
        made = expression(s, {in(s.a), operands > 1 ? in(s.b) : "", operands > 2 ? in(s.c) : "", rough[i]});
      inside += "      const float " + value + " = " + made + ";\n";
      held[static_cast<std::size_t>(s.result)] = value;
    }
    return outs + "#pragma unroll\n    for (int i = 0; i < " + width + "; ++i) {\n" + inside + "    }\n" + stores;
  }
  std::string store(std::size_t t, const std::string& y) const {
    const Tensor& x = tensors_[t];
    if (x.way == Way::along) return "    write" + how(t) + "(" + x.data + ", " + x.offset + ", " + y + count() + ");\n";
    return "#pragma unroll\n    for (int i = 0; i < " + std::to_string(width_) + "; ++i)\n      " +
           (ragged_ ? "if (i < count) " : "") + "write_one<" + std::string(form(code_.tensors[t].dtype)) + ">(" +
           x.data + ", " + x.offset + " + i * " + step(t) + ", " + y + "[i]);\n";
  }

  const ChainProgram& program_;
  std::span<void* const> data_;
  int multiprocessors_;
  const ChainCode code_;
  Generated out_;
  Words words_;
  std::vector<Tensor> tensors_;
  std::string place_;
  std::int64_t count_ = 0;  // Items.
  int width_ = 1, items_ = 1;
  bool ragged_ = false, wide_ = false;
};

}  // namespace

Generated generate(const ChainProgram& program, std::span<void* const> tensors, int multiprocessors) {
  return ChainText(program, tensors, multiprocessors).make();
}

}  // namespace ridge::ops
