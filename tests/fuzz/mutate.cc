// Runs one fuzz target on random changes of its seeds, without libFuzzer and without coverage: mutate_NAME COUNT
// FOLDER... The changes depend on the count alone, so that a failure can be repeated.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "ridge/base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Random = std::mt19937_64;

std::size_t pick(Random& random, std::size_t count) { return count == 0 ? 0 : random() % count; }

// Bytes and words on which parsers of numbers and of nested formats depend.
const std::vector<std::string> interesting{std::string(1, '\0'),
                                           "\x7f",
                                           "\x80",
                                           "\xff",
                                           "\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                                           "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                                           "[",
                                           "]",
                                           "{",
                                           "}",
                                           "\"",
                                           ",",
                                           "-1",
                                           "1e308",
                                           "9223372036854775807",
                                           "18446744073709551616",
                                           "0",
                                           "null",
                                           "true"};

void mutate(Random& random, const std::vector<std::string>& seeds, std::string& text) {
  const std::size_t at = pick(random, text.size() + 1), length = pick(random, 8) + 1;
  switch (random() % 6) {
    case 0:
      if (!text.empty()) text[pick(random, text.size())] ^= static_cast<char>(1 << pick(random, 8));
      break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, interesting[pick(random, interesting.size())]); break;
    case 3: text.insert(at, text.substr(pick(random, text.size() + 1), length * length)); break;
    case 4:
      if (!text.empty()) text[pick(random, text.size())] = static_cast<char>(random());
      break;
    default: {
      const std::string& other = seeds[pick(random, seeds.size())];
      const std::size_t from = pick(random, other.size() + 1);
      text = text.substr(0, at) + other.substr(from);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> seeds;
  for (int i = 3; i < argc; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
      if (const auto content = ridge::read_file(entry.path().string()); entry.is_regular_file() && content)
        seeds.push_back(*content);
  std::sort(seeds.begin(), seeds.end());
  if (argc < 4 || seeds.empty()) {
    std::fprintf(stderr, "usage: mutate FIRST COUNT FOLDER...\n");
    return 1;
  }
  const long long first = std::atoll(argv[1]), count = std::atoll(argv[2]);
  constexpr std::size_t max_size = 1 << 14;
  for (long long i = first; i < first + count; ++i) {
    Random random(static_cast<std::uint64_t>(i));
    std::string text = seeds[pick(random, seeds.size())];
    for (std::size_t changes = 1 + pick(random, 6); changes > 0; --changes) mutate(random, seeds, text);
    text.resize(std::min(text.size(), max_size));
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%lld inputs\n", count);
  return 0;
}
