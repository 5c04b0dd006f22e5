#include "ridge/simulate/pipe_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "ridge/base/file.h"
#include "ridge/base/string_util.h"

namespace ridge {
namespace {

constexpr std::size_t max_text_bytes = 1 << 20;

struct PipeToken {
  std::string text;
  int line = 1, column = 1;
};

std::vector<PipeToken> split_tokens(std::string_view text) {
  std::vector<PipeToken> tokens;
  int line = 1, column = 1;
  bool comment = false, in_token = false;
  for (const char c : text) {
    if (c == '\n') comment = false;
    if (c == '#') comment = true;
    const bool brace = c == '{' || c == '}', space = c == ' ' || c == '\t' || c == '\n' || c == '\r' || comment;
    if (!space) {
      if (!in_token || brace) tokens.push_back({"", line, column});
      tokens.back().text += c;
    }
    in_token = !space && !brace;
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80)
      ++column;
  }
  tokens.push_back({"", line, column});  // end of the text
  return tokens;
}

constexpr std::array<Phase, 5> all_phases{Phase::load, Phase::fill, Phase::compute, Phase::drain, Phase::store};

class PipeParser {
 public:
  PipeParser(std::string_view text, const std::string& source)
      : text_(text), source_(source), tokens_(split_tokens(text)) {}

  Result<ParsedPipe> parse_all() {
    ParsedPipe out;
    if (text_.size() > max_text_bytes)
      return input_error(fmt::format("expected a pipe of at most {} bytes, found {}", max_text_bytes, text_.size()));
    if (current_token().text == "chip") RIDGE_TRY_STATUS(parse_chip(out.resources));
    RIDGE_TRY_STATUS(parse_loop(out.pipe, 1));
    if (!at_end()) return expected_error("the end of the text");
    RIDGE_TRY_STATUS(check_metapipe(out.pipe));
    return out;
  }

 private:
  const PipeToken& current_token() const { return tokens_[at_]; }
  bool at_end() const { return at_ + 1 == tokens_.size(); }
  PipeToken next_token() { return at_end() ? tokens_[at_] : tokens_[at_++]; }

  Error error_at(const PipeToken& word, std::string message, std::string hint = "") const {
    Error error = input_error(std::move(message), std::move(hint));
    error.source = source_;
    error.span = {word.line, word.column, static_cast<int>(std::max<std::size_t>(1, count_characters(word.text)))};
    std::size_t begin = 0;
    for (int line = 1; line < word.line; ++line) begin = text_.find('\n', begin) + 1;
    error.line_text = make_printable(text_.substr(begin, text_.find('\n', begin) - begin));
    return error;
  }
  Error expected_error(const std::string& what, std::string hint = "") const {
    return error_at(current_token(),
                    fmt::format("expected {}, found {}", what,
                                at_end() ? "the end" : fmt::format("'{}'", make_printable(current_token().text))),
                    std::move(hint));
  }

  Status parse_name(std::string& out, const std::string& what) {
    if (at_end() || current_token().text == "{" || current_token().text == "}") return expected_error(what);
    out = next_token().text;
    return Done{};
  }

