// Compares the loops on a device with those on a CPU: `loops COUNT [FIRST]` runs random cases, most of them bit by bit.
// Sums of the data are exact in any order. Device memory ends at unmapped addresses, on either side.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "guarded_memory.h"
#include "ridge/base/block_scale.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/limits.h"
#include "ridge/ops/loops/device/source.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "support.h"

namespace ridge::gpu {
namespace {

using ops::loops_testing::GuardedBuffer;
using ops::loops_testing::RandomLayouts;

constexpr int threads = 2;

struct HostTensor {
  DType dtype;
  std::unique_ptr<GuardedBuffer> data;
};
// Transposes `count` matrices of rows and columns.
void transpose(DType dtype, const void* from, void* to, std::int64_t count, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t n = 0; n < count * rows * columns; ++n) {
    const std::int64_t row = n / columns % rows, column = n % columns, first = n / (rows * columns) * rows * columns;
    const double value = RandomLayouts::load(dtype, from, n);
    RandomLayouts::store(dtype, to, first + column * rows + row, static_cast<float>(value));
  }
}
template <class Loops> void run_on_host(const Loops& l, std::span<void* const> data) {
  ops::run_loops(l, data, threads);
}
// Convolutions run with channels second, because a CPU takes channels last only for some problems.
void run_on_host(const ops::ConvLoops& l, std::span<void* const> data) {
  if (!l.channels_last) return ops::run_loops(l, data, threads);
  const auto bytes = [](DType dtype, std::int64_t n) { return static_cast<std::size_t>(stored_bytes(dtype, n)); };
  const std::int64_t in = ops::loops_testing::count_elements(l, &ops::ConvWindow::in),
                     out = ops::loops_testing::count_elements(l, &ops::ConvWindow::out);
  const GuardedBuffer x(bytes(l.x, l.batch * l.channels * in)), y(bytes(l.y, l.batch * l.out_channels * out));
  transpose(l.x, data[0], x.data(), l.batch, in, l.channels);
  ops::ConvLoops second = l;
  second.channels_last = false;
  ops::run_loops(second, std::vector<void*>{x.data(), data[1], y.data()}, threads);
  transpose(l.y, y.data(), data[2], l.batch, l.out_channels, out);
}

// The operands and the result of a case. The result's bytes are 0x7b before the run, also those between its elements.
class CaseTensors {
 public:
  explicit CaseTensors(RandomLayouts& random) : random_(random) {}
  const GuardedBuffer& add(DType dtype, std::int64_t elements) {
    tensors_.push_back(
        {dtype, std::make_unique<GuardedBuffer>(static_cast<std::size_t>(stored_bytes(dtype, elements)))});
    tensors_.back().data->fill(0x7b);
    return *tensors_.back().data;
  }
  const GuardedBuffer& add_floats(DType dtype, std::int64_t elements) {
    const GuardedBuffer& out = add(dtype, elements);
    random_.fill_floats(dtype, out, random_.flip());
    return out;
  }

