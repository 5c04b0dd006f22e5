#!/usr/bin/env bash
# Every preset configures, and the presets are those of docs/library.md. `cuda` needs nvcc and is skipped without it.
#   tests/presets_test.sh SOURCE
set -euo pipefail
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
die() { printf 'presets_test: %s\n' "$*" >&2; exit 1; }

cd "$source"
presets() { cmake --list-presets="$1" | sed -n 's/^  "\([a-z]*\)".*/\1/p'; }
configured=0
for preset in $(presets configure); do
  grep -qF "| \`$preset\` |" docs/library.md || die "docs/library.md does not list the preset '$preset'"
  presets build | grep -qx "$preset" || die "'$preset' has no build preset"
  [[ $preset != cuda ]] || command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || continue
  cmake --preset "$preset" -B "$folder/$preset" >"$folder/log" 2>&1 || { cat "$folder/log"; die "'$preset' was not configured"; }
  configured=$((configured + 1))
done
((configured >= 5)) || die "expected at least 5 presets, found $configured"
for preset in $(presets test); do
  grep -q '^RIDGE_TESTS:BOOL=ON' "$folder/$preset/CMakeCache.txt" 2>/dev/null || [[ $preset == cuda ]] || die "'$preset' has no tests"
done
grep -q '^RIDGE_TESTS:BOOL=OFF' "$folder/release/CMakeCache.txt" || die "'release' has tests"
grep -q '^RIDGE_CUDA:STRING=OFF' "$folder/release/CMakeCache.txt" || die "'release' has CUDA kernels"
echo "presets_test: $configured presets configured"
