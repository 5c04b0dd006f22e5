// Runs chains on the device: with generated kernels (source.cc) or, without a compiler, with an interpreter. Each
// thread of the interpreter computes all steps of eight adjacent elements of the last axis, so a warp dispatches a step
// once per 256 elements. The last step's value stays in registers; older values are in each thread's slots of shared
// memory. y = silu(g)*u moves 6 bytes per element and executes about 30 instructions per eight elements, so it is
// memory-bound.
#include <cuda_runtime.h>

#include <algorithm>

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/chain/lower.h"
#include "ridge/ops/chain/source.h"
#include "ridge/ops/function/device_math.h"
#include "ridge/tile/tile.h"
// Must follow tile.h, which defines TILE_FN.
#include "ridge/tile/sm90/epilogue.h"

namespace ridge::ops::cuda {
namespace {

using tile::Index, tile::StorageFormat;

constexpr int threads = 128, item_elements = 8, max_steps = 96, max_tensors = 20;
constexpr int slot_bytes = threads * item_elements * 4, max_slots = 24;  // 96 KiB of shared memory.

struct DeviceStep {
  std::uint8_t op, accessed_tensor, a, b, c, result;  // a, b, c and result are slots, last_value or no_operand.
  bool keep;                                          // True if a step after the next one reads the result.
  int repeat;
  float constant;
};
constexpr std::uint8_t last_value = 255, no_operand = 254;

struct DeviceTensor {
  void* data;
  StorageFormat format;
  Index strides[max_chain_axes];
};

struct DeviceChain {
  int axes, steps;
  Index extents[max_chain_axes], chunks_per_row, items;  // Chunks of eight elements along the last axis; all chunks.
  DeviceTensor tensors[max_tensors];
  DeviceStep step[max_steps];
};
static_assert(sizeof(DeviceChain) <= 4096, "kernel parameters are at most 4 KiB");

struct ItemValues {  // One f32 value for each element of an item.
  float v[item_elements];
};

// 32-bit division is several times faster and nearly always sufficient.
__device__ __forceinline__ Index divide_index(Index x, Index by) {
  if ((x | by) >> 32 == 0) return static_cast<std::uint32_t>(x) / static_cast<std::uint32_t>(by);
  return x / by;
}

struct ElementGroup {  // `count` adjacent elements from `column` of the last axis; `row` counts over the other axes.
  Index row, column;
  int count;
};
__device__ __forceinline__ ElementGroup item_at(const DeviceChain& c, Index index) {
  const Index row = divide_index(index, c.chunks_per_row), column = (index - row * c.chunks_per_row) * item_elements;
  const Index left = c.extents[c.axes - 1] - column;
  return {row, column, static_cast<int>(left < item_elements ? left : item_elements)};
}
__device__ __forceinline__ Index element_offset(const DeviceChain& c, const DeviceTensor& t, const ElementGroup& item) {
  if (c.axes == 2) return item.row * t.strides[0] + item.column * t.strides[1];
  Index offset = item.column * t.strides[c.axes - 1], rest = item.row;
  for (int axis = c.axes - 2; axis >= 0; --axis) {
    const Index next = axis == 0 ? 0 : divide_index(rest, c.extents[axis]);
    offset += (rest - next * c.extents[axis]) * t.strides[axis];
    rest = next;
  }
  return offset;
}

// Unpacks one of two 16-bit values in a word. Shifts keep the values in registers; reading an array as another type
// would put it into local memory.
__device__ __forceinline__ float unpack_half(StorageFormat format, std::uint32_t word, bool upper) {
  if (format == StorageFormat::bf16) return __uint_as_float(upper ? word & 0xffff0000u : word << 16);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<std::uint16_t>(upper ? word >> 16 : word)));
  return x;
}
__device__ __forceinline__ std::uint32_t pack_halves(StorageFormat format, float lower, float upper) {
  return tile::sm90::to_stored(format, lower) | std::uint32_t{tile::sm90::to_stored(format, upper)} << 16;
}

__device__ __forceinline__ ItemValues load(const DeviceTensor& t, Index at, Index step, int count) {
  if (step == 0) {
    const float one = tile::sm90::read_stored(t.format, t.data, at);
    return {one, one, one, one, one, one, one, one};
  }
  const char* const p = static_cast<const char*>(t.data) + at * (t.format == StorageFormat::f32 ? 4 : 2);
  ItemValues x{};
  if (step != 1 || count != item_elements || reinterpret_cast<std::uintptr_t>(p) % 16 != 0) {
#pragma unroll
    for (int i = 0; i < item_elements; ++i)
      if (i < count) x.v[i] = tile::sm90::read_stored(t.format, t.data, at + i * step);
    return x;
  }
  if (t.format == StorageFormat::f32) {
    const float4 a = *reinterpret_cast<const float4*>(p), b = *reinterpret_cast<const float4*>(p + 16);
    return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  }
  const uint4 read = *reinterpret_cast<const uint4*>(p);
  const std::uint32_t words[4] = {read.x, read.y, read.z, read.w};
#pragma unroll
  for (int i = 0; i < item_elements; ++i) x.v[i] = unpack_half(t.format, words[i / 2], i % 2 == 1);
  return x;
}