  // Runs the problem twice on a device and once on a CPU, and returns the elements that differ, by more than
  // `tolerance` times the larger of 1 and their magnitude; NaNs are equal. Both runs on the device must give the same
  // bits. `prepare_host` may change the operands of the CPU.
  template <class Loops>
  std::int64_t count_differences(const Loops& l, double tolerance = 0, const std::function<void()>& prepare_host = {}) {
    std::vector<std::unique_ptr<GuardedMemory>> memory;
    std::vector<void*> host, device;
    for (const HostTensor& each : tensors_) {
      memory.push_back(std::make_unique<GuardedMemory>(
          each.data->size(), random_.flip() ? GuardedMemory::Side::before : GuardedMemory::Side::after));
      std::vector<char> bytes(each.data->data(), each.data->data() + each.data->size());
      if (is_block_scaled(each.dtype)) {
        const std::int64_t blocks = count_blocks(each);
        split_blocks(each.dtype, each.data->data(), blocks, bytes.data(), bytes.data() + plane_bytes(each));
      }
      check_cuda(cudaMemcpy(memory.back()->data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                 "copying there");
      host.push_back(each.data->data());
      device.push_back(memory.back()->data());
    }
    run_on_device(l, device);
    const GuardedBuffer found(tensors_.back().data->size()), again(found.size());
    check_cuda(cudaMemcpy(found.data(), memory.back()->data(), found.size(), cudaMemcpyDeviceToHost), "copying back");
    run_on_device(l, device);
    check_cuda(cudaMemcpy(again.data(), memory.back()->data(), found.size(), cudaMemcpyDeviceToHost), "copying back");
    if (std::memcmp(found.data(), again.data(), found.size()) != 0) return static_cast<std::int64_t>(found.size());
    if (is_block_scaled(tensors_.back().dtype)) {
      const std::vector<char> planes(found.data(), found.data() + found.size());
      const std::int64_t blocks = count_blocks(tensors_.back());
      const HostTensor& result = tensors_.back();
      join_blocks(result.dtype, planes.data(), planes.data() + plane_bytes(result), blocks, found.data());
    }
    if (prepare_host) prepare_host();
    const GuardedBuffer scratch(4 * found.size() + 4);  // f32 sums of a scatter
    if constexpr (std::is_same_v<Loops, ops::GatherScatterLoops>) host.push_back(scratch.data());
    run_on_host(l, host);
    return compare_results(found.data(), tolerance);
  }

 private:
  static std::int64_t plane_bytes(const HostTensor& x) {
    return element_plane_bytes(x.dtype, count_blocks(x) * dtype_info(x.dtype).block);
  }
  static std::int64_t count_blocks(const HostTensor& x) {
    return static_cast<std::int64_t>(x.data->size()) / stored_bytes(x.dtype, dtype_info(x.dtype).block);
  }
  template <class Loops> void run_on_device(const Loops& l, std::span<void* const> data) {
    std::size_t bytes = 0;
    if constexpr (requires { ops::cuda::workspace_bytes(l); }) bytes = ops::cuda::workspace_bytes(l);
    const DeviceMemory memory(bytes + 256);
    const device::DeviceWorkspace workspace{memory.data(), bytes};
    const auto run = [&]() -> Status {
      if (const Reason why = ops::cuda::unsupported_reason(l)) return input_error(why.text());
      if constexpr (std::is_same_v<Loops, ops::ConvLoops>) {
        // Without multiprocessors that need warps, threads compute as many results as their registers hold.
        const int multiprocessors = random_.flip() ? 0 : device::multiprocessor_count();
        return device::launch_generated(ops::generate_convolution_kernel(l, data, multiprocessors), nullptr);
      } else if constexpr (requires { ops::cuda::run_loops(l, data, workspace, nullptr); }) {
        return ops::cuda::run_loops(l, data, workspace, nullptr);
      } else {
        return ops::cuda::run_loops(l, data, nullptr);
      }
    };
    if (const Status done = run(); !done) {
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
      std::exit(2);
    }
    check_cuda(cudaDeviceSynchronize(), "running a case");
  }
  std::int64_t compare_results(const char* found, double tolerance) const {
    const HostTensor& expected = tensors_.back();
    const char* const want = expected.data->data();
    if (!StoredFloats::contains(expected.dtype)) {
      std::int64_t out = 0;
      for (std::size_t i = 0; i < expected.data->size(); ++i) out += found[i] != want[i];
      return out;
    }
    const std::size_t bytes = dtype_bits(expected.dtype) / 8;
    std::int64_t out = 0;
    for (std::size_t i = 0; i < expected.data->size() / bytes; ++i) {
      if (std::memcmp(found + i * bytes, want + i * bytes, bytes) == 0) continue;
      const double a = RandomLayouts::load(expected.dtype, found, static_cast<std::int64_t>(i)),
                   b = RandomLayouts::load(expected.dtype, want, static_cast<std::int64_t>(i));
      const bool is_near = std::fabs(a - b) <= tolerance * std::fmax(1, std::fabs(b));
      out += a != b && !is_near && !(std::isnan(a) && std::isnan(b));
    }
    return out;
  }

  RandomLayouts& random_;
  std::vector<HostTensor> tensors_;
};

std::int64_t check_indexed(RandomLayouts& random, bool is_scatter) {
  const auto [l, values, indices] = ops::loops_testing::make_indexed_case(random, is_scatter);
  CaseTensors tensors(random);
  tensors.add_floats(l.values, values);
  random.fill_indices(l.indices, tensors.add(l.indices, indices), l.index_extent);
  tensors.add(l.result, l.result_elements);
  return tensors.count_differences(l);
}
// Rows enough that a sort takes several passes; a third of the cases adds all to a few rows.
std::int64_t check_large_indexed(RandomLayouts& random, bool is_scatter) {
  const std::int64_t rows = 1 + random.below(60000), width = 1 + random.below(70), targets = 1 + random.below(20000),
                     used = random.below(3) == 0 ? std::min<std::int64_t>(targets, 3) : targets;
  ops::GatherScatterLoops l{.is_scatter = is_scatter, .values = random.float_dtype(), .result = random.float_dtype()};
  l.axes = {{rows, is_scatter ? width : 0, 1, is_scatter ? 0 : width}, {width, 1, 0, 1}};
  l.index_extent = targets;
  l.index_stride = width;
  l.result_elements = (is_scatter ? targets : rows) * width;
  CaseTensors tensors(random);
  tensors.add_floats(l.values, (is_scatter ? rows : targets) * width);
  random.fill_indices(l.indices, tensors.add(l.indices, rows), used);
  tensors.add(l.result, l.result_elements);
  return tensors.count_differences(l);
}

struct ScatterSizes {
  std::int64_t batches = 1, rows = 1, width = 1, targets = 1;
};
// Contiguous rows: in a third of the cases they have any index, in others half or all of them have the same one. A
// tenth of the rows is out of range.
std::int64_t check_scatter(RandomLayouts& random, const ScatterSizes& sizes) {
  const auto [batches, rows, width, targets] = sizes;
  ops::GatherScatterLoops l{.is_scatter = true, .values = random.float_dtype(), .result = random.float_dtype()};
  l.axes = {{batches, rows * width, rows, targets * width}, {rows, width, 1, 0}, {width, 1, 0, 1}};
  l.index_extent = targets;
  l.index_stride = width;
  l.result_elements = batches * targets * width;
  CaseTensors tensors(random);
  const GuardedBuffer &values = tensors.add_floats(l.values, batches * rows * width),
                      &indices = tensors.add(l.indices, batches * rows);
  random.fill_indices(l.indices, indices, targets);
  tensors.add(l.result, l.result_elements);
  const std::int64_t skew = random.below(3), repeated = random.below(targets);
  std::vector<std::int64_t> left_out;
  for (std::int64_t i = 0; i < batches * rows; ++i) {
    if (skew == 2 || (skew == 1 && random.flip())) indices.as<std::int32_t>()[i] = static_cast<std::int32_t>(repeated);
    if (random.below(10) > 0) continue;
    const std::int64_t outside[] = {-1, targets, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()};
    indices.as<std::int32_t>()[i] = static_cast<std::int32_t>(outside[random.below(4)]);
    left_out.push_back(i);
  }
  // A CPU takes no index that is out of range; it adds zeros instead.
  return tensors.count_differences(l, 0, [&, row_width = width] {
    for (const std::int64_t i : left_out) {
      indices.as<std::int32_t>()[i] = 0;
      for (std::int64_t c = 0; c < row_width; ++c) RandomLayouts::store(l.values, values.data(), i * row_width + c, 0);
    }
  });
}
// Odd and aligned rows, less or more than a slice of columns, and lists of rows that fit into shared memory or not.
std::int64_t check_skewed_scatter(RandomLayouts& random) {
  const std::int64_t widths[] = {1, 1 + random.below(40), 8 * (1 + random.below(20)), 1 + random.below(700),
                                 8 * (1 + random.below(100))},
                     targets[] = {1, 1 + random.below(20), 1 + random.below(2000), 1 + random.below(50000)};
  const std::int64_t width = widths[random.below(5)];
  return check_scatter(random, {.batches = random.flip() ? 1 : 1 + random.below(4),
                                .rows = 1 + random.below(width > 200 ? 4000 : 30000),
                                .width = width,
                                .targets = std::min(targets[random.below(4)], 4000000 / width)});
}
// So many rows of the result that all rows are sorted, also over several batches.
std::int64_t check_sorted_scatter(RandomLayouts& random) {
  constexpr std::int64_t max_bucketed_targets = ops::cuda::max_bucketed_targets;
  const std::int64_t batches = 1 + random.below(2);
  return check_scatter(random, {.batches = batches,
                                .rows = 1 + random.below(random.flip() ? 1000 : 200000),
                                .width = random.flip() ? 8 : 1 + random.below(3),
                                .targets = max_bucketed_targets / batches + 1 + random.below(1000)});
}

std::int64_t check_sums(RandomLayouts& random) {
  const auto [l, values, results] = ops::loops_testing::make_sum_case(random);
  CaseTensors tensors(random);
  tensors.add_floats(l.values, values);
  tensors.add(l.result, results);
  return tensors.count_differences(l);
}
// Few long lines, which are split, with contiguous or adjacent elements.
std::int64_t check_long_sums(RandomLayouts& random) {
  const std::int64_t lines = 1 + random.below(40), n = 1 + random.below(200000);
  const bool is_along = random.flip();
  const std::int64_t step = is_along ? 1 : lines, line = is_along ? n : 1;
  const ops::RunningSumLoops l{
      random.float_dtype(), random.float_dtype(), {{lines, line, 0, line}}, {n, step, 0, step}};
  CaseTensors tensors(random);
  tensors.add_floats(l.values, lines * n);
  tensors.add(l.result, lines * n);
  return tensors.count_differences(l);
}

void add_special_values(RandomLayouts& random, DType dtype, const GuardedBuffer& x, std::int64_t elements) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float special[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f};
  for (std::int64_t i = random.flip() ? elements / 3 : 0; i > 0; --i)
    RandomLayouts::store(dtype, x.data(), random.below(elements), special[random.below(5)]);
}
std::int64_t check_topk(RandomLayouts& random, bool is_long) {
  auto [l, values, results] = ops::loops_testing::make_topk_case(random);
  if (is_long) {
    const std::int64_t lines = 1 + random.below(4), n = 5000 + random.below(200000);
    const std::int64_t counts[] = {1 + random.below(60), 1024, 1 + random.below(n), n};
    const std::int64_t count = counts[random.below(4)];
    l = {.values = random.float_dtype(), .axes = {{lines, n, 0, count}}, .axis = {n, 1, 0, 0}, .count = count};
    l.result_stride = 1;
    values = lines * n;
    results = lines * count;
  }
  l.ascending = random.flip();
  l.stores_values = random.flip();
  if (l.stores_values) l.result = random.float_dtype();
  CaseTensors tensors(random);
  add_special_values(random, l.values, tensors.add_floats(l.values, values), values);
  tensors.add(l.result, results);
  return tensors.count_differences(l);
}

// Sums of small integers are exact in any order.
std::int64_t check_pool(RandomLayouts& random, bool has_channels) {
  auto [l, inputs, outputs] = ops::loops_testing::make_pool_case(random);
  if (has_channels) {  // Aligned channels last, beside padded rows of the result
    const std::int64_t channels = 8 * (1 + random.below(9)), padding = 8 * random.below(2);
    for (ops::PoolAxis& axis : l.axes) {
      axis.x_stride *= channels;
      axis.y_stride *= channels + padding;
    }
    l.axes.insert(l.axes.begin() + random.below(2), {.in = channels, .out = channels});
    inputs *= channels;
    outputs *= channels + padding;
  }
  CaseTensors tensors(random);
  const GuardedBuffer& x = tensors.add(l.x, inputs);
  random.fill_floats(l.x, x, true);
  if (l.is_maximum) add_special_values(random, l.x, x, inputs);
  tensors.add(l.y, outputs);
  return tensors.count_differences(l);
}
std::int64_t check_fold(RandomLayouts& random) {
  const auto [l, columns, outputs] = ops::loops_testing::make_fold_case(random);
  CaseTensors tensors(random);
  random.fill_floats(l.columns, tensors.add(l.columns, columns), true);
  tensors.add(l.y, outputs);
  return tensors.count_differences(l);
}
// Results are at most 1.5; a device may round them to a neighbour of the CPU's.
std::int64_t check_rotary(RandomLayouts& random, bool is_large) {
  auto [l, values, positions, results] = ops::loops_testing::make_rotary_case(random);
  if (is_large) {  // Packs, and several lines for a thread
    const std::int64_t tokens = 1 + random.below(700), heads = 1 + random.below(70), n = 16 * (1 + random.below(16));
    l.axes = {{tokens, heads * n, 1, heads * n}, {heads, n, 0, n}};
    l.axis = {n, 1, 0, 1};
    values = results = tokens * heads * n;
    positions = tokens;
  }
  CaseTensors tensors(random);
  random.fill_floats(l.values, tensors.add(l.values, values), false);
  ops::loops_testing::fill_positions(random, l.positions, tensors.add(l.positions, positions), positions);
  tensors.add(l.result, results);
  double tolerance = 0x1p-20;
  if (l.result == DType::f16) tolerance = 0x1p-10;
  if (l.result == DType::bf16) tolerance = 0x1p-7;
  return tensors.count_differences(l, tolerance);
}

void fill_small_integers(RandomLayouts& random, DType dtype, const GuardedBuffer& out, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i)
    RandomLayouts::store(dtype, out.data(), i, static_cast<float>(random.below(5) - 2));
}
// Sums of small integers are exact in any order.
std::int64_t check_routed(RandomLayouts& random) {
  const auto [l, values, weights, indices, results] = ops::loops_testing::make_routed_case(random);
  CaseTensors tensors(random);
  fill_small_integers(random, l.values, tensors.add(l.values, values), values);
  fill_small_integers(random, l.weights, tensors.add(l.weights, weights), weights);
  random.fill_indices(l.indices, tensors.add(l.indices, indices), l.experts);
  tensors.add(l.result, results);
  return tensors.count_differences(l);
}

