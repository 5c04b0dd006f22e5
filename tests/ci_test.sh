#!/usr/bin/env bash
# An unknown step of .ci/run is an error that names the steps, and no step runs.
#   tests/ci_test.sh .ci/run
set -euo pipefail
run=$1
die() { printf 'ci_test: %s\n' "$*" >&2; exit 1; }

# rejects WORD…: the last word is the unknown step.
rejects() {
  local code=0 found expected
  expected=".ci/run: expected the name of a step, found '${*: -1}'; the steps are "
  found=$("$run" "$@" 2>&1) || code=$?
  [[ $code == 2 ]] || die "'$*' ended with $code, expected 2"
  [[ $found == "$expected"style\ * && $found != *$'\n'* ]] || die "'$*' printed: $found"
}
rejects styl
rejects style 'style test'
rejects ''
