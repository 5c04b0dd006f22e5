// Shared code of training steps.
#pragma once

#include <string>
#include <vector>

#include "ridge/python/call.h"

namespace ridge::python {

// Raises ridge.Error if an operand has another type.
void expect_type(const ArrayOperand& operand, DType dtype, const std::vector<std::int64_t>& shape);

// Queues a layer on the library's current stream, with scratch memory from its allocator.
template <class Layer, class Arrays>
void queue_layer(ArrayCall& call, const Layer& layer, const Arrays& arrays, std::int64_t scratch_bytes) {
  CUstream_st* const stream = call.device()->stream();
  void* const scratch = call.allocate_scratch(scratch_bytes);
  std::optional<Status> done;
  {
    const nanobind::gil_scoped_release released;
    done = layer.queue(stream, arrays, scratch);
  }
  check_status(*done);
}

// Returns the address of input i, copied if kernels cannot read its layout.
inline const void* input_address(ArrayCall& call, std::size_t i) {
  return call.device_view(i, Computation::can_queue).data;
}

}  // namespace ridge::python
