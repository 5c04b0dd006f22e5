#!/usr/bin/env bash
# Installs a build into a folder of its own and builds the example project against it: what a user of the library does.
#   tests/install_test.sh BUILD SOURCE
set -euo pipefail
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
die() { printf 'install_test: %s\n' "$*" >&2; exit 1; }

cmake --install "$build" --prefix "$folder/ridge" >"$folder/log" || { cat "$folder/log"; die 'cmake --install failed'; }
[[ -x $folder/ridge/bin/ridge ]] || die 'bin/ridge is not there'

# The public headers: few, each complete by itself, none with the library's inside behind it.
mapfile -t headers < <(cd "$folder/ridge/include" && find . -type f | sort)
((${#headers[@]} > 0 && ${#headers[@]} <= 14)) || die "expected 1 to 14 headers, found ${#headers[@]}: ${headers[*]}"
for header in "${headers[@]}"; do
  "${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -I"$folder/ridge/include" -MD -MF "$folder/reached" -o "$folder/alone.o" -c -x c++ - \
    <<<"#include \"${header#./}\"" >"$folder/log" 2>&1 || { cat "$folder/log"; die "$header does not compile alone"; }
  inside=$(grep -oE '[^ ]*(nlohmann|/fmt/|CLI|/cuda|/ridge/(api|tile|ops|device|pool|plan|measure|report)/)[^ ]*' "$folder/reached" || true)
  [[ -z $inside ]] || die "$header reaches $inside"
done

completed() {  # what bash would offer for the last word
  bash -c '. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _ridge; echo "${COMPREPLY[*]}"' _ "$folder/ridge/share/bash-completion/completions/ridge" "$@"
}
for case in 'sw=sweep' 'explain --on h2=h200' 'sweep --on h100,h2=h100,h200' 'explain --library c=cublaslt' 'completion f=fish' 'simulate sys=systolic'; do
  # shellcheck disable=SC2086  # a word each
  found=$(completed ridge ${case%=*})
  [[ $found == "${case#*=}" ]] || die "'ridge ${case%=*}' was completed to '$found'"
done
cp -r "$source/examples/cmake_project" "$folder/project"
cmake -S "$folder/project" -B "$folder/project/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$folder/ridge" >"$folder/log" 2>&1 ||
  { cat "$folder/log"; die 'the example was not configured'; }
cmake --build "$folder/project/build" >"$folder/log" 2>&1 || { cat "$folder/log"; die 'the example was not built'; }

found=$("$folder/project/build/explain")
[[ $found == 'compute-bound for B >= 218: '* ]] || die "explain printed: $found"
code=0
"$folder/project/build/product" >"$folder/out" 2>"$folder/err" || code=$?
if [[ $code == 4 ]]; then
  grep -q 'CUDA' "$folder/err" || die "product ended with 4 and said: $(<"$folder/err")"
elif [[ $code != 0 ]] || ! grep -q 'no error' "$folder/out"; then
  die "product ended with $code: $(<"$folder/out") $(<"$folder/err")"
fi

# The C door, as pkg-config and as a C compiler see it.
if command -v pkg-config >/dev/null; then
  flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$folder/ridge" -name ridge.pc)") pkg-config --cflags --libs ridge)
  # shellcheck disable=SC2086  # a word each
  "${CC:-cc}" -std=c11 -Wall -Wextra -Werror "$source/tests/c/c_test.c" -o "$folder/c_test" $flags >"$folder/log" 2>&1 ||
    { cat "$folder/log"; die 'a C program was not built with what pkg-config says'; }
  "$folder/c_test" >"$folder/log" || { cat "$folder/log"; die 'the C program failed'; }
fi
exported=$(nm -D --defined-only "$(find "$folder/ridge" -name 'libridge_c.so')" | awk '{print $3}' | grep -v '^ridge_' || true)
[[ -z $exported ]] || die "libridge_c.so exports $exported"

(cd "$build" && cmake -P "$source/cmake/uninstall.cmake") >"$folder/log" 2>&1 || { cat "$folder/log"; die 'uninstall failed'; }
left=$(find "$folder/ridge" -type f)
[[ -z $left ]] || die "uninstall left $left"
