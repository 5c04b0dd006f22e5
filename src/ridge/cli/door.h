// What every verb shares: results go to stdout and nothing else does; messages and errors go to stderr; a closed pipe
// ends quietly, a full disk is told. Nothing is printed before all of it is there.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "ridge/api/facade.h"
#include "ridge/cli/spelling.h"
#include "ridge/report/table.h"

namespace ridge::cli {

// Prints a result; the exit code: 0, or 3 with a message where it could not be written.
int print(std::string_view result);
// Prints the error on stderr; its kind is the exit code.
int fail(const Error& error);

TextStyle style();  // NO_COLOR, CLICOLOR_FORCE, TERM=dumb, and whether stdout is a terminal

// A progress bar on stderr where that is a terminal which moves its cursor (not TERM=dumb); elsewhere nothing.
std::function<void(double, const std::string&)> progress_bar();
void end_progress();

// SIGINT, SIGTERM and SIGHUP remove a half-written file and end with 128 + the signal's number (Ctrl-C: 130), unless
// the parent had them ignored; a closed pipe becomes an error of write().
void set_signals();

// In which form a result is printed: text, or the one that was asked for.
struct OutputForm {
  bool json = false, csv = false, md = false;
};
// `schema`: what --json prints. Adds --schema as well, which prints the verb's schema in place of everything else.
void add_form(CLI::App& verb, OutputForm& form, const std::string& schema = "ridge.report/2");
struct SchemaAsked {  // thrown while words are parsed, as the parser's own call for help
  std::string verb;
};
// CSV and Markdown hold what stands in the array `list` of the JSON (report/table.h: rows_of).
int print(const OutputForm& form, const std::string& text, const std::string& json, const std::string& list);

// Prints the report in the form asked for and writes the picture and the page.
struct Output : OutputForm {
  std::string svg, html;
  bool all = false;    // every formula and threshold
  bool roofs = false;  // the picture shows caches' rates
};
void add_output(CLI::App& verb, Output& output);
int deliver(Report report, const Output& output, const Request& request);
// Writes the page where one was asked for. Errors: of the page, of the file.
Status write_page(const std::string& path, const std::function<Result<Page>()>& page);
// A table in the form asked for; JSON is the caller's.
int print(const Cells& cells, const std::vector<bool>& right, const OutputForm& form);

// PROGRAM and sizes, wherever they stand between the options.
void add_words(CLI::App& verb, std::vector<std::string>& words);
void add_request(CLI::App& verb, Spelled& spelled);

// The file, where one was asked for.
Status write_if_asked(const std::string& path, const std::function<std::string()>& content);

void add_no_fuse(CLI::App& verb, Spelled& spelled);

// Each verb adds itself; `code` receives the exit code when its turn comes.
void add_advise(CLI::App& app, int& code);
void add_explain(CLI::App& app, int& code);
void add_run(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_calibrate(CLI::App& app, int& code);
void add_kernels(CLI::App& app, int& code);
void add_machines(CLI::App& app, int& code);
void add_probe(CLI::App& app, int& code);
void add_shard(CLI::App& app, int& code);
void add_simulate(CLI::App& app, int& code);
void add_sweep(CLI::App& app, int& code);
void add_manual(CLI::App& app, int& code);  // last: it lists the others

}  // namespace ridge::cli
