#!/usr/bin/env python3
"""Runs the tests of one file; ends with 77 and says why where all of them were skipped, and fails where there were none."""
import pathlib
import sys
import unittest

path = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(path.parent))
try:
    suite = unittest.defaultTestLoader.loadTestsFromName(path.stem)
except unittest.SkipTest as reason:
    print(f"skipped: {reason}")
    sys.exit(77)
result = unittest.TextTestRunner(verbosity=1).run(suite)
for test, reason in result.skipped:
    print(f"skipped: {test}: {reason}")
if result.testsRun == 0:
    sys.exit("no test was run")
if result.wasSuccessful() and len(result.skipped) == result.testsRun:
    sys.exit(77)
sys.exit(not result.wasSuccessful())