constexpr DType scaled_dtypes[] = {DType::mxfp8,   DType::mxfp4,    DType::nvfp4, DType::e4m3_128, DType::int4_32,
                                   DType::int4_64, DType::int4_128, DType::u4_32, DType::u4_64,    DType::u4_128};
constexpr int scaled_dtype_count = static_cast<int>(std::size(scaled_dtypes));
std::int64_t check_quantize(RandomLayouts& random) {
  const DType scaled = scaled_dtypes[random.below(scaled_dtype_count)];
  const std::int64_t block = dtype_info(scaled).block, extent = block * (1 + random.below(40)),
                     lines = 1 + random.below(30);
  const auto x = random.strides({lines, extent}, true);
  const ops::QuantizeLoops l{
      random.float_dtype(), scaled, {{lines, x.strides[0], 0, extent}}, {extent, x.strides[1], 0, 1}};
  CaseTensors tensors(random);
  const GuardedBuffer& values = tensors.add_floats(l.values, x.elements);
  for (std::int64_t i = 0; i < x.elements; i += 3)  // Blocks of very different magnitudes
    RandomLayouts::store(
        l.values, values.data(), i,
        static_cast<float>(std::ldexp(static_cast<double>(random.below(64)), static_cast<int>(random.below(40)) - 25)));
  add_special_values(random, l.values, values, random.below(4) == 0 ? x.elements : 3);
  tensors.add(l.result, lines * extent);
  return tensors.count_differences(l);
}
std::int64_t check_dequantize(RandomLayouts& random) {
  const DType scaled = scaled_dtypes[random.below(scaled_dtype_count)];
  const ops::DequantizeLoops l{scaled, random.flip() ? DType::bf16 : DType::f32,
                               dtype_info(scaled).block * (1 + random.below(2000))};
  CaseTensors tensors(random);
  const GuardedBuffer& x = tensors.add(scaled, l.elements);
  for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<char>(random.below(256));
  tensors.add(l.result, l.elements);
  return tensors.count_differences(l);
}

