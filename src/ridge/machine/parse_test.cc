#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ridge/base/file.h"
#include "ridge/base/function.h"
#include "ridge/machine/embedded.h"
#include "ridge/machine/machine.h"

namespace ridge {
namespace {

// A minimal machine file; each test makes one line invalid.
std::string minimal_file(const std::string& matrix, const std::string& more = "") {
  return "name = \"gpu\"\n[matrix]\n" + matrix +
         "\n[memory.dram]\nbandwidth = { value = 1e10, unit = \"B/s\", source = \"s\", read = 2026-11-20 }\n" + more;
}

const std::string good = R"(bf16 = { value = 1e12, unit = "FLOP/s", source = "s", read = 2026-11-20 })";

std::string parse_error_text(const std::string& toml) {
  const Result<Machine> machine = parse_machine(toml, "gpu.toml");
  return machine ? "accepted" : machine.error().to_string();
}

TEST(ParseMachine, LimitsTheFileToOneMebibyte) {
  std::string text = minimal_file(good) + "#";
  text.resize(std::size_t{1} << 20, 'x');
  EXPECT_EQ(parse_error_text(text), "accepted");
  EXPECT_EQ(parse_machine(text + "x", "gpu.toml").error().message,
            "expected a machine file of at most 1048576 bytes, found 1048577");
}

TEST(ParseMachine, ReadsAMinimalFile) {
  const Result<Machine> machine = parse_machine(minimal_file(good), "gpu.toml");
  ASSERT_TRUE(machine.ok()) << machine.error().to_string();
  EXPECT_EQ(machine->name, "gpu");
  EXPECT_EQ(machine->title, "gpu");
  EXPECT_EQ(machine->memory_bandwidth()->value, 1e10);
  const Peak* peak = *machine->contraction_peak(DType::bf16);
  EXPECT_EQ(peak->rate.value, 1e12);
  EXPECT_EQ(peak->rate.read_on, "2026-11-20");
  EXPECT_EQ(peak->rate.origin, Origin::datasheet);
  EXPECT_EQ(machine->pointwise_peak(), nullptr);
}

TEST(ParseMachine, RoundsIntegersThatNoDoubleHolds) {
  const auto rate = [](const std::string& value) {
    const Result<Machine> machine = parse_machine(
        minimal_file("bf16 = { value = " + value + R"(, unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
        "gpu.toml");
    EXPECT_TRUE(machine.ok()) << machine.error().to_string();
    return (*machine->contraction_peak(DType::bf16))->rate.value;
  };
  EXPECT_EQ(rate("9007199254740993"), 0x1p53);  // 2^53 + 1, rounded
  EXPECT_EQ(rate("9223372036854775807"), 0x1p63);
}

TEST(ParseMachine, KeepsTheMemoryOrderOfTheFile) {
  const Result<Machine> machine = parse_machine(
      minimal_file(good,
                   "[memory.cache]\ncapacity = { value = 64, unit = \"B\", source = \"s\", read = 2026-11-20 }\n"
                   "[memory.attic]\n"),
      "gpu.toml");
  ASSERT_TRUE(machine.ok()) << machine.error().to_string();
  ASSERT_EQ(machine->memory.size(), 3u);
  EXPECT_EQ(machine->memory[0].name, "dram");
  EXPECT_EQ(machine->memory[1].name, "cache");
  EXPECT_EQ(machine->memory[2].name, "attic");
}

TEST(ParseMachine, ReadsOneCoreRates) {
  const Result<Machine> machine = parse_machine(
      "name = \"gpu\"\n[vector.one_core]\nf32 = { value = 1, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
      "[vector]\nf32 = { value = 2, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
      "[memory.dram]\nbandwidth = { value = 8, unit = \"B/s\", source = \"s\", read = 2026-11-20 }\n"
      "[memory.dram.one_core]\nbandwidth = { value = 5, unit = \"B/s\", source = \"s\", read = 2026-11-20 }\n",
      "gpu.toml");
  ASSERT_TRUE(machine.ok()) << machine.error().to_string();
  EXPECT_EQ(machine->pointwise_peak()->one_core->value, 1);
  EXPECT_EQ(machine->memory[0].one_core_bandwidth->value, 5);
}

struct InvalidFile {
  const char* name;
  std::string toml, text;
};
void PrintTo(const InvalidFile& invalid, std::ostream* out) { *out << invalid.name; }

// Returns ", cost_pow, cost_exp" and so on: the keys of functions, which the hint lists after the others.
std::string list_cost_keys() {
  std::string keys;
  for (const FunctionInfo& f : function_table)
    if (f.has_cost) keys += ", cost_" + std::string(f.name);
  return keys;
}

class InvalidMachineFile : public testing::TestWithParam<InvalidFile> {};

TEST_P(InvalidMachineFile, ErrorHasPositionAndHint) { EXPECT_EQ(parse_error_text(GetParam().toml), GetParam().text); }

const InvalidFile invalid_files[] = {
    {"AnEmptyFile", "", "gpu.toml: the machine lacks a name\n  hint: add name = \"my_machine\" at the top\n"},
    {"NoPeak", "name = \"gpu\"\n",
     "gpu.toml: the machine lacks a peak\n"
     "  hint: add one under [matrix] or [vector]: docs/machine_files.md shows how\n"},
    {"NoMemory", "name = \"gpu\"\n[matrix]\n" + good + "\n",
     "gpu.toml: the machine lacks a memory\n"
     "  hint: add bandwidth under [memory.dram]: docs/machine_files.md shows how\n"},
    {"NoBandwidth", "name = \"gpu\"\n[matrix]\n" + good + "\n[memory.dram]\n",
     "gpu.toml:4:9: memory.dram lacks 'bandwidth'; it is the first memory, which holds the tensors\n"
     "  [memory.dram]\n"
     "          ^^^^\n"
     "  hint: add its bandwidth, or list the memory that holds the tensors first\n"},
    {"AFileThatIsCutShort", minimal_file(R"(bf16 = { value = 1e12, unit = "FLO)").substr(0, 57),
     "gpu.toml:3:35: expected the rest of a value, found the end of the file\n"
     "  bf16 = { value = 1e12, unit = \"FLO\n"
     "                                    ^\n"
     "  hint: the file is cut short: complete it, or write it again\n"},
    {"AValueWithoutQuotes", "name = gpu\n",
     "gpu.toml:1:8: expected TOML: a [table], or key = value, on one line\n"
     "  name = gpu\n"
     "         ^\n"
     "  hint: strings need quotes, numbers and dates do not; a table in braces must be on one line\n"},
    {"ANumberOutsideItsRange", "name = \"gpu\"\n[matrix]\nbf16 = { value = 1e400, unit = \"FLOP/s\" }\n",
     "gpu.toml:3:23: expected a number or a date within its range, found one outside it\n"
     "  bf16 = { value = 1e400, unit = \"FLOP/s\" }\n"
     "                        ^\n"
     "  hint: numbers have at most 1.8e308, whole numbers without an exponent 9.2e18; dates are as 2026-02-28\n"},
    {"ABrokenInlineTable", "name = \"gpu\"\n[matrix]\nbf16 = { value = 1e12,\n unit = \"FLOP/s\" }\n",
     "gpu.toml:3:23: expected TOML: a [table], or key = value, on one line\n"
     "  bf16 = { value = 1e12,\n"
     "                        ^\n"
     "  hint: strings need quotes, numbers and dates do not; a table in braces must be on one line\n"},
    {"AKeyDefinedTwice", "name = \"gpu\"\nname = \"boat\"\n",
     "gpu.toml:2:8: expected each key once, found one defined twice\n"
     "  name = \"boat\"\n"
     "         ^\n"
     "  hint: remove one of the two\n"},
    {"BytesThatAreNoText", "name = \"\xff\xfe\"\n",
     "gpu.toml:1:8: expected UTF-8 text, found other bytes\n"
     "  name = \"\xFF\xFE"
     "\"\n"
     "         ^\n"
     "  hint: save the file as UTF-8\n"},
    {"AnUnknownKeyAtTheTop", "name = \"gpu\"\n[vectr]\n",
     "gpu.toml:2:2: unknown key 'vectr'; expected one of name, title, kernels, matrix, vector, memory, link, numbers, "
     "plan\n"
     "  [vectr]\n"
     "   ^^^^^\n"
     "  hint: did you mean 'vector'?\n"},
    {"AnUnknownDType", minimal_file("bf61 = 1"),
     "gpu.toml:3:1: unknown key 'bf61' in [matrix]; expected one of f64, f32, tf32, bf16, f16, e4m3, e5m2, int32, "
     "int16, int8, int4, e2m1\n"
     "  bf61 = 1\n"
     "  ^^^^\n"
     "  hint: did you mean 'bf16'?\n"},
    {"AnotherSpellingOfADType", minimal_file("fp16 = 1"),
     "gpu.toml:3:1: unknown key 'fp16' in [matrix]; expected one of f64, f32, tf32, bf16, f16, e4m3, e5m2, int32, "
     "int16, int8, int4, e2m1\n"
     "  fp16 = 1\n"
     "  ^^^^\n"
     "  hint: did you mean 'f16'?\n"},
    {"AnUnknownFieldOfANumber",
     minimal_file(R"(bf16 = { vaule = 1e12, unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:10: unknown key 'vaule' of matrix.bf16; expected one of value, unit, source, read, origin, note\n"
     "  bf16 = { vaule = 1e12, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "           ^^^^^\n"
     "  hint: did you mean 'value'?\n"},
    {"ABareNumber", minimal_file("bf16 = 1e12"),
     "gpu.toml:3:8: expected a table for matrix.bf16, found a number\n"
     "  bf16 = 1e12\n"
     "         ^^^^\n"
     "  hint: write bf16 = { value = 1e12, unit = \"FLOP/s\", source = \"a document\", read = 2026-11-20 }\n"},
    {"AMissingValue", minimal_file(R"(bf16 = { unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:1: matrix.bf16 lacks 'value'; expected value, unit, source and read\n"
     "  bf16 = { unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "  ^^^^\n"},
    {"AMissingUnit", minimal_file(R"(bf16 = { value = 1e12, source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:1: matrix.bf16 lacks 'unit'; expected value, unit, source and read\n"
     "  bf16 = { value = 1e12, source = \"s\", read = 2026-11-20 }\n"
     "  ^^^^\n"},
    {"AMissingSource", minimal_file(R"(bf16 = { value = 1e12, unit = "FLOP/s", read = 2026-11-20 })"),
     "gpu.toml:3:1: matrix.bf16 lacks 'source'; expected value, unit, source and read\n"
     "  bf16 = { value = 1e12, unit = \"FLOP/s\", read = 2026-11-20 }\n"
     "  ^^^^\n"
     "  hint: give the document or measurement that the number is from\n"},
    {"AMissingDay", minimal_file(R"(bf16 = { value = 1e12, unit = "FLOP/s", source = "s" })"),
     "gpu.toml:3:1: matrix.bf16 lacks 'read'; expected value, unit, source and read\n"
     "  bf16 = { value = 1e12, unit = \"FLOP/s\", source = \"s\" }\n"
     "  ^^^^\n"
     "  hint: give the date when it was read: read = 2026-11-20\n"},
    {"AnEmptySource", minimal_file(R"(bf16 = { value = 1e12, unit = "FLOP/s", source = "", read = 2026-11-20 })"),
     "gpu.toml:3:50: expected a non-empty string for the source of matrix.bf16, found \"\"\n"
     "  bf16 = { value = 1e12, unit = \"FLOP/s\", source = \"\", read = 2026-11-20 }\n"
     "                                                   ^^\n"},
    {"ADayInQuotes", minimal_file(R"(bf16 = { value = 1e12, unit = "FLOP/s", source = "s", read = "2026-11-20" })"),
     "gpu.toml:3:62: expected a day for read of matrix.bf16, found a string\n"
     "  bf16 = { value = 1e12, unit = \"FLOP/s\", source = \"s\", read = \"2026-11-20\" }\n"
     "                                                               ^^^^^^^^^^^^\n"
     "  hint: write the day without quotes: read = 2026-11-20\n"},
    {"AValueInQuotes", minimal_file(R"(bf16 = { value = "1e12", unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:18: expected a number for the value of matrix.bf16, found a string\n"
     "  bf16 = { value = \"1e12\", unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "                   ^^^^^^\n"
     "  hint: write the number without quotes\n"},
    {"ANegativeValue", minimal_file(R"(bf16 = { value = -1, unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:18: expected a value above zero for matrix.bf16, found -1\n"
     "  bf16 = { value = -1, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "                   ^^\n"
     "  hint: omit unknown numbers\n"},
    {"AZero", minimal_file(R"(bf16 = { value = 0, unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:18: expected a value above zero for matrix.bf16, found 0\n"
     "  bf16 = { value = 0, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "                   ^\n"
     "  hint: omit unknown numbers\n"},
    {"NotANumber", minimal_file(R"(bf16 = { value = nan, unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:18: expected a value above zero for matrix.bf16, found nan\n"
     "  bf16 = { value = nan, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "                   ^^^\n"
     "  hint: omit unknown numbers\n"},
    {"Infinity", minimal_file(R"(bf16 = { value = inf, unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:18: expected a value from 1e-30 to 1e30 for matrix.bf16, found inf\n"
     "  bf16 = { value = inf, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "                   ^^^\n"},
    {"ADecimalPrefix", minimal_file(R"(bf16 = { value = 197, unit = "TFLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:30: expected unit \"FLOP/s\" for matrix.bf16, found \"TFLOP/s\"\n"
     "  bf16 = { value = 197, unit = \"TFLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "                               ^^^^^^^^^\n"
     "  hint: write value = 197000000000000, unit = \"FLOP/s\"\n"},
    {"ABinaryPrefix",
     minimal_file(good, "capacity = { value = 16, unit = \"GiB\", source = \"s\", read = 2026-11-20 }\n"),
     "gpu.toml:6:33: expected unit \"B\" for memory.dram.capacity, found \"GiB\"\n"
     "  capacity = { value = 16, unit = \"GiB\", source = \"s\", read = 2026-11-20 }\n"
     "                                  ^^^^^\n"
     "  hint: write value = 17179869184, unit = \"B\"\n"},
    {"AUnitOfAnotherKind", minimal_file(R"(int8 = { value = 197, unit = "FLOP/s", source = "s", read = 2026-11-20 })"),
     "gpu.toml:3:30: expected unit \"OP/s\" for matrix.int8, found \"FLOP/s\"\n"
     "  int8 = { value = 197, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "                               ^^^^^^^^\n"},
    {"AnUnknownOrigin",
     minimal_file(R"(bf16 = { value = 1, unit = "FLOP/s", source = "s", read = 2026-11-20, origin = "mesured" })"),
     "gpu.toml:3:80: unknown origin \"mesured\" of matrix.bf16; expected one of datasheet, derived, measured, guessed\n"
     "  bf16 = { value = 1, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20, origin = \"mesured\" }\n"
     "                                                                                 ^^^^^^^^^\n"
     "  hint: did you mean 'measured'?\n"},
    {"OneCoreOfNothing",
     minimal_file(good,
                  "[matrix.one_core]\nf16 = { value = 1, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"),
     "gpu.toml:7:1: matrix.one_core.f16 has no matrix.f16 of all cores\n"
     "  f16 = { value = 1, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "  ^^^\n"
     "  hint: add f16 under [matrix]\n"},
    {"HalfACore",
     minimal_file(good, "[numbers]\ncores = { value = 2.5, unit = \"1\", source = \"s\", read = 2026-11-20 }\n"),
     "gpu.toml:7:19: expected a whole number for numbers.cores, found 2.5\n"
     "  cores = { value = 2.5, unit = \"1\", source = \"s\", read = 2026-11-20 }\n"
     "                    ^^^\n"},
    {"ALinkWithoutARate",
     minimal_file(good, "[link.ici]\ncount = { value = 4, unit = \"1\", source = \"s\", read = 2026-11-20 }\n"),
     "gpu.toml:6:7: link.ici lacks 'bandwidth'\n"
     "  [link.ici]\n"
     "        ^^^\n"
     "  hint: add the rate of one link in one direction\n"},
    {"HalfALink",
     minimal_file(good, "[link.ici]\ncount = { value = 1.5, unit = \"1\", source = \"s\", read = 2026-11-20 }\n"),
     "gpu.toml:7:19: expected a whole number for link.ici.count, found 1.5\n"
     "  count = { value = 1.5, unit = \"1\", source = \"s\", read = 2026-11-20 }\n"
     "                    ^^^\n"},
    {"AnUnknownKeyOfALink", minimal_file(good, "[link.ici]\nhops = 1\n"),
     "gpu.toml:7:1: unknown key 'hops' in [link.ici]; expected one of bandwidth, count, latency, sustained, topology\n"
     "  hops = 1\n"
     "  ^^^^\n"},
    {"SustainedOfNothing",
     minimal_file(good,
                  "[matrix.sustained]\nf16 = { value = 1, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"),
     "gpu.toml:7:1: matrix.sustained.f16 has no matrix.f16 of all cores\n"
     "  f16 = { value = 1, unit = \"FLOP/s\", source = \"s\", read = 2026-11-20 }\n"
     "  ^^^\n"
     "  hint: add f16 under [matrix]\n"},
    {"AnUnknownNumber", minimal_file(good, "[numbers]\ncores_hz = 1\n"),
     "gpu.toml:7:1: unknown key 'cores_hz' in [numbers]; expected one of cores, clock_hz, matrix_clock_hz, line_bytes, "
     "sector_bytes, launch_s, base_clock_hz, scratch_bytes, register_bytes, lanes, host_chips, pod_chips, wrap_chips, "
     "wrap_slice_chips, leaf_chips, spine_part, switch_reduces, collective_call_s, collective_step_s, "
     "collective_narrow_rate, "
     "collective_wide_rate, collective_wide_s, collective_copy_rate, collective_pair_narrow_rate, "
     "collective_pair_wide_rate, collective_pair_wide_s, collective_switch_rate, collective_issue_s, library_launch_s, "
     "library_compute, "
     "library_memory, library_step_s, library_tile_s, library_split_s, library_overlap, library_slowdown, "
     "library_l2_bytes_per_s, library_reach, library_low, library_middle, library_high, arrays, array_rows, "
     "array_columns, tile_m, tile_n, tile_k, power_w, "
     "vector_multiply_add" +
         list_cost_keys() +
         "\n"
         "  cores_hz = 1\n"
         "  ^^^^^^^^\n"},
    {"AnArrayOfMemories", "name = \"gpu\"\n[[memory]]\n",
     "gpu.toml:2:1: expected a table for memory, found an array\n"
     "  [[memory]]\n"
     "  ^^^^^^^^^^\n"
     "  hint: open it with [memory] on a line of its own\n"},
    {"ANameThatIsNoWord", "name = \"my machine\"\n",
     "gpu.toml:1:8: expected a name of letters, digits, _ and -, found 'my machine'\n"
     "  name = \"my machine\"\n"
     "         ^^^^^^^^^^^^\n"},
};

INSTANTIATE_TEST_SUITE_P(ParseMachine, InvalidMachineFile, testing::ValuesIn(invalid_files),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ParseMachine, RejectsAFileThatIsTooLarge) {
  EXPECT_EQ(parse_error_text(std::string((1 << 20) + 1, ' ')),
            "gpu.toml: expected a machine file of at most 1048576 bytes, found 1048577\n");
}

TEST(ParseMachine, ReadsBackWhatPrintMachineWrites) {
  for (const EmbeddedMachine& entry : embedded_machines()) {
    const Result<Machine> machine = parse_machine(entry.toml, std::string(entry.name));
    ASSERT_TRUE(machine.ok()) << machine.error().to_string();
    const std::string printed = print_machine(*machine);
    const Result<Machine> again = parse_machine(printed, "printed");
    ASSERT_TRUE(again.ok()) << again.error().to_string() << printed;
    EXPECT_EQ(*again, *machine);
    EXPECT_EQ(print_machine(*again), printed);
  }
}

TEST(ParseMachine, ReadsBackQuotesAndControlCharacters) {
  Machine machine = *parse_machine(minimal_file(good), "gpu.toml");
  machine.title = "a \"quoted\" \\ title\n\x01\x7f with µ";
  machine.peaks[0].rate.value = 1.0 / 3.0;
  const Result<Machine> again = parse_machine(print_machine(machine), "printed");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, machine);
}

// Returns the code block with this index, from 0.
std::string code_block(const std::string& text, int index) {
  std::size_t at = 0;
  for (int i = 0; i < 2 * index + 1; ++i) at = text.find("```", at) + 3;
  at = text.find('\n', at) + 1;
  return text.substr(at, text.find("```", at) - at);
}

TEST(ParseMachine, ParsesTheExampleInTheManual) {
  const std::string manual = *read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/machine_files.md");
  const std::string example = code_block(manual, 0);
  const Result<Machine> machine = parse_machine(example, "my_machine.toml");
  ASSERT_TRUE(machine.ok()) << machine.error().to_string();
  EXPECT_EQ(machine->name, "my_machine");
  std::string corrupt = example;
  const std::string line = "bf16 = { value = 197, unit = \"TFLOP/s\", source = \"data sheet\", read = 2026-11-20 }";
  const std::size_t at = corrupt.find("bf16 =");
  corrupt.replace(at, corrupt.find('\n', at) - at, line);
  EXPECT_EQ(parse_machine(corrupt, "my_machine.toml").error().to_string(), code_block(manual, 1));
}

// Catalog files truncated at every 29th byte and with random bytes: the result is a machine or an error, never a crash.
TEST(ParseMachine, SurvivesTruncatedAndCorruptFiles) {
  std::mt19937 random(1);
  const std::string_view bytes =
      "\"={}[]\n.,-1ex#'\\\0\xff\xc3 _"
      "u";
  for (const EmbeddedMachine& entry : embedded_machines()) {
    for (std::size_t cut = 0; cut < entry.toml.size(); cut += 29)
      if (const auto machine = parse_machine(entry.toml.substr(0, cut), "cut"); !machine) {
        EXPECT_FALSE(machine.error().to_string().empty());
      }
    for (int round = 0; round < 60; ++round) {
      std::string corrupt(entry.toml);
      for (unsigned i = 0; i <= random() % 4; ++i) corrupt[random() % corrupt.size()] = bytes[random() % bytes.size()];
      if (const auto machine = parse_machine(corrupt, "spoilt"); !machine) {
        EXPECT_FALSE(machine.error().to_string().empty());
      }
    }
  }
  EXPECT_FALSE(parse_machine(std::string(100000, '['), "deep").ok());
  EXPECT_FALSE(parse_machine("name = " + std::string(100000, '['), "deep").ok());
}

}  // namespace
}  // namespace ridge