__device__ __forceinline__ void store(const DeviceTensor& t, Index at, Index step, int count, const ItemValues& x) {
  char* const p = static_cast<char*>(t.data) + at * (t.format == StorageFormat::f32 ? 4 : 2);
  if (step != 1 || count != item_elements || reinterpret_cast<std::uintptr_t>(p) % 16 != 0) {
#pragma unroll
    for (int i = 0; i < item_elements; ++i) {
      if (i >= count) continue;
      if (t.format == StorageFormat::f32)
        static_cast<float*>(t.data)[at + i * step] = x.v[i];
      else
        static_cast<std::uint16_t*>(t.data)[at + i * step] = tile::sm90::to_stored(t.format, x.v[i]);
    }
  } else if (t.format == StorageFormat::f32) {
    *reinterpret_cast<float4*>(p) = {x.v[0], x.v[1], x.v[2], x.v[3]};
    *reinterpret_cast<float4*>(p + 16) = {x.v[4], x.v[5], x.v[6], x.v[7]};
  } else {
    *reinterpret_cast<uint4*>(p) = {pack_halves(t.format, x.v[0], x.v[1]), pack_halves(t.format, x.v[2], x.v[3]),
                                    pack_halves(t.format, x.v[4], x.v[5]), pack_halves(t.format, x.v[6], x.v[7])};
  }
}

template <class F> __device__ __forceinline__ void apply_repeatedly(ItemValues& x, int times, F f) {
  for (int i = 0; i < times; ++i)
#pragma unroll
    for (float& one : x.v) one = f(one);
}
template <class F> __device__ __forceinline__ void map_binary(ItemValues& x, const ItemValues& y, F f) {
#pragma unroll
  for (int i = 0; i < item_elements; ++i) x.v[i] = f(x.v[i], y.v[i]);
}

// x = op(x, y, z), using the operands that `op` takes.
__device__ __forceinline__ void apply_operation(ChainOp op, ItemValues& x, const ItemValues& y, const ItemValues& z,
                                                int repeat) {
  dispatch_function(op, [&]<Function f>(FunctionTag<f>) {
    constexpr int arity = is_elementwise(function_info(f)) ? function_info(f).arity : 0;
    if constexpr (arity == 1)
      apply_repeatedly(x, repeat, [](float v) { return device_math::apply_function(FunctionTag<f>{}, v); });
    if constexpr (arity == 2)
      map_binary(x, y, [](float a, float b) { return device_math::apply_function(FunctionTag<f>{}, a, b); });
    if constexpr (arity == 3)
#pragma unroll
      for (int i = 0; i < item_elements; ++i)
        x.v[i] = device_math::apply_function(FunctionTag<f>{}, x.v[i], y.v[i], z.v[i]);
  });
}

__global__ void __launch_bounds__(threads) chain_kernel(const __grid_constant__ DeviceChain c) {
  extern __shared__ float4 slots[];
  const auto kept_slot = [&](int slot, int half) -> float4& {
    return slots[(slot * 2 + half) * threads + threadIdx.x];
  };
  const int last = c.axes - 1;
  for (Index index = blockIdx.x * Index{threads} + threadIdx.x; index < c.items; index += Index{gridDim.x} * threads) {
    const ElementGroup item = item_at(c, index);
    ItemValues x{};
    const auto read_value = [&](std::uint8_t source) -> ItemValues {
      if (source == last_value) return x;
      const float4 a = kept_slot(source, 0), b = kept_slot(source, 1);
      return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    };
    for (int i = 0; i < c.steps; ++i) {
      const DeviceStep& s = c.step[i];
      const ChainOp op = static_cast<ChainOp>(s.op);
      const DeviceTensor& t = c.tensors[s.accessed_tensor];
      if (op == ChainOp::load) {
        x = load(t, element_offset(c, t, item), t.strides[last], item.count);
      } else if (op == ChainOp::constant) {
        x = {s.constant, s.constant, s.constant, s.constant, s.constant, s.constant, s.constant, s.constant};
      } else if (op == ChainOp::store) {
        x = read_value(s.a);
        store(t, element_offset(c, t, item), t.strides[last], item.count, x);
      } else {
        const ItemValues y = s.b == no_operand ? x : read_value(s.b), z = s.c == no_operand ? x : read_value(s.c);
        x = read_value(s.a);
        apply_operation(op, x, y, z, s.repeat);
      }
      if (!s.keep) continue;
      kept_slot(s.result, 0) = {x.v[0], x.v[1], x.v[2], x.v[3]};
      kept_slot(s.result, 1) = {x.v[4], x.v[5], x.v[6], x.v[7]};
    }
  }
}

