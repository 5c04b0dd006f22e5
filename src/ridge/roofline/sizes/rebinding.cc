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

// Binds the sizes of a program after one dimension takes another value, and keeps them for the next search.
class Rebinder {
 public:
  Rebinder(const Program& program, const Program& device_program, const Bindings& given, const Explanation& e,
           std::shared_ptr<int> searches_left)
      : program_(program),
        device_program_(device_program),
        given_(given),
        e_(e),
        searches_left_(std::move(searches_left)) {}

  const BoundSizes* rebind(const std::string& dim, std::int64_t value) {
    const auto [known, is_new] = known_.try_emplace({dim, value});
    if (is_new)
      if (auto sizes = bind(dim, value)) {
        std::map<std::string, double> values(sizes->begin(), sizes->end());
        known->second = BoundSizes{*std::move(sizes), std::move(values)};
      }
    return known->second ? &*known->second : nullptr;
  }

  // Binds all sizes but the symbols of masks.
  std::optional<Bindings> bind_tensors(const std::string& dim, std::int64_t value) const {
    Bindings requested = given_;
    requested[dim] = value;
    auto dims = program_.bind_sizes(requested);
    if (!dims) return std::nullopt;
    if (e_.split) (*dims)[split_axis] = e_.split->chips;
    for (const auto& [name, size] : e_.dims)  // Largest shards, including those that are equal now
      if (is_shard_symbol(name)) dims->insert({name, shard_size(name, *dims)});
    for (const auto& [name, shard] : largest_shards(device_program_, *dims)) (*dims)[name] = shard;
    return *std::move(dims);
  }

 private:
  std::optional<Bindings> bind(const std::string& dim, std::int64_t value) {
    auto dims = bind_tensors(dim, value);
    if (!dims) return std::nullopt;
    for (const MaskCount& each : e_.masks) {
      if (each.unmasked != Polynomial::make_symbol(each.mask.symbol)) continue;
      const auto count = each.mask.region ? regions_.count(each.mask, *dims) : count_unmasked(each.mask, *dims);
      if (!count && regions_.is_exhausted()) *searches_left_ = -1;  // No search can answer
      if (!count) return std::nullopt;
      (*dims)[each.mask.symbol] = *count;
    }
    return dims;
  }

  const Program& program_;
  const Program& device_program_;
  const Bindings& given_;
  const Explanation& e_;
  std::shared_ptr<int> searches_left_;
  RegionCounts regions_;
  std::map<std::pair<std::string, std::int64_t>, std::optional<BoundSizes>> known_;
};

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
  const auto rebinder = std::make_shared<Rebinder>(program, device_program, given, e, out.searches_left);
  out.rebind = [rebinder](const std::string& dim, std::int64_t value) { return rebinder->rebind(dim, value); };
  out.rebind_tensors = [rebinder](const std::string& dim, std::int64_t value) {
    return rebinder->bind_tensors(dim, value);
  };
  return out;
}

}  // namespace ridge
