#include "ridge/measure/ranks/whole.h"

#include <fmt/format.h>

#include <cmath>

#include "ridge/base/text.h"

namespace ridge::ranks {
namespace {

// True if this device's shard is used, for shards of which several devices hold copies.
bool gives(const Mesh& mesh, const Layout& layout, std::int64_t device) {
  const std::string counts = letters_of(layout) + layout.addends;
  for (const auto& [letter, size] : mesh.axes)
    if (counts.find(letter) == std::string::npos && mesh.place(device, letter) != 0) return false;
  return true;
}

class Gathering {
 public:
  Gathering(const Part& part, int slot, transport::Ranks& ranks)
      : part_(part), slot_(slot), ranks_(ranks), of_(part.acts().slots[static_cast<std::size_t>(slot)]) {
    for (const std::int64_t extent : of_.extents) all_.push_back({0, extent});
  }

  Result<Whole> gathered() {
    std::vector<transport::Sent> sent;
    std::vector<transport::Received> received;
    if (const Status there = post(sent, received); !there) return there.error();
    if (const Status done = ranks_.exchange(sent, received); !done) return done.error();
    return ranks_.rank() == 0 ? joined() : Result<Whole>(Whole{});
  }

 private:
  std::size_t bytes_at(std::int64_t device) const {
    const Block block = block_of(of_.extents, of_.layout, part_.device().mesh, device);
    return static_cast<std::size_t>(stored_bytes(of_.dtype, words_in(block)));
  }

  Status post(std::vector<transport::Sent>& sent, std::vector<transport::Received>& received) {
    const Mesh& mesh = part_.device().mesh;
    if (ranks_.rank() != 0) {
      if (gives(mesh, of_.layout, ranks_.rank()))
        sent.push_back({0, {part_.array(slot_).data, bytes_at(ranks_.rank())}});
      return Done{};
    }
    for (std::int64_t d = 0; d < mesh.devices(); ++d) {
      if (!gives(mesh, of_.layout, d)) continue;
      const Block block = block_of(of_.extents, of_.layout, mesh, d);
      auto memory = ArrayStorage::make(of_.dtype, words_in(block));
      if (!memory)
        return input_error(fmt::format("the system refused {} of memory to check '{}'",
                                       engineering(static_cast<double>(bytes_at(d)), "B"), of_.name),
                           "give smaller dimensions with -d");
      if (d == 0)
        std::copy_n(part_.array(slot_).data, bytes_at(0), memory->array().data);
      else
        received.push_back({static_cast<int>(d), {memory->array().data, bytes_at(d)}});
      parts_.emplace_back(d, *std::move(memory));
    }
    return Done{};
  }

  Result<Whole> joined() {
    const bool addends = !of_.layout.addends.empty();
    Whole out{.values = ArrayStorage::make(addends ? DType::f32 : of_.dtype, words_in(all_))};
    if (!out.values)
      return input_error(fmt::format("the system refused the memory to check '{}'", of_.name),
                         "give smaller dimensions with -d");
    if (addends) return add_up(std::move(out));
    for (const auto& [device, memory] : parts_) {
      const Block block = block_of(of_.extents, of_.layout, part_.device().mesh, device);
      if (words_in(block) == words_in(all_))  // covers tensors with block scales, which are never split
        std::copy_n(memory.array().data, bytes_at(device), out.values->array().data);
      else
        unpack(memory.array().data, block, all_, bits(of_.dtype) / 8, out.values->array().data);
    }
    return out;
  }

  Result<Whole> add_up(Whole out) {
    const auto words = static_cast<std::size_t>(words_in(all_));
    std::vector<double> sums(words);
    out.magnitudes.resize(words);
    for (const auto& [device, memory] : parts_) {
      const Block block = block_of(of_.extents, of_.layout, part_.device().mesh, device);
      // The shard's elements at their positions in the full tensor, 0 elsewhere.
      std::vector<double> spread(words), values(static_cast<std::size_t>(words_in(block)));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = read(memory.array(), static_cast<std::int64_t>(i));
      unpack(reinterpret_cast<const std::byte*>(values.data()), block, all_, sizeof(double),
             reinterpret_cast<std::byte*>(spread.data()));
      for (std::size_t i = 0; i < words; ++i) {
        sums[i] += spread[i];
        out.magnitudes[i] += std::fabs(spread[i]);
      }
    }
    auto* const values = reinterpret_cast<float*>(out.values->array().data);
    for (std::size_t i = 0; i < words; ++i) values[i] = static_cast<float>(sums[i]);
    return out;
  }

  const Part& part_;
  int slot_;
  transport::Ranks& ranks_;
  const Slot& of_;
  Block all_;
  std::vector<std::pair<std::int64_t, ArrayStorage>> parts_;
};

}  // namespace

Result<Whole> whole_of(const Part& part, int slot, transport::Ranks& ranks) {
  return Gathering(part, slot, ranks).gathered();
}

}  // namespace ridge::ranks
