#!/usr/bin/env python3
"""Times `ridge model` on this computer:

    tools/times/model_times.py build/analysis/ridge [--rounds 5]

Prints the seconds of a table and of a search, the best of the rounds each, without writing a file. The table has 33 shipped
configs, prefill, decoding and training of each, on six machines in one command, with the start of the program. The search
ranks all layouts of 64 chips (`--chips 64 --best`) for three models and both phases, and for training; each search counts
alone. With --check SECONDS, the exit code is 1 if the table takes longer."""
import subprocess
import sys
import time

import harness

CONFIGS = """llama_2_7b llama_2_13b llama_2_70b llama_3_8b llama_3_70b llama_3_1_405b llama_3_2_1b llama_3_2_3b mixtral_8x7b
qwen2_5_0_5b qwen2_5_1_5b qwen2_5_3b qwen2_5_7b qwen2_5_14b qwen2_5_32b qwen2_5_72b qwen3_0_6b qwen3_1_7b qwen3_4b qwen3_8b
qwen3_14b qwen3_32b qwen3_30b_a3b qwen3_235b_a22b gemma_2_2b gemma_2_9b gemma_2_27b gemma_3_1b gemma_3_4b_text gemma_3_12b_text
gemma_3_27b_text gpt_3_175b deepseek_v3""".split()
MACHINES = "h100,h200,b200,a100_80,mi300x,tpu_v5p"
PHASES = {"prefill": ["--batch", "1", "--tp", "1"], "decode": ["--batch", "16", "--tp", "1"], "train": ["--batch", "8", "--tp", "1"]}
SEARCHES = [("llama_3_70b", "decode"), ("llama_3_70b", "prefill"), ("deepseek_v3", "decode"), ("deepseek_v3", "prefill"),
            ("qwen3_235b_a22b", "decode"), ("qwen3_235b_a22b", "prefill"), ("llama_3_70b", "train"), ("deepseek_v3", "train")]


def time_model(ridge, config, phase, words):
    """Returns the seconds of one command, which must succeed."""
    command = [ridge, "model", config, "--phase", phase, "--context", "2048", *words]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return seconds


def main():
    arguments = harness.parse_arguments(__doc__, "ridge", 5, check=0.0)
    ridge = arguments.ridge
    cells = {(config, phase): lambda c=config, p=phase: time_model(ridge, c, p, ["--on", MACHINES, *PHASES[p]])
             for phase in PHASES for config in CONFIGS}
    found = {cell: min(seconds) for cell, seconds in harness.alternate(cells, arguments.rounds, warm_up=1).items()}
    for phase in PHASES:
        times = {config: found[config, phase] for config in CONFIGS}
        slowest = max(times, key=times.get)
        print(f"{phase}: {sum(times.values()):.3f} s for {len(CONFIGS)} configs on {MACHINES.count(',') + 1} machines, "
              f"at most {times[slowest]:.3f} s ({slowest})")
    print(f"all phases: {sum(found.values()):.3f} s", flush=True)
    search = {(config, phase): lambda c=config, p=phase: time_model(
        ridge, c, p, ["--on", "h200", "--batch", "256", "--chips", "64", "--best"]) for config, phase in SEARCHES}
    for (config, phase), seconds in harness.alternate(search, arguments.rounds, warm_up=1).items():
        print(f"{config}, {phase}, --chips 64 --best: {min(seconds):.3f} s")
    sys.exit(0 < arguments.check < sum(found.values()))


if __name__ == "__main__":
    main()
