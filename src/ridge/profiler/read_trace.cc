#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "ridge/base/string_util.h"
#include "ridge/profiler/trace.h"

namespace ridge::profiler {
namespace {

using Json = nlohmann::json;

// True for operators whose work depends on arguments that are no tensors: strides, or whether a mask is causal.
bool needs_arguments(std::string_view name) {
  for (const std::string_view part : {"conv", "attention", "pool"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

constexpr double max_time_us = 1e16;  // 317 years: older traces count from 1970, and a double still has 2 us
constexpr std::size_t max_shown_value = 32;

// Fields of the event that is being read.
struct TraceEvent {
  std::string phase, category, name, shapes, types, concrete;
  double start_us = 0, duration_us = -1;
  std::int64_t process = 0, thread = 0, correlation = -1, device = -1;
  bool is_cut = false;     // True if the texts of its operands are too long
  std::string wrong_time;  // Why "ts" or "dur" is no time; else empty
};

// Collects the events of a trace while its JSON is parsed. Fields are found by their depth: an event is an object in
// the array "traceEvents" or in the outermost array, its "args" are an object in it.
class TraceHandler final : public nlohmann::json_sax<Json> {
 public:
  explicit TraceHandler(Trace& trace) : trace_(trace) {}

  bool null() override {
    note_wrong_time("null");
    return add_text("null");
  }
  bool boolean(bool value) override {
    note_wrong_time(value ? "true" : "false");
    return add_text(value ? "true" : "false");
  }
  bool number_integer(number_integer_t value) override { return add_number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    return add_number(static_cast<double>(value), static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    const bool fits = std::fabs(value) < 0x1p62;
    return add_number(value, fits ? static_cast<std::int64_t>(value) : 0);
  }
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception&) override {
    // NaN and 1e999 are no JSON. The token may begin with the key.
    note_wrong_time(trim_blanks(std::string_view(token).substr(token.rfind(':') + 1)));
    if (is_in_event() && !event_.wrong_time.empty()) return fail(event_.wrong_time);
    fail(fmt::format("expected JSON, found something else at byte {}", position),
         "the file is cut off or damaged, or no trace in Chrome's format");
    return false;
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  bool is_in_event() const { return event_depth_ > 0 && depth_ == event_depth_; }
  bool is_time() const { return is_in_event() && (key_ == "ts" || key_ == "dur"); }
  // Keeps an error about the value of "ts" or "dur", which counts once the event proves to be complete.
  void note_wrong_time(std::string_view value) {
    if (!is_time() || value.empty()) return;
    if (event_.wrong_time.empty())
      event_.wrong_time =
          fmt::format("expected \"{}\" of event {} as a number from -1e16 to 1e16 (microseconds), found {}", key_,
                      event_count_, make_printable(value.substr(0, max_shown_value)));
    key_.clear();
  }
  bool is_in_arguments() const { return args_depth_ > 0 && depth_ == args_depth_; }
  bool fail(std::string message, std::string hint = {}) {
    if (!error_) error_ = input_error(std::move(message), std::move(hint));
    return false;
  }
  bool enter() {
    if (++depth_ <= max_depth) return true;
    return fail(fmt::format("expected JSON nested at most {} levels, found more", max_depth));
  }
  // Appends to the array that is being copied, separated from what precedes it.
  void append_copied(std::string_view text) {
    if (!copied_) return;
    event_.is_cut = event_.is_cut || copied_->size() + text.size() >= max_signature;
    if (event_.is_cut) return;
    if (copied_->back() != '[') *copied_ += ',';
    *copied_ += text;
  }
  bool add_text(std::string_view text) {
    append_copied(text);
    return true;
  }
  bool add_number(double value, std::int64_t integer);
  bool store_event();
  int find_signature();
  int find_name(const std::string& name) {
    const auto [found, is_new] = name_index_.try_emplace(name, static_cast<int>(trace_.names.size()));
    if (is_new) trace_.names.push_back(name);
    return found->second;
  }

  Trace& trace_;
  std::optional<Error> error_;
  std::string key_;
  TraceEvent event_;
  int depth_ = 0, list_depth_ = 0, event_depth_ = 0, args_depth_ = 0, copied_depth_ = 0;
  std::int64_t event_count_ = 0;
  std::string* copied_ = nullptr;  // Text to which an array of "args" is copied
  std::map<Signature, int> signature_index_;
  std::map<std::string, int> name_index_;
};

bool TraceHandler::add_number(double value, std::int64_t integer) {
  if (copied_) append_copied(std::to_string(integer));
  if (is_time() && !(std::fabs(value) <= max_time_us)) note_wrong_time(fmt::format("{:g}", value));
  if (is_in_event()) {
    if (key_ == "ts") event_.start_us = value;
    if (key_ == "dur") event_.duration_us = value;
    if (key_ == "pid") event_.process = integer;
    if (key_ == "tid") event_.thread = integer;
    key_.clear();  // Has its value
  } else if (is_in_arguments()) {
    if (key_ == "correlation") event_.correlation = integer;
    if (key_ == "device") event_.device = integer;
  }
  return true;
}

bool TraceHandler::string(string_t& value) {
  if (copied_) append_copied(Json(value.substr(0, max_signature)).dump(-1, ' ', true, Json::error_handler_t::replace));
  if (is_time()) note_wrong_time('"' + value.substr(0, max_shown_value) + '"');
  if (!is_in_event()) return true;
  if (key_ == "ph") event_.phase = value.substr(0, 8);
  if (key_ == "cat") event_.category = value.substr(0, 64);
  if (key_ == "name") event_.name = value.substr(0, max_signature);
  // Names of processes and threads such as "python 123" distinguish them as well as numbers do.
  if (key_ == "pid") event_.process = static_cast<std::int64_t>(std::hash<std::string>()(value) >> 2);
  if (key_ == "tid") event_.thread = static_cast<std::int64_t>(std::hash<std::string>()(value) >> 2);
  return true;
}

bool TraceHandler::key(string_t& name) {
  key_ = name.substr(0, 64);
  return true;
}

bool TraceHandler::start_object(std::size_t) {
  if (is_time()) note_wrong_time("an object");
  append_copied("{}");
  if (!enter()) return false;
  if (list_depth_ > 0 && depth_ == list_depth_ + 1) {
    event_ = {};
    event_depth_ = depth_;
    ++event_count_;
  } else if (event_depth_ > 0 && depth_ == event_depth_ + 1 && key_ == "args") {
    args_depth_ = depth_;
  }
  return true;
}

bool TraceHandler::end_object() {
  if (depth_ == args_depth_) args_depth_ = 0;
  if (depth_ == event_depth_) {
    event_depth_ = 0;
    if (!store_event()) return false;
  }
  --depth_;
  return true;
}

bool TraceHandler::start_array(std::size_t) {
  if (is_time()) note_wrong_time("an array");
  if (copied_) append_copied("[");
  if (!copied_ && is_in_arguments()) {
    if (key_ == "Input Dims") copied_ = &event_.shapes;
    if (key_ == "Input type") copied_ = &event_.types;
    if (key_ == "Concrete Inputs") copied_ = &event_.concrete;
    if (copied_) {
      *copied_ = "[";
      copied_depth_ = depth_ + 1;
    }
  }
  if (!enter()) return false;
  if (list_depth_ == 0 && (depth_ == 1 || (depth_ == 2 && key_ == "traceEvents"))) list_depth_ = depth_;
  return true;
}

bool TraceHandler::end_array() {
  if (copied_ && copied_->size() < max_signature) *copied_ += ']';
  if (depth_ == copied_depth_) {
    copied_ = nullptr;
    copied_depth_ = 0;
  }
  if (depth_ == list_depth_) list_depth_ = 0;
  --depth_;
  return true;
}

int TraceHandler::find_signature() {
  Signature signature{event_.name, event_.shapes, event_.types,
                      needs_arguments(event_.name) ? event_.concrete : std::string()};
  if (event_.is_cut)  // Incomplete texts count as not recorded
    signature.shapes = signature.types = signature.concrete = "";
  const auto [found, is_new] = signature_index_.try_emplace(signature, static_cast<int>(trace_.signatures.size()));
  if (is_new) trace_.signatures.push_back(std::move(signature));
  return found->second;
}

bool TraceHandler::store_event() {
  if (event_.phase != "X") return true;
  if (!event_.wrong_time.empty()) return fail(event_.wrong_time);
  if (event_.duration_us < 0) return true;
  if (trace_.ops.size() + trace_.device_activities.size() + trace_.launches.size() >= max_events)
    return fail(fmt::format("expected at most {} operators, kernels and launches, found more", max_events),
                "trace fewer steps");
  const std::string& category = event_.category;
  if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset")
    trace_.device_activities.push_back({event_.device < 0 ? event_.process : event_.device, event_.correlation,
                                        event_.start_us, event_.duration_us, find_name(event_.name)});
  else if (category == "cuda_runtime" || category == "cuda_driver" || category == "hip_runtime")
    trace_.launches.push_back({event_.correlation, event_.process, event_.thread, event_.start_us});
  else if (category == "cpu_op")
    trace_.ops.push_back({event_.process, event_.thread, event_.start_us, event_.duration_us, find_signature()});
  return true;
}

constexpr std::uintmax_t max_file_bytes = std::uintmax_t{1} << 36;
constexpr int gzip_magic = 0x1f;  // First byte of a gzip file, which no JSON begins with

}  // namespace

Result<Trace> read_trace(std::istream& input) {
  if (input.peek() == gzip_magic)
    return input_error("expected JSON, found gzip", "zcat trace.json.gz | ridge trace - --on h200");
  Trace trace;
  TraceHandler handler(trace);
  const bool is_read = Json::sax_parse(input, &handler);
  if (handler.error()) return *handler.error();
  if (!is_read) return input_error("expected JSON, found something else");
  if (trace.ops.empty() && trace.device_activities.empty())
    return input_error(
        "expected complete events (\"ph\": \"X\") of the categories cpu_op or kernel in \"traceEvents\", found none",
        "write the trace with torch.profiler's export_chrome_trace and record_shapes=True");
  return trace;
}

Result<Trace> read_trace_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (file) file.peek();  // A folder can be opened, but not read
    if (!file.is_open() || file.bad())
      return input_error(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
    std::error_code ignored;
    if (const auto size = std::filesystem::file_size(path, ignored); !ignored && size > max_file_bytes)
      return input_error(fmt::format("{}: expected at most 2^36 bytes, found {}", path, size), "trace fewer steps");
  }
  auto trace = read_trace(path == "-" ? std::cin : file);
  if (trace) return trace;
  Error error = trace.error();
  error.message = fmt::format("{}: {}", path == "-" ? "standard input" : path, error.message);
  return error;
}

}  // namespace ridge::profiler
