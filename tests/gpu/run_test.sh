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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ran=0
run_one() {  # KERNELS PROGRAM [options]; KERNELS: how many there must be, or any
  local wanted=$1 report out code=0 kernels
  shift
  report=$(mktemp -p "$folder")
  out=$("$ridge" run "$@" --on cuda --json 2>&1 >"$report") || code=$?
  kernels=$(($(grep -c '"text": ' "$report") - 2))  # a text of each and two of the whole
  rm -f "$report"
  if [[ $code != 0 ]]; then
    printf 'WRONG (%s): %s\n%s\n' "$code" "$*" "$out" | tee -a "$folder/wrong"
  elif [[ $wanted != any && $wanted != "$kernels" ]]; then
    printf 'WRONG (%s kernels): %s\n' "$kernels" "$*" | tee -a "$folder/wrong"
  fi
}
start() {  # eight at once
  ran=$((ran + 1))
  while (($(jobs -rp | wc -l) >= 8)); do wait -n; done
  run_one "$@" &
}
check() { start any "$@"; }
fused() { start 1 "$@"; }  # in one kernel

for function in exp log cos sin gelu gelu_tanh silu relu sigmoid tanh sqrt rsqrt abs; do
  argument=x
  case $function in log | sqrt | rsqrt) argument='abs(x)' ;; esac
  for dtype in f32 bf16 f16; do
    check "x: ${dtype}[A, B]  y: ${dtype}[A, B] = $function($argument)" -d A=37 -d B=1001
  done
done
# What no sampler draws: zeros, subnormals, the ends of every range, infinities and NaN.
python3 - "$folder/edges.npy" <<'PYTHON'
import struct, sys
values = [0.0, -0.0, 1e-45, -1e-40, 1.2e-38, 1e-10, -1e-4, 0.5, -1.0, 3.0, -5.5, 9.0, -9.5, 13.0, -14.5, 20.0, -33.0, 87.0, -87.5,
          88.7, 89.0, -100.0, -104.0, -150.0, 1000.0, 65519.0, -65521.0, 1e10, -1e20, 3e38, -3.4e38, float("inf"), float("-inf"), float("nan")]
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
header += " " * (-(len(header) + 11) % 64) + "\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<%df" % len(values), *values))
PYTHON
for function in exp log cos sin gelu gelu_tanh silu relu sigmoid tanh sqrt rsqrt abs; do
  check $'x: f32[N]\ny: f32[N] = '"$function(x)" -d N=34 --in "x=$folder/edges.npy"
done
check $'x: f32[N]\ny: f32[N] = max(x, 1) - min(x, -1)' -d N=34 --in "x=$folder/edges.npy"
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
check_orders() {  # DTYPE RESULT: products of two operands of a dtype in every order
  local sizes operands m n k a b
  for sizes in '1 8 16' '5 100 130' '64 513 1024' '300 72 8' '129 257 4099'; do
    read -r m n k <<<"$sizes"
    for operands in 'M,K N,K' 'M,K K,N' 'K,M K,N' 'K,M N,K'; do
      read -r a b <<<"$operands"
      check "$1[$a] * $1[$b] -> $2[M, N]" -d "M=$m" -d "N=$n" -d "K=$k"
    done
    check "$1[B, M, K] * $1[B, N, K] -> $2[B, M, N]" -d B=3 -d "M=$m" -d "N=$n" -d "K=$k"
  done
}
# Products of 8 bits and of tf32; scales of rows and columns, and a bias in the same kernel.
for dtype in e4m3 tf32; do
  check_orders "$dtype" f32
  check "x: ${dtype}[M, K]  w: ${dtype}[N, K]  s: f32[M]  t: f32[N]"$'\n'"h[M, N] = x * w"$'\n'"y: bf16[M, N] = h * s * t" -d M=200 -d N=520 -d K=640
  fused "x: ${dtype}[M, K]  w: ${dtype}[N, K]  b: f32[N]"$'\n'"h[M, N] = x * w"$'\n'"y: f16[M, N] = relu(h + b)" -d M=77 -d N=130 -d K=100
