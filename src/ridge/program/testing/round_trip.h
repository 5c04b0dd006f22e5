// Properties of every input, for the fuzzer and the tests: `parse`() does not crash; printing and parsing an accepted
// program gives an equal program and the same text.
#pragma once

#include <algorithm>
#include <string>

#include "ridge/program/program.h"
#include "ridge/program/routine.h"

namespace ridge::testing {

inline bool is_same(const Tensor& a, const Tensor& b) {
  for (std::size_t i = 0; i < std::min(a.axes.size(), b.axes.size()); ++i)
    if (a.axes[i].mesh != b.axes[i].mesh) return false;
  return a.name == b.name && a.partial == b.partial && a.dtype == b.dtype && a.declared == b.declared &&
         a.axes == b.axes && a.role == b.role;
}

inline bool is_same(const Node& a, const Node& b) {
  return a.kind == b.kind && a.tensor == b.tensor && a.number == b.number && a.function == b.function &&
         a.arguments == b.arguments && a.repeat == b.repeat && a.over == b.over;
}

inline bool is_same(const Statement& a, const Statement& b) {
  if (a.op.index() != b.op.index() || a.result() != b.result()) return false;
  if (const auto* x = std::get_if<Contraction>(&a.op)) {
    const auto& y = std::get<Contraction>(b.op);
    return x->left == y.left && x->right == y.right && x->batch == y.batch && x->left_free == y.left_free &&
           x->right_free == y.right_free && x->contracted == y.contracted &&
           x->literal_contracted == y.literal_contracted && x->partial == y.partial && x->grouped == y.grouped;
  }
  const Routine *const r = routine_of(a), *const t = routine_of(b);
  if ((r == nullptr) != (t == nullptr) || (r && !(*r == *t))) return false;
  const auto &x = std::get<Expression>(a.op).nodes, &y = std::get<Expression>(b.op).nodes;
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!is_same(x[i], y[i])) return false;
  return true;
}

inline bool is_same(const Program& a, const Program& b) {
  if (a.dims.size() != b.dims.size() || a.tensors.size() != b.tensors.size() ||
      a.statements.size() != b.statements.size())
    return false;
  for (std::size_t i = 0; i < a.dims.size(); ++i)
    if (a.dims[i].name != b.dims[i].name || a.dims[i].value != b.dims[i].value ||
        a.dims[i].lengths != b.dims[i].lengths)
      return false;
  if (a.mesh.size() != b.mesh.size()) return false;
  for (std::size_t i = 0; i < a.mesh.size(); ++i)
    if (a.mesh[i].name != b.mesh[i].name || a.mesh[i].size != b.mesh[i].size) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i)
    if (!is_same(a.tensors[i], b.tensors[i])) return false;
  if (a.stacks.size() != b.stacks.size()) return false;
  for (std::size_t i = 0; i < a.stacks.size(); ++i)
    if (a.stacks[i].name != b.stacks[i].name || a.stacks[i].dtype != b.stacks[i].dtype ||
        a.stacks[i].rows != b.stacks[i].rows || a.stacks[i].other_axes != b.stacks[i].other_axes ||
        a.stacks[i].parts != b.stacks[i].parts)
      return false;
  for (std::size_t i = 0; i < a.statements.size(); ++i)
    if (!is_same(a.statements[i], b.statements[i])) return false;
  return true;
}

// Returns "", or a description of the violated property.
inline std::string round_trip_error(std::string_view text) {
  const Result<Program> program = parse(text);
  if (!program) {
    const Error& e = program.error();
    const bool placed = e.span.line >= 1 && e.span.column >= 1 && e.span.length >= 1;
    if (e.message.empty() || (!placed && text.size() <= 1 << 20)) return "an error without message or position";
    return e.to_string().empty() ? "an error without text" : "";
  }
  const std::string once = print_program(*program);
  const Result<Program> again = parse(once);
  if (!again) return "the printed program is refused:\n" + once + again.error().to_string();
  const std::string twice = print_program(*again);
  if (twice != once) return "the program prints differently the second time:\n" + once + twice;
  if (!is_same(*program, *again)) return "the printed program denotes another one:\n" + once;
  (void)program->bind_sizes({});
  return "";
}

}  // namespace ridge::testing
