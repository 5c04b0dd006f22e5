"""Times products with narrow weights on a device and writes the fastest plans of each as CSV, to which tools/fit_models fits
its constants weight_*.

  tools/times/weights_times.py build/matmul_gpu >data/timings/weights/h200_sxm.csv"""
import datetime
import re
import subprocess
import sys

SIZES = [(1024, 4096), (4096, 4096), (4096, 14336), (8192, 8192), (14336, 4096), (28672, 8192)]  # n, k
ROWS = [1, 16, 32, 64]
KEPT = 4  # plans of each product
LINE = re.compile(r"(\w+) (\d+) x (\d+) x (\d+): (\d+) lines, (\d+) splits: ([\d.]+) us")


def main():
    program = sys.argv[1]
    device, commit = (subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for command in (
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], ["git", "rev-parse", "--short=8", "HEAD"]))
    print("# Products x[m, k] * w[n, k] of bf16 with narrow weights: the fastest tiles (lines of weights) and splits of k of each.\n"
          "# Weights alternate between copies that exceed the L2; the products follow each other in a graph.\n"
          f"# tool: tools/times/weights_times.py\n# device: {device}\n# day: {datetime.date.today()}\n# ridge: 0.1.0 ({commit})\n"
          "weights,m,n,k,lines,splits,us")
    for n, k in SIZES:
        for rows in ROWS:
            command = [program, "weights_times", str(rows), str(n), str(k)]
            timed = {}
            for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
                weights, m, lines_of_n, of_k, lines, splits, us = LINE.match(line).groups()
                timed.setdefault(weights, []).append((float(us), f"{weights},{m},{lines_of_n},{of_k},{lines},{splits},{us}"))
            for plans in timed.values():
                print("\n".join(row for _, row in sorted(plans)[:KEPT]))


if __name__ == "__main__":
    main()
