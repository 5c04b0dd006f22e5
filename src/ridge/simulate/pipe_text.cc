#include "ridge/simulate/pipe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "ridge/base/file.h"
#include "ridge/base/text.h"

namespace ridge {
namespace {

constexpr std::size_t max_text_bytes = 1 << 20;
constexpr int deepest = 16;

struct Word {
  std::string text;
  int line = 1, column = 1;
};

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  int line = 1, column = 1;
  bool comment = false, joined = false;
  for (const char c : text) {
    if (c == '\n') comment = false;
    if (c == '#') comment = true;
    const bool brace = c == '{' || c == '}', space = c == ' ' || c == '\t' || c == '\n' || c == '\r' || comment;
    if (!space) {
      if (!joined || brace) words.push_back({"", line, column});
      words.back().text += c;
    }
    joined = !space && !brace;
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80)
      ++column;
  }
  words.push_back({"", line, column});  // the end
  return words;
}

constexpr std::array<Phase, 5> phases{Phase::load, Phase::fill, Phase::compute, Phase::drain, Phase::store};

class Reader {
 public:
  Reader(std::string_view text, const std::string& source) : text_(text), source_(source), words_(words_of(text)) {}

  Result<PipeText> read() {
    PipeText out;
    if (text_.size() > max_text_bytes)
      return input_error(fmt::format("expected a pipe of at most {} bytes, found {}", max_text_bytes, text_.size()));
    if (now().text == "chip")
      if (const Status s = read_chip(out.resources); !s) return s.error();
    if (const Status s = read_loop(out.pipe, 1); !s) return s.error();
    if (!at_end()) return expected("the end of the text");
    if (const Status s = check_metapipe(out.pipe); !s) return s.error();
    return out;
  }

 private:
  const Word& now() const { return words_[at_]; }
  bool at_end() const { return at_ + 1 == words_.size(); }
  Word take() { return at_end() ? words_[at_] : words_[at_++]; }

  Error error_at(const Word& word, std::string message, std::string hint = "") const {
    Error error = input_error(std::move(message), std::move(hint));
    error.source = source_;
    error.span = {word.line, word.column, static_cast<int>(std::max<std::size_t>(1, columns(word.text)))};
    std::size_t begin = 0;
    for (int line = 1; line < word.line; ++line) begin = text_.find('\n', begin) + 1;
    error.line_text = printable(text_.substr(begin, text_.find('\n', begin) - begin));
    return error;
  }
  Error expected(const std::string& what, std::string hint = "") const {
    return error_at(
        now(),
        fmt::format("expected {}, found {}", what, at_end() ? "the end" : fmt::format("'{}'", printable(now().text))),
        std::move(hint));
  }

  Status take_name(std::string& out, const std::string& what) {
    if (at_end() || now().text == "{" || now().text == "}") return expected(what);
    out = take().text;
    return Done{};
  }

