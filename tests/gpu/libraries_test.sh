#!/usr/bin/env bash
# The libraries of kernels that tools/times loads beside PyTorch: each is built and times one small case. A library whose
# symbols mix with PyTorch's crashes here. Without a device or PyTorch: 77, skipped.
#   tests/gpu/libraries_test.sh RIDGE BUILD_FOLDER
set -euo pipefail
ridge=$1 build=$2
code=0
"$ridge" machines cuda >/dev/null 2>&1 || code=$?
if [[ $code == 4 ]] || ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  echo 'SKIPPED: no CUDA device, or PyTorch does not see it'
  exit 77
fi
tools=$(dirname -- "${BASH_SOURCE[0]}")/../../tools/times
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --build "$build" --target ridge_geglu ridge_attention
python3 "$tools/geglu_times.py" "$build/libridge_geglu.so" "$folder/geglu.json" 512,256 --rounds 1
python3 "$tools/attention_times.py" "$build/libridge_attention.so" "$folder/attention.json" short --rounds 1
