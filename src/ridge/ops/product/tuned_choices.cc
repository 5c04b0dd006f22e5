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

constexpr std::string_view format = "ridge.tuned/2";
constexpr std::size_t all_of_a_row = 1'000'000;

std::string version_text(int driver) { return fmt::format("{}.{}", driver / 1000, driver % 1000 / 10); }

std::uintptr_t past_16(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16; }

std::string text_of(std::string_view name, const MatrixLayout& x, const void* data) {
  return fmt::format(" {} {} {} {} {} at {}", name, ridge::name(x.dtype), x.row_stride, x.col_stride, x.batch_stride,
                     past_16(data));
}

std::string text_of(std::string_view name, const EpilogueOperand& x) {
  if (!x.data) return "";
  return fmt::format(" {} {} {} {} {} at {}", name, ridge::name(x.dtype), x.row_stride, x.col_stride, x.batch_stride,
                     past_16(x.data));
}

// Content of an entry. The plan is stored as the values that identify it among the planner's; the rest is rebuilt.
struct Entry {
  std::string by;
  int driver = 0;
  std::uint64_t menu = 0;
  int config = -1, splits = 0, split_mode = 0;
  bool copy_a = false, copy_b = false;
  double seconds = 0, model_seconds = 0;
  int candidates = 0;
};

std::string text_of(const Entry& e) {
  return fmt::format(
      "{} ridge {} driver {} menu {} config {} splits {} split_mode {} copies {:d} {:d} seconds {} model {} of {}\n",
      format, e.by, e.driver, e.menu, e.config, e.splits, e.split_mode, e.copy_a, e.copy_b, e.seconds, e.model_seconds,
      e.candidates);
}

std::optional<Entry> entry_from(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  Entry e;
  bool right = true;
  const auto word = [&](std::string_view expected) {
    std::string found;
    right = right && in >> found && found == expected;
  };
  const auto value = [&](std::string_view before, auto& to) {
    word(before);
    right = right && in >> to;
  };
  word(format);
  value("ridge", e.by);
  value("driver", e.driver);
  value("menu", e.menu);
  value("config", e.config);
  value("splits", e.splits);
  value("split_mode", e.split_mode);
  value("copies", e.copy_a);
  right = right && in >> e.copy_b;
  value("seconds", e.seconds);
  value("model", e.model_seconds);
  value("of", e.candidates);
  std::string more;
  return right && !(in >> more) ? std::optional(e) : std::nullopt;
}

Entry entry_of(const TunedChoice& choice, int driver) {
  const MatmulPlan& p = choice.plan;
  return {std::string(version()),
          driver,
          menu_fingerprint(),
          p.config,
          p.splits,
          static_cast<int>(p.split_mode),
          p.copy_a,
          p.copy_b,
          choice.seconds,
          choice.model_seconds,
          choice.candidates};
}

// Returns why the entry is outdated, or an empty string.
std::string outdated(const Entry& e, int driver) {
  if (e.by != version()) return fmt::format("it was measured by ridge {}, this is {}", e.by, version());
  if (e.driver != driver)
    return fmt::format("it was measured with driver {}, this is {}", version_text(e.driver), version_text(driver));
  if (e.menu != menu_fingerprint()) return "it was measured with other kernel configurations than this build has";
  return "";
}

}  // namespace

std::string tuning_key(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const MatmulEpilogue& e = call.epilogue;
  std::string out = fmt::format("batch {} m {} n {} k {}", p.batch, p.m, p.n, p.k);
  out += text_of("a", p.a, call.a) + text_of("b", p.b, call.b) + text_of("d", p.d, call.d);
  if (call.constant_b) out += " constant_b";
  if (is_plain(e)) return out;
  out += fmt::format(" activation {}", static_cast<int>(e.activation));
  return out + text_of("scale", e.scale) + text_of("bias", e.bias) + text_of("gate", e.gate) +
         text_of("addend", e.addend) + (e.addend.data == call.d ? " in place" : "") +
         (adds_rounded(call) ? ", rounded" : "");
}

TunedChoices TunedChoices::of_user(TuningPlace place) {
  return TunedChoices(KernelStore::of_user("tuned"), std::move(place));
}

std::string TunedChoices::key(const MatmulCall& call) const {
  return fmt::format("{} {} multiprocessors {} {}", format, place_.device, place_.numbers.multiprocessors,
                     tuning_key(call));
}

TunedChoices::Found TunedChoices::find(const MatmulCall& call, std::size_t workspace_bytes) const {
  const std::string name = key(call);
  const auto ignored = [&](const std::string& why) {
    const std::string file = store_.path(name).substr(store_.folder().size() + 1);
    return Found{{}, fmt::format("the tuned choice {} is ignored: {}", file, why)};
  };
  const bool there = store_.holds_file(name);
  const auto text = store_.find(name);
  if (!text) return there ? ignored("it is corrupt or not an entry of this store") : Found{};
  const auto entry = entry_from(*text);
  if (!entry) return ignored("its format is not that of this version");
  if (const std::string why = outdated(*entry, place_.driver); !why.empty()) return ignored(why);
  const auto offered = candidates(call, workspace_bytes, place_.numbers, all_of_a_row);
  const auto same = std::find_if(offered.begin(), offered.end(), [&](const MatmulPlan& p) {
    return p.config == entry->config && p.splits == entry->splits &&
           static_cast<int>(p.split_mode) == entry->split_mode && p.copy_a == entry->copy_a &&
           p.copy_b == entry->copy_b;
  });
  if (same == offered.end())
    return ignored(
        fmt::format("its plan (config {}, {} splits of k) does not fit this call within {} bytes of workspace",
                    entry->config, entry->splits, workspace_bytes));
  return {TunedChoice{*same, entry->seconds, entry->model_seconds, entry->candidates}, ""};
}

bool TunedChoices::keep(const MatmulCall& call, const TunedChoice& choice) const {
  return store_.keep(key(call), text_of(entry_of(choice, place_.driver)));
}

}  // namespace ridge::ops::cuda
