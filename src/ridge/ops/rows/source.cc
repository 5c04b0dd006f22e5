// The text of a kernel that works on whole rows. A row is spread over the lanes of a part of a warp, a warp, a block or
// a cluster of blocks, at most 64 elements a lane, fewer where many values are alive at once: it is read from memory
// once and stays in registers until its results are stored. So softmax of 131,072 columns is eight blocks of 256 lanes
// whose warps tell each other two numbers. Blocks that have a row to themselves come and go; starting a cluster takes
// longer, so clusters stay and go on to further rows, the next one's elements on their way while one is worked on. Not
// where elements are not aligned: so many places and predicates take the registers of a second block, which hides more.
#include <algorithm>
#include <cstdlib>

#include "ridge/ops/rows/source.h"

#include "ridge/ops/chain/code.h"
#include "ridge/ops/chain/source.h"

namespace ridge::ops {
namespace {

using namespace generated;

constexpr std::int64_t most_cluster = 8;
constexpr std::int64_t most_narrow = std::int64_t{1} << 30;
constexpr int most_ahead = 32;  // of a lane's 128 registers

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (const std::int64_t extent : extents) n *= extent;
  return n;
}

class RowText {
 public:
  RowText(const RowProgram& program, std::span<void* const> data)
      : program_(program), data_(data), words_(out_.arguments), rows_(product(program.rows)) {}

  Generated make() {
    if (rows_ == 0 || program_.columns == 0) return {};
    choose();
    const std::string first = head();
    axes_ = axes_text(words_, program_.rows, "row", wide_);
    std::string steps = axes_;
    for (std::size_t i = 0; i < program_.steps.size(); ++i) steps += step(i);
    const std::string body = places() + first + (out_.cluster > 1 ? over_rows(steps) : steps);
    out_.text = kernel_text(out_, wide_, body);
    return std::move(out_);
  }

 private:
  struct Value {
    std::string name;
    bool wide = false;  // one an element; else one a row
  };

  std::size_t last() const { return program_.rows.size(); }
  bool along(std::size_t t) const { return program_.columns > 1 && program_.tensors[t].strides[last()] != 0; }
  int size(std::size_t t) const { return bits(program_.tensors[t].dtype) / 8; }

  void choose() {
    together_.assign(program_.tensors.size(), 1);
    double bytes = 0, reach = 0;
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      const ChainTensor& x = program_.tensors[t];
      std::vector<std::int64_t> strides;
      double far = static_cast<double>(program_.columns);
      for (std::size_t axis = 0; axis < last(); ++axis) {
        if (program_.rows[axis] > 1) strides.push_back(x.strides[axis]);
        far += static_cast<double>(std::abs(x.strides[axis])) * static_cast<double>(program_.rows[axis]);
      }
      reach = std::max(reach, far);
      if (!along(t)) continue;
      bytes += static_cast<double>(rows_) * static_cast<double>(program_.columns) * size(t);
      together_[t] = together(data_[t], x.dtype, strides, vector_bytes / size(t));
      width_ = std::max(width_, together_[t]);
      whole_ &= together_[t] * size(t) == vector_bytes;
    }
    while (width_ > program_.columns) width_ /= 2;
    for (int& one : together_) one = std::min(one, width_);
    streamed_ = bytes > static_cast<double>(streamed_bytes);
    choose_lanes();
    wide_ = reach >= static_cast<double>(most_narrow) || rows_ >= most_narrow / 32;
  }

  void choose_lanes() {
    const std::int64_t vectors = (program_.columns + width_ - 1) / width_;
    const std::int64_t most = std::min<std::int64_t>(lane_elements(program_) / width_, 32);
    // More lanes hide more; beyond what a block of them holds, fewer blocks a row are worth more.
    const std::int64_t few = std::min<std::int64_t>(most, 32 / width_), held = vectors > few * 256 ? most : few;
    lanes_ = 1;
    while (lanes_ < 32 && lanes_ < vectors) lanes_ *= 2;
    std::int64_t threads = 256, blocks = 1;
    if (vectors > 32 * held) {  // a block a row, or several
      while (vectors > held * 256 * blocks && blocks < most_cluster) blocks *= 2;
      threads = (vectors + held * blocks - 1) / (held * blocks);
      threads = (threads + 31) / 32 * 32;
      lanes_ = static_cast<int>(threads * blocks);
    }
    out_.threads = static_cast<int>(threads);
    out_.cluster = static_cast<int>(blocks);
    each_ = static_cast<int>((vectors + lanes_ - 1) / lanes_);
    ragged_ = program_.columns != std::int64_t{each_} * lanes_ * width_;
    out_.blocks = lanes_ > 32 ? rows_ * blocks : (rows_ * lanes_ + threads - 1) / threads;
    out_.resident = blocks > 1 && whole_;
    if (held > few || out_.resident) out_.beside = static_cast<int>(512 / threads);
  }

