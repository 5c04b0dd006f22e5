#include "ridge/run/ranks/rank_program.h"

#include <fmt/format.h>

#include <cmath>

#include "ridge/base/string_util.h"

namespace ridge::ranks {
namespace {

// True if this device's shard is used, for shards of which several devices hold copies.
bool is_source_device(const Mesh& mesh, const Layout& layout, std::int64_t device) {
  const std::string used_axes = sharding_axes(layout) + layout.partial_over;
  for (const auto& [letter, size] : mesh.axes)
    if (used_axes.find(letter) == std::string::npos && mesh.coordinate_along(device, letter) != 0) return false;
  return true;
}

class TensorGatherer {
 public:
  TensorGatherer(const RankProgram& rank_program, int slot, transport::Communicator& comm)
      : rank_program_(rank_program), slot_(slot), comm_(comm), tensor_(rank_program.schedule().slots[slot]) {
    for (const std::int64_t extent : tensor_.extents) full_block_.push_back({0, extent});
  }

  Result<GatheredTensor> gather_to_root() {
    std::vector<transport::SendRequest> sent;
    std::vector<transport::ReceiveRequest> received;
    RIDGE_TRY_STATUS(post_messages(sent, received));
    RIDGE_TRY_STATUS(comm_.exchange_messages(sent, received));
    return comm_.rank() == 0 ? assemble_shards() : Result<GatheredTensor>(GatheredTensor{});
  }

 private:
  std::size_t bytes_at(std::int64_t device) const {
    const ShardBox block = shard_box(tensor_.extents, tensor_.layout, rank_program_.mesh_device().mesh, device);
    return static_cast<std::size_t>(stored_bytes(tensor_.dtype, count_words(block)));
  }

  Status post_messages(std::vector<transport::SendRequest>& sent, std::vector<transport::ReceiveRequest>& received) {
    const Mesh& mesh = rank_program_.mesh_device().mesh;
    if (comm_.rank() != 0) {
      if (is_source_device(mesh, tensor_.layout, comm_.rank()))
        sent.push_back({0, {rank_program_.slot_array(slot_).data, bytes_at(comm_.rank())}});
      return Done{};
    }
    for (std::int64_t d = 0; d < mesh.devices(); ++d) {
      if (!is_source_device(mesh, tensor_.layout, d)) continue;
      const ShardBox block = shard_box(tensor_.extents, tensor_.layout, mesh, d);
      auto memory = ArrayStorage::make(tensor_.dtype, count_words(block));
      if (!memory)
        return input_error(fmt::format("the system refused {} of memory to check '{}'",
                                       format_with_prefix(static_cast<double>(bytes_at(d)), "B"), tensor_.name),
                           "give smaller dimensions with -d");
      if (d == 0)
        std::copy_n(rank_program_.slot_array(slot_).data, bytes_at(0), memory->array().data);
      else
        received.push_back({static_cast<int>(d), {memory->array().data, bytes_at(d)}});
      shards_.emplace_back(d, *std::move(memory));
    }
    return Done{};
  }

  Result<GatheredTensor> assemble_shards() {
    const bool is_partial = !tensor_.layout.partial_over.empty();
    GatheredTensor out{.values = ArrayStorage::make(is_partial ? DType::f32 : tensor_.dtype, count_words(full_block_))};
    if (!out.values)
      return input_error(fmt::format("the system refused the memory to check '{}'", tensor_.name),
                         "give smaller dimensions with -d");
    if (is_partial) return sum_partials(std::move(out));
    for (const auto& [device, memory] : shards_) {
      const ShardBox block = shard_box(tensor_.extents, tensor_.layout, rank_program_.mesh_device().mesh, device);
      if (count_words(block) == count_words(full_block_))  // covers tensors with block scales, which are never split
        std::copy_n(memory.array().data, bytes_at(device), out.values->array().data);
      else
        unpack_box(memory.array().data, block, full_block_, dtype_bits(tensor_.dtype) / 8, out.values->array().data);
    }
    return out;
  }

  Result<GatheredTensor> sum_partials(GatheredTensor out) {
    const std::size_t words = count_words(full_block_);
    std::vector<double> sums(words);
    out.magnitudes.resize(words);
    for (const auto& [device, memory] : shards_) {
      const ShardBox block = shard_box(tensor_.extents, tensor_.layout, rank_program_.mesh_device().mesh, device);
      // The shard's elements at their positions in the full tensor, 0 elsewhere.
      std::vector<double> by_position(words), values(static_cast<std::size_t>(count_words(block)));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = read_element(memory.array(), static_cast<std::int64_t>(i));
      unpack_box(reinterpret_cast<const std::byte*>(values.data()), block, full_block_, sizeof(double),
                 reinterpret_cast<std::byte*>(by_position.data()));
      for (std::size_t i = 0; i < words; ++i) {
        sums[i] += by_position[i];
        out.magnitudes[i] += std::fabs(by_position[i]);
      }
    }
    auto* const values = reinterpret_cast<float*>(out.values->array().data);
    for (std::size_t i = 0; i < words; ++i) values[i] = static_cast<float>(sums[i]);
    return out;
  }

  const RankProgram& rank_program_;
  int slot_;
  transport::Communicator& comm_;
  const TensorSlot& tensor_;
  ShardBox full_block_;
  std::vector<std::pair<std::int64_t, ArrayStorage>> shards_;
};

}  // namespace

Result<GatheredTensor> gather_tensor(const RankProgram& rank_program, int slot, transport::Communicator& comm) {
  return TensorGatherer(rank_program, slot, comm).gather_to_root();
}

}  // namespace ridge::ranks
