#!/usr/bin/env bash
# Programs on a CUDA device, each held against fp64 by `ridge run` itself (exit code 5 where a result is wrong): every
# function, dtype and broadcast, odd sizes, operands that have to be reordered. Without a device: 77, skipped.
#   tests/gpu/run_test.sh RIDGE
set -uo pipefail
ridge=$1
code=0
"$ridge" machines cuda >/dev/null 2>&1 || code=$?
if [[ $code == 4 ]]; then
  echo 'SKIPPED: no CUDA device'
  exit 77
fi
ran=0 wrong=0
check() {  # check PROGRAM [options]
  ran=$((ran + 1))
  local out code=0
  out=$("$ridge" run "$@" --on cuda --json 2>&1 >/dev/null) || code=$?
  [[ $code == 0 ]] && return
  wrong=$((wrong + 1))
  printf 'WRONG (%s): %s\n%s\n' "$code" "$*" "$out"
}

for function in exp log cos sin gelu gelu_tanh silu relu sigmoid tanh sqrt rsqrt abs; do
  argument=x
  case $function in log | sqrt | rsqrt) argument='abs(x)' ;; esac
  for dtype in f32 bf16 f16; do
    check "x: ${dtype}[A, B]  y: ${dtype}[A, B] = $function($argument)" -d A=37 -d B=1001
  done
done
for size in 1 7 8 9 127 1024 1025; do
  check 'x: f32[A, B]  b: bf16[B]  c: f16[A]  y: f16[A, B] = (x + b) * c - 0.5' -d A=13 -d B=$size
  check 'x: f32[A, B]  y: f32[B, A] = max(x, 0.25) / (1 + x * x)' -d A=33 -d B=$size
  check 'x: f32[N]  y: f32[N] = min(x, -x) + where(less(x, 0.5), x, 2)' -d N=$size
done
for dtype in bf16 f16 f32; do
  for sizes in '1 1 1' '64 64 64' '129 257 65' '513 1000 77' '7 4096 512'; do
    read -r m n k <<<"$sizes"
    check "${dtype}[M, K] * ${dtype}[K, N] -> ${dtype}[M, N]" -d "M=$m" -d "N=$n" -d "K=$k"
    check "x: ${dtype}[M, K]  w: ${dtype}[N, K]  y: f32[M, N] = x * w" -d "M=$m" -d "N=$n" -d "K=$k"
    check "${dtype}[K, M] * ${dtype}[K, N] -> ${dtype}[N, M]" -d "M=$m" -d "N=$n" -d "K=$k"
  done
  check "${dtype}[B, M, K] * ${dtype}[B, K, N] -> ${dtype}[B, M, N]" -d B=3 -d M=65 -d N=66 -d K=67
  check "${dtype}[M, B, K] * ${dtype}[K, N] -> ${dtype}[B, M, N]" -d B=3 -d M=65 -d N=66 -d K=67
  check "${dtype}[N] * ${dtype}[N] -> ${dtype}[1]" -d N=100003
done
check 'bf16[M, K] * f16[K, N] -> f32[M, N]' -d M=65 -d N=66 -d K=67
check $'x: bf16[B, D]  w: bf16[D, F]  v: bf16[F, D]\nh[B, F] = x * w\ng[B, F] = silu(h)\ny: bf16[B, D] = g * v' -d B=100 -d D=320 -d F=264
printf '%d programs on the device, %d wrong\n' "$ran" "$wrong"
[[ $wrong == 0 ]]
