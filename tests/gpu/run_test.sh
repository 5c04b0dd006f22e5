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
# What no sampler draws: zeros, subnormals, the ends of every range, infinities and NaN.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 - "$folder/edges.npy" <<'PYTHON'
import struct, sys
values = [0.0, -0.0, 1e-45, -1e-40, 1.2e-38, 1e-10, -1e-4, 0.5, -1.0, 3.0, -5.5, 9.0, -9.5, 13.0, -14.5, 20.0, -33.0, 87.0, -87.5,
          88.7, 89.0, -100.0, -104.0, -150.0, 1000.0, 65519.0, -65521.0, 1e10, -1e20, 3e38, -3.4e38, float("inf"), float("nan")]
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
header += " " * (-(len(header) + 11) % 64) + "\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<%df" % len(values), *values))
PYTHON
for function in exp log cos sin gelu gelu_tanh silu relu sigmoid tanh sqrt rsqrt abs; do
  check $'x: f32[N]\ny: f32[N] = '"$function(x)" -d N=33 --in "x=$folder/edges.npy"
done
check $'x: f32[N]\ny: f32[N] = max(x, 1) - min(x, -1)' -d N=33 --in "x=$folder/edges.npy"
for size in 1 7 8 9 127 1024 1025; do
  check 'x: f32[A, B]  b: bf16[B]  c: f16[A]  y: f16[A, B] = (x + b) * c - 0.5' -d A=13 -d B=$size
  check 'x: f32[A, B]  y: f32[B, A] = max(x, 0.25) / (1 + x * x)' -d A=33 -d B=$size
  check 'x: f32[N]  y: f32[N] = min(x, -x) + where(x < 0.5, x, 2)' -d N=$size
done
# Large enough for several items a thread.
for columns in 1000 1001; do
  check $'x: f32[A, B]  b: bf16[B]  c: f16[A]\ny: f16[A, B] = where(x < b, gelu(x + b) * c, silu(x) - b)' -d A=1100 -d B=$columns
  check $'x: bf16[A, B]  y: f32[C, A]\nz: bf16[A, B, C] = x * tanh(y) + x' -d A=211 -d B=$columns -d C=7
done
check $'x: f32[N]\ny: f32[N] = gelu_tanh(x) - sigmoid(x) * x' -d N=5000011
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
