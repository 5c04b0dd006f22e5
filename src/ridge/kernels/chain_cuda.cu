// A chain on the device: an interpreter. A thread takes eight neighbours along the last axis through all steps, so that
// a step's dispatch, the same for a whole warp, is paid once for 256 elements; the last step's value stays in registers
// and older ones in shared memory, where each thread has its own 16-byte places. y = silu(g)*u moves 6 bytes an element
// and executes about 30 instructions for eight: memory stays the limit.
#include <cuda_runtime.h>

#include <algorithm>

#include "ridge/kernels/chain_code.h"
#include "ridge/kernels/run_cuda.h"
#include "ridge/tile/tile.h"
// After tile.h, which says what TILE_FN is.
#include "ridge/tile/target/sm90/finish.h"

namespace ridge::kernels::cuda {
namespace {

using tile::Index, tile::Stored;

constexpr int threads = 128, width = 8, most_steps = 96, most_tensors = 20;
constexpr int slot_bytes = threads * width * 4, most_slots = 24;  // 96 KiB of shared memory

struct DeviceStep {
  std::uint8_t op, tensor, a, b, c, result;  // places: slots, or last_value
  bool keep;                                 // some later step but the next reads the result
  int repeat;
  float constant;
};
constexpr std::uint8_t last_value = 255, no_operand = 254;

struct DeviceTensor {
  void* data;
  Stored stored;
  Index strides[most_axes];
};

struct DeviceChain {
  int axes, steps;
  Index extents[most_axes], chunks, items;  // chunks: of eight, along the last axis; items: chunks in all
  DeviceTensor tensors[most_tensors];
  DeviceStep step[most_steps];
};
static_assert(sizeof(DeviceChain) <= 4096, "kernel parameters of every driver");

struct Eight {
  float v[width];
};

__device__ Index offset_of(const DeviceChain& c, const DeviceTensor& t, const Index* at) {
  Index offset = 0;
  for (int axis = 0; axis < c.axes; ++axis) offset += at[axis] * t.strides[axis];
  return offset;
}

__device__ Eight load(const DeviceTensor& t, Index at, Index step, int count) {
  Eight x{};
  if (step == 0) {
    const float one = tile::sm90::read_stored(t.stored, t.data, at);
#pragma unroll
    for (float& each : x.v) each = one;
    return x;
  }
  const int size = t.stored == Stored::f32 ? 4 : 2;
  const char* const p = static_cast<const char*>(t.data) + at * size;
  if (step == 1 && count == width && reinterpret_cast<std::uintptr_t>(p) % 16 == 0) {
    alignas(16) uint4 words[2];
    words[0] = *reinterpret_cast<const uint4*>(p);
    if (t.stored == Stored::f32) words[1] = *reinterpret_cast<const uint4*>(p + 16);
#pragma unroll
    for (int i = 0; i < width; ++i) x.v[i] = tile::sm90::read_stored(t.stored, words, i);
    return x;
  }
#pragma unroll
  for (int i = 0; i < width; ++i)
    if (i < count) x.v[i] = tile::sm90::read_stored(t.stored, t.data, at + i * step);
  return x;
}

__device__ void put(Stored stored, void* to, Index i, float x) {
  if (stored == Stored::f32)
    static_cast<float*>(to)[i] = x;
  else
    static_cast<std::uint16_t*>(to)[i] = tile::sm90::to_stored(stored, x);
}

__device__ void store(const DeviceTensor& t, Index at, Index step, int count, const Eight& x) {
  const int size = t.stored == Stored::f32 ? 4 : 2;
  char* const p = static_cast<char*>(t.data) + at * size;
  if (step == 1 && count == width && reinterpret_cast<std::uintptr_t>(p) % 16 == 0) {
    alignas(16) uint4 words[2];
#pragma unroll
    for (int i = 0; i < width; ++i) put(t.stored, words, i, x.v[i]);
    *reinterpret_cast<uint4*>(p) = words[0];
    if (t.stored == Stored::f32) *reinterpret_cast<uint4*>(p + 16) = words[1];
    return;
  }
#pragma unroll
  for (int i = 0; i < width; ++i)
    if (i < count) put(t.stored, t.data, at + i * step, x.v[i]);
}

// x * Phi(x) = x/2 * erfc(t), t = -x/sqrt(2) in two floats: rounded once, t would be wrong enough for erfc(9) to lose
// five digits. d erfc/dt = -2/sqrt(pi) * e^(-t^2). Beyond 15 nothing is left of either Phi(-x).
__device__ float gelu(float x) {
  if (x > 15) return x;
  if (x < -15) return -0.0f;
  const float t = x * -0.70710677f;
  const float rest = fmaf(x, -0.70710677f, -t) + x * -1.21016175e-8f;
  const float slope = -1.12837917f * expf(-t * t);
  return 0.5f * x * fmaf(slope, rest, erfcf(t));
}

// x times the logistic function of u, without an infinity in between.
__device__ float over_one_plus(float x, float u) {
  const float e = expf(-fabsf(u));
  if (u >= 0) return x / (1 + e);
  return e == 0 ? x * 0.0f : x * e / (1 + e);
}
__device__ float silu(float x) { return x == -INFINITY ? -0.0f : over_one_plus(x, x); }
// x times the logistic function of 2u = x*(a + b*x^2) in two floats, a = 2*sqrt(2/pi), b = 0.044715*a.
__device__ float gelu_tanh(float x) {
  if (x > 13) return x;
  if (x < -13) return -0.0f;
  constexpr float a = 1.59576917f, b = 0.0713548139f;
  const float s = x * x, s_low = fmaf(x, x, -s), p = b * s, p_low = fmaf(b, s_low, fmaf(b, s, -p));
  const float t = a + p, back = t - a, t_low = (a - (t - back)) + (p - back);
  const float rest = t_low + p_low + fmaf(s, 2.39883247e-09f, -4.53406805e-08f);
  const float v = x * t, v_low = fmaf(x, rest, fmaf(x, t, -v));
  const float y = over_one_plus(x, v);
  return v < 0 ? fmaf(y, v_low, y) : y;
}

template <class F> __device__ void each(Eight& x, int repeat, F f) {
  for (int times = 0; times < repeat; ++times)
#pragma unroll
    for (float& one : x.v) one = f(one);
}
template <class F> __device__ void pairs(Eight& x, const Eight& y, F f) {
#pragma unroll
  for (int i = 0; i < width; ++i) x.v[i] = f(x.v[i], y.v[i]);
}

__device__ void compute_one(ChainOp op, Eight& x, int repeat) {
  switch (op) {
    case ChainOp::negate: return each(x, repeat, [](float v) { return -v; });
    case ChainOp::exp: return each(x, repeat, [](float v) { return expf(v); });
    case ChainOp::log: return each(x, repeat, [](float v) { return logf(v); });
    case ChainOp::cos: return each(x, repeat, [](float v) { return cosf(v); });
    case ChainOp::sin: return each(x, repeat, [](float v) { return sinf(v); });
    case ChainOp::gelu: return each(x, repeat, [](float v) { return gelu(v); });
    case ChainOp::gelu_tanh: return each(x, repeat, [](float v) { return gelu_tanh(v); });
    case ChainOp::silu: return each(x, repeat, [](float v) { return silu(v); });
    case ChainOp::relu: return each(x, repeat, [](float v) { return v < 0 ? 0 : v; });  // NaN stays
    case ChainOp::sigmoid: return each(x, repeat, [](float v) { return over_one_plus(1, v); });
    case ChainOp::tanh: return each(x, repeat, [](float v) { return tanhf(v); });
    case ChainOp::sqrt: return each(x, repeat, [](float v) { return sqrtf(v); });
    case ChainOp::rsqrt: return each(x, repeat, [](float v) { return 1 / sqrtf(v); });
    case ChainOp::abs: return each(x, repeat, [](float v) { return fabsf(v); });
    default: return;
  }
}

__device__ void compute_two(ChainOp op, Eight& x, const Eight& y) {
  switch (op) {
    case ChainOp::add: return pairs(x, y, [](float a, float b) { return a + b; });
    case ChainOp::subtract: return pairs(x, y, [](float a, float b) { return a - b; });
    case ChainOp::multiply: return pairs(x, y, [](float a, float b) { return a * b; });
    case ChainOp::divide: return pairs(x, y, [](float a, float b) { return a / b; });
    case ChainOp::max: return pairs(x, y, [](float a, float b) { return a != a ? a : b != b ? b : fmaxf(a, b); });
    case ChainOp::min: return pairs(x, y, [](float a, float b) { return a != a ? a : b != b ? b : fminf(a, b); });
    case ChainOp::less: return pairs(x, y, [](float a, float b) { return a < b ? 1.0f : 0.0f; });
    default: return;
  }
}

__global__ void __launch_bounds__(threads) chain_kernel(const __grid_constant__ DeviceChain c) {
  extern __shared__ float4 slots[];
  const auto kept = [&](int slot, int half) -> float4& { return slots[(slot * 2 + half) * threads + threadIdx.x]; };
  const auto keep = [&](int slot, const Eight& x) {
    kept(slot, 0) = {x.v[0], x.v[1], x.v[2], x.v[3]};
    kept(slot, 1) = {x.v[4], x.v[5], x.v[6], x.v[7]};
  };
  const auto from = [&](int slot) -> Eight {
    const float4 a = kept(slot, 0), b = kept(slot, 1);
    return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  };
  for (Index item = blockIdx.x * Index{threads} + threadIdx.x; item < c.items; item += Index{gridDim.x} * threads) {
    Index at[most_axes], rest = item / c.chunks;
    const int last = c.axes - 1;
    at[last] = (item - rest * c.chunks) * width;
    for (int axis = last - 1; axis >= 0; --axis) {
      const Index next = axis == 0 ? 0 : rest / c.extents[axis];
      at[axis] = rest - next * c.extents[axis], rest = next;
    }
    const int count = static_cast<int>(c.extents[last] - at[last] < width ? c.extents[last] - at[last] : width);
    Eight x{};
    for (int i = 0; i < c.steps; ++i) {
      const DeviceStep& s = c.step[i];
      const ChainOp op = static_cast<ChainOp>(s.op);
      const auto value = [&](std::uint8_t place) { return place == last_value ? x : from(place); };
      if (op == ChainOp::load) {
        const DeviceTensor& t = c.tensors[s.tensor];
        x = load(t, offset_of(c, t, at), t.strides[last], count);
      } else if (op == ChainOp::constant) {
#pragma unroll
        for (float& one : x.v) one = s.constant;
      } else if (op == ChainOp::store) {
        const DeviceTensor& t = c.tensors[s.tensor];
        x = value(s.a);
        store(t, offset_of(c, t, at), t.strides[last], count, x);
      } else if (op == ChainOp::where) {
        const Eight condition = value(s.a), yes = value(s.b), no = value(s.c);
#pragma unroll
        for (int q = 0; q < width; ++q) x.v[q] = condition.v[q] == 0 ? no.v[q] : yes.v[q];
      } else if (s.b != no_operand) {
        const Eight y = value(s.b);
        x = value(s.a);
        compute_two(op, x, y);
      } else {
        x = value(s.a);
        compute_one(op, x, s.repeat);
      }
      if (s.keep) keep(s.result, x);
    }
  }
}

// Values that only the next step reads need no slot of the shared memory. The slots of the CPU's code are reused
// where their last reader is the step that writes them too, for here a step reads before it writes.
int place(const ChainCode& code, DeviceChain& c) {
  const auto count = code.instructions.size();
  std::vector<std::size_t> last_use(static_cast<std::size_t>(code.values), 0), made(last_use.size(), 0);
  std::vector<bool> kept(last_use.size(), false);
  for (std::size_t i = 0; i < count; ++i) {
    const ChainInstruction& s = code.instructions[i];
    if (s.result >= 0) made[static_cast<std::size_t>(s.result)] = i;
    for (const int v : {s.a, s.b, s.c}) {
      if (v < 0) continue;
      last_use[static_cast<std::size_t>(v)] = i;
      if (i != made[static_cast<std::size_t>(v)] + 1) kept[static_cast<std::size_t>(v)] = true;
    }
  }
  std::vector<int> slot(last_use.size(), -1), free;
  int slots = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ChainInstruction& s = code.instructions[i];
    const auto where = [&](int v) {
      if (v < 0) return no_operand;
      return i == made[static_cast<std::size_t>(v)] + 1 ? last_value
                                                        : static_cast<std::uint8_t>(slot[static_cast<std::size_t>(v)]);
    };
    DeviceStep& d = c.step[i];
    d = {static_cast<std::uint8_t>(s.op),
         static_cast<std::uint8_t>(std::max(s.tensor, 0)),
         where(s.a),
         where(s.b),
         where(s.c),
         0,
         false,
         s.repeat,
         s.constant};
    for (const int v : {s.a, s.b, s.c}) {
      if (v < 0 || last_use[static_cast<std::size_t>(v)] != i || slot[static_cast<std::size_t>(v)] < 0) continue;
      free.push_back(slot[static_cast<std::size_t>(v)]);
      slot[static_cast<std::size_t>(v)] = -1;
    }
    if (s.result < 0 || !kept[static_cast<std::size_t>(s.result)]) continue;
    if (free.empty()) free.push_back(slots++);
    slot[static_cast<std::size_t>(s.result)] = free.back();
    d.result = static_cast<std::uint8_t>(free.back()), d.keep = true;
    free.pop_back();
  }
  return slots;
}

std::optional<std::string> too_much(const char* what, std::size_t found, int most) {
  if (found <= static_cast<std::size_t>(most)) return std::nullopt;
  return "the statement has " + std::to_string(found) + " " + what + "; on CUDA expected at most " +
         std::to_string(most);
}

}  // namespace

