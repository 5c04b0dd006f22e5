#!/usr/bin/env python3
"""Times a layer of each model on a CUDA device: its kernels one by one, and all of them one after another. Writes the lines of
data/timings/layers, to which tools/fit_models fits the time between kernels.

    layer_times.py RIDGE OUT.csv [--layer 4] [--context 1024]

Times are microseconds with a cold L2, as `ridge run --on cuda --json` gives them."""
import argparse
import json
import subprocess

MODELS = "llama_3_8b", "qwen3_8b", "gemma_2_9b", "mixtral_8x7b", "qwen3_30b_a3b"
SEQUENCES = 1, 8, 32


def run_layer(ridge, model, sequences, arguments):
    """Returns the report of a decoded layer. Raises an error if the device computes something wrong."""
    command = [ridge, "model", model, "--context", str(arguments.context), "--batch", str(sequences), "--print", "--layer",
               str(arguments.layer)]
    program = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = subprocess.run([ridge, "run", "-", "--on", "cuda", "--json"], input=program, check=True, capture_output=True, text=True)
    return json.loads(report.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ridge")
    parser.add_argument("out")
    parser.add_argument("--layer", type=int, default=4)
    parser.add_argument("--context", type=int, default=1024)
    arguments = parser.parse_args()
    lines = []
    for model in MODELS:
        for sequences in SEQUENCES:
            report = run_layer(arguments.ridge, model, sequences, arguments)
            alone = [1e6 * op["measured_s"]["median"] for op in report["ops"] if op.get("measured_s")]
            whole = 1e6 * report["total"]["measured_s"]["median"]
            expected = 1e6 * report["total"]["expected_s"]
            print(f"{model}, {sequences}: expected / measured {expected / whole:.3f}")
            lines.append(f"{model},{sequences},{len(alone)},{sum(alone):.2f},{whole:.2f}")
    provenance = report["provenance"]
    with open(arguments.out, "w") as out:
        print("# Times of a decoded layer in microseconds: its kernels one by one, added up, and the whole of it.", file=out)
        print(f"# tool: tools/times/layer_times.py ridge OUT.csv --layer {arguments.layer} --context {arguments.context}", file=out)
        print(f"# device: {report['device']['name']}", file=out)
        print(f"# day: {provenance['day']}", file=out)
        print(f"# ridge: {provenance['ridge']} ({provenance['commit'][:12]})", file=out)
        print("model,sequences,kernels,alone,whole", *lines, sep="\n", file=out)


if __name__ == "__main__":
    main()
