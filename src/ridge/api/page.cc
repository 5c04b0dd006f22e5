// Builds HTML pages: reports, counts as formulas for the sliders, and the machines to select.
#include <algorithm>

#include "ridge/api/resolve_request.h"
#include "ridge/program/routine.h"
#include "ridge/report/sweep.h"

namespace ridge::api {
namespace {

// Returns the names of the statements in each operation. An empty list means one statement for each operation.
std::vector<std::vector<std::string>> operation_statements(const Report& report) {
  return report.measured ? report.measured->result_names : report.statement_names;
}

// Groups the formulas by the report's kernels instead of by statement.
void set_kernels(const Report& report, Formulas& formulas) {
  const std::vector<std::vector<std::string>> names = operation_statements(report);
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

// True if the page's scripts can count the program. They do not know routines, grouped products, lists of lengths and,
// below, conditions on indices other than bands.
bool can_evaluate_in_page(const Program& program) {
  const auto is_known = [](const Statement& statement) {
    const auto* c = std::get_if<Contraction>(&statement.op);
    return routine_of(statement) == nullptr && (c == nullptr || !c->grouped);
  };
  return std::all_of(program.statements.begin(), program.statements.end(), is_known) &&
         std::all_of(program.dims.begin(), program.dims.end(),
                     [](const Dimension& dim) { return dim.lengths.empty(); });
}

Result<PageSubject> make_subject(AnsweredRequest answered) {
  PageSubject out{std::move(answered.report)};
  if (answered.request.program.empty() || out.report.explanation.ops.size() > max_page_statements) return out;
  RIDGE_TRY(resolved, resolve_request(answered.request));
  if (!can_evaluate_in_page(resolved.program)) return out;
  RIDGE_TRY(formulas, make_formulas(resolved.program, answered.request.dims, answered.request.split));
  const auto is_irregular = [](const SizeFormula& size) { return size.mask && size.mask->region; };
  if (std::any_of(formulas.sizes.begin(), formulas.sizes.end(), is_irregular)) return out;
  set_kernels(out.report, formulas);
  out.formulas = std::move(formulas);
  return out;
}

}  // namespace

Result<Page> make_page(std::vector<AnsweredRequest> answered) {
  Page out;
  for (AnsweredRequest& each : answered) {
    RIDGE_TRY(subject, make_subject(std::move(each)));
    out.subjects.push_back(std::move(subject));
  }
  for (const std::string& name : catalog_names())
    if (auto machine = find_machine(name)) out.machines.push_back(*std::move(machine));
  return out;
}

Result<Page> make_page(const SweepRequest& request, const Sweep& sweep) {
  Request request_at_first_sizes{.program = request.program, .link = request.link};
  if (!request.dtypes.empty()) request_at_first_sizes.dtype = request.dtypes.front();
  for (const DimensionValues& range : request.ranges) request_at_first_sizes.dims[range.dim] = range.values.front();
  if (!request.splits.empty()) request_at_first_sizes.split = request.splits.front();
  std::vector<AnsweredRequest> answered;
  for (const MachineChoice& machine : request.on) {
    request_at_first_sizes.on = machine;
    RIDGE_TRY(report, api::explain(request_at_first_sizes));
    answered.push_back({request_at_first_sizes, std::move(report)});
  }
  auto page = make_page(std::move(answered));
  if (!page) return page;
  page->sweep_picture = render_svg(sweep);
  page->sweep_changes = changes_table(sweep);
  return page;
}

}  // namespace ridge::api