done
# Products of int8, whose sums are exact; an operand that is copied to another order; and measured plans.
for result in int32 bf16; do
  check_orders int8 $result
  check "x: int8[A, M, C]  w: int8[N, A, C]"$'\n'"y: ${result}[M, N] = x * w" -d M=130 -d N=77 -d A=5 -d C=48
  check "int8[M, K] * int8[N, K] -> ${result}[M, N]" --tune -d M=64 -d N=64 -d K=64
done
check "x: int8[M, K]  w: int8[N, K]  s: f32[M]  t: f32[N]"$'\n'"h: f32[M, N] = x * w"$'\n'"y: bf16[M, N] = h * s * t" -d M=200 -d N=520 -d K=640
# Narrow weights, converted in registers or in memory.
for weights in int8 e4m3 mxfp8 mxfp4 nvfp4 int4_32 int4_128 u4_64; do
  for rows in 1 32 33 65; do
    check "x: bf16[M, K]  w: ${weights}[N, K]"$'\n'"y: bf16[M, N] = x * w" -d "M=$rows" -d N=130 -d K=512
  done
  check "x: bf16[M, K]  w: ${weights}[N, K]"$'\n'"y: bf16[M, N] = x * w" --tune -d M=8 -d N=130 -d K=512
  check "x: f16[M, K]  w: ${weights}[N, K]"$'\n'"y: f16[M, N] = x * w" -d M=9 -d N=130 -d K=384
done
# Batches of products with few rows or one column, whose other operand is contiguous along k or n.
for dtype in bf16 f16; do
  for m in 1 2 4; do
    for n in 1 7 8 100 513; do
      for k in 1 5 8 130 1024; do
        check "${dtype}[B, M, K] * ${dtype}[B, K, N] -> ${dtype}[B, M, N]" -d B=17 -d "M=$m" -d "N=$n" -d "K=$k"
      done
    done
    check "${dtype}[B, K, M] * ${dtype}[B, N, K] -> f32[B, N, M]" -d B=3 -d "M=$m" -d N=520 -d K=72
  done
  check "d: ${dtype}[B, K, N]  e: ${dtype}[B, K]  z: f32[B, N]"$'\n'"w[B, N] = d * e"$'\n'"y: ${dtype}[B, N] = w + z" -d B=300 -d K=8 -d N=1032
done

# Rows of 8 bits that are routed, with weights that are converted because they are along n, and with a capacity.
for dtype in e4m3 e4m3_128; do
  for sizes in '5 128 128 3' '200 256 384 8' '333 384 129 7' '1 128 8 1'; do
    read -r n d f e <<<"$sizes"
    check "x: ${dtype}[N, D]  w: ${dtype}[E, F, D]  i: int32[N, 1]"$'\n'"u: bf16[N, 1, F] = routed(x, w, i over E)" -d "N=$n" -d "D=$d" -d "F=$f" -d "E=$e"
  done
done
check $'x: e4m3[N, D]  w: e4m3[E, D, F]  i: int32[N, 2]\nu: f32[N, 2, F] = routed(x, w, i over E, capacity = 40)' -d N=300 -d D=77 -d F=50 -d E=9

# Rows that are routed: weights along k and along n, more experts than rows, a capacity, widths that no vector divides.
for dtype in bf16 f16 f32; do
  for sizes in '5 64 128 3' '200 256 384 8' '33 40 72 64' '1000 66 130 5' '1 8 8 1'; do
    read -r n d f e <<<"$sizes"
    k=$((e > 1 ? 2 : 1))
    for w in "E, F, D" "E, D, F"; do
      check "x: ${dtype}[N, D]  w: ${dtype}[$w]  i: int32[N, $k]"$'\n'"u: ${dtype}[N, $k, F] = routed(x, w, i over E)" -d "N=$n" -d "D=$d" -d "F=$f" -d "E=$e"
    done
  done