struct ValueStep {  // A step with value numbers instead of registers; each value is written once; -1 if unused.
  int result, a, b, c;
};
// Replaces registers by value numbers; `values` receives the number of values.
std::vector<ValueStep> number_values(const ChainProgram& program, int& values) {
  std::vector<int> value_in_register(program.registers, -1);
  std::vector<ValueStep> out;
  for (const ChainStep& s : program.steps) {
    const int count = operand_count(s.op);
    const auto in = [&](int operand, int from) { return operand < count ? value_in_register[from] : -1; };
    ValueStep v{-1, in(0, s.a), in(1, s.b), in(2, s.c)};
    if (s.op != ChainOp::store) v.result = value_in_register[s.result] = values++;
    out.push_back(v);
  }
  return out;
}

// Assigns shared memory slots to values that a step after the next one reads, and returns the number of slots. The last
// step that reads a slot may reuse it for its result, since steps read before they write.
int assign_slots(const ChainProgram& program, DeviceChain& c) {
  int values = 0;
  const std::vector<ValueStep> steps = number_values(program, values);
  std::vector<std::size_t> last_use(values, 0), defined_at(last_use.size(), 0);
  std::vector<bool> kept(last_use.size(), false);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ValueStep& s = steps[i];
    if (s.result >= 0) defined_at[s.result] = i;
    for (const int v : {s.a, s.b, s.c}) {
      if (v < 0) continue;
      last_use[v] = i;
      if (i != defined_at[v] + 1) kept[v] = true;
    }
  }
  std::vector<int> slot(last_use.size(), -1), free;
  int slots = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ValueStep& s = steps[i];
    const ChainStep& given = program.steps[i];
    const auto source_of = [&](int v) {
      if (v < 0) return no_operand;
      return i == defined_at[v] + 1 ? last_value : static_cast<std::uint8_t>(slot[v]);
    };
    DeviceStep& d = c.step[i];
    const bool is_memory_step = given.op == ChainOp::load || given.op == ChainOp::store;
    d = {static_cast<std::uint8_t>(given.op),
         static_cast<std::uint8_t>(is_memory_step ? given.slot : 0),
         source_of(s.a),
         source_of(s.b),
         source_of(s.c),
         0,
         false,
         given.repeat,
         given.constant};
    for (const int v : {s.a, s.b, s.c}) {
      if (v < 0 || last_use[v] != i || slot[v] < 0) continue;
      free.push_back(slot[v]);
      slot[v] = -1;
    }
    if (s.result < 0 || !kept[s.result]) continue;
    if (free.empty()) free.push_back(slots++);
    slot[s.result] = free.back();
    d.result = static_cast<std::uint8_t>(free.back());
    d.keep = true;
    free.pop_back();
  }
  return slots;
}

Reason count_limit_error(const char* what, std::size_t found, int max_count) {
  if (found <= static_cast<std::size_t>(max_count)) return {};
  return "the statement has " + std::to_string(found) + " " + what + "; on CUDA expected at most " +
         std::to_string(max_count);
}

}  // namespace

Reason unsupported_reason(const ChainProgram& program) {
  if (auto reason = invalid_reason(program)) return reason;
  if (auto reason = count_limit_error("steps", program.steps.size(), max_steps)) return reason;
  if (auto reason = count_limit_error("tensors", program.tensors.size(), max_tensors)) return reason;
  DeviceChain c{};
  return count_limit_error("live values", static_cast<std::size_t>(assign_slots(program, c)), max_slots);
}

Status run_chain_program(const ChainProgram& program, std::span<void* const> tensors, CUstream_st* stream) {
  if (!device::generation_unavailable_reason())
    return device::launch_generated(generate_chain_kernel(program, tensors, device::multiprocessor_count()), stream);
  const LoweredChain code = ops::lower_chain(program);
  if (code.elements == 0) return Done{};
  DeviceChain c{};
  c.axes = code.axes;
  c.steps = static_cast<int>(program.steps.size());
  std::copy_n(code.extents.begin(), c.axes, c.extents);
  c.chunks_per_row = (c.extents[c.axes - 1] + item_elements - 1) / item_elements;
  c.items = c.chunks_per_row;
  for (int axis = 0; axis + 1 < c.axes; ++axis) c.items *= c.extents[axis];
  for (std::size_t t = 0; t < code.tensors.size(); ++t) {
    c.tensors[t] = {tensors[t], tile::to_device_format(code.tensors[t].dtype), {}};
    std::copy_n(code.tensors[t].strides.begin(), c.axes, c.tensors[t].strides);
  }
  const int shared = std::max(assign_slots(program, c), 1) * slot_bytes;
  const Index blocks = std::min<Index>((c.items + threads - 1) / threads, 16 * device::multiprocessor_count());
  cudaError_t e =
      cudaFuncSetAttribute(chain_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, max_slots * slot_bytes);
  if (e == cudaSuccess) {
    chain_kernel<<<static_cast<unsigned>(blocks), threads, static_cast<std::size_t>(shared), stream>>>(c);
    e = cudaGetLastError();
  }
  return device::to_status(e, "launching a pointwise kernel");
}

}  // namespace ridge::ops::cuda
