#include "ridge/cli/output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "ridge/base/file.h"
#include "ridge/base/string_util.h"
#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/report/parts/tables.h"

namespace ridge::cli {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

bool are_escapes_disabled() { return is_set("NO_COLOR") || is_dumb_terminal(); }

bool has_color() {
  if (are_escapes_disabled()) return false;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::string_view(force) != "0") return true;
  return ::isatty(STDOUT_FILENO) == 1;
}

bool has_progress_bar() { return ::isatty(STDERR_FILENO) == 1 && !are_escapes_disabled(); }

// Returns the maximum length of a line on stdout, or 0 if there is no limit.
std::size_t find_line_width() {
  constexpr std::int64_t min_columns = 20, max_columns = 100'000;
  if (is_set("COLUMNS"))
    if (const auto columns = ridge::parse_whole_number(std::getenv("COLUMNS")); columns && *columns >= 0)
      return *columns == 0 ? 0 : static_cast<std::size_t>(std::clamp(*columns, min_columns, max_columns));
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::max<std::size_t>(size.ws_col, min_columns);
}

// Runs on the main thread, which writes the files, so no write follows the removal.
extern "C" void exit_on_signal(int signal) {
  if (::gettid() != ::getpid()) {
    ::tgkill(::getpid(), ::getpid(), signal);
    return;
  }
  remove_unfinished_file();
  ::_exit(128 + signal);
}

std::string render_in_format(const Report& report, const ReportOutput& output) {
  if (output.json) return render_json(report);
  if (output.csv) return render_csv(report);
  if (output.md) return render_markdown(report);
  TextStyle style = text_style();
  style.show_all = output.show_all;
  return render_text(report, style);
}

}  // namespace

int print_result(std::string_view result) {
  const auto failure = write_all(STDOUT_FILENO, result);
  if (!failure || failure->is_closed_pipe) return 0;
  return print_error(input_error("cannot write to the standard output: " + failure->reason));
}

int exit_code_of(const Result<int>& result) { return result ? *result : print_error(result.error()); }

int print_error(const Error& error) {
  end_progress();
  const std::string text = (error.source.empty() && error.span.line == 0 ? "ridge: " : "") + error.to_string();
  (void)write_all(STDERR_FILENO, text);
  return static_cast<int>(error.kind);
}

TextStyle text_style() { return {.color = has_color(), .line_width = find_line_width()}; }

std::function<void(double, const std::string&)> progress_bar() {
  if (!has_progress_bar()) return {};
  return [](double done, const std::string& doing) {
    const int full = static_cast<int>(done * 30);
    const std::string bar =
        std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(30 - full), '.');
    (void)write_all(STDERR_FILENO, fmt::format("\r\x1b[K[{}] {:.60}", bar, doing));
  };
}

void end_progress() {
  if (has_progress_bar()) (void)write_all(STDERR_FILENO, "\r\x1b[K");
}

void handle_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, exit_on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);  // Ignored by nohup
}

void add_format_options(CLI::App& verb, OutputFormat& format, const std::string& schema) {
  auto* json = verb.add_flag("--json", format.json, fmt::format("Print JSON ({}) instead of text", schema));
  auto* csv = verb.add_flag("--csv", format.csv, "Print CSV: bare numbers, SI units")->excludes(json);
  verb.add_flag("--md", format.md, "Print Markdown")->excludes(json)->excludes(csv);
  std::string top = verb_path(verb);
  top = top.substr(0, top.find(' '));
  verb.add_flag_callback(
      "--schema", [top] { throw SchemaRequest{top}; }, "Print the JSON Schema of what --json prints");
  group_options(verb, {{"Output", "--json --csv --md --schema"}});
}

void add_output_options(CLI::App& verb, ReportOutput& output) {
  add_format_options(verb, output);
  verb.add_option("--svg", output.svg, "Plot the roofline into this file")->type_name("FILE")->check(name_of("a file"));
  verb.add_flag("--roofs", output.show_cache_roofs, "Also plot the bandwidths of the caches in the machine file");
  verb.add_option("--html", output.html, "Write an interactive page into this file: sliders, machines, plot, tables")
      ->type_name("FILE")
      ->check(name_of("a file"));
  group_options(verb, {{"Output", "--svg --roofs --html"}});
}

int print_report(Report report, const ReportOutput& output, const Request& request) {
  end_progress();
  report.show_cache_roofs = output.show_cache_roofs;
  if (output.show_cache_roofs && output.svg.empty() && output.html.empty())
    return print_error(usage_error("expected --roofs together with --svg or --html: it adds lines to the plot"));
  const Status drawn = write_if_requested(output.svg, [&] { return render_svg(report); });
  if (!drawn) return print_error(drawn.error());
  const Status page = write_page(output.html, [&] { return api::make_page({{request, report}}); });
  if (!page) return print_error(page.error());
  const int code = print_result(render_in_format(report, output));
  if (code == 0 && report.measured && report.measured->mismatch) return print_error(*report.measured->mismatch);
  return code;
}

int print_result(const OutputFormat& format, const std::string& text, const std::string& json,
                 const std::string& list) {
  if (!format.csv && !format.md) return print_result(format.json ? json : text);
  const Cells cells = flatten_json(json, list);
  return print_result(cells, number_columns(cells), format);
}

int print_result(const Cells& cells, const std::vector<bool>& right_aligned, const OutputFormat& format) {
  return print_result(format.csv  ? csv_table(cells)
                      : format.md ? markdown_table(cells, right_aligned)
                                  : text_table(cells, {right_aligned}, text_style()));
}

int print_result(const Cells& cells, const std::vector<bool>& right_aligned, const OutputFormat& format,
                 const std::string& json, const std::string& list) {
  if (format.json) return print_result(json);
  return print_result(format.csv ? flatten_json(json, list) : cells, right_aligned, format);
}

NumberStyle number_style(const OutputFormat& format) { return format.csv ? NumberStyle::bare : NumberStyle::readable; }

Status write_page(const std::string& path, const std::function<Result<Page>()>& page) {
  if (path.empty()) return Done{};
  const auto rendered = page();
  return rendered ? write_if_requested(path, [&] { return render_page(*rendered); }) : rendered.error();
}

Status write_if_requested(const std::string& path, const std::function<std::string()>& content) {
  if (path == "-")
    return usage_error("expected a file for the picture or page, found '-': the standard output is for text",
                       "--svg picture.svg");
  return path.empty() ? Done{} : write_file(path, content());
}

void add_positional_arguments(CLI::App& verb, std::vector<std::string>& positionals) {
  verb.add_option("PROGRAM", positionals,
                  "A file, - for the standard input, or the program text; NAME=VALUE sets a size as -d does")
      ->type_name("");
}

void add_request_options(CLI::App& verb, RequestArgs& request_args) {
  add_positional_arguments(verb, request_args.positionals);
  verb.add_option("--on", request_args.on, "Machine: a catalog name, a .toml file, cuda, or cpu (default)")
      ->type_name("MACHINE")
      ->check(name_of("a machine"));
  add_repeated_option(verb, "-d", request_args.dims, "Value of a dimension; may be repeated", "NAME=VALUE");
  verb.add_option("--dtype", request_args.dtype, "Dtype of tensors that declare none (default bf16)")
      ->type_name("DTYPE");
}

void add_no_fuse_option(CLI::App& verb, RequestArgs& request_args) {
  verb.add_flag_callback(
      "--no-fuse", [&request_args] { request_args.fuse = false; }, "Use one kernel for each statement");
}

}  // namespace ridge::cli
