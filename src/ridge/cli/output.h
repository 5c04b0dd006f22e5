// Output of the command line. Only results go to stdout; messages and errors go to stderr. A closed pipe is ignored, a
// full disk is reported. Results are printed when they are complete.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "ridge/api/facade.h"
#include "ridge/cli/request_args.h"
#include "ridge/report/table.h"

namespace ridge::cli {

// Prints a result and returns the exit code: 0, or 3 with a message if writing failed.
int print_result(std::string_view result);
// Prints the error on stderr and returns its kind as the exit code.
int print_error(const Error& error);
// Returns a verb's exit code; prints the error if it failed.
int exit_code_of(const Result<int>& result);

// Returns the style of text on stdout. NO_COLOR, CLICOLOR_FORCE, TERM=dumb and the terminal decide about color; COLUMNS
// or the terminal about the width. A pipe has no limit unless COLUMNS is set; COLUMNS=0 means no limit.
TextStyle text_style();

// Returns a progress bar if stderr is a terminal, else an empty function. The bar needs escape sequences, so there is
// none with NO_COLOR or TERM=dumb.
std::function<void(double, const std::string&)> progress_bar();
void end_progress();

// Installs handlers: SIGINT, SIGTERM and SIGHUP remove a half-written file and exit with 128 + the signal's
// number (Ctrl-C: 130), unless the parent ignored them. A closed pipe becomes an error of write().
void handle_signals();

// Format of a result: text, unless one of these is set.
struct OutputFormat {
  bool json = false, csv = false, md = false;
};
// Adds --json, --csv, --md and --schema, which prints the verb's JSON schema only. `schema` names the output of --json.
void add_format_options(CLI::App& verb, OutputFormat& format, const std::string& schema = "ridge.report/2");
struct SchemaRequest {  // Thrown while options are parsed, like CLI::CallForHelp
  std::string verb;
};
// Prints a result. CSV and Markdown contain the array `list` of the JSON (report/table.h: rows_of).
int print_result(const OutputFormat& format, const std::string& text, const std::string& json, const std::string& list);

// Output options of a report.
struct ReportOutput : OutputFormat {
  std::string svg, html;
  bool show_all = false;          // Print every formula and threshold
  bool show_cache_roofs = false;  // Draw the bandwidths of caches
};
void add_output_options(CLI::App& verb, ReportOutput& output);
// Prints the report in the requested format and writes the picture and the page.
int print_report(Report report, const ReportOutput& output, const Request& request);
// Writes the page if `path` is not empty. Errors: of the page or the file.
Status write_page(const std::string& path, const std::function<Result<Page>()>& page);
// Prints a table as text, CSV or Markdown; the caller prints JSON.
int print_result(const Cells& cells, const std::vector<bool>& right_aligned, const OutputFormat& format);
// Prints a table as text or Markdown; --csv has the elements of the JSON's `list`, whose numbers are bare.
int print_result(const Cells& cells, const std::vector<bool>& right_aligned, const OutputFormat& format,
                 const std::string& json, const std::string& list);
// Returns the style of numbers in this format.
NumberStyle number_style(const OutputFormat& format);

// Adds the positional arguments: PROGRAM and sizes, which may appear between the options.
void add_positional_arguments(CLI::App& verb, std::vector<std::string>& positionals);
void add_request_options(CLI::App& verb, RequestArgs& request_args);

// Writes the file if `path` is not empty.
Status write_if_requested(const std::string& path, const std::function<std::string()>& content);

void add_no_fuse_option(CLI::App& verb, RequestArgs& request_args);

// Each function adds a verb; its callback runs the verb and sets `code` to the exit code.
void add_advise(CLI::App& app, int& code);
void add_explain(CLI::App& app, int& code);
void add_run(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_calibrate(CLI::App& app, int& code);
void add_kernels(CLI::App& app, int& code);
void add_machines(CLI::App& app, int& code);
void add_model(CLI::App& app, int& code);
void add_probe(CLI::App& app, int& code);
void add_shard(CLI::App& app, int& code);
void add_simulate(CLI::App& app, int& code);
void add_sweep(CLI::App& app, int& code);
void add_trace(CLI::App& app, int& code);
void add_help(CLI::App& app, int& code);
void add_manual(CLI::App& app, int& code);  // Must be last, because it lists the other verbs

}  // namespace ridge::cli
