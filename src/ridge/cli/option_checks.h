// Errors of the command line, in place of the messages of CLI11, and checks of option values.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/error.h"
#include "ridge/base/result.h"

namespace ridge::cli {

// Checks that a value is one of `words`: "ridge: --on: expected cpu or cuda, found 'gpu'"
CLI::Validator one_of(const std::vector<std::string>& words);
// Refuses an empty value, and an option in place of a value: "--html: expected a file, found '--json'". `what` is a
// noun: "a file".
CLI::Validator name_of(const std::string& what);
// Checks the range of a number: "--tune: expected a whole number from 0 to 1000, found '1001'"
CLI::Validator whole_number_between(std::int64_t low, std::int64_t high);
CLI::Validator number_between(double low, double high);
// Replaces "1GB", "1GiB", "2 TFLOP" or "1.5ms" by a number of `unit`: "B", "FLOP" or "s". Numbers alone stay.
CLI::Validator quantity_in(const std::string& unit);

// Returns the full name of a verb, such as "simulate systolic", or "" for ridge itself.
std::string verb_path(const CLI::App& app);
// Returns an error for an unknown verb or option, with the most similar existing one as hint.
Error unexpected_argument_error(const CLI::App& app);
// Returns an error for an unknown verb, or for an unknown verb of the verb `app`.
Error unknown_verb_error(const CLI::App& app, const std::string& typed);
// Converts an error of CLI11.
Error to_error(const CLI::App& app, const CLI::ParseError& error);

// Errors (usage): an option is given that the mode ("--check", "stream") does not use. `supported` lists the
// options that it uses ("--on -d --json").
Status check_combined_options(const CLI::App& verb, const std::string& mode, std::string_view supported);
// Errors (usage): one of `options` is given without the option `required`.
Status check_required_option(const CLI::App& verb, std::string_view options, const std::string& required);

}  // namespace ridge::cli
