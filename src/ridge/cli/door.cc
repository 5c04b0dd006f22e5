#include "ridge/cli/door.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "ridge/base/file.h"
#include "ridge/cli/refusal.h"
#include "ridge/report/parts/tables.h"

namespace ridge::cli {
namespace {

bool set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool dumb() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

// The main thread writes the files: there, no other step of it runs between this unlink and the end.
extern "C" void on_signal(int signal) {
  if (::gettid() != ::getpid()) {
    ::tgkill(::getpid(), ::getpid(), signal);
    return;
  }
  remove_unfinished_file();
  ::_exit(128 + signal);
}

std::string rendered(const Report& report, const Output& output) {
  if (output.json) return render_json(report);
  if (output.csv) return render_csv(report);
  if (output.md) return render_markdown(report);
  TextStyle how = style();
  how.all = output.all;
  return render_text(report, how);
}

}  // namespace

int print(std::string_view result) {
  const auto failure = write_all(STDOUT_FILENO, result);
  if (!failure || failure->closed) return 0;
  return fail(input_error("cannot write to the standard output: " + failure->reason));
}

int fail(const Error& error) {
  end_progress();
  const std::string text = (error.source.empty() && error.span.line == 0 ? "ridge: " : "") + error.text();
  (void)write_all(STDERR_FILENO, text);
  return static_cast<int>(error.kind);
}

TextStyle style() {
  if (set("NO_COLOR") || dumb()) return {false};
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::string_view(force) != "0") return {true};
  return {::isatty(STDOUT_FILENO) == 1};
}

std::function<void(double, const std::string&)> progress_bar() {
  if (::isatty(STDERR_FILENO) != 1 || dumb()) return {};
  return [](double done, const std::string& doing) {
    const int full = static_cast<int>(done * 30);
    const std::string bar =
        std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(30 - full), '.');
    (void)write_all(STDERR_FILENO, fmt::format("\r\x1b[K[{}] {:.60}", bar, doing));
  };
}

void end_progress() {
  if (::isatty(STDERR_FILENO) == 1 && !dumb()) (void)write_all(STDERR_FILENO, "\r\x1b[K");
}

void set_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);  // nohup, or a shell's background job
}

void add_form(CLI::App& verb, OutputForm& form, const std::string& schema) {
  auto* json = verb.add_flag("--json", form.json, fmt::format("Print JSON ({}) instead of text", schema));
  auto* csv = verb.add_flag("--csv", form.csv, "Print CSV: bare numbers, SI units")->excludes(json);
  verb.add_flag("--md", form.md, "Print Markdown")->excludes(json)->excludes(csv);
  std::string top = path_of(verb);
  top = top.substr(0, top.find(' '));
  verb.add_flag_callback(
      "--schema", [top] { throw SchemaAsked{top}; }, "Print the JSON Schema of what --json prints");
}

void add_output(CLI::App& verb, Output& output) {
  add_form(verb, output);
  verb.add_option("--svg", output.svg, "Draw the roofline into this file")->type_name("FILE");
  verb.add_flag("--roofs", output.roofs, "Draw the rates of the caches that the machine's file has, too");
  verb.add_option("--html", output.html,
                  "Write one page to play with into this file: sliders, machines, picture, tables")
      ->type_name("FILE");
}

int deliver(Report report, const Output& output, const Request& request) {
  end_progress();
  report.roofs = output.roofs;
  if (output.roofs && output.svg.empty() && output.html.empty())
    return fail(usage_error("expected --roofs together with --svg or --html: it is about the picture"));
  const Status drawn = write_if_asked(output.svg, [&] { return render_svg(report); });
  if (!drawn) return fail(drawn.error());
  const Status page = write_page(output.html, [&] { return api::page_of({{request, report}}); });
  if (!page) return fail(page.error());
  const int code = print(rendered(report, output));
  if (code == 0 && report.measured && report.measured->mismatch) return fail(*report.measured->mismatch);
  return code;
}

int print(const OutputForm& form, const std::string& text, const std::string& json, const std::string& list) {
  if (!form.csv && !form.md) return print(form.json ? json : text);
  const Cells cells = rows_of(json, list);
  return print(cells, number_columns(cells), form);
}

int print(const Cells& cells, const std::vector<bool>& right, const OutputForm& form) {
  return print(form.csv  ? csv_table(cells)
               : form.md ? markdown_table(cells, right)
                         : text_table(cells, right, style().color));
}

Status write_page(const std::string& path, const std::function<Result<Page>()>& page) {
  if (path.empty()) return Done{};
  const auto made = page();
  return made ? write_if_asked(path, [&] { return render_page(*made); }) : made.error();
}

Status write_if_asked(const std::string& path, const std::function<std::string()>& content) {
  if (path == "-")
    return usage_error("expected a file for the picture or page, found '-': text goes to the standard output",
                       "--svg picture.svg");
  return path.empty() ? Done{} : write_file(path, content());
}

void add_words(CLI::App& verb, std::vector<std::string>& words) {
  verb.add_option("PROGRAM", words,
                  "A file, - for the standard input, or the text itself; NAME=VALUE beside it as after -d")
      ->type_name("");
}

void add_request(CLI::App& verb, Spelled& spelled) {
  add_words(verb, spelled.words);
  verb.add_option("--on", spelled.on, "Machine: a catalog name, a .toml file, cuda, or cpu (default)")
      ->type_name("MACHINE");
  verb.add_option("-d", spelled.dims, "Give a dimension its value; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb.add_option("--dtype", spelled.dtype, "Dtype of tensors that name none (default bf16)")->type_name("DTYPE");
}

void add_no_fuse(CLI::App& verb, Spelled& spelled) {
  verb.add_flag_callback(
      "--no-fuse", [&spelled] { spelled.fuse = false; }, "One kernel a statement");
}

}  // namespace ridge::cli