  std::string head() {
    const std::string lanes = std::to_string(lanes_);
    std::string out;
    if (lanes_ <= 32) {
      out += "  const Index given = (blockIdx.x * (Index)" + std::to_string(out_.threads) + " + threadIdx.x) / " +
             lanes + ", rows = (Index)" + words_.add(static_cast<std::uint64_t>(rows_)) + ";\n";
      out += "  const bool live = given < rows;\n  const Index row = live ? given : 0;\n";
      out += "  const int lane = threadIdx.x % " + lanes + ";\n";
    } else if (out_.cluster == 1) {
      out += "  const Index row = blockIdx.x;\n  const int lane = threadIdx.x;\n";
    } else {
      const std::string blocks = std::to_string(out_.cluster);
      out += out_.resident ? "  Index row = blockIdx.x / " + blocks + ";\n  const Index further = gridDim.x / " +
                                 blocks + ", rows = (Index)" + words_.add(static_cast<std::uint64_t>(rows_)) + ";\n"
                           : "  const Index row = blockIdx.x / " + blocks + ";\n";
      out += "  const int lane = block_of_cluster() * " + std::to_string(out_.threads) + " + threadIdx.x;\n";
    }
    if (ragged_)
      out += "  const int left = (int)" + words_.add(static_cast<std::uint64_t>(program_.columns)) + " - lane * " +
             std::to_string(width_) + ";\n";
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      std::string at;
      for (std::size_t axis = 0; axis < last(); ++axis)
        if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] != 0)
          at += (at.empty() ? "" : " + ") + ("(Offset)i" + std::to_string(axis)) + " * " +
                words_.add_signed(program_.tensors[t].strides[axis]);
      if (along(t)) at += (at.empty() ? "" : " + ") + ("lane * " + std::to_string(width_));
      offsets_.push_back(at.empty() ? "0" : at);
      places_.push_back(words_.add(data_[t]));
    }
    held_.resize(static_cast<std::size_t>(program_.registers));
    return out;
  }

  // What warps and blocks tell each other by: for each function its own.
  std::string places() const {
    const std::string count = "places[" + std::to_string(slots_) + "]", warps = std::to_string(out_.threads / 32);
    if (slots_ == 0) return "";
    if (out_.cluster == 1) return "  __shared__ float " + count + "[" + warps + "];\n";
    return "  __shared__ Exchange<" + warps + ", " + std::to_string(out_.cluster) + "> " + count +
           ";\n  prepare(places);\n";
  }

  std::string over_rows(const std::string& steps) const {
    const std::string ready = slots_ > 0 ? "  cluster_wait();\n" : "";
    const std::string loop = ready + "  for (u32 turn = 0; row < rows; row += further, ++turn) {\n";
    // Nobody leaves while others write to it.
    return (out_.resident ? ahead_ + loop + steps + "  }\n" : steps) + "  cluster_arrive();\n  cluster_wait();\n";
  }

  std::string step(std::size_t index) {
    const RowStep& given = program_.steps[index];
    const ChainStep& s = given.step;
    if (!given.along && s.op == ChainOp::store) return store(s);
    const std::string name = "v" + std::to_string(index);
    Value made{name, false};
    std::string out;
    if (given.along) {
      out = reduction(given, name);
    } else if (s.op == ChainOp::load) {
      made.wide = along(static_cast<std::size_t>(s.slot));
      out = load(static_cast<std::size_t>(s.slot), name);
    } else if (s.op == ChainOp::constant) {
      out = "  const float " + name + " = " + number(s.constant) + ";\n";
    } else {
      const int count = operands(s.op), in[] = {s.a, s.b, s.c};
      std::string text[3];
      for (int i = 0; i < count; ++i) made.wide |= held(in[i]).wide;
      for (int i = 0; i < count; ++i) text[i] = held(in[i]).name + (held(in[i]).wide ? "[i]" : "");
      const std::string value = expression(s, {text[0], text[1], text[2]});
      out = made.wide ? "  float " + name + "[" + elements() + "];\n" + all() + name + "[i] = " + value + ";\n"
                      : "  const float " + name + " = " + value + ";\n";
    }
    held_[static_cast<std::size_t>(s.result)] = made;
    return out;
  }

  const Value& held(int reg) const { return held_[static_cast<std::size_t>(reg)]; }
  std::string elements() const { return std::to_string(each_ * width_); }
  std::string all() const { return "#pragma unroll\n  for (int i = 0; i < " + elements() + "; ++i) "; }
  // Element i of a lane exists.
  std::string inside() const {
    return "i / " + std::to_string(width_) + " * " + std::to_string(lanes_ * width_) + " + i % " +
           std::to_string(width_) + " < left";
  }
  std::string how(std::size_t t) const {
    return "<" + std::string(form(program_.tensors[t].dtype)) + ", " + std::to_string(width_) + ", " +
           std::to_string(together_[t]) + (streamed_ && !repeated(t) ? ", Use::streamed>" : ", Use::kept>");
  }
  bool repeated(std::size_t t) const {  // several rows read the same elements
    for (std::size_t axis = 0; axis < last(); ++axis)
      if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] == 0) return true;
    return false;
  }
  bool even() const { return program_.columns % width_ == 0; }  // vectors are whole or not at all
  std::string vectors() const {
    return "#pragma unroll\n  for (int k = 0; k < " + std::to_string(each_) + "; ++k) {\n";
  }
  std::string count() const {
    return ragged_ ? "    const int count = left - k * " + std::to_string(lanes_ * width_) + ";\n" : "";
  }

  std::string load(std::size_t t, const std::string& name) {
    const std::string width = std::to_string(width_), dtype = std::string(form(program_.tensors[t].dtype));
    if (!along(t))
      return "  const float " + name + " = read_one<" + dtype + ">(" + places_[t] + ", " + offsets_[t] + ");\n";
    const std::string packs = "  Pack<" + dtype + ", " + width + "> p" + name + "[" + std::to_string(each_) + "];\n";
    const std::string some = even() ? ", count > 0" : ", count";
    const std::string read = vectors() + count() + "    p" + name + "[k] = read" + (ragged_ && !even() ? "_some" : "") +
                             how(t) + "(" + places_[t] + ", " + offsets_[t] + " + k * " +
                             std::to_string(lanes_ * width_) + (ragged_ ? some : "") + ");\n  }\n";
    const std::string unpacked = "  float " + name + "[" + elements() + "];\n" + all() + name + "[i] = p" + name +
                                 "[i / " + width + "][i % " + width + "];\n";
    const int words = each_ * width_ * size(t) / 4;
    if (!out_.resident || repeated(t) || words_ahead_ + words > most_ahead) return packs + read + unpacked;
    words_ahead_ += words;
    ahead_ += packs + "  const auto fetch_" + name + " = [&](const Index row) {\n  if (row >= rows) return;\n" + axes_ +
              read + "  };\n  fetch_" + name + "(row);\n";
    return unpacked + "  fetch_" + name + "(row + further);\n";
  }

  std::string store(const ChainStep& s) const {
    const auto t = static_cast<std::size_t>(s.slot);
    const Value& x = held(s.a);
    const std::string live = lanes_ <= 32 ? "live" : "";
    if (!along(t)) {
      const std::string mine = "lane == 0" + (live.empty() ? "" : " && " + live);
      return "  if (" + mine + ") write_one<" + std::string(form(program_.tensors[t].dtype)) + ">(" + places_[t] +
             ", " + offsets_[t] + ", " + x.name + (x.wide ? "[0]" : "") + ");\n";
    }
    const std::string width = std::to_string(width_);
    return (live.empty() ? "" : "  if (" + live + ")\n") + vectors() + count() + "    float y[" + width +
           "];\n#pragma unroll\n    for (int i = 0; i < " + width + "; ++i) y[i] = " + x.name +
           (x.wide ? "[k * " + width + " + i]" : "") + ";\n    write" + how(t) + "(" + places_[t] + ", " + offsets_[t] +
           " + k * " + std::to_string(lanes_ * width_) + ", y" + (ragged_ ? ", count" : "") + ");\n  }\n";
  }

  std::string reduction(const RowStep& given, const std::string& name) {
    std::string f = given.function == ReduceFunction::max ? "Most" : "Sum";
    if (given.function == ReduceFunction::min) f = "Least";
    const Value& x = held(given.step.a);
    std::string out = "  float e" + name + "[" + elements() + "];\n" + all() + "e" + name + "[i] = ";
    if (ragged_) out += inside() + " ? ";
    out += x.name + (x.wide ? "[i]" : "");
    if (ragged_) out += " : __uint_as_float(" + f + "::nothing)";
    out += ";\n  float " + name + " = of_elements<" + f + ">(e" + name + ");\n";
    if (out_.cluster > 1 && !out_.resident && slots_ == 0) out += "  cluster_wait();\n";
    out += "  " + name + " = ";
    const std::string warps = std::to_string(out_.threads / 32);
    if (lanes_ <= 32)
      out += "of_lanes<" + f + ", " + std::to_string(lanes_) + ">(" + name + ");\n";
    else if (out_.cluster == 1)
      out += "of_block<" + f + ", " + warps + ">(" + name + ", places[" + std::to_string(slots_++) + "]);\n";
    else
      out += "of_cluster<" + f + ">(" + name + ", places[" + std::to_string(slots_++) +
             (out_.resident ? "], turn);\n" : "], 0);\n");
    if (given.function == ReduceFunction::mean)
      out += "  " + name + " = divide(" + name + ", (float)" +
             words_.add(static_cast<std::uint64_t>(program_.columns)) + ");\n";
    return out;
  }

  const RowProgram& program_;
  std::span<void* const> data_;
  Generated out_;
  Words words_;
  std::int64_t rows_;
  std::vector<int> together_;
  std::vector<std::string> offsets_, places_;
  std::string axes_, ahead_;  // where a row lies; how the next one is asked for
  std::vector<Value> held_;   // in each register
  int width_ = 1, lanes_ = 1, each_ = 1, slots_ = 0, words_ahead_ = 0;
  bool ragged_ = false, wide_ = false, streamed_ = false, whole_ = true;  // whole: all vectors are 16 bytes
};

}  // namespace

Generated generate(const RowProgram& program, std::span<void* const> tensors) {
  return RowText(program, tensors).make();
}

}  // namespace ridge::ops
