#!/usr/bin/env bash
# The launcher with every tool it calls replaced by a stub that writes down how it was called: what it installs, what it asks, what it
# hands on. Usage: launcher_test.sh path/to/ridge
set -euo pipefail
launcher=$(readlink -f "$1")
python=$(command -v python3) env=$(command -v env)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ran=0

# A folder that looks like a checkout, and a PATH that holds the stubs and nothing of the system but what is named here.
fresh() {  # fresh UID INSTALLED… : a new checkout for a user to whom dpkg reports these packages
  local user=$1 tool
  shift
  rm -rf "${work:?}/tree" "${work:?}/bin" "${work:?}/log"
  mkdir -p "$work/tree/src" "$work/bin"
  : >"$work/tree/src/a.cc"
  cp "$launcher" "$work/tree/ridge"
  : >"$work/log"
  for tool in bash cat find grep sed mkdir mv rm readlink tr flock env cp chmod touch nproc; do ln -s "$(command -v "$tool")" "$work/bin/$tool"; done
  printf '%s\n' "$@" >"$work/installed"
  stub id "echo $user"
  stub dpkg-query "for package; do :; done; grep -qx -- \"\$package\" $work/installed && echo installed"
  stub apt-get "cat >/dev/null; while [[ \$1 != install ]] && [[ \$# -gt 1 ]]; do shift; done; [[ \$1 == install ]] && printf '%s\n' \"\$@\" >>$work/installed; true"
  stub cmake "mkdir -p $work/tree/build; { echo 'RIDGE_TESTS:BOOL='\$(grep -o 'RIDGE_TESTS=O[NF]*' <<<\"\$*\" | sed s/.*=//); echo 'RIDGE_ISAS:STRING='\$(grep -o 'RIDGE_ISAS=[A-Z]*' <<<\"\$*\" | sed s/.*=//); } >$work/tree/build/CMakeCache.txt; : >$work/tree/build/build.ninja; printf 'program\ncli\n' >$work/tree/build/test_rooms"
  stub ninja "name=program; to=$work/tree/build/ridge
[[ \${!#} != ridge_analysis ]] || { name=analysis; to=$work/tree/build/analysis/ridge; mkdir -p $work/tree/build/analysis; }
printf '#!%s\necho %s: \"\$@\"; [[ \${1:-} != read ]] || cat\n' $work/bin/bash \$name >\$to; chmod +x \$to; echo 'a warning'; echo '[1/2] step'"
  stub ctest "echo ctest"
}
stub() {
  printf '#!%s\necho "%s $*" >>%s\n%s\n' "$work/bin/bash" "$1" "$work/log" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
# on_terminal VARIABLE ARGUMENT…: the same with this variable on a terminal, whose whole output is kept
on_terminal() {
  "$python" -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$env" -u NO_COLOR TERM=xterm "$1" PATH="$work/bin" "$work/tree/ridge" "${@:2}" </dev/null >"$work/out" 2>"$work/err"
}
ridge() { PATH=$work/bin "$work/tree/ridge" "$@" >"$work/out" 2>"$work/err"; }
expect() {  # expect WHAT TEST…
  ran=$((ran + 1))
  if ! "${@:2}"; then
    echo "launcher: $1"
    echo "--- calls"; cat "$work/log"
    echo "--- stdout"; cat "$work/out"
    echo "--- stderr"; cat "$work/err"
    exit 1
  fi
}
called() { grep -q -- "$1" "$work/log"; }
not_called() { ! called "$1"; }
says() { grep -qF -- "$1" "$work/err"; }
prints() { [[ $(<"$work/out") == "$1" ]]; }

build="g++ cmake ninja-build libcli11-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev"

# shellcheck disable=SC2086  # one word a package
fresh 0 $build
ridge run 'a b' --json
expect 'hands its arguments on, and only the program prints to stdout' prints 'program: run a b --json'
expect 'announces a first build' says 'compiling: about 8 to 16 minutes of processor time on '
expect 'keeps the log of the build' grep -qx 'a warning' "$work/tree/build/build.log"
expect 'and does not show it' bash -c "! grep -q 'a warning' $work/err"
expect 'installs nothing where nothing is missing' not_called '^apt-get '
expect 'builds without the tests' called 'cmake .*-DRIDGE_TESTS=OFF'
expect 'and kernels for this CPU only' called 'cmake .*-DRIDGE_ISAS=NATIVE'
: >"$work/log"
ridge explain again
expect 'asks dpkg once' not_called '^dpkg-query '
expect 'configures once' not_called "^cmake "
expect 'builds nothing where nothing has changed' not_called '^ninja '
exec 8>"$work/tree/build/.lock"
flock 8
ridge explain while others build
expect 'and waits for nobody then' prints 'program: explain while others build'
flock -u 8
touch -d '+2 seconds' "$work/tree/src/a.cc"
ridge run changed
expect 'builds where a source is newer' called 'ninja -C .* ridge_cli$'
: >"$work/log"
touch -d '+1 hour' "$work/tree/src/a.cc"
ridge bench --help
expect 'help waits for no build' not_called '^ninja '
touch "$work/tree/src/a.cc"

for variable in CI=1 NO_COLOR=1 TERM=dumb; do
  # shellcheck disable=SC2086
  fresh 0 $build
  on_terminal $variable explain x
  case $variable in
    CI=1) expect 'a terminal shows the progress of the build in one line' grep -q $'\rridge: \[1/2\] ' "$work/out" ;;
    *) expect "$variable leaves no line that is overwritten" bash -c "! grep -q $'\r[^\r]' $work/out" ;;
  esac
  expect 'and the program runs' grep -q 'analysis: explain x' "$work/out"
done

# shellcheck disable=SC2086
fresh 0 $build
ridge explain x
expect 'a verb that only analyzes builds no kernels' called 'ninja -C .* ridge_analysis$'
expect 'and comes from the program without them' prints 'analysis: explain x'
: >"$work/log"
ridge sweep x
expect 'which is built once' not_called '^ninja '
ridge explian x
expect 'for an unknown verb, too' prints 'analysis: explian x'
ridge explain x --plan
expect 'a plan needs the kernels' prints 'program: explain x --plan'
: >"$work/log"
ridge explain x
expect 'the program with kernels serves every verb' prints 'program: explain x'
for words in 'simulate kernel' 'sweep x --stripes' 'explain x --on cuda' 'run x'; do
  # shellcheck disable=SC2086
  fresh 0 $build
  # shellcheck disable=SC2086
  ridge $words
  expect "$words needs the kernels" prints "program: $words"
done

fresh 0 g++ cmake ninja-build libcli11-dev nlohmann-json3-dev libtomlplusplus-dev
echo 'from stdin' | ridge read
expect 'installs by name what is missing, and only that' called 'apt-get install -y -qq --no-install-recommends libfmt-dev$'
expect 'shows the command' says 'running: apt-get update -qq && env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libfmt-dev'
expect 'leaves standard input to the program' prints $'analysis: read\nfrom stdin'
expect 'installs no test packages for a verb' not_called libgtest-dev

# shellcheck disable=SC2086
fresh 0 $build
ridge bench --help
expect 'help on bench installs no libraries' not_called '^apt-get '
expect 'and comes from the program without kernels' prints 'analysis: bench --help'
expect 'which is built for it' called 'ninja -C .* ridge_analysis$'
: >"$work/log"
ridge bench stream -h
expect 'wherever it is asked for' not_called '^apt-get '
ridge help run
expect 'the verb help prints it, too' prints 'analysis: help run'
expect 'without another build' not_called '^ninja '
ridge help test
expect 'the launcher has the help of its own verb' grep -q '^ridge test \[ctest arguments\]: ' "$work/out"
touch -d '+1 minute' "$work/tree/build/analysis/ridge"
ridge run x
ridge help run
expect 'the program that was built last prints help' prints 'analysis: help run'
touch -d '+2 minutes' "$work/tree/build/ridge"
ridge help run
expect 'be it the one with kernels' prints 'program: help run'
ridge bench stream
expect 'a contest without other libraries installs none' not_called '^apt-get '
ridge bench matmul --against cublaslt
expect 'neither does one on a device' not_called '^apt-get '
ridge bench matmul
expect 'bench matmul installs the libraries' called 'apt-get install .* libopenblas-dev libdnnl-dev$'

fresh 1000 g++
code=0
ridge run || code=$?
expect 'without root and sudo it stops with 4' test "$code" = 4
expect 'and says what is missing' says 'as root, apt-get install cmake ninja-build'
expect 'and installs nothing' not_called '^apt-get '
expect 'and builds nothing' not_called "^cmake "

fresh 1000 g++
stub sudo '"$@"'
ridge run
expect 'off a terminal it goes on with sudo' called 'sudo apt-get update'
expect 'and shows the command with sudo' says 'running: sudo apt-get update'
expect 'and runs' prints 'program: run'

# shellcheck disable=SC2086
fresh 0 $build
ridge test -R cli
expect 'test installs its own group' called 'apt-get install .*libgtest-dev'
expect 'test configures the tests' called 'cmake .*-DRIDGE_TESTS=ON'
expect 'and all kernels' called 'cmake .*-DRIDGE_ISAS=ALL'
menu=SAMPLE
[[ ! -e /dev/nvidiactl ]] || menu=WHOLE
expect 'with all kernels only where a device is' called "cmake .*-DRIDGE_MENU=$menu"
expect 'test of a room builds what that room needs' called 'ninja -C .* cli_test$'
expect 'and nothing else' not_called 'ninja -C .* all$'
expect 'and runs that room alone' called 'ctest --test-dir .* -R ^cli\$$'
: >"$work/log"
ridge test -V -R program -E slow
expect 'wherever the room stands' called 'ninja -C .* program_test$'
expect 'its other arguments go to ctest' called 'ctest --test-dir .* -V -R ^program\$ -E slow$'
: >"$work/log"
ridge test -R programs
expect 'what is no room is built whole' called 'ninja -C .* all$'
expect 'test hands its arguments to ctest' called 'ctest --test-dir .* -R programs$'
: >"$work/log"
ridge run
expect 'a later run keeps the tests configured' not_called "^cmake "
rm "$work/tree/build/build.ninja"
ridge run
expect 'and all kernels, if it configures again' called 'cmake .*-DRIDGE_ISAS=ALL'

# shellcheck disable=SC2086
fresh 0 $build
ridge run
: >"$work/log"
RIDGE_ISA=avx2 ridge run
expect 'RIDGE_ISA needs all kernels' called 'cmake .*-DRIDGE_ISAS=ALL'
expect 'and builds them' called 'ninja -C .* ridge_cli$'
: >"$work/log"
RIDGE_ISA=avx2 ridge run
expect 'but only once' not_called '^ninja '

# shellcheck disable=SC2086
fresh 0 $build
stub cmake 'echo "CMake Error: no compiler" >&2; exit 1'
code=0
ridge run || code=$?
expect 'a failed configuration fails' test "$code" = 1
expect 'and shows what cmake said' says 'CMake Error: no compiler'

# shellcheck disable=SC2086
fresh 0 $build
stub ninja 'echo "a.cc:1: error: no"; exit 1'
code=0
ridge explain x || code=$?
expect 'a failed build fails' test "$code" = 1
expect 'and shows what the compiler said' says 'a.cc:1: error: no'
expect 'and says so' says 'ridge: the build failed; the compiler said why above'

echo "launcher_test: $ran checks passed"
