// What a command line is refused with, in sentences of our own whatever the parser underneath would say; and the checks
// of single values that speak so themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/error.h"

namespace ridge::cli {

// "ridge: --on: expected cpu or cuda, found 'gpu'"
CLI::Validator one_of(const std::vector<std::string>& words);
// "--tune: expected a whole number from 0 to 1000, found '1001'"
CLI::Validator whole_number(std::int64_t low, std::int64_t high);
CLI::Validator number(double low, double high);

// "simulate systolic"; empty for ridge itself.
std::string path_of(const CLI::App& app);
// A verb or an option that there is not, with the nearest that there is.
Error unexpected(const CLI::App& app);
Error as_error(const CLI::App& app, const CLI::ParseError& error);

// Options of a verb that were given beside `form` ("--check", "stream"), which takes only `beside` ("--on -d --json")
// with it; without an error everything given is used. Kind usage.
std::optional<Error> refuse_beside(const CLI::App& verb, const std::string& form, std::string_view beside);
// The options that were given and mean nothing without `needed`.
std::optional<Error> refuse_without(const CLI::App& verb, std::string_view options, const std::string& needed);

}  // namespace ridge::cli