  static bool parse_whole(std::string_view text, std::int64_t& out) {
    const auto [stopped, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
    return failed == std::errc() && stopped == text.data() + text.size() && out >= 0;
  }
  Status parse_number(std::int64_t& out, const std::string& what) {
    if (!parse_whole(current_token().text, out)) return expected_error(fmt::format("a whole number of {}", what));
    next_token();
    return Done{};
  }

  // Parses "word number" pairs in any order until another word follows.
  struct NamedField {
    std::string_view word;
    std::int64_t* value;
  };
  Status parse_fields(std::initializer_list<NamedField> fields) {
    for (;;) {
      const auto field = std::find_if(fields.begin(), fields.end(),
                                      [&](const NamedField& f) { return f.word == current_token().text; });
      if (field == fields.end()) return Done{};
      next_token();
      RIDGE_TRY_STATUS(parse_number(*field->value, std::string(field->word)));
    }
  }

  Status parse_chip(PipeResources& chip) {
    next_token();
    std::int64_t memory = 0, network = 0;
    const Status s =
        parse_fields({{"pcus", &chip.pcus}, {"pmus", &chip.pmus}, {"memory", &memory}, {"network", &network}});
    chip.memory_bytes_per_cycle = static_cast<double>(memory);
    chip.network_bytes_per_cycle = static_cast<double>(network);
    return s;
  }

  Status parse_loop(Metapipe& pipe, int level) {
    const std::optional<PipeSchedule> schedule = parse_schedule(current_token().text);
    if (!schedule)
      return expected_error("a loop: sequential, pipelined, streaming or fork-join",
                            "pipelined rows 10 { load a 100  compute b 300  store c 50 }");
    if (level > max_loop_nesting)
      return error_at(current_token(), fmt::format("expected loops nested at most {} deep", max_loop_nesting));
    pipe.schedule = *schedule;
    next_token();
    RIDGE_TRY_STATUS(parse_name(pipe.name, "the loop's name"));
    RIDGE_TRY_STATUS(parse_number(pipe.iterations, "iterations"));
    RIDGE_TRY_STATUS(parse_fields({{"par", &pipe.parallel}, {"overhead", &pipe.overhead}}));
    if (current_token().text != "{") return expected_error("par, overhead or {");
    next_token();
    while (current_token().text != "}") RIDGE_TRY_STATUS(parse_item(pipe, level));
    next_token();
    return Done{};
  }

  Status parse_item(Metapipe& pipe, int level) {
    if (current_token().text == "buffer" || current_token().text == "again") return parse_edge(pipe);
    PipeStage stage;
    if (parse_schedule(current_token().text)) {
      Metapipe inner;
      RIDGE_TRY_STATUS(parse_loop(inner, level + 1));
      stage.name = inner.name;
      stage.body.push_back(std::move(inner));
    } else if (const Status s = parse_leaf(stage); !s) {
      return s;
    }
    for (const PipeStage& other : pipe.stages)
      if (other.name == stage.name)
        return error_at(tokens_[at_ - 1], fmt::format("loop '{}' has two stages named '{}'", pipe.name, stage.name));
    pipe.stages.push_back(std::move(stage));
    return Done{};
  }

  Status parse_leaf(PipeStage& stage) {
    const auto phase = std::find_if(all_phases.begin(), all_phases.end(),
                                    [&](Phase p) { return phase_name(p) == current_token().text; });
    if (phase == all_phases.end())
      return expected_error("a stage (load, fill, compute, drain, store), a loop, buffer, again or }",
                            "compute mm 300");
    stage.phase = *phase;
    next_token();
    RIDGE_TRY_STATUS(parse_name(stage.name, "the stage's name"));
    RIDGE_TRY_STATUS(parse_cycles(stage));
    return parse_fields({{"trips", &stage.trips},
                         {"interval", &stage.interval},
                         {"par", &stage.parallel},
                         {"accept", &stage.accept_cycles},
                         {"pcus", &stage.pcus},
                         {"pmus", &stage.pmus},
                         {"memory", &stage.memory_bytes},
                         {"network", &stage.network_bytes}});
  }

  // Parses "300", or "300,310,290", which repeats cyclically.
  Status parse_cycles(PipeStage& stage) {
    std::string_view text = current_token().text;
    std::vector<std::int64_t> cycles;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      std::int64_t number = 0;
      if (!parse_whole(text.substr(begin, end - begin), number))
        return expected_error("a whole number of cycles, or several: 90,110");
      cycles.push_back(number);
      begin = end + 1;
    }
    stage.depth = cycles.front();
    if (cycles.size() > 1) stage.latencies = std::move(cycles);
    next_token();
    return Done{};
  }

  Status parse_stage_name(const Metapipe& pipe, std::int64_t& index) {
    for (std::size_t s = 0; s < pipe.stages.size(); ++s)
      if (pipe.stages[s].name == current_token().text) {
        index = static_cast<std::int64_t>(s);
        next_token();
        return Done{};
      }
    std::vector<std::string> names;
    for (const PipeStage& stage : pipe.stages) names.push_back(stage.name);
    const std::string nearest_name = find_nearest(current_token().text, names);
    return expected_error(fmt::format("a stage of loop '{}' above this line", pipe.name),
                          nearest_name.empty() ? "" : fmt::format("did you mean {}?", nearest_name));
  }

