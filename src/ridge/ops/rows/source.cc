// Generates kernels of row programs, which keep full rows in registers (tile/cuda/rows.h): at most 64 elements per
// lane, fewer if many values are live. Persistent clusters prefetch the next rows to registers or shared memory, but
// only by vector loads: the addresses and predicates of scalar loads would take the registers of a second block.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>

#include "ridge/ops/rows/source.h"

#include "ridge/ops/chain/code.h"
#include "ridge/ops/chain/source.h"

namespace ridge::ops {
namespace {

using namespace generated;

constexpr std::int64_t most_cluster = 8;
constexpr std::int64_t most_narrow = std::int64_t{1} << 30;
constexpr std::int64_t least_shifted = 256;  // Columns; in shorter rows the partial vectors at the ends cost too much.
constexpr std::int64_t most_rows_ahead = 4;
constexpr int most_registers = 128;  // Per lane.

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (const std::int64_t extent : extents) n *= extent;
  return n;
}

class RowText {
 public:
  RowText(const RowProgram& program, std::span<void* const> data, const cuda::Multiprocessors& device)
      : program_(program),
        data_(data),
        device_(device),
        words_(out_.arguments),
        rows_(product(program.rows)),
        pieces_(pieces_of(program)),
        slots_(pieces_ > 0 ? "1" : "0") {}

  Generated make() {
    if (rows_ == 0 || program_.columns == 0) return {};
    choose();
    std::string steps = tensors();
    for (std::size_t i = 0; i < program_.steps.size(); ++i) steps_ += step(i);
    steps = head() + steps + ahead_ + prefetching() + "  at.over_rows(rows, [&](const Index row) {\n" + begin_ +
            taken_ + steps_ + "  });\n" + behind_;
    out_.text = kernel_text(out_, "ridge/ops/rows/gradients.h", wide_, steps);
    return std::move(out_);
  }

 private:
  struct Value {
    std::string name;
    bool wide = false;  // One value per element, else one per row.
  };

  std::size_t last() const { return program_.rows.size(); }
  bool along(std::size_t t) const { return program_.columns > 1 && program_.tensors[t].strides[last()] != 0; }
  int size(std::size_t t) const { return bits(program_.tensors[t].dtype) / 8; }

  void choose() {
    together_.assign(program_.tensors.size(), 1);
    double bytes = 0, reach = 0;
    int narrowest = vector_bytes;
    bool in_vectors = true;  // All tensors that vary by row are loaded in vectors.
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
      if (!repeated(t)) narrowest = std::min(narrowest, together_[t]);
      in_vectors &= repeated(t) || together_[t] * size(t) == vector_bytes;
      whole_ &= together_[t] * size(t) == vector_bytes;
    }
    // Adjacent lanes read adjacent elements; wider lanes of scalar loads would waste memory sectors.
    if (!in_vectors && !shift()) width_ = narrowest;
    while (width_ > program_.columns) width_ /= 2;
    for (int& one : together_) one = std::min(one, width_);
    streamed_ = bytes > static_cast<double>(streamed_bytes);
    choose_lanes();
    choose_prefetch();
    wide_ = reach >= static_cast<double>(most_narrow) || rows_ >= most_narrow / 32;
  }

