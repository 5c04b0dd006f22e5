#include "ridge/run/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ridge/base/block_scale.h"
#include "ridge/base/check.h"
#include "ridge/base/cores.h"
#include "ridge/base/dtype_set.h"
#include "ridge/base/file.h"
#include "ridge/run/parallel_for.h"

namespace ridge {
namespace {

std::optional<std::int64_t> parse_number(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data() + first, text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// Returns the number after `key` at the start of a line.
std::optional<std::int64_t> find_keyed_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with(key)) return parse_number(text.substr(key.size(), end - key.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_available_bytes(std::string_view meminfo) {
  const auto kib = find_keyed_number(meminfo, "MemAvailable:");
  if (!kib || *kib > INT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

std::optional<std::int64_t> available_bytes() {
  const auto meminfo = read_file("/proc/meminfo");
  const auto system = meminfo ? parse_available_bytes(*meminfo) : std::nullopt;
  const auto groups = cgroup_memory_left();
  if (!system || !groups) return system ? system : groups;
  return std::min(*system, *groups);
}

std::optional<ArrayStorage> ArrayStorage::make(DType dtype, std::int64_t elements) {
  constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
  const std::size_t size = stored_bytes(dtype, elements);
  const std::size_t alignment = size >= huge_page_bytes ? huge_page_bytes : 64;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  ArrayStorage out;
  out.data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (!out.data_) return std::nullopt;
  if (alignment == huge_page_bytes) (void)::madvise(out.data_.get(), rounded, MADV_HUGEPAGE);
  out.array_ = {dtype, elements, out.data_.get()};
  return out;
}

namespace {

constexpr int quantile_count = 1 << 16;

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Quantile i is where the distribution function equals (i + 1/2) / 65536. The lower half mirrors the upper.
std::vector<float> make_quantiles() {
  std::vector<float> out(quantile_count);
  double x = 0;
  for (int i = quantile_count / 2; i < quantile_count; ++i) {
    const double target = (i + 0.5) / quantile_count;
    for (int step = 0; step < 50; ++step) {  // Newton's method, started at the previous quantile
      const double slope = std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
      const double move = (target - normal_cdf(x)) / slope;
      x += move;
      if (std::fabs(move) < 1e-12) break;
    }
    out[i] = static_cast<float>(x);
    out[quantile_count - 1 - i] = static_cast<float>(-x);
  }
  return out;
}

const std::vector<float>& normal_quantiles() {
  static const std::vector<float> table = make_quantiles();
  return table;
}

// Values are small, so that a sum of 2^13 products usually fits into int8.
std::int8_t to_int8(float x) { return static_cast<std::int8_t>(std::lrint(x)); }

std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

template <class T, class Round>
void fill_from_quantiles(const Array& array, std::uint64_t key, int threads, Round round) {
  const std::vector<float>& table = normal_quantiles();
  std::vector<T> stored(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) stored[i] = round(table[i]);
  parallel_for(array.elements, 1 << 16, threads, [&](std::int64_t begin, std::int64_t end) {
    T* data = reinterpret_cast<T*>(array.data);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t hash = mix_bits(key ^ mix_bits(static_cast<std::uint64_t>(i) / 4));
      data[i] = stored[(hash >> (16 * (i % 4))) & 0xFFFF];
    }
  });
}

}  // namespace

// Fills a block-scaled array block by block from the same quantiles.
static void fill_blocks(const Array& array, std::uint64_t key, int threads, double deviation) {
  const std::vector<float>& table = normal_quantiles();
  const std::int64_t block = dtype_info(array.dtype).block;
  parallel_for(array.elements / block, 1 << 10, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> values(block);
    for (std::int64_t b = begin; b < end; ++b) {
      for (std::int64_t k = 0; k < block; ++k) {
        const std::int64_t i = b * block + k;
        const std::uint64_t hash = mix_bits(key ^ mix_bits(static_cast<std::uint64_t>(i) / 4));
        values[k] = deviation * table[(hash >> (16 * (i % 4))) & 0xFFFF];
      }
      store_scaled_block(array.dtype, array.data, b, values.data());
    }
  });
}

bool can_fill_normal(DType dtype) {
  return (StorageDTypes::contains(dtype) && dtype != DType::int32) || is_block_scaled(dtype);
}

void fill_normal(const Array& array, std::uint64_t seed, int tensor, int threads, double deviation) {
  const std::uint64_t key = mix_bits(mix_bits(seed) + static_cast<std::uint64_t>(tensor));
  const auto scale = static_cast<float>(deviation);
  if (array.dtype == DType::int8) return fill_from_quantiles<std::int8_t>(array, key, threads, to_int8);
  const bool is_filled = RoundedFloats::dispatch(array.dtype, [&]<class T>() {
    fill_from_quantiles<T>(array, key, threads, [&](float x) { return round_to<T>(scale * x); });
  });
  if (is_filled) return;
  RIDGE_CHECK(is_block_scaled(array.dtype), "plan() rejects other dtypes");
  fill_blocks(array, key, threads, deviation);
}

void fill_indices(const Array& array, std::uint64_t seed, int tensor, std::int64_t limit) {
  const std::uint64_t key = mix_bits(mix_bits(seed) + static_cast<std::uint64_t>(tensor));
  for (std::int64_t i = 0; i < array.elements; ++i) {
    const auto hash = static_cast<unsigned __int128>(mix_bits(key ^ mix_bits(static_cast<std::uint64_t>(i))));
    const auto index = static_cast<std::int64_t>(hash * static_cast<std::uint64_t>(limit) >> 64);
    if (array.dtype == DType::int8)
      reinterpret_cast<std::int8_t*>(array.data)[i] = static_cast<std::int8_t>(std::min<std::int64_t>(index, 127));
    else
      reinterpret_cast<std::int32_t*>(array.data)[i] =
          static_cast<std::int32_t>(std::min<std::int64_t>(index, INT32_MAX));
  }
}

void poison_array(const Array& array, int threads) {
  const std::int64_t size = is_block_scaled(array.dtype) ? 1 : dtype_bits(array.dtype) / 8;
  parallel_for(stored_bytes(array.dtype, array.elements) / size, 1 << 20, threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memset(array.data + begin * size, 0xFF, (end - begin) * size);
               });
}

double read_element(const Array& array, std::int64_t index) {
  double value = 0;
  const auto read = [&]<class T>() { value = to_double(reinterpret_cast<const T*>(array.data)[index]); };
  if (StorageDTypes::dispatch(array.dtype, read)) return value;
  RIDGE_CHECK(is_block_scaled(array.dtype), "plan() rejects other dtypes");
  return load_scaled_element(array.dtype, array.data, index);
}

}  // namespace ridge