  Status parse_edge(Metapipe& pipe) {
    const PipeToken word = next_token();
    std::int64_t from = 0, to = 0;
    RIDGE_TRY_STATUS(parse_stage_name(pipe, from));
    if (current_token().text != "->") return expected_error("->", "buffer a -> b, again b -> a");
    next_token();
    RIDGE_TRY_STATUS(parse_stage_name(pipe, to));
    if (word.text == "again") {
      Recurrence recurrence{from, to, 1};
      if (to > from)
        return error_at(word, "expected 'again' to go back to the same or an earlier stage", "buffer goes forward");
      RIDGE_TRY_STATUS(parse_fields({{"every", &recurrence.distance}}));
      pipe.recurrences.push_back(recurrence);
      return Done{};
    }
    if (to <= from) return error_at(word, "expected a buffer from a stage to a later one", "again goes back");
    PipeBuffer buffer{from, to, 0, 0};
    RIDGE_TRY_STATUS(parse_fields({{"tiles", &buffer.tiles}, {"bytes", &buffer.bytes}}));
    pipe.buffers.push_back(buffer);
    return Done{};
  }

  std::string_view text_;
  const std::string& source_;
  std::vector<PipeToken> tokens_;
  std::size_t at_ = 0;
};

// Returns the loop with the leaf of this name and sets the leaf's index; null if there is none.
Metapipe* find_loop_of_leaf(Metapipe& pipe, std::string_view leaf, std::int64_t& index) {
  for (std::size_t s = 0; s < pipe.stages.size(); ++s) {
    PipeStage& stage = pipe.stages[s];
    if (stage.body.empty() && stage.name == leaf) {
      index = static_cast<std::int64_t>(s);
      return &pipe;
    }
    if (!stage.body.empty())
      if (Metapipe* inner = find_loop_of_leaf(stage.body[0], leaf, index)) return inner;
  }
  return nullptr;
}

Status apply_split_option(Metapipe& pipe, const std::string& text) {
  const std::size_t equals = text.find('=');
  std::int64_t pieces = 0, index = 0;
  const char* end = text.data() + text.size();
  const bool number = equals != std::string::npos &&
                      std::from_chars(text.data() + equals + 1, end, pieces).ptr == end && equals + 1 < text.size();
  if (!number)
    return usage_error(fmt::format("expected STAGE=PIECES after --split, found '{}'", text), "--split compute=3");
  Metapipe* loop = find_loop_of_leaf(pipe, text.substr(0, equals), index);
  if (loop == nullptr) return input_error(fmt::format("no stage is called '{}'", text.substr(0, equals)));
  RIDGE_TRY(split, split_stage(*loop, index, pieces));
  *loop = std::move(split);
  return Done{};
}

}  // namespace

Result<ParsedPipe> parse_pipe(std::string_view text, const std::string& source) {
  return PipeParser(text, source).parse_all();
}

Result<PipeReport> run_pipe(const PipeRequest& request) {
  const bool is_text = request.pipe.find('{') != std::string::npos, from_input = request.pipe == "-";
  const std::string path = from_input ? "/dev/stdin" : request.pipe;
  auto read = is_text ? Result<std::string>(request.pipe) : read_file(path, max_text_bytes);
  if (!read && read.error().hint.empty() && !from_input) {
    Error error = read.error();
    error.hint = "a pipe is a file, - or the text itself: 'pipelined rows 10 { load a 100  compute b 300 }'";
    return error;
  }
  RIDGE_TRY_STATUS(read);
  std::string source_name = from_input ? "standard input" : request.pipe;
  if (is_text) source_name = "pipe";
  RIDGE_TRY(text, parse_pipe(*read, source_name));
  for (const std::string& split_option : request.split) RIDGE_TRY_STATUS(apply_split_option(text.pipe, split_option));
  RIDGE_TRY(run, simulate_metapipe(text.pipe, text.resources));
  RIDGE_TRY(sequential_run, simulate_metapipe(with_schedule(text.pipe, PipeSchedule::sequential), text.resources));
  PipeReport report;
  report.sequential_cycles = sequential_run.cycles;
  report.run = std::move(run);
  if (text.resources == PipeResources{}) report.closed_form = closed_form_cycles(text.pipe);
  report.buffer_bytes = buffer_bytes(text.pipe);
  report.pipe = std::move(text.pipe);
  return report;
}

}  // namespace ridge
