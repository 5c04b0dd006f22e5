#!/usr/bin/env python3
"""Runs one step of the tutorial and compares its output with the ```text blocks of README.md in this folder."""
import pathlib
import re
import subprocess
import sys

done = subprocess.run([sys.argv[1]], capture_output=True, text=True)
shown = re.findall(r"```text\n(.*?)```", pathlib.Path(__file__).with_name("README.md").read_text(), re.S)
if done.returncode or done.stdout not in shown:
    print(f"exit code {done.returncode}, expected 0 and one of the blocks of README.md, found\n{done.stdout}{done.stderr}")
    sys.exit(1)