done
check $'x: bf16[N, D]  up: bf16[E, F, D]  down: bf16[E, D, F]  i: int32[N, 2]  p: f32[N, 2]\nu[N, 2, F] = routed(x, up, i over E)\nh[N, 2, F] = silu(u)\no[N, 2, D] = routed(h, down, i over E, capacity = 40)\ny: bf16[N, D] = p * o' -d N=300 -d D=512 -d F=1024 -d E=16
check $'x: bf16[N, 16]  w: bf16[E, 24, 16]  i: int32[N, 3]\nu: bf16[N, 3, 24] = routed(x, w, i over E, capacity = 9000)' -d N=20000 -d E=7
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

# Products with what becomes of their sums, in one kernel each. Gated layers: every activation on either side, with and
# without biases, sizes whose lines the copy engine can and cannot read and write, biases of another dtype.
layer='dims N = 64, D = 64, F = 64'
for dtype in bf16 f16; do
  weights=$'\nx: '"${dtype}[N, D]  up: ${dtype}[F, D]  gate: ${dtype}[F, D]"
  products=$'u[N, F] = x * up\ng[N, F] = x * gate\n'"y: ${dtype}[N, F] ="
  for sizes in '129 257 65' '513 1000 77' '1 1024 264' '300 1096 128'; do
    read -r n f d <<<"$sizes"
    for gated in 'u * gelu(g)' 'u * gelu_tanh(g)' 'silu(g) * u' 'relu(u) * g' 'u * g'; do
      fused "$layer$weights"$'\n'"$products $gated" -d "N=$n" -d "F=$f" -d "D=$d"
    done
    for gated in 'gelu(g + bg) * (u + bu)' 'silu(bg + g) * (u + bu)' '(u + bu) * g'; do
      fused "$layer$weights  bu: ${dtype}[F]  bg: ${dtype}[F]"$'\n'"$products $gated" -d "N=$n" -d "F=$f" -d "D=$d"
    done
    check "$layer$weights  bg: f32[F]"$'\n'"$products u * gelu(g + bg)" -d "N=$n" -d "F=$f" -d "D=$d"
  done
  for sizes in '256 512 256' '129 257 65' '33 1000 520' '1 1024 264'; do  # weights that lie along F
    read -r n f d <<<"$sizes"
    for gated in 'silu(g) * u' 'gelu(g + b) * u' 'u * relu(g)'; do
      fused "x: ${dtype}[N, D]  up: ${dtype}[D, F]  gate: ${dtype}[D, F]  b: ${dtype}[F]"$'\n'"$products $gated" -d "N=$n" -d "F=$f" -d "D=$d"
    done
  done
  check "$layer$weights  bg: ${dtype}[F]"$'\nu[N, F] = x * up\ng[N, F] = x * gate\ny: f32[N, F] = u * gelu(g + bg)'
