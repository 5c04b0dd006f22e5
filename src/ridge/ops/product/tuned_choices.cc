#include "ridge/ops/product/tuned_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "ridge/base/version.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/fitted.h"

namespace ridge::ops::cuda {
namespace {

constexpr std::string_view format = "ridge.tuned/3";
constexpr std::size_t max_plans_per_config = 1'000'000;

std::string driver_version_text(int driver) { return fmt::format("{}.{}", driver / 1000, driver % 1000 / 10); }

std::uintptr_t offset_in_16_bytes(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16; }

std::string to_text(std::string_view name, const MatrixLayout& x, const void* data) {
  return fmt::format(" {} {} {} {} {} at {}", name, ridge::dtype_name(x.dtype), x.row_stride, x.col_stride,
                     x.batch_stride, offset_in_16_bytes(data));
}

std::string to_text(const PixelWindows& x) {
  std::string out = fmt::format(" windows images {} channels {} strides {} {} tap {}", x.images, x.channels,
                                x.image_stride, fmt::join(x.axis_strides, " "), x.tap_stride);
  for (const WindowAxis& axis : x.axes)
    out += fmt::format(" axis {} {} {} {} {} {}", axis.in, axis.out, axis.kernel, axis.stride, axis.dilation,
                       axis.padding);
  return out;
}

std::string to_text(std::string_view name, const EpilogueOperand& x) {
  if (!x.data) return "";
  return fmt::format(" {} {} {} {} {} at {}", name, ridge::dtype_name(x.dtype), x.row_stride, x.col_stride,
                     x.batch_stride, offset_in_16_bytes(x.data));
}

// Content of an entry. Only the values that identify a plan among those of the planner are stored.
struct TunedEntry {
  std::string ridge_version;
  int driver = 0;
  std::uint64_t configs_fingerprint = 0;
  int path = 0, config = -1, splits = 0, split_mode = 0;
  bool swapped_tile = false, copy_a = false, copy_b = false;
  double seconds = 0, model_seconds = 0;
  int candidates = 0;
};

std::string to_text(const TunedEntry& e) {
  return fmt::format(
      "{} ridge {} driver {} menu {} path {} config {} swapped {:d} splits {} split_mode {} copies {:d} {:d} seconds "
      "{} "
      "model {} of {}\n",
      format, e.ridge_version, e.driver, e.configs_fingerprint, e.path, e.config, e.swapped_tile, e.splits,
      e.split_mode, e.copy_a, e.copy_b, e.seconds, e.model_seconds, e.candidates);
}

std::optional<TunedEntry> parse_entry(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  TunedEntry e;
  bool is_valid = true;
  const auto word = [&](std::string_view expected) {
    std::string found;
    is_valid = is_valid && in >> found && found == expected;
  };
  const auto value = [&](std::string_view before, auto& to) {
    word(before);
    is_valid = is_valid && in >> to;
  };
  word(format);
  value("ridge", e.ridge_version);
  value("driver", e.driver);
  value("menu", e.configs_fingerprint);
  value("path", e.path);
  value("config", e.config);
  value("swapped", e.swapped_tile);
  value("splits", e.splits);
  value("split_mode", e.split_mode);
  value("copies", e.copy_a);
  is_valid = is_valid && in >> e.copy_b;
  value("seconds", e.seconds);
  value("model", e.model_seconds);
  value("of", e.candidates);
  std::string more;
  return is_valid && !(in >> more) ? std::optional(e) : std::nullopt;
}

TunedEntry make_entry(const TunedChoice& choice, int driver) {
  const MatmulPlan& p = choice.plan;
  return {std::string(version()),
          driver,
          kernel_configs_fingerprint(),
          static_cast<int>(p.path),
          p.config,
          p.splits,
          static_cast<int>(p.split_mode),
          p.swapped_tile,
          p.copy_a,
          p.copy_b,
          choice.seconds,
          choice.model_seconds,
          choice.candidate_count};
}

// Returns why the entry is outdated.
Reason outdated_reason(const TunedEntry& e, int driver) {
  if (e.ridge_version != version())
    return fmt::format("it was measured by ridge {}, this is {}", e.ridge_version, version());
  if (e.driver != driver)
    return fmt::format("it was measured with driver {}, this is {}", driver_version_text(e.driver),
                       driver_version_text(driver));
  if (e.configs_fingerprint != kernel_configs_fingerprint())
    return "it was measured with other kernel configurations than this build has";
  return {};
}

}  // namespace

std::string tuning_key(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const MatmulEpilogue& e = call.epilogue;
  std::string out = fmt::format("batch {} m {} n {} k {}", p.batch, p.size.m, p.size.n, p.size.k);
  out += to_text("a", p.a, call.a) + to_text("b", p.b, call.b) + to_text("d", p.d, call.d);
  if (p.pixel_windows) out += to_text(*p.pixel_windows);
  if (call.constant_b) out += " constant_b";
  if (is_store_only(e)) return out;
  out += fmt::format(" activation {}", static_cast<int>(e.activation));
  return out + to_text("scale", e.scale) + to_text("bias", e.bias) + to_text("gate", e.gate) +
         to_text("addend", e.addend) + (e.addend.data == call.d ? " in place" : "") +
         (adds_rounded_sum(call) ? ", rounded" : "");
}

TunedChoices TunedChoices::for_user(TuningEnvironment environment) {
  return TunedChoices(device::KernelStore::for_user("tuned"), std::move(environment));
}

std::string TunedChoices::key(const MatmulCall& call) const {
  return fmt::format("{} {} multiprocessors {} {}", format, environment_.device, environment_.numbers.multiprocessors,
                     tuning_key(call));
}

TunedChoices::Lookup TunedChoices::find(const MatmulCall& call, std::size_t workspace_bytes) const {
  const std::string name = key(call);
  const auto ignored = [&](const std::string& why) {
    const std::string file = store_.entry_path(name).substr(store_.folder().size() + 1);
    return Lookup{{}, fmt::format("the tuned choice {} is ignored: {}", file, why)};
  };
  const bool file_exists = store_.has_file(name);
  const auto text = store_.find(name);
  if (!text) return file_exists ? ignored("it is corrupt or not an entry of this store") : Lookup{};
  const auto entry = parse_entry(*text);
  if (!entry) return ignored("its format is not that of this version");
  if (const Reason why = outdated_reason(*entry, environment_.driver)) return ignored(why.text());
  const auto offered = list_candidates(call, workspace_bytes, environment_.numbers, max_plans_per_config);
  const auto same = std::find_if(offered.begin(), offered.end(), [&](const MatmulPlan& p) {
    return static_cast<int>(p.path) == entry->path && p.config == entry->config &&
           p.swapped_tile == entry->swapped_tile && p.splits == entry->splits &&
           static_cast<int>(p.split_mode) == entry->split_mode && p.copy_a == entry->copy_a &&
           p.copy_b == entry->copy_b;
  });
  if (same == offered.end())
    return ignored(
        fmt::format("its plan (config {}, {} splits of k) does not fit this call within {} bytes of workspace",
                    entry->config, entry->splits, workspace_bytes));
  return {TunedChoice{*same, entry->seconds, entry->model_seconds, entry->candidates}, ""};
}

bool TunedChoices::save(const MatmulCall& call, const TunedChoice& choice) const {
  return store_.save(key(call), to_text(make_entry(choice, environment_.driver)));
}

}  // namespace ridge::ops::cuda