  // Unaligned rows use full vectors, too, if all tensors that vary by row have the same misalignment: elements of the
  // first vector before the row are masked. Scalar loads of 4-byte elements are as fast, unless a weight is also read.
  // Returns false if this does not apply.
  bool shift() {
    if (pieces_ > 0 || program_.columns < least_shifted) return false;
    int narrowest = vector_bytes;
    std::optional<std::size_t> first;
    bool is_weighted = false;
    const auto moves = [&](std::size_t t) { return along(t) && !repeated(t); };
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      is_weighted |= along(t) && repeated(t);
      if (!moves(t)) continue;
      if (!first) first = t;
      narrowest = std::min(narrowest, size(t));
    }
    if (!first || (narrowest == 4 && !is_weighted)) return false;
    const int width = vector_bytes / narrowest;
    const auto behind = [&](std::size_t t) {  // Elements after a vector boundary, or -1.
      const auto address = reinterpret_cast<std::uintptr_t>(data_[t]);
      return address % static_cast<unsigned>(size(t)) == 0
                 ? static_cast<std::int64_t>(address / static_cast<unsigned>(size(t)) % static_cast<unsigned>(width))
                 : std::int64_t{-1};
    };
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      if (!moves(t)) continue;
      if (behind(t) < 0 || behind(t) != behind(*first)) return false;
      for (std::size_t axis = 0; axis < last(); ++axis)
        if (program_.rows[axis] > 1 &&
            (program_.tensors[t].strides[axis] - program_.tensors[*first].strides[axis]) % width != 0)
          return false;
    }
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) together_[t] = moves(t) ? vector_bytes / size(t) : 1;
    width_ = width;
    begins_ = "t" + std::to_string(*first) + ".offset(row) + " + std::to_string(behind(*first));
    begin_ = "  at.begin(" + begins_ + ");\n";
    return true;
  }

  void choose_lanes() {
    const std::int64_t shifted = begin_.empty() ? 0 : width_ - 1;
    const std::int64_t vectors = (program_.columns + shifted + width_ - 1) / width_;
    const std::int64_t most = std::min<std::int64_t>(lane_elements(program_) / width_, 32);
    // More lanes hide more latency. Rows longer than a block holds use more elements per lane and fewer blocks.
    const std::int64_t few = std::min<std::int64_t>(most, 32 / width_), held = vectors > few * 256 ? most : few;
    lanes_ = 1;
    while (lanes_ < 32 && lanes_ < vectors) lanes_ *= 2;
    std::int64_t threads = 256, blocks = 1;
    if (vectors > 32 * held) {  // A row takes one or more blocks.
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
    out_.resident = blocks > 1 && (whole_ || (shifted > 0 && goes_by_shared())) && pieces_ == 0;
    if (held > few || stays()) out_.beside = static_cast<int>(512 / threads);
    if (pieces_ == 0) return;
    // Launch as many blocks as run concurrently; another wave would be nearly empty. Short lanes allow more blocks.
    if (width_ * 2 == vector_bytes) out_.beside = static_cast<int>(768 / threads);
    if (lanes_ <= 32) out_.beside = static_cast<int>(1024 / threads);
    out_.blocks = std::clamp<std::int64_t>(out_.beside * device_.count / blocks, 1, pieces_) * blocks;
  }

  // Persistent blocks prefetch as many of their next rows to shared memory as fit. Tensors that all rows share stay
  // there.
  void choose_prefetch() {
    if (!stays() || lanes_ <= 32 || !goes_by_shared()) return;
    std::int64_t told = 0;  // Row results exchanged through shared memory.
    for (const RowStep& step : program_.steps) {
      if (step.kind == RowStep::Kind::whole) told += 8;
      if (step.kind == RowStep::Kind::along) ++told;
    }
    const std::int64_t warps = out_.threads / 32 * out_.cluster;
    std::int64_t room = device_.shared_bytes / std::max(1, out_.beside) - device_.shared_bytes_of_block -
                        told * (8 * warps + 16),
                 each = 0;
    for (const RowStep& given : program_.steps) {
      const auto t = static_cast<std::size_t>(given.step.slot);
      if (given.kind != RowStep::Kind::element || given.step.op != ChainOp::load) continue;
      if (!along(t) || !(in_pieces(t) || (!differs(t) && in_order(t)))) continue;
      std::vector<std::size_t>& all = differs(t) ? prefetched_ : kept_;
      if ((differs(t) && repeated(t)) || std::count(all.begin(), all.end(), t) > 0) continue;
      all.push_back(t);
      if (differs(t)) each += room_of(t);
    }
    std::erase_if(kept_, [&](std::size_t t) {
      const bool fits = room_of(t) + each <= room;
      if (fits) room -= room_of(t);
      return !fits;
    });
    if (each > 0) rows_ahead_ = std::clamp<std::int64_t>(room / each, 0, most_rows_ahead);
    if (rows_ahead_ > 0) return;
    prefetched_ = kept_ = {};
    out_.resident &= whole_;
  }
  // True if rows are prefetched to shared memory: unaligned rows that store elements, and row functions that were
  // faster so (decision 29). Others prefetch to registers if there are enough, since shared memory traffic of the
  // prefetch competes with the lanes' exchange of row results.
  bool goes_by_shared() const {
    bool stores = false, is_faster = false, is_slower = false;
    for (const RowStep& each : program_.steps) {
      const auto t = static_cast<std::size_t>(each.step.slot);
      if (each.kind == RowStep::Kind::element && each.step.op == ChainOp::store) stores |= along(t);
      if (each.kind != RowStep::Kind::whole) continue;
      const bool is = each.whole == RowFunction::softmax || each.whole == RowFunction::layernorm ||
                      each.whole == RowFunction::rmsnorm_gradient;
      (is ? is_faster : is_slower) = true;
    }
    return pieces_ == 0 && stores && (!begin_.empty() || (is_faster && !is_slower));
  }
  std::int64_t room_of(std::size_t t) const {  // Shared memory of a block's part of a row.
    const bool is_in_order = in_order(t) && !in_pieces(t);
    const std::int64_t lanes = out_.threads + (is_in_order ? 1 : 0), bytes = each_ * width_ * size(t) * lanes;
    return is_in_order ? (bytes / vector_bytes + 2) * vector_bytes : bytes;
  }
  // True if an aligned tensor is copied to shared memory in memory order and read with the row's shift.
  bool in_order(std::size_t t) const {
    return !begin_.empty() && reinterpret_cast<std::uintptr_t>(data_[t]) % vector_bytes == 0 && width_ * size(t) >= 4;
  }
  bool in_pieces(std::size_t t) const { return along(t) && together_[t] * size(t) == vector_bytes; }
  bool differs(std::size_t t) const {
    for (std::size_t axis = 0; axis < last(); ++axis)
      if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] != 0) return true;
    return false;
  }

  bool stays() const { return out_.resident || pieces_ > 0; }  // Blocks loop over rows.

  std::string head() {
    std::string extent = "whole";
    if (ragged_) extent = program_.columns % width_ == 0 ? "vectors" : "ragged";
    if (!begin_.empty()) extent = "shifted";
    std::string out = "  using S = Spread<";
    for (const int number : {lanes_, out_.threads, out_.cluster, each_, width_}) out += std::to_string(number) + ", ";
    out += "Extent::" + extent + (stays() ? ", true>;\n" : ", false>;\n");
    out += "  __shared__ RowAt<S>::Place places[" + slots_ + "];\n";
    out += "  const u32 columns = (u32)" + words_.add(static_cast<std::uint64_t>(program_.columns)) + ";\n";
    out += "  RowAt<S> at(places, columns);\n";
    out += "  const float share = __uint_as_float((u32)" +
           words_.add(std::bit_cast<std::uint32_t>(1 / static_cast<float>(program_.columns))) + ");\n";
    return out + "  const Index rows = (Index)" + words_.add(static_cast<std::uint64_t>(rows_)) + ";\n";
  }

  std::string tensors() {
    held_.resize(static_cast<std::size_t>(program_.registers));
    const std::string axes = axes_text(words_, program_.rows, "row", wide_);
    std::string out;
    for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
      std::string at;
      for (std::size_t axis = 0; axis < last(); ++axis)
        if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] != 0)
          at += (at.empty() ? "" : " + ") + ("(Offset)i" + std::to_string(axis)) + " * " +
                words_.add_signed(program_.tensors[t].strides[axis]);
      out += "  const auto t" + std::to_string(t) + " = tensor<" + std::string(form(program_.tensors[t].dtype)) + ", " +
             std::to_string(together_[t]) + (streamed_ && !repeated(t) ? ", Use::streamed>(" : ", Use::kept>(") +
             words_.add(data_[t]) + ", [&](const Index row) -> Offset {\n" + (at.empty() ? "" : axes) + "  return " +
             (at.empty() ? "0" : at) + ";\n  });\n";
    }
    return out;
  }
  // Writes the copies to shared memory before the first row and at the start of each row.
  std::string prefetching() {
    if (rows_ahead_ == 0) return {};
    const std::string count = std::to_string(rows_ahead_), shift = begin_.empty() ? "" : ", shift";
    std::string out = "  extern __shared__ uint4 room[];\n", before, copies;
    const auto add = [&](std::size_t t, std::int64_t rows) {
      const std::string number = std::to_string(t);
      out += "  const auto c" + number + " = at.prefetched<" + std::to_string(rows) + ">(t" + number + ", room + " +
             std::to_string(out_.shared_bytes / vector_bytes) + ");\n";
      out_.shared_bytes += static_cast<int>(rows * room_of(t));
      return "at.prefetch(c" + number + ", t" + number;
    };
    for (const std::size_t t : kept_) {
      const std::string number = std::to_string(t);
      if (in_pieces(t)) {
        before += "  " + add(t, 1) + ", (Index)0, 0);\n";
        continue;
      }
      out += "  const auto c" + number + " = at.kept_in_order(t" + number + ", room + " +
             std::to_string(out_.shared_bytes / vector_bytes) + ");\n  at.keep(c" + number + ", t" + number + ");\n";
      out_.shared_bytes += static_cast<int>(room_of(t));
    }
    taken_ = "  wait_for_all_but<" + count + " - 1>();\n";
    for (const std::size_t t : prefetched_) {
      copies += "      " + add(t, rows_ahead_) + ", row, turn" + shift + ");\n";
      const std::string number = std::to_string(t);
      taken_ += "  const auto p" + number + " = at.take(c" + number + ", at.turn());\n";
    }
    taken_ += "  prefetch(at.next(row, (Index)" + count + "), at.turn() + " + count + ");\n";
    out += "  const auto prefetch = [&](const Index row, const u32 turn) {\n    if (row < rows) {\n";
    if (!begin_.empty()) out += "      const int shift = at.shift_of(" + begins_ + ");\n";
    out += copies + "    }\n    commit_row();\n  };\n" + before;
    return out + "  for (u32 i = 0; i < " + count + "; ++i) prefetch(at.next(at.first<Index>(), (Index)i), i);\n";
  }

  bool repeated(std::size_t t) const {  // Several rows read the same elements.
    for (std::size_t axis = 0; axis < last(); ++axis)
      if (program_.rows[axis] > 1 && program_.tensors[t].strides[axis] == 0) return true;
    return false;
  }

  std::string step(std::size_t index) {
    const RowStep& given = program_.steps[index];
    const ChainStep& s = given.step;
    const std::string t = "t" + std::to_string(s.slot);
    if (given.kind == RowStep::Kind::across) {
      ahead_ += "  auto sums = at.all(0);\n";
      behind_ = "  at.leave(" + t + ", sums);\n";
      return "  at.add(sums, " + wide(s.a) + ");\n";
    }
    if (given.kind == RowStep::Kind::element && s.op == ChainOp::store) {
      if (along(static_cast<std::size_t>(s.slot))) return "  at.store(" + t + ", row, " + wide(s.a) + ");\n";
      return "  at.store_one(" + t + ", row, " + held(s.a).name + (held(s.a).wide ? "[at.first_held()]" : "") + ");\n";
    }
    const std::string name = "v" + std::to_string(index);
    Value& made = held_[static_cast<std::size_t>(s.result)];
    std::string value, after;
    bool is_wide = given.kind == RowStep::Kind::whole && !is_number(given.whole);
    if (given.kind == RowStep::Kind::along) {
      value = reduction(given);
    } else if (given.kind == RowStep::Kind::whole) {
      value = whole(given, name);
    } else if (s.op == ChainOp::load) {
      is_wide = along(static_cast<std::size_t>(s.slot));
      value = is_wide ? load(static_cast<std::size_t>(s.slot), name, after) : "at.load_one(" + t + ", row)";
    } else if (s.op == ChainOp::constant) {
      value = number(s.constant);
    } else {
      const int in[] = {s.a, s.b, s.c};
      std::string text[3];
      for (int i = 0; i < operands(s.op); ++i) {
        is_wide |= held(in[i]).wide;
        text[i] = held(in[i]).name + (held(in[i]).wide ? "[i]" : "");
      }
      value = expression(s, {text[0], text[1], text[2]});
      if (is_wide) value = "at.each([&](int i) -> float { return " + value + "; })";
    }
    made = {name, is_wide};
    return (is_wide ? "  const auto " : "  const float ") + name + " = " + value + ";\n" + after;
  }

  const Value& held(int reg) const { return held_[static_cast<std::size_t>(reg)]; }
  std::string wide(int reg) const { return held(reg).wide ? held(reg).name : "at.all(" + held(reg).name + ")"; }

  // Persistent blocks load the next row while they process the current one.
  std::string load(std::size_t t, const std::string& name, std::string& after) {
    const std::string number = std::to_string(t);
    const auto is_in = [&](const std::vector<std::size_t>& all) { return std::count(all.begin(), all.end(), t) > 0; };
    if (is_in(prefetched_)) return "at.unpacked(p" + number + ")";
    if (is_in(kept_))
      return "at.unpacked(at.take" + (in_pieces(t) ? "(c" + number + ", 0))" : "_shifted(c" + number + "))");
    const int words = each_ * width_ * size(t) / 4;
    if (rows_ahead_ > 0 || !begin_.empty() || !stays() || lanes_ <= 32 || repeated(t) || !in_pieces(t) ||
        words_ahead_ + words > std::min(most_registers, device_.registers / out_.threads) / 4)
      return "at.load(t" + number + ", row)";
    words_ahead_ += words;
    const std::string packs = "p" + name;
    ahead_ += "  auto " + packs + " = at.read(t" + number + ", at.first<Index>());\n";
    after = "  if (at.next(row) < rows) " + packs + " = at.read(t" + number + ", at.next(row));\n";
    return "at.unpacked(" + packs + ")";
  }

  std::string reduction(const RowStep& given) {
    std::string f = given.function == ReduceFunction::max ? "Most" : "Sum";
    if (given.function == ReduceFunction::min) f = "Least";
    const std::string value = "at.along<" + f + ", " + slots_ + ">(" + wide(given.step.a) + ")";
    slots_ += " + 1";
    return given.function == ReduceFunction::mean ? "divide(" + value + ", (float)columns)" : value;
  }

  std::string whole(const RowStep& given, const std::string& name) {
    const std::string text = text_of(given.whole), x = wide(given.step.a);
    const std::string others = is_gradient(given.whole) ? ", " + wide(given.step.b) : "";
    std::string globals = "{";
    if (is_norm(given.whole)) globals += ".share = share, .epsilon = " + number(given.step.constant);
    ahead_ += "  u32 again_" + name + " = 0;\n";
    const std::string value =
        "at.through<" + text + ", " + slots_ + ">(" + x + ", " + globals + "}, again_" + name + others + ")";
    slots_ += " + slots_of<" + text + ">()";
    return value;
  }
  static std::string text_of(RowFunction function) {
    switch (function) {
      case RowFunction::rmsnorm: return "ops::Rmsnorm<float, float, float>";
      case RowFunction::layernorm: return "ops::Layernorm<float, float, float>";
      case RowFunction::log_sum_exp: return "ops::LogSumExp<float, float>";
      case RowFunction::softmax_gradient: return "ops::SoftmaxGradient<float, float>";
      case RowFunction::rmsnorm_gradient: return "ops::RmsnormGradient<float, float, float>";
      case RowFunction::layernorm_gradient: return "ops::LayernormGradient<float, float, float>";
      case RowFunction::product_across: return "ops::ProductAcross<float, float>";
      case RowFunction::rmsnorm_weight_gradient: return "ops::RmsnormWeightGradient<float, float>";
      case RowFunction::layernorm_weight_gradient: return "ops::LayernormWeightGradient<float, float>";
      default: return "ops::Softmax<float, float>";
    }
  }

  const RowProgram& program_;
  std::span<void* const> data_;
  cuda::Multiprocessors device_;
  Generated out_;
  Words words_;
  std::int64_t rows_, pieces_;
  std::vector<int> together_;
  std::string slots_;                           // Expression: shared memory slots in use.
  std::string begins_, begin_;                  // For shifted rows.
  std::string ahead_, taken_, steps_, behind_;  // Before the loop; start of each row; each row; after the loop.
  std::vector<std::size_t> prefetched_, kept_;  // Tensors in shared memory: of next rows; shared by all rows.
  std::vector<Value> held_;                     // By register.
  int width_ = 1, lanes_ = 1, each_ = 1, words_ahead_ = 0;
  std::int64_t rows_ahead_ = 0;
  bool ragged_ = false, wide_ = false, streamed_ = false, whole_ = true;  // full_vectors_: all are 16 bytes.
};

}  // namespace

Generated generate(const RowProgram& program, std::span<void* const> tensors, const cuda::Multiprocessors& device) {
  return RowText(program, tensors, device).make();
}

}  // namespace ridge::ops