  static bool whole(std::string_view text, std::int64_t& out) {
    const auto [stopped, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
    return failed == std::errc() && stopped == text.data() + text.size() && out >= 0;
  }
  Status take_number(std::int64_t& out, const std::string& what) {
    if (!whole(now().text, out)) return expected(fmt::format("a whole number of {}", what));
    take();
    return Done{};
  }

  // "word number" pairs, in any order, as far as they go.
  struct Field {
    std::string_view word;
    std::int64_t* value;
  };
  Status take_fields(std::initializer_list<Field> fields) {
    for (;;) {
      const auto field =
          std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.word == now().text; });
      if (field == fields.end()) return Done{};
      take();
      if (const Status s = take_number(*field->value, std::string(field->word)); !s) return s;
    }
  }

  Status read_chip(PipeResources& chip) {
    take();
    std::int64_t memory = 0, network = 0;
    const Status s =
        take_fields({{"pcus", &chip.pcus}, {"pmus", &chip.pmus}, {"memory", &memory}, {"network", &network}});
    chip.memory_bytes_per_cycle = static_cast<double>(memory);
    chip.network_bytes_per_cycle = static_cast<double>(network);
    return s;
  }

  Status read_loop(Metapipe& pipe, int level) {
    const std::optional<Schedule> schedule = schedule_from(now().text);
    if (!schedule)
      return expected("a loop: sequential, pipelined, streaming or fork-join",
                      "pipelined rows 10 { load a 100  compute b 300  store c 50 }");
    if (level > deepest) return error_at(now(), fmt::format("expected loops nested at most {} deep", deepest));
    pipe.schedule = *schedule;
    take();
    if (const Status s = take_name(pipe.name, "the loop's name"); !s) return s;
    if (const Status s = take_number(pipe.iterations, "iterations"); !s) return s;
    if (const Status s = take_fields({{"par", &pipe.parallel}, {"overhead", &pipe.overhead}}); !s) return s;
    if (now().text != "{") return expected("par, overhead or {");
    take();
    while (now().text != "}")
      if (const Status s = read_item(pipe, level); !s) return s;
    take();
    return Done{};
  }

  Status read_item(Metapipe& pipe, int level) {
    if (now().text == "buffer" || now().text == "again") return read_edge(pipe);
    PipeStage stage;
    if (schedule_from(now().text)) {
      Metapipe inner;
      if (const Status s = read_loop(inner, level + 1); !s) return s;
      stage.name = inner.name;
      stage.body.push_back(std::move(inner));
    } else if (const Status s = read_leaf(stage); !s) {
      return s;
    }
    for (const PipeStage& other : pipe.stages)
      if (other.name == stage.name)
        return error_at(words_[at_ - 1], fmt::format("loop '{}' has two stages named '{}'", pipe.name, stage.name));
    pipe.stages.push_back(std::move(stage));
    return Done{};
  }

  Status read_leaf(PipeStage& stage) {
    const auto phase = std::find_if(phases.begin(), phases.end(), [&](Phase p) { return name(p) == now().text; });
    if (phase == phases.end())
      return expected("a stage (load, fill, compute, drain, store), a loop, buffer, again or }", "compute mm 300");
    stage.phase = *phase;
    take();
    if (const Status s = take_name(stage.name, "the stage's name"); !s) return s;
    if (const Status s = read_cycles(stage); !s) return s;
    return take_fields({{"trips", &stage.trips},
                        {"interval", &stage.interval},
                        {"par", &stage.parallel},
                        {"accept", &stage.accept},
                        {"pcus", &stage.pcus},
                        {"pmus", &stage.pmus},
                        {"memory", &stage.memory_bytes},
                        {"network", &stage.network_bytes}});
  }

  // "300", or "300,310,290": one after the other, and again.
  Status read_cycles(PipeStage& stage) {
    std::string_view text = now().text;
    std::vector<std::int64_t> cycles;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      std::int64_t number = 0;
      if (!whole(text.substr(begin, end - begin), number)) return expected("a whole number of cycles, or some: 90,110");
      cycles.push_back(number);
      begin = end + 1;
    }
    stage.depth = cycles.front();
    if (cycles.size() > 1) stage.latencies = std::move(cycles);
    take();
    return Done{};
  }

  Status take_stage(const Metapipe& pipe, std::int64_t& index) {
    for (std::size_t s = 0; s < pipe.stages.size(); ++s)
      if (pipe.stages[s].name == now().text) {
        index = static_cast<std::int64_t>(s);
        take();
        return Done{};
      }
    std::vector<std::string> names;
    for (const PipeStage& stage : pipe.stages) names.push_back(stage.name);
    const std::string near = nearest(now().text, names);
    return expected(fmt::format("a stage of loop '{}' above this line", pipe.name),
                    near.empty() ? "" : fmt::format("did you mean {}?", near));
  }

  Status read_edge(Metapipe& pipe) {
    const Word word = take();
    std::int64_t from = 0, to = 0;
    if (const Status s = take_stage(pipe, from); !s) return s;
    if (now().text != "->") return expected("->", "buffer a -> b, again b -> a");
    take();
    if (const Status s = take_stage(pipe, to); !s) return s;
    if (word.text == "again") {
      Recurrence back{from, to, 1};
      if (to > from)
        return error_at(word, "expected 'again' to go back to the same or an earlier stage", "buffer goes on");
      if (const Status s = take_fields({{"every", &back.distance}}); !s) return s;
      pipe.recurrences.push_back(back);
      return Done{};
    }
    if (to <= from) return error_at(word, "expected a buffer from a stage to a later one", "again goes back");
    PipeBuffer buffer{from, to, 0, 0};
    if (const Status s = take_fields({{"tiles", &buffer.tiles}, {"bytes", &buffer.bytes}}); !s) return s;
    pipe.buffers.push_back(buffer);
    return Done{};
  }

  std::string_view text_;
  const std::string& source_;
  std::vector<Word> words_;
  std::size_t at_ = 0;
};

