// Phrases that the answers for language models share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

// "1 sequence", "8 192 tokens", "2 micro-batches"
std::string count_text(std::int64_t count, std::string_view what);
// Returns tokens per second, or another amount: some digits below 1000, else a whole number in groups: "1.25", "1 250".
std::string rate_text(double per_s, int digits = 3);
// "h200", "16 x h200 (2 hosts)"; one host is not named.
std::string chips_text(const std::string& machine, std::int64_t chips, const std::optional<std::int64_t>& hosts = {});
// "b200: the time of a launch is not on record and counts as 0, so its times are too low"; `times` has one at least.
std::string not_on_record_text(const std::string& machine, const std::vector<std::string>& times);
// Returns why an answer is at the bound, after a colon: "b200: tokens/s at the bound, because …"
std::string missing_prediction_text(std::string_view what, const std::string& machine, const std::string& remark);
// ", 1.25 times that of h100"; with almost equal rates ", the same as h100"
std::string times_as_many_text(double times, const std::string& other);

}  // namespace ridge
