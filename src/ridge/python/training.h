// What calls of training steps have in common.
#pragma once

#include <string>
#include <vector>

#include "ridge/python/call.h"

namespace ridge::python {

// Raises ridge.Error where an operand is of another type.
void expect(const Operand& operand, DType dtype, const std::vector<std::int64_t>& shape);

// Queues a layer on the library's current stream with scratch of its allocator.
template <class Layer, class Arrays>
void queue(Call& call, const Layer& layer, const Arrays& arrays, std::int64_t scratch_bytes) {
  CUstream_st* const stream = call.device()->stream();
  void* const scratch = call.scratch(scratch_bytes);
  std::optional<Status> done;
  {
    const nanobind::gil_scoped_release released;
    done = layer.queue(stream, arrays, scratch);
  }
  check(*done);
}

// Where kernels read input i.
inline const void* read(Call& call, std::size_t i) { return call.on_device(i, Computation::queues).data; }

}  // namespace ridge::python