// The loop that holds the leaf of this name, and where; null: none does.
Metapipe* holder_of(Metapipe& pipe, std::string_view leaf, std::int64_t& index) {
  for (std::size_t s = 0; s < pipe.stages.size(); ++s) {
    PipeStage& stage = pipe.stages[s];
    if (stage.body.empty() && stage.name == leaf) {
      index = static_cast<std::int64_t>(s);
      return &pipe;
    }
    if (!stage.body.empty())
      if (Metapipe* inner = holder_of(stage.body[0], leaf, index)) return inner;
  }
  return nullptr;
}

Status split_named(Metapipe& pipe, const std::string& text) {
  const std::size_t equals = text.find('=');
  std::int64_t pieces = 0, index = 0;
  const char* end = text.data() + text.size();
  const bool number = equals != std::string::npos &&
                      std::from_chars(text.data() + equals + 1, end, pieces).ptr == end && equals + 1 < text.size();
  if (!number)
    return usage_error(fmt::format("expected STAGE=PIECES after --split, found '{}'", text), "--split compute=3");
  Metapipe* loop = holder_of(pipe, text.substr(0, equals), index);
  if (loop == nullptr) return input_error(fmt::format("no stage is called '{}'", text.substr(0, equals)));
  auto split = split_stage(*loop, index, pieces);
  if (!split) return split.error();
  *loop = *std::move(split);
  return Done{};
}

}  // namespace

Result<PipeText> parse_pipe(std::string_view text, const std::string& source) { return Reader(text, source).read(); }

Result<PipeReport> run_pipe(const PipeRequest& request) {
  const bool is_text = request.pipe.find('{') != std::string::npos, from_input = request.pipe == "-";
  const std::string path = from_input ? "/dev/stdin" : request.pipe;
  auto read = is_text ? Result<std::string>(request.pipe) : read_file(path, max_text_bytes);
  if (!read && read.error().hint.empty() && !from_input) {
    Error error = read.error();
    error.hint = "a pipe is a file, - or the text itself: 'pipelined rows 10 { load a 100  compute b 300 }'";
    return error;
  }
  if (!read) return read.error();
  std::string where = from_input ? "standard input" : request.pipe;
  if (is_text) where = "pipe";
  auto text = parse_pipe(*read, where);
  if (!text) return text.error();
  for (const std::string& one : request.split)
    if (const Status s = split_named(text->pipe, one); !s) return s.error();
  auto run = simulate_metapipe(text->pipe, text->resources);
  if (!run) return run.error();
  const auto in_turn = simulate_metapipe(with_schedule(text->pipe, Schedule::sequential), text->resources);
  if (!in_turn) return in_turn.error();
  PipeReport report;
  report.sequential_cycles = in_turn->cycles;
  report.run = *std::move(run);
  if (text->resources == PipeResources{}) report.closed_form = closed_form(text->pipe);
  report.buffer_bytes = buffer_bytes(text->pipe);
  report.pipe = std::move(text->pipe);
  return report;
}

}  // namespace ridge