done
# One product: biases along either side, activations, gates, residuals, constants, results that lie the other way.
for dtype in bf16 f16 f32; do
  how=check  # where operands are not as the result is, most 16-bit products are faster with a kernel behind them
  [[ $dtype == f32 ]] && how=fused
  operands=$'\n'"x: ${dtype}[M, K]  w: ${dtype}[N, K]  b: f32[N]  c: bf16[M]  r: ${dtype}[M, N]  s: f16[M, N]"
  for sizes in '129 257 65' '1 1000 512' '777 1 96' '513 1024 264'; do
    read -r m n k <<<"$sizes"
    for ended in 'gelu(p + b)' 'gelu_tanh(p + c)' 'silu(p) * r' 'relu(p * b + c) * s - 3 * r' 'r - p / 4' \
      'max(p * 2 + b, 0)'; do
      "$how" "dims M = 64, N = 64, K = 64$operands"$'\np[M, N] = x * w\n'"y: ${dtype}[M, N] = $ended" \
        -d "M=$m" -d "N=$n" -d "K=$k"
    done
  done
  "$how" "dims M = 130, N = 264, K = 96$operands"$'\np[N, M] = x * w\n'"y: ${dtype}[N, M] = gelu(p + b) + r"
  "$how" "x: ${dtype}[K, M]  w: ${dtype}[K, N]  b: ${dtype}[N]"$'\np[M, N] = x * w\n'"y: f32[M, N] = silu(p + b)" \
    -d M=77 -d N=130 -d K=520
  "$how" "x: ${dtype}[B, M, K]  w: ${dtype}[B, K, N]  b: ${dtype}[B, N]  r: f32[M, N]"$'\np[B, M, N] = x * w\n'"y: ${dtype}[B, M, N] = gelu(p + b) - r" \
    -d B=3 -d M=65 -d N=72 -d K=136
  operands=$'\n'"x: ${dtype}[M, K]  w: ${dtype}[N, K]  b: ${dtype}[N]  d: ${dtype}[N]  r: ${dtype}[M, N]  s: ${dtype}[M, N]"
  for sizes in '128 256 64' '129 264 65' '1 1024 512' '777 8 96' '250 520 264' '250 1048 264' '2048 2048 4096'; do
    read -r m n k <<<"$sizes"
    how=fused
    ((m * n > 1 << 17)) && [[ $dtype != f32 ]] && how=check  # two kernels are faster for some of the endings
    for ended in 'gelu(p + b)' 'silu(p) * r' 'relu(p * b + d) * s - 3 * r' 'gelu_tanh(p * 2 + b) + r' 'max(p, 0)'; do
      "$how" "dims M = 64, N = 64, K = 64$operands"$'\np[M, N] = x * w\n'"y: ${dtype}[M, N] = $ended" \
        -d "M=$m" -d "N=$n" -d "K=$k"
    done
  done
  fused "dims M = 136, N = 264, K = 96$operands"$'\np[N, M] = x * w\n'"y: ${dtype}[M, N] = gelu(p + b) + r"
  fused "x: ${dtype}[B, M, K]  w: ${dtype}[B, K, N]  b: ${dtype}[B, N]  r: ${dtype}[M, N]"$'\np[B, M, N] = x * w\n'"y: ${dtype}[B, M, N] = gelu(p + b) - r" \
    -d B=3 -d M=65 -d N=72 -d K=136
