#include "ridge/program/load.h"

#include <fmt/format.h>

#include <filesystem>

#include "ridge/base/file.h"

namespace ridge {
namespace {

struct Source {
  std::string text, name, title;
};

bool looks_like_a_program(const std::string& argument) {
  return argument.find_first_of("[]*=:>(\n ") != std::string::npos;
}

Result<Source> source(const std::string& argument) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const bool from_input = argument == "-";
  if (from_input || fs::exists(argument, unknown)) {
    const std::string path = from_input ? "/dev/stdin" : argument;
    auto text = read_file(path, max_program_bytes);
    if (!text) return text.error();
    const std::string title = from_input ? "standard input" : fs::path(argument).filename().string();
    return Source{*std::move(text), from_input ? "standard input" : argument, title};
  }
  if (!looks_like_a_program(argument))
    return input_error(fmt::format("cannot read '{}': No such file or directory", argument),
                       "a program is a file, - or the text itself: 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'");
  const bool one_line = argument.find('\n') == std::string::npos;
  return Source{argument, "program", one_line ? argument : "program"};
}

}  // namespace

Result<LoadedProgram> load_program(const std::string& argument, DType dtype) {
  auto from = source(argument);
  if (!from) return from.error();
  auto program = parse(from->text, {.source = from->name, .dtype = dtype});
  if (!program) return program.error();
  return LoadedProgram{*std::move(program), from->title};
}

}  // namespace ridge
