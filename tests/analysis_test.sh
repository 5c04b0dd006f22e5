#!/usr/bin/env bash
# The program without kernels prints the same as the whole program, byte for byte, and refuses what needs kernels.
#   tests/analysis_test.sh RIDGE ANALYSIS_RIDGE SOURCE_FOLDER
set -uo pipefail
whole=$1 analysis=$2
cd "$3" || exit 1
wrong=0 ran=0
product='bf16[B, D] * bf16[D, F] -> bf16[B, F]'

check_same() {
  local expected found
  expected=$("$whole" "$@" 2>&1; echo "exit code $?")
  found=$("$analysis" "$@" 2>&1; echo "exit code $?")
  ran=$((ran + 1))
  [[ $expected == "$found" ]] && return
  wrong=1
  printf 'differs: ridge %s\n' "$*"
  diff <(printf '%s\n' "$expected") <(printf '%s\n' "$found") | head -20
}
check_refused() {  # WHAT ARGUMENT...
  local what=$1 found code=0
  shift
  found=$("$analysis" "$@" 2>&1) || code=$?
  ran=$((ran + 1))
  [[ $code == 4 && $found == "ridge: $what needs the kernels, and this program was built without them
  hint: start ./ridge, which builds what a command needs" ]] && return
  wrong=1
  printf 'not refused (%s): ridge %s\n%s\n' "$code" "$*" "$found"
}

for program in examples/*.ridge; do check_same explain "$program" --on h200 --json; done
check_same explain "$product" --on tpu_v5e -d B=512 -d D=4096 -d F=4096 --all
check_same explain "$product" --on b200,h200,tpu_v5p -d B=512 -d D=4096 -d F=4096
check_same explain "$product" --on no_machine
check_same explain 'bf16[B, D * bf16[D, F]' --on h200
check_same sweep "$product" --on h200 B=1..4096:x2 D=4096 F=4096 --csv
check_same sweep "$product" --on h200 B=0
check_same shard examples/mlp.ridge --on tpu_v5p --chips 8 -d B=512 --json
check_same shard examples/mlp.ridge --chips 0
check_same machines
check_same machines h100 --json
check_same machines h1
check_same model llama_3_8b --json
check_same model llama_3_7b
check_same explain examples/mlp.onnx --on h200 batch=8 --json
check_same explain examples/mlp.onnx --on h200
check_same trace examples/trace.json --on h200 --json
check_same trace examples/absent.json --on h200
check_same simulate systolic --rows 32 --cols 32 256 128 256 --json
check_same simulate systolic --rows 0 --cols 32 256 128 256
check_same simulate decode --json
check_same
check_same help
check_same man
for shell in bash zsh fish; do check_same completion "$shell"; done
for verb in explain run advise sweep shard simulate model trace probe calibrate bench kernels machines help completion man; do
  check_same help "$verb"
  check_same "$verb" --help
done
check_same run --rums 5
check_refused run run "$product"
check_refused advise advise "$product"
check_refused probe probe
check_refused calibrate calibrate x.csv --on h200
check_refused bench bench stream
check_refused kernels kernels
check_refused --plan explain examples/mlp.ridge --on h200 -d B=512 --plan
check_refused 'simulate kernel' simulate kernel
check_refused '--on cuda' explain "$product" --on cuda
check_refused --stripes sweep "$product" --stripes --on h200 B=512 D=512 F=512..1024:256
if [[ $wrong != 0 || $ran -lt 60 ]]; then  # fewer: the examples were not found
  echo "analysis_test: $ran commands, some wrong or missing"
  exit 1
fi
echo "analysis_test: $ran commands agree"