done
# NaN stays in its row, infinities become what they must.
python3 - "$folder" <<'PYTHON'
import random, struct, sys
random.seed(1)
def write(name, descr, words):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (40, 72), }" % descr
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"".join(words)
    open(sys.argv[1] + "/" + name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
values = [random.gauss(0, 1) for _ in range(40 * 72)]
for at, value in [(3 * 72 + 5, float("nan")), (11 * 72, float("inf")), (12 * 72 + 71, float("-inf")), (13 * 72, 0.0)]:
    values[at] = value
write("bf16.npy", "<V2", [struct.pack("<f", x)[2:] for x in values])
write("f16.npy", "<f2", [struct.pack("<e", x) for x in values])
PYTHON
for dtype in bf16 f16; do
  for ended in 'u * gelu(g + b)' 'silu(g) * (u + b)' 'relu(g + b) * u' 'gelu_tanh(g) * u' 'u * g'; do
    fused "x: ${dtype}[N, D]  up: ${dtype}[F, D]  gate: ${dtype}[F, D]  b: ${dtype}[F]"$'\nu[N, F] = x * up\ng[N, F] = x * gate\n'"y: ${dtype}[N, F] = $ended" \
      -d N=40 -d D=72 -d F=136 --in "x=$folder/${dtype}.npy"
  done
  for ended in 'gelu(u + b)' 'silu(u) * r' 'max(u, 0) + b' 'gelu_tanh(u) - r'; do
    fused "x: ${dtype}[N, D]  up: ${dtype}[F, D]  b: ${dtype}[F]  r: ${dtype}[N, F]"$'\nu[N, F] = x * up\n'"y: ${dtype}[N, F] = $ended" \
      -d N=40 -d D=72 -d F=136 --in "x=$folder/${dtype}.npy"
  done
done
# Along dimensions: whole rows in one kernel with what stands around them, and reductions of any other kind.
for dtype in f32 bf16 f16; do
  for size in 1 2 7 8 33 127 1024 1025 4097 33000 140000; do
    check $'x: '$dtype$'[A, B]\ny: '$dtype'[A, B] = softmax(x over B)' -d A=70 -d B=$size
    check $'x: '$dtype$'[A, B]  w: f32[B]  r: bf16[A, B]\nh: f32[A, B] = x + r\ny: '$dtype'[A, B] = rmsnorm(h over B) * w' -d A=67 -d B=$size
  done
  for size in 1 8 129 5000; do
    check $'x: '$dtype$'[A, B]  w: f32[B]  b: f16[B]\ny: '$dtype'[A, B] = layernorm(x over B) * w + b' -d A=9 -d B=$size
    check $'x: '$dtype$'[A, B]\ny: '$dtype'[B] = sum(x over A)' -d A=301 -d B=$size
    check $'x: '$dtype$'[A, B]\ny: f32[B] = mean(x * x over A)' -d A=2000 -d B=$size
    check $'x: '$dtype$'[A, B]\ny: f32[A] = max(x over B) - min(x over B)' -d A=33 -d B=$size
    check $'x: '$dtype$'[A, B, C]\ny: '$dtype'[B] = sum(x over A, C)' -d A=31 -d B=$size -d C=24
    check $'x: '$dtype$'[A, B, C]\ny: '$dtype'[C, A] = max(x over B)' -d A=31 -d B=$size -d C=24
    check $'x: '$dtype$'[A, B, C]\ny: '$dtype'[A, B, C] = softmax(x over B)' -d A=5 -d B=$size -d C=6
    check $'x: '$dtype$'[A, B, C]\ny: '$dtype'[A, B, C] = softmax(x over B, C)' -d A=5 -d B=$size -d C=6
  done
  check $'x: '$dtype$'[N]\ny: f32[1] = sum(x over N)' -d N=3000001
  check $'x: '$dtype$'[N]\ny: '$dtype'[N] = softmax(x over N)' -d N=1000003
  check $'s: '$dtype$'[H, S, T]\np: '$dtype'[H, S, T] = softmax(where(index(T) <= index(S), s / 8, -1e30) over T)' -d H=3 -d S=65 -d T=130
  check $'x: '$dtype$'[A, B]  w: '$dtype$'[B]\ny: f32[A, B] = x * w / sum(w * w over B)' -d A=40 -d B=77
  check $'x: '$dtype$'[A, B]  w: '$dtype$'[A, C]\ns[A] = sum(x over B)\ny: f32[A, C] = s * w' -d A=40 -d B=77 -d C=50
done
# More rows than clusters of blocks run at once, aligned, ragged and along more than one axis.
for dtype in f32 bf16; do
  for size in 16392 20001 65536; do
    check $'x: '$dtype$'[A, B]\ny: '$dtype'[A, B] = softmax(x over B)' -d A=701 -d B=$size
    check $'x: '$dtype$'[C, A, B]  w: f32[B]  r: bf16[A, B]\nh: f32[A, C, B] = x + r\ny: '$dtype'[A, C, B] = rmsnorm(h over B) * w' -d A=97 -d C=5 -d B=$size
    check $'x: '$dtype$'[A, B]\ny: f32[A] = max(x over B) - min(x over B)\nz: '$dtype'[A, B] = x - mean(x over B)' -d A=611 -d B=$size
  done
done
check $'x: f32[N]\ny: f32[1] = max(x over N)' -d N=34 --in "x=$folder/edges.npy"
check $'x: f32[N]\ny: f32[N] = x - mean(x over N) + index(N) * size(N)' -d N=1000
check $'x: f32[A, B, C, D, E]\ny: f32[D, B] = min(x over A, C, E)' -d A=3 -d B=5 -d C=7 -d D=11 -d E=13
here=$(dirname -- "${BASH_SOURCE[0]}")/../../examples
check "$here/softmax.ridge" -d N=513 -d D=1000
check "$here/attention.ridge" -d S=100 -d T=130
check "$here/flash_attention.ridge" -d S=256 -d T=256
# Sequences that differ: pages of 16 and 48 rows, of one row and several; and one behind the other.
for rows in 1 3; do
  for size in 16 48; do
    check $'q: bf16[B, S, K, G, E]  k: bf16[P, R, K, E]  v: bf16[P, R, K, E]  n: int32[B]  pages: int32[B, M]\na[B, M, R, K, E] = gather(k, pages over P)\nb[B, M, R, K, E] = gather(v, pages over P)\ns[B, S, K, G, M, R] = q * a\np[B, S, K, G, M, R] = softmax(where(index(M) * size(R) + index(R) < n, s / 8, -inf) over M, R)\no: bf16[B, S, K, G, E] = p * b' \
      -d B=3 -d S=$rows -d P=40 -d M=11 -d R=$size -d K=2 -d G=4 -d E=128
  done
done
for mask in 'sequence(S) == sequence(T)' '(sequence(S) == sequence(T)) * (index(T) <= index(S))'; do
  check $'dims S = (70, 1, 300, 129), T = S, H = 3, E = 128\nq: f16[S, H, E]  k: f16[T, H, E]  v: f16[T, H, E]\ns[S, H, T] = q * k\np[S, H, T] = softmax(where('"$mask"$', s / 11, -inf) over T)\no: f16[S, H, E] = p * v'
done
check "$here/decode.ridge" -d B=3 -d T=700
check "$here/decode.ridge" -d B=5 -d T=300 -d S=5 -d K=2 -d E=64
check "$here/decode.ridge" -d B=2 -d T=900 -d S=200 -d K=2 -d G=3 -d E=96
for program in geglu_backward rmsnorm_backward gda dot cos_chain; do check "$here/$program.ridge"; done
check "$here/llama_decoder.ridge" -d T=64
for more in --no-fuse ''; do
  check "$here/softmax.ridge" -d N=100 -d D=1031 $more
  check $'x: bf16[A, B]  w: bf16[B]\nh[A, B] = x + 1\ny: bf16[A, B] = rmsnorm(h over B) * w' -d A=90 -d B=1024 $more
done
# Operations that are not elementwise, each in one dtype of its tensors.
for dtype in f32 bf16 f16; do
  for sizes in '1 1 1' '7 33 5' '300 257 1000' '4096 64 20000'; do
    read -r n d v <<<"$sizes"
    check "t: ${dtype}[V, D]  i: int32[N]"$'\n'"y: ${dtype}[N, D] = gather(t, i over V)" -d "N=$n" -d "D=$d" -d "V=$v"
    check "t: ${dtype}[B, V, D]  i: int8[B, N]"$'\n'"y: f32[B, N, D] = gather(t, i over V)" -d B=3 -d "N=$n" -d "D=$d" -d V=100
    check "x: ${dtype}[N, D]  i: int32[N]"$'\n'"y: ${dtype}[V, D] = scatter(x, i over V)" -d "N=$n" -d "D=$d" -d "V=$v"
    check "x: ${dtype}[N, V, D]"$'\n'"y: ${dtype}[N, V, D] = cumsum(x over V)" -d N=3 -d "D=$d" -d "V=$v"
    check "x: ${dtype}[D, V]"$'\n'"y: f32[D, V] = cumsum(x over V)" -d "D=$d" -d "V=$v"
    check "x: ${dtype}[D, V]"$'\n'"i[D, V2] = topk(x over V)" -d "D=$d" -d "V=$v" -d "V2=$(((v + 3) / 4))"
    check "x: ${dtype}[D, V]"$'\n'"i[D] = argmax(x over V)" -d "D=$d" -d "V=$v"
    check "x: ${dtype}[D, V]"$'\n'"s: ${dtype}[D, V] = sort(x over V)" -d "D=$d" -d "V=$v"
    check "x: ${dtype}[D, V]"$'\n'"i[D, V] = argsort(x over V, descending = 1)" -d "D=$d" -d "V=$v"
    check "a: ${dtype}[N, D]  x: ${dtype}[N, T, D]"$'\n'"h: ${dtype}[N, T, D] = scan(tanh(a * h) + x over T)" -d N=5 -d "D=$d" -d T=90
    check "a: ${dtype}[N, D]  x: ${dtype}[N, D, T]"$'\n'"h: f32[N, D, T] = scan(sigmoid(a) * h + x over T)" -d N=5 -d "D=$d" -d T=77
  done
  for format in mxfp8 mxfp4 nvfp4 'e4m3, block = 128' 'int4, block = 64' 'u4, block = 32'; do
    check "x: ${dtype}[N, D]"$'\n'"q[N, D] = quantize(x, $format)" -d N=77 -d D=384
  done
  check "x: ${dtype}[N, C, H, W]  w: ${dtype}[C, 1, 3, 3]"$'\n'"y: ${dtype}[N, C, H, W] = conv(x, w, padding = 1, groups = C)" -d N=3 -d C=17 -d H=30 -d W=41
  check "x: ${dtype}[N, C, H, W]  w: ${dtype}[C, 1, 7, 7]"$'\n'"y: ${dtype}[N, C, P, Q] = conv(x, w, padding = 3, stride = 2, groups = C)" -d N=3 -d C=17 -d H=30 -d W=41 -d P=15 -d Q=21
  check "x: ${dtype}[N, C, T]  w: ${dtype}[C, 1, 4]"$'\n'"y: ${dtype}[N, C, U] = conv(x, w, padding = 3, groups = C)" -d N=3 -d C=17 -d T=300 -d U=303
  check "x: ${dtype}[N, C, H, W]  w: ${dtype}[C, K, 2, 2]"$'\n'"y: ${dtype}[N, K, P, Q] = conv_transpose(x, w, stride = 2)" -d N=3 -d C=48 -d K=17 -d H=15 -d W=21 -d P=30 -d Q=42
  check "x: ${dtype}[N, C, H, W]  w: ${dtype}[C, K, 4, 4]"$'\n'"y: ${dtype}[N, K, P, Q] = conv_transpose(x, w, stride = 2, padding = 1)" -d N=3 -d C=64 -d K=32 -d H=8 -d W=9 -d P=17 -d Q=18
  check "x: ${dtype}[N, H, W, C]  w: ${dtype}[C, 4, 4, K]"$'\n'"y: ${dtype}[N, P, Q, M] = conv_transpose(x, w, stride = 2, padding = 1, groups = 2)" -d N=3 -d C=64 -d K=16 -d M=32 -d H=8 -d W=9 -d P=16 -d Q=18
  check "x: ${dtype}[N, C, T]  w: ${dtype}[C, 1, 5]"$'\n'"y: f32[N, C, U] = conv_transpose(x, w, padding = 3, dilation = 3, groups = C)" -d N=3 -d C=17 -d T=100 -d U=108
  check "x: ${dtype}[N, C, 3, 4, 5]  w: ${dtype}[C, K, 3, 2, 1]"$'\n'"y: ${dtype}[N, K, 9, 11, 13] = conv_transpose(x, w, stride = 3)" -d N=2 -d C=24 -d K=16
done
# Images between convolutions have channels last, so that the transposed convolution copies none.
check $'x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]  v: bf16[K, M, 2, 2]  u: bf16[L, M, 3, 3]\na[N, K, H, W] = conv(x, w, padding = 1)\nb[N, M, P, Q] = conv_transpose(a, v, stride = 2)\ny: bf16[N, L, P, Q] = conv(b, u, padding = 1)' -d N=2 -d C=16 -d K=64 -d M=32 -d L=24 -d H=15 -d W=21 -d P=30 -d Q=42
for dtype in f32 bf16 f16; do
  for pool in max_pool avg_pool; do
    check "x: ${dtype}[N, C, H, W]"$'\n'"y: ${dtype}[N, C, P, Q] = $pool(x over H, W, window = 3, stride = 2, padding = 1)" -d N=3 -d C=17 -d H=30 -d W=41 -d P=15 -d Q=21
    check "x: ${dtype}[N, H, W, C]"$'\n'"y: ${dtype}[N, P, Q, C] = $pool(x over H, W, window = 2, stride = 2)" -d N=3 -d C=64 -d H=30 -d W=42 -d P=15 -d Q=21
    check "x: ${dtype}[N, C, T]"$'\n'"y: f32[N, C, U] = $pool(x over T, window = 5, dilation = 2)" -d N=3 -d C=17 -d T=300 -d U=292
  done
  for heads in 1 32; do
    for interleaved in 0 1; do
      check "q: ${dtype}[B, S, H, D]  t: int32[S]"$'\n'"r: ${dtype}[B, S, H, D] = rotary(q, t over D, interleaved = $interleaved)" -d B=2 -d S=333 -d H=$heads -d D=128
      check "q: ${dtype}[B, H, S, D]  t: f32[B, S]"$'\n'"r: f32[B, H, S, D] = rotary(q, t over D, base = 500000, interleaved = $interleaved)" -d B=3 -d S=77 -d H=$heads -d D=22
    done
  done
done
# Pools next to convolutions have channels last, also with channels that are padded.
for channels in 64 17; do
  for pool in max_pool avg_pool; do
    check "x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]  v: bf16[M, K, 3, 3]"$'\na[N, K, H, W] = conv(x, w, padding = 1)\nb[N, K, P, Q] = '"$pool"$'(a over H, W, window = 3, stride = 2, padding = 1)\ny: bf16[N, M, P, Q] = conv(b, v, padding = 1)' -d N=2 -d C=16 -d K=$channels -d M=24 -d H=30 -d W=41 -d P=15 -d Q=21
  done
done
for format in mxfp8 mxfp4 nvfp4 e4m3_128 int4_128 u4_64; do
  check "x: bf16[B, D]  w: ${format}[F, D]"$'\ny: bf16[B, F] = x * w' -d B=65 -d D=640 -d F=264
done
for format in mxfp8 e4m3_128; do
  check "x: ${format}[B, D]  w: ${format}[F, D]"$'\ny: f32[B, F] = x * w' -d B=129 -d D=256 -d F=72
done
wait
# What --tune measures is kept: the second run finds it, and so does one that does not ask.
tune() {  # WANTED [options]: whether its product's plan was measured now, earlier or not at all (model)
  local wanted=$1 found
  shift
  ran=$((ran + 1))
  found=$(XDG_CACHE_HOME=$folder/cache "$ridge" run 'bf16[B, D] * bf16[F, D] -> bf16[B, F]' -d B=192 -d D=2048 -d F=1024 --on cuda --json "$@" |
    python3 -c 'import json, sys
tuned = json.load(sys.stdin)["ops"][0].get("tuned")
print("model" if not tuned else "now" if tuned[0]["measured_now"] else "earlier" if tuned[0]["candidates"] else "remark")')
  [[ $found == "$wanted" ]] || printf 'WRONG (tuned %s, expected %s): --tune %s\n' "$found" "$wanted" "$*" | tee -a "$folder/wrong"
}
tune model
tune now --tune
tune earlier --tune
tune earlier --tune=4
tune earlier
tune model --tune=0
tune now --tune=12
for entry in "$folder"/cache/ridge/tuned/*; do echo damaged >"$entry"; done
tune remark
tune now --tune
wrong=$(grep -c '^WRONG' "$folder/wrong" 2>/dev/null || true)
printf '%d programs on the device, %d wrong\n' "$ran" "${wrong:-0}"
[[ ${wrong:-0} == 0 ]]
