// C interface to the gated layer, forward and backward, on device pointers and a stream, for geglu_times.py, which
// passes PyTorch tensors. All operands are bf16 with contiguous rows; weights [2*f, d] and biases [2*f] have the up
// half first, then the gate half. A plan for one set of pointers is valid for others with the same alignment.
#include <memory>
#include <string>

#include "ridge/ops/gated/backward.h"
#include "ridge/run/device_machine.h"

namespace {

namespace cuda = ridge::ops::cuda;
using ridge::ops::GatedLayer;

struct Layer {
  GatedLayer sizes;
  cuda::GatedTrainingPlan training;
  std::optional<cuda::GatedPlan> forward;
  std::optional<cuda::GatedBackwardPlan> backward;
};
thread_local std::string last_error;

GatedLayer set_operands(GatedLayer l, const void* x, const void* w, const void* b) {
  const auto behind = [](const void* data, std::int64_t elements) {
    return data ? static_cast<const char*>(data) + elements * 2 : nullptr;
  };
  l.x = x;
  l.up = w;
  l.gate = behind(w, l.f * l.d);
  l.bu = b;
  l.bg = behind(b, l.f);
  return l;
}

int set_error(const ridge::Status& status) {
  last_error = status ? "" : status.error().message;
  return status ? 0 : 1;
}

}  // namespace

extern "C" {

const char* ridge_geglu_error() { return last_error.c_str(); }

// activation: a number of tile/epilogue.h. facts receives: whether h is kept, the chunk, the bytes beyond inputs and
// outputs (including h), and the predicted nanoseconds forward and backward. Returns null on error; see
// ridge_geglu_error.
void* ridge_geglu_make(std::int64_t n, std::int64_t f, std::int64_t d, int activation, std::int64_t free_bytes,
                       std::int64_t* facts) {
  cuda::GatedCall sizes{.size = {n, f, d}};
  sizes.activation = static_cast<cuda::EpilogueActivation>(activation);
  const auto training =
      cuda::plan_gated_training(sizes, static_cast<std::size_t>(free_bytes), *ridge::current_device_numbers());
  if (!training) {
    set_error(training.error());
    return nullptr;
  }
  facts[0] = training->keeps_h;
  facts[1] = training->chunk;
  facts[2] = static_cast<std::int64_t>(training->extra_bytes);
  facts[3] = static_cast<std::int64_t>(training->forward_s * 1e9);
  facts[4] = static_cast<std::int64_t>(training->backward_s * 1e9);
  return new Layer{{.n = n, .f = f, .d = d, .activation = sizes.activation}, *training, {}, {}};
}
void ridge_geglu_free(void* layer) { delete static_cast<Layer*>(layer); }

// h: receives the pre-activations, or null.
int ridge_geglu_forward(void* of, const void* x, const void* w, const void* b, void* y, void* h, void* workspace,
                        std::int64_t bytes, CUstream_st* stream) {
  auto& layer = *static_cast<Layer*>(of);
  cuda::GatedCall call = cuda::make_gated_call(set_operands(layer.sizes, x, w, b));
  call.y = y;
  call.h = h;
  if (const auto why = unsupported_reason(call)) return set_error(ridge::input_error(why.text()));
  const auto room = static_cast<std::size_t>(bytes);
  if (!layer.forward) layer.forward = choose_plan(call, room, *ridge::current_device_numbers());
  return set_error(launch(call, *layer.forward, {workspace, room}, stream));
}

// h: null if it was not kept; dh overwrites it.
int ridge_geglu_backward(void* of, const void* x, const void* w, const void* b, const void* dy, void* h, void* dx,
                         void* dw, void* db, void* workspace, std::int64_t bytes, CUstream_st* stream) {
  auto& layer = *static_cast<Layer*>(of);
  cuda::GatedBackward call = cuda::make_gated_backward_call(set_operands(layer.sizes, x, w, b), dy, dx, dw, db);
  call.h = h;
  if (const auto why = unsupported_reason(call)) return set_error(ridge::input_error(why.text()));
  const auto room = static_cast<std::size_t>(bytes);
  const ridge::ops::DeviceNumbers device = *ridge::current_device_numbers();
  if (!layer.backward) layer.backward = make_plan(call, room, device, layer.training.chunk);
  if (!layer.backward) return set_error(ridge::input_error("the workspace holds less than was planned for"));
  return set_error(launch(call, *layer.backward, {workspace, room}, stream));
}
}
