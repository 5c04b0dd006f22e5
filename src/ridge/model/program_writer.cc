#include "ridge/model/program_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/check.h"
#include "ridge/base/contains.h"

namespace ridge::model {
namespace {

constexpr std::size_t max_line = 110;  // Characters of a line with several declarations

}  // namespace

std::string ProgramWriter::with_suffix(std::string_view text) const {
  std::string out;
  for (const char c : text)
    if (c == '$')
      out += suffix_;
    else
      out += c;
  return out;
}

void ProgramWriter::add_dimension(std::string_view name, std::int64_t size) {
  const auto found = std::find_if(dimensions_.begin(), dimensions_.end(),
                                  [&](const auto& dimension) { return dimension.first == name; });
  if (found == dimensions_.end())
    dimensions_.emplace_back(name, size);
  else
    RIDGE_CHECK(found->second == size, name);
}

void ProgramWriter::begin_module(std::string_view name) { modules_.push_back({.name = std::string(name)}); }

void ProgramWriter::end_inputs() {
  if (!input_line_.empty()) inputs_ += input_line_ + "\n";
  input_line_.clear();
}

void ProgramWriter::add_input(std::string_view kind, std::string_view name, DType dtype, std::string_view dims) {
  const std::string input = fmt::format("{} {}: {}[{}]", kind, with_suffix(name), dtype_name(dtype), dims);
  if (contains(declared_, input)) return;
  declared_.push_back(input);
  if (input_line_.size() + input.size() > max_line) end_inputs();
  input_line_ += (input_line_.empty() ? "" : "   ") + input;
}

void ProgramWriter::add_statement(std::string_view name, std::string_view type, std::string_view expression) {
  const std::string result = with_suffix(name);
  statements_ += fmt::format("{}{} = {}\n", result, type, with_suffix(expression));
  if (!modules_.empty()) modules_.back().results.push_back(result);
}

void ProgramWriter::add(std::string_view name, std::string_view dims, std::string_view expression) {
  add_statement(name, fmt::format("[{}]", dims), expression);
}

void ProgramWriter::add_stored(std::string_view name, DType dtype, std::string_view dims, std::string_view expression) {
  add_statement(name, fmt::format(": {}[{}]", dtype_name(dtype), dims), expression);
}

void ProgramWriter::add_indices(std::string_view name, std::string_view dims, std::string_view expression) {
  const std::size_t comma = dims.rfind(", ");
  const std::string last(comma == std::string_view::npos ? dims : dims.substr(comma + 2));
  add_input("data", "any" + last, DType::int32, last);
  add_stored(name, DType::int32, dims, fmt::format("{} + 0 * any{}", expression, last));
}

void ProgramWriter::add_replacing(std::string_view name, DType dtype, std::string_view dims, std::string_view input,
                                  std::string_view expression) {
  add_statement(name, fmt::format(": {}[{}] replaces {}", dtype_name(dtype), dims, with_suffix(input)), expression);
}

bool ProgramWriter::has_result(std::string_view name) const {
  const std::string result = with_suffix(name);
  return std::any_of(modules_.begin(), modules_.end(),
                     [&](const ProgramModule& module) { return contains(module.results, result); });
}

// A comment separates what comes before from what follows: inputs are declared above the statements of their layer.
void ProgramWriter::add_comment(std::string_view comment) {
  end_inputs();
  lines_ += inputs_ + statements_ + fmt::format("# {}\n", comment);
  inputs_.clear();
  statements_.clear();
}

std::string ProgramWriter::text() const {
  std::string dims, line = "dims ";
  for (const auto& [name, size] : dimensions_) {
    const std::string next = fmt::format("{} = {}", name, size);
    if (line.size() + next.size() > max_line) {
      dims += line.substr(0, line.size() - 2) + "\n";
      line = "dims ";
    }
    line += next + ", ";
  }
  dims += line.substr(0, line.size() - 2) + "\n";
  return dims + lines_ + inputs_ + (input_line_.empty() ? "" : input_line_ + "\n") + statements_;
}

}  // namespace ridge::model