std::optional<std::string> refuse(const ChainProgram& program) {
  if (auto fault = find_fault(program)) return fault;
  if (auto more = too_much("steps", program.steps.size(), most_steps)) return more;
  if (auto more = too_much("tensors", program.tensors.size(), most_tensors)) return more;
  DeviceChain c{};
  return too_much("values alive at once", static_cast<std::size_t>(place(kernels::lower(program), c)), most_slots);
}

std::optional<std::string> chain(const ChainProgram& program, std::span<void* const> tensors, CUstream_st* stream) {
  const ChainCode code = kernels::lower(program);
  if (code.elements == 0) return std::nullopt;
  DeviceChain c{};
  c.axes = code.axes, c.steps = static_cast<int>(code.instructions.size());
  std::copy_n(code.extents.begin(), c.axes, c.extents);
  c.chunks = (c.extents[c.axes - 1] + width - 1) / width, c.items = c.chunks;
  for (int axis = 0; axis + 1 < c.axes; ++axis) c.items *= c.extents[axis];
  for (std::size_t t = 0; t < code.tensors.size(); ++t) {
    const DType dtype = code.tensors[t].dtype;
    c.tensors[t] = {tensors[t],
                    dtype == DType::f32    ? Stored::f32
                    : dtype == DType::bf16 ? Stored::bf16
                                           : Stored::f16,
                    {}};
    std::copy_n(code.tensors[t].strides.begin(), c.axes, c.tensors[t].strides);
  }
  const int shared = std::max(place(code, c), 1) * slot_bytes;
  cudaError_t e =
      cudaFuncSetAttribute(chain_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_slots * slot_bytes);
  const Index blocks = std::min<Index>((c.items + threads - 1) / threads, 132 * 16);
  if (e == cudaSuccess)
    chain_kernel<<<static_cast<unsigned>(blocks), threads, static_cast<std::size_t>(shared), stream>>>(c),
        e = cudaGetLastError();
  if (e == cudaSuccess) return std::nullopt;
  cudaGetLastError();
  return std::string("launching a pointwise kernel: ") + cudaGetErrorString(e);
}

}  // namespace ridge::kernels::cuda
