// What a page needs beside its reports: the counts as formulas, and the machines to choose from.
#include <algorithm>

#include "ridge/api/task.h"
#include "ridge/program/routine.h"
#include "ridge/report/sweep.h"

namespace ridge::api {
namespace {

// The statements of each operation, by their results; empty: one each.
std::vector<std::vector<std::string>> names_of(const Report& report) {
  return report.measured ? report.measured->names : report.statements;
}

// Kernels as the report has them, in place of one a statement.
void take_kernels(const Report& report, Formulas& formulas) {
  const std::vector<std::vector<std::string>> names = names_of(report);
  if (names.size() != report.explanation.ops.size()) return;
  std::vector<KernelFormula> kernels;
  for (std::size_t i = 0; i < names.size(); ++i) {
    kernels.push_back({{}, report.explanation.ops[i].work.bytes()});
    for (const std::string& name : names[i])
      for (std::size_t s = 0; s < formulas.statements.size(); ++s)
        if (formulas.statements[s].name == name) kernels.back().statements.push_back(static_cast<int>(s));
  }
  formulas.kernels = std::move(kernels);
}

// Words that stand alone, shared heads and lists of lengths count by numbers that the page's scripts do not know.
bool plays(const Program& program) {
  const auto is_known = [](const Statement& statement) {
    const auto* c = std::get_if<Contraction>(&statement.op);
    return routine_of(statement) == nullptr && (c == nullptr || !c->grouped);
  };
  return std::all_of(program.statements.begin(), program.statements.end(), is_known) &&
         std::all_of(program.dims.begin(), program.dims.end(),
                     [](const Dimension& dim) { return dim.lengths.empty(); });
}

Result<PageSubject> subject_of(Answered answered) {
  PageSubject out{std::move(answered.report)};
  if (answered.request.program.empty() || out.report.explanation.ops.size() > most_page_statements) return out;
  const auto task = understood(answered.request);
  if (!task) return task.error();
  if (!plays(task->program)) return out;
  auto formulas = formulas_of(task->program, answered.request.dims, answered.request.split);
  if (!formulas) return formulas.error();
  take_kernels(out.report, *formulas);
  out.formulas = *std::move(formulas);
  return out;
}

}  // namespace

Result<Page> page_of(std::vector<Answered> answered) {
  Page out;
  for (Answered& each : answered) {
    auto subject = subject_of(std::move(each));
    if (!subject) return subject.error();
    out.subjects.push_back(*std::move(subject));
  }
  for (const std::string& name : catalog_names())
    if (auto machine = find_machine(name)) out.machines.push_back(*std::move(machine));
  return out;
}

Result<Page> page_of(const SweepRequest& request, const Sweep& sweep) {
  Request one{.program = request.program, .link = request.link};
  if (!request.dtypes.empty()) one.dtype = request.dtypes.front();
  for (const Range& range : request.ranges) one.dims[range.dim] = range.values.front();
  if (!request.splits.empty()) one.split = request.splits.front();
  std::vector<Answered> answered;
  for (const MachineChoice& machine : request.on) {
    one.on = machine;
    auto report = api::explain(one);
    if (!report) return report.error();
    answered.push_back({one, *std::move(report)});
  }
  auto page = page_of(std::move(answered));
  if (!page) return page;
  page->curves = render_svg(sweep);
  page->changes = changes_table(sweep);
  return page;
}

}  // namespace ridge::api