std::int64_t check_convolution(RandomLayouts& random, bool channels_last) {
  using ops::loops_testing::count_elements;
  const ops::ConvLoops l = ops::loops_testing::make_convolution_case(random, channels_last);
  CaseTensors tensors(random);
  const std::int64_t elements[] = {
      l.batch * l.channels * count_elements(l, &ops::ConvWindow::in),
      l.out_channels * (l.channels / l.groups) * count_elements(l, &ops::ConvWindow::kernel)};
  fill_small_integers(random, l.x, tensors.add(l.x, elements[0]), elements[0]);
  fill_small_integers(random, l.w, tensors.add(l.w, elements[1]), elements[1]);
  tensors.add(l.y, l.batch * l.out_channels * count_elements(l, &ops::ConvWindow::out));
  return tensors.count_differences(l);
}

std::int64_t check_recurrence(RandomLayouts& random) {
  // A device contracts a product and a sum to one operation, which rounds once; exact values show every other
  // difference.
  const auto [l, elements] = ops::loops_testing::make_scan_case(random, true);
  CaseTensors tensors(random);
  for (std::size_t i = 0; i + 1 < elements.size(); ++i)
    fill_small_integers(random, l.operands[i].dtype, tensors.add(l.operands[i].dtype, elements[i]), elements[i]);
  tensors.add(l.operands.back().dtype, elements.back());
  return tensors.count_differences(l);
}

