// Collects the lines of a program. Names of tensors end in `$`, which is replaced by what distinguishes a layer's
// tensors from those of others: with the suffix "_3", add("q$", "B, E", "h$ * wq$") writes q_3[B, E] = h_3 * wq_3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/model/program.h"

namespace ridge::model {

class ProgramWriter {
 public:
  void set_suffix(std::string suffix) { suffix_ = std::move(suffix); }
  // Adds a dimension; again with the same size does nothing. Another size is a bug of the caller.
  void add_dimension(std::string_view name, std::int64_t size);
  void begin_module(std::string_view name);
  void add_parameter(std::string_view name, DType dtype, std::string_view dims) {
    add_input("param", name, dtype, dims);
  }
  // Adds an input, unless an input of the same name and type exists.
  void add_input(std::string_view kind, std::string_view name, DType dtype, std::string_view dims);
  void add(std::string_view name, std::string_view dims, std::string_view expression);
  // Adds a statement whose result is stored in this format.
  void add_stored(std::string_view name, DType dtype, std::string_view dims, std::string_view expression);
  // Adds a tensor of indices, which gathers and scatters take. An expression must read a tensor; this one adds 0 times
  // an input of integers along its last dimension.
  void add_indices(std::string_view name, std::string_view dims, std::string_view expression);
  // Adds a statement whose result takes the memory of an input of the same format.
  void add_replacing(std::string_view name, DType dtype, std::string_view dims, std::string_view input,
                     std::string_view expression);
  // True if the part has a statement with this result so far.
  bool has_result(std::string_view name) const;
  void add_comment(std::string_view comment);
  std::string text() const;
  const std::vector<ProgramModule>& modules() const { return modules_; }

 private:
  std::string with_suffix(std::string_view text) const;
  void add_statement(std::string_view name, std::string_view type, std::string_view expression);
  void end_inputs();

  std::string suffix_;
  std::vector<std::pair<std::string, std::int64_t>> dimensions_;
  std::vector<std::string> declared_;
  std::string input_line_, inputs_, statements_, lines_;
  std::vector<ProgramModule> modules_;
};

}  // namespace ridge::model
