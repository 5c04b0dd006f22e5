#include "ridge/program/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "ridge/base/file.h"
#include "ridge/base/string_util.h"

namespace ridge {
namespace {

// True for bshd,bthd->bsht, an einsum string whose quotes the shell removed.
bool is_einsum(const std::string& argument) {
  const std::size_t arrow = argument.find("->");
  return arrow != std::string::npos && arrow > 0 &&
         argument.find_first_not_of("abcdefghijklmnopqrstuvwxyz,->") == std::string::npos;
}

struct ProgramText {
  std::string text, name, title;
};

bool looks_like_program(const std::string& argument) {
  return argument.find_first_of("[]*=:>(\n ") != std::string::npos;
}

// Returns the title of a program given as an argument: its first line that is not empty, and how many follow.
std::string title_of_text(const std::string& text) {
  std::string first;
  int others = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view trimmed = trim_blanks(line);
    if (trimmed.empty()) continue;
    if (first.empty())
      first = trimmed;
    else
      ++others;
  }
  if (first.empty()) return "program";
  if (others == 0) return first;
  return fmt::format("{} and {} more line{}", first, others, others == 1 ? "" : "s");
}

// Returns "did you mean examples/mlp.ridge?" if the folder has a file of a similar name, else what a program may be.
std::string missing_file_hint(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  const std::filesystem::path folder = path.parent_path();
  for (std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  const std::string nearest = find_nearest(path.filename().string(), names);
  if (!nearest.empty()) return fmt::format("did you mean {}?", (folder / nearest).string());
  return "a program is a file, - or the text itself: 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'";
}

// An ONNX file begins with its format's version as field 1 of a protocol buffer, a byte that no program has.
constexpr char onnx_mark = '\x08';

Error onnx_error(const std::string& source) {
  return input_error(fmt::format("expected a program in {}, found an ONNX model", source),
                     "only ridge explain FILE.onnx reads ONNX files");
}

Result<ProgramText> read_program_text(const std::string& argument) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool from_input = argument == "-";
  if (from_input || fs::exists(argument, ignored)) {
    const std::string path = from_input ? "/dev/stdin" : argument;
    const std::string name = from_input ? "standard input" : argument;
    if (argument.ends_with(".onnx") && fs::is_regular_file(argument, ignored)) return onnx_error(name);
    RIDGE_TRY(text, read_file(path, max_program_bytes));
    if (text.starts_with(onnx_mark)) return onnx_error(name);
    const std::string title = from_input ? "standard input" : fs::path(argument).filename().string();
    return ProgramText{std::move(text), name, title};
  }
  if (!looks_like_program(argument))
    return input_error(fmt::format("cannot read '{}': No such file or directory", argument),
                       missing_file_hint(argument));
  return ProgramText{is_einsum(argument) ? "'" + argument + "'" : argument, "program", title_of_text(argument)};
}

}  // namespace

Result<LoadedProgram> load_program(const std::string& argument, DType dtype, const Bindings& sizes) {
  RIDGE_TRY(from, read_program_text(argument));
  RIDGE_TRY(program, parse(from.text, {.source = from.name, .dtype = dtype, .sizes = sizes}));
  return LoadedProgram{std::move(program), from.title};
}

}  // namespace ridge
