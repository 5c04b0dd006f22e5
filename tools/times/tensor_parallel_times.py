#!/usr/bin/env python3
"""Times Megatron's decoder layer (examples/tensor_parallel*.ridge) with the sizes of Llama-3-8B on 1, 2, … GPUs: the time of a
pass and the fraction of communication, measured and as predicted before the run from plans, links and the library's fit:

    tensor_parallel_times.py ridge OUT.json [GPUS …]"""
import harness

EXAMPLES = harness.ROOT / "examples"
LAYER = ["D=4096", "G=8", "R=4", "E=128", "F=14336"]
CASES = [("prefill, 2048 tokens", "tensor_parallel_prefill.ridge", ["B=1", "S=2048"]),
         ("decode, 1 sequence of 4096", "tensor_parallel.ridge", ["B=1", "T=4096"]),
         ("decode, 16 sequences of 4096", "tensor_parallel.ridge", ["B=16", "T=4096"]),
         ("decode, 64 sequences of 4096", "tensor_parallel.ridge", ["B=64", "T=4096"])]


def predict_fraction(ridge, chips, file, sizes):
    """Returns the communication fraction of a chip's time by the closed form, without overlap."""
    total = harness.run_json([ridge, "explain", EXAMPLES / file, "--on", "h100", f"X={chips}", "--json", *sizes, *LAYER])["total"]
    return round((total.get("time_network_s") or 0) / total["time_upper_s"], 4)


def time_pass(ridge, gpus, file, sizes):
    """Returns the figures of a pass, and the library that communicates."""
    on = ["--mesh", f"X={gpus}", "--ranks", gpus, "--on", "cuda", "--json"]
    report = harness.run_json([ridge, "run", EXAMPLES / file, *on, *sizes, *LAYER], timeout=120)
    network, total = report["network"], report["total"]
    return {"pass_s": total["measured_s"]["median"], "max_rel_error": total["max_rel_error"],
            "computing_s": max(rank["compute_s"] for rank in report["ranks"]), "network_s": network["measured_s"],
            "computing_predicted_s": network["computing_predicted_s"], "network_predicted_s": network["predicted_s"] or 0,
            "how": network["in_chunks"]}, network["carrier"]


def main():
    arguments = harness.parse_arguments(__doc__, "ridge out gpus...", 1)
    shares = {name: {chips: predict_fraction(arguments.ridge, chips, file, sizes) for chips in (1, 2, 4, 8)}
              for name, file, sizes in CASES}
    result = harness.Result(arguments.out, harness.query_gpu("name"), carrier="", share_by_roofs=shares)
    for name, file, sizes in CASES:
        for gpus in map(int, arguments.gpus or ["1", "2"]):
            figures, carrier = time_pass(arguments.ridge, gpus, file, sizes)
            result.add({"case": name, "gpus": gpus, **figures}, carrier=carrier)


if __name__ == "__main__":
    main()
