#!/usr/bin/env python3
"""tools/check_constants.py finds each inserted device constant, and nothing in similar text."""
import importlib.util
import pathlib
import sys

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools/check_constants.py"
spec = importlib.util.spec_from_file_location("check_constants", TOOL)
check_constants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_constants)

FAULTS = ["const int blocks = 132 * 16;", "choose(call, 0, 114);", "x / 4.2e12", "const double clock = 1.755e9;",
          "words = sms * 32 * 1755;", "cache_bytes = 50 << 20;", "static_assert(bytes <= 227 * 1024);", "flop / 473e12"]
CLEAN = ["// 132 multiprocessors", 'text("132 blocks")', "/* 4.2e12\n132 */", "1320 + 4132", "1e-9", "8 * multiprocessors()",
         'R"(132)"', "0x132", "x1980"]


def main():
    wrong = [text for text in FAULTS if not list(check_constants.find_device_numbers("src/ridge/ops/x.cc", text))]
    wrong += [text for text in CLEAN if list(check_constants.find_device_numbers("src/ridge/ops/x.cc", text))]
    wrong += [] if not list(check_constants.find_device_numbers("src/ridge/tile/sm90/limits.h", "227 * 1024")) else ["an allowed number"]
    for text in wrong:
        print(f"wrong about: {text}")
    print(f"{len(FAULTS)} faults, {len(CLEAN)} clean, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