struct LoopCheck {
  const char* name;
  std::function<std::int64_t(RandomLayouts&)> run;
};
const LoopCheck checks[] = {
    {"gather", [](RandomLayouts& random) { return check_indexed(random, false); }},
    {"scatter", [](RandomLayouts& random) { return check_indexed(random, true); }},
    {"running sums", check_sums},
    {"top-k", [](RandomLayouts& random) { return check_topk(random, false); }},
    {"pool", [](RandomLayouts& random) { return check_pool(random, false); }},
    {"fold", check_fold},
    {"rotary", [](RandomLayouts& random) { return check_rotary(random, false); }},
    {"routed", check_routed},
    {"quantize", check_quantize},
    {"dequantize", check_dequantize},
    {"convolution", [](RandomLayouts& random) { return check_convolution(random, false); }},
    {"convolution of channels", [](RandomLayouts& random) { return check_convolution(random, true); }},
    {"recurrence", check_recurrence},
    {"large gather", [](RandomLayouts& random) { return check_large_indexed(random, false); }},
    {"pool of channels", [](RandomLayouts& random) { return check_pool(random, true); }},
    {"large rotary", [](RandomLayouts& random) { return check_rotary(random, true); }},
    {"large scatter", [](RandomLayouts& random) { return check_large_indexed(random, true); }},
    {"skewed scatter", check_skewed_scatter},
    {"sorted scatter", check_sorted_scatter},
    {"long running sums", check_long_sums},
    {"long top-k", [](RandomLayouts& random) { return check_topk(random, true); }},
};

}  // namespace

// Returns 1 and prints the seeds of the wrong cases if there are any.
int check_loops(int argc, char** argv) {
  const long count = argc > 0 ? std::atol(argv[0]) : 1200, first = argc > 1 ? std::atol(argv[1]) : 0;
  long wrong = 0;
  for (long seed = first; seed < first + count; ++seed) {
    const LoopCheck& check = checks[static_cast<std::size_t>(seed) % std::size(checks)];
    RandomLayouts random(static_cast<unsigned>(seed));
    const std::int64_t differences = check.run(random);
    if (differences == 0) continue;
    ++wrong;
    std::printf("WRONG %s, seed %ld: %lld elements differ\n", check.name, seed, static_cast<long long>(differences));
  }
  std::printf("loops: %ld cases, %ld wrong\n", count, wrong);
  return wrong > 0 ? 1 : 0;
}

}  // namespace ridge::gpu
