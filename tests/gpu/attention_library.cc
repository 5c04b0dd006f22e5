// C interface to attention on device pointers and a stream, for attention_times.py, which passes PyTorch tensors. A
// plan for one set of pointers is valid for others.
#include <algorithm>
#include <iterator>
#include <string>

#include "ridge/ops/attention/cuda.h"
#include "ridge/run/device_machine.h"

namespace {

namespace cuda = ridge::ops::cuda;

struct Attention {
  ridge::ops::AttentionProblem problem;
  cuda::AttentionPlan plan;
};
struct AttentionBackward {
  ridge::ops::AttentionBackwardProblem problem;
  cuda::AttentionBackwardPlan plan;
};
thread_local std::string last_error;

int set_error(const ridge::Status& status) {
  last_error = status ? "" : status.error().message;
  return status ? 0 : 1;
}

ridge::ops::AttentionProblem problem_of(int is_f16, const std::int64_t* sizes, double scale) {
  ridge::ops::AttentionProblem p;
  p.dtype = is_f16 ? ridge::DType::f16 : ridge::DType::bf16;
  p.outer = sizes[0];
  p.heads = sizes[1];
  p.key_heads = sizes[2];
  p.rows = sizes[3];
  p.keys = sizes[4];
  p.width = sizes[5];
  p.low = sizes[6];
  p.high = sizes[7];
  p.scale = scale;
  return p;
}

}  // namespace

extern "C" {

const char* ridge_attention_error() { return last_error.c_str(); }

// sizes: outer, heads, key_heads, rows, keys, width, low, high; strides: outer, head and row of q, k, v and o, in
// elements. plan: the config, the concurrent heads, the key splits, the items, the predicted nanoseconds and the
// workspace bytes; if the config is negative, a plan for this device is chosen and written there. The workspace's first
// 64 KiB must be zero before the first call. Returns null on error; see ridge_attention_error.
void* ridge_attention_make(int is_f16, const std::int64_t* sizes, const std::int64_t* strides, double scale, double cap,
                           std::int64_t* plan) {
  ridge::ops::AttentionProblem p = problem_of(is_f16, sizes, scale);
  p.cap = cap;
  for (auto* layout : {&p.q, &p.k, &p.v, &p.o}) {
    *layout = {strides[0], strides[1], strides[2]};
    strides += 3;
  }
  if (const auto why = cuda::unsupported_reason(p)) {
    last_error = why.text();
    return nullptr;
  }
  cuda::AttentionPlan known{.config = static_cast<int>(plan[0]),
                            .concurrent_heads = static_cast<int>(plan[1]),
                            .key_splits = static_cast<int>(plan[2]),
                            .items = plan[3],
                            .workspace_bytes = static_cast<std::size_t>(plan[5])};
  if (plan[0] < 0) {
    const auto device = ridge::current_device_numbers();
    if (!device) {
      last_error = device.error().message;
      return nullptr;
    }
    known = cuda::choose_plan(p, *device);
    const std::int64_t found[] = {known.config,
                                  known.concurrent_heads,
                                  known.key_splits,
                                  known.items,
                                  static_cast<std::int64_t>(known.predicted_s * 1e9),
                                  static_cast<std::int64_t>(known.workspace_bytes)};
    std::copy(std::begin(found), std::end(found), plan);
  }
  return new Attention{p, known};
}
void ridge_attention_free(void* attention) { delete static_cast<Attention*>(attention); }

int ridge_attention(void* of, const void* q, const void* k, const void* v, void* o, float* lse, void* workspace,
                    std::int64_t bytes, CUstream_st* stream) {
  const auto& x = *static_cast<Attention*>(of);
  return set_error(
      launch({x.problem, q, k, v, o, lse}, x.plan, {workspace, static_cast<std::size_t>(bytes), true}, stream));
}

// Like ridge_attention_make, with strides of q, k, v, o, the gradient of o, dq, dk and dv. plan: the config, the
// concurrent heads, the row tiles per head, the items, the predicted nanoseconds, and the bytes of the sums of dq, of
// the row statistics and of the add counts.
void* ridge_attention_backward_make(int is_f16, const std::int64_t* sizes, const std::int64_t* strides, double scale,
                                    int ordered, std::int64_t* plan) {
  ridge::ops::AttentionBackwardProblem all{.forward = problem_of(is_f16, sizes, scale), .ordered = ordered != 0};
  auto& p = all.forward;
  for (auto* layout : {&p.q, &p.k, &p.v, &p.o, &all.dout, &all.dq, &all.dk, &all.dv}) {
    *layout = {strides[0], strides[1], strides[2]};
    strides += 3;
  }
  if (const auto why = cuda::unsupported_reason(all)) {
    last_error = why.text();
    return nullptr;
  }
  const auto bytes = [&](int i) { return static_cast<std::size_t>(plan[i]); };
  cuda::AttentionBackwardPlan known;
  if (plan[0] < 0) {
    const auto device = ridge::current_device_numbers();
    if (!device) {
      last_error = device.error().message;
      return nullptr;
    }
    known = cuda::choose_plan(all, *device);
    const std::int64_t found[] = {known.config,
                                  known.concurrent_heads,
                                  known.tiles_per_head,
                                  known.items,
                                  static_cast<std::int64_t>(known.predicted_s * 1e9),
                                  static_cast<std::int64_t>(known.dq_sums_bytes),
                                  static_cast<std::int64_t>(known.row_stats_bytes),
                                  static_cast<std::int64_t>(known.add_counts_bytes)};
    std::copy(std::begin(found), std::end(found), plan);
  } else {
    known = {.config = static_cast<int>(plan[0]),
             .concurrent_heads = static_cast<int>(plan[1]),
             .tiles_per_head = plan[2],
             .items = plan[3],
             .dq_sums_bytes = bytes(5),
             .row_stats_bytes = bytes(6),
             .add_counts_bytes = bytes(7),
             .workspace_bytes = bytes(5) + bytes(6) + bytes(7)};
  }
  return new AttentionBackward{all, known};
}
void ridge_attention_backward_free(void* attention) { delete static_cast<AttentionBackward*>(attention); }

// pointers: q, k, v, o, the gradient of o, lse, dq, dk, dv.
int ridge_attention_backward(void* of, void* const* pointers, void* workspace, std::int64_t bytes,
                             CUstream_st* stream) {
  const auto& x = *static_cast<AttentionBackward*>(of);
  const cuda::AttentionBackwardCall call{
      x.problem,
      {pointers[0], pointers[1], pointers[2], pointers[3], pointers[4], static_cast<const float*>(pointers[5]),
       pointers[6], pointers[7], pointers[8]}};
  return set_error(launch(call, x.plan, {workspace, static_cast<std::size_t>(bytes), true}, stream));
}
}
