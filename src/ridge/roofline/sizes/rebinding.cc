#include "ridge/roofline/sizes/rebinding.h"

#include <charconv>

#include "ridge/roofline/split.h"

namespace ridge {
namespace {

constexpr std::int64_t max_region_work = 10'000;  // Limit of the sums that all searches evaluate, some milliseconds
constexpr int max_searches = 64;                  // Limit of the searches for thresholds, some milliseconds each

bool is_shard_symbol(const std::string& name) { return name.starts_with("ceil("); }

std::string dimension_of(const std::string& shard) { return shard.substr(5, shard.find('/') - 5); }

// Returns the size of the shard named "ceil(D/4)".
std::int64_t shard_size(const std::string& name, const Bindings& dims) {
  const std::size_t slash = name.find('/');
  std::int64_t parts = 1;
  std::from_chars(name.data() + slash + 1, name.data() + name.size() - 1, parts);
  const auto size = dims.find(dimension_of(name));
  return size == dims.end() ? 1 : (size->second + parts - 1) / parts;
}

// Counts of regions at the sizes that searches have visited.
class RegionCounts {
 public:
  std::optional<std::int64_t> count(const IndexMask& mask, const Bindings& dims) {
    std::vector<std::int64_t> sizes;
    for (const std::string& dim : dependency_dims(mask))
      if (const auto size = dims.find(dim); size != dims.end()) sizes.push_back(size->second);
    const auto key = std::pair(mask.symbol, sizes);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    return known_[key] = count_unmasked(mask, dims, work_left_);
  }
  bool is_exhausted() const { return work_left_ < 0; }

 private:
  std::map<std::pair<std::string, std::vector<std::int64_t>>, std::optional<std::int64_t>> known_;
  std::int64_t work_left_ = max_region_work;
};

Rebinding make_rebinding(const Program& program, const Program& device_program, const Bindings& given,
                         const Explanation& e, const std::shared_ptr<int>& searches_left) {
  return [&program, &device_program, given, &e, searches_left, regions = std::make_shared<RegionCounts>()](
             const std::string& dim, std::int64_t value) -> std::optional<Bindings> {
    Bindings requested = given;
    requested[dim] = value;
    auto dims = program.bind_sizes(requested);
    if (!dims) return std::nullopt;
    if (e.split) (*dims)[split_axis] = e.split->chips;
    for (const auto& [name, size] : e.dims)  // Largest shards, including those that are equal now
      if (is_shard_symbol(name)) dims->insert({name, shard_size(name, *dims)});
    for (const auto& [name, shard] : largest_shards(device_program, *dims)) (*dims)[name] = shard;
    for (const MaskCount& each : e.masks) {
      if (each.unmasked != Polynomial::make_symbol(each.mask.symbol)) continue;
      const auto count = each.mask.region ? regions->count(each.mask, *dims) : count_unmasked(each.mask, *dims);
      if (!count && regions->is_exhausted()) *searches_left = -1;  // No search can answer
      if (!count) return std::nullopt;
      (*dims)[each.mask.symbol] = *count;
    }
    return *std::move(dims);
  };
}

}  // namespace

ThresholdOptions make_threshold_options(const Program& program, const Program& device_program, const Bindings& given,
                                        const Explanation& e) {
  ThresholdOptions out{.derived_sizes = find_derived_sizes(program, given)};
  for (const auto& [name, size] : e.dims)
    if (is_shard_symbol(name)) out.symbol_dims[name] = {dimension_of(name)};
  for (const MaskCount& each : e.masks)
    if (each.unmasked == Polynomial::make_symbol(each.mask.symbol))
      out.symbol_dims[each.mask.symbol] = dependency_dims(each.mask);
  out.searches_left = std::make_shared<int>(max_searches);
  out.rebind = make_rebinding(program, device_program, given, e, out.searches_left);
  return out;
}

}  // namespace ridge
