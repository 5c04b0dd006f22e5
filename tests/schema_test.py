#!/usr/bin/env python3
"""Validates the --json output of every verb against `ridge VERB --schema`, and checks that the schemas reject corrupted output:
schema_test.py RIDGE. Supports the used part of JSON Schema; an unknown keyword fails."""
import copy
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "null": type(None), "boolean": bool}
KNOWN = {"$schema", "title", "description", "$defs", "$ref", "type", "enum", "required", "properties", "additionalProperties", "items", "anyOf"}


def find_faults(value, schema, root, at="$"):
    """Yields each mismatch of the value with the schema."""
    if unknown := set(schema) - KNOWN:
        yield f"{at}: the schema uses {unknown}"
    if "$ref" in schema:
        yield from find_faults(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    if "anyOf" in schema:
        faults = [list(find_faults(value, each, root, at)) for each in schema["anyOf"]]
        if all(faults):  # report the alternative whose schema name and verb match
            yield from min(faults, key=lambda each: any("$.schema" in f or "$.verb" in f for f in each))
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is not one of {schema['enum']}"
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    if types and not ("boolean" in types if isinstance(value, bool) else any(isinstance(value, TYPES[t]) for t in types)):
        yield f"{at}: {value!r} is not of type {types}"
    if isinstance(value, dict):
        yield from (f"{at}: lacks {key}" for key in schema.get("required", []) if key not in value)
        for key, inner in value.items():
            inside = schema.get("properties", {}).get(key, schema.get("additionalProperties", True))
            if inside is False:
                yield f"{at}: has {key}"
            elif inside is not True:
                yield from find_faults(inner, inside, root, f"{at}.{key}")
    if isinstance(value, list) and "items" in schema:
        for i, inner in enumerate(value):
            yield from find_faults(inner, schema["items"], root, f"{at}[{i}]")


def find_fault(value, schema):
    """Returns the first mismatch of the value with the schema, or an empty string."""
    return next(find_faults(value, schema, schema), "")


MATMUL = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
MLP, GEGLU = str(ROOT / "examples/mlp.ridge"), str(ROOT / "examples/geglu.ridge")
SIZES = ["B=64", "D=64", "F=64"]
SMALL = ["run", "f32[M, K] * f32[K, N] -> f32[M, N]", "M=8", "K=8", "N=8"]
COMMANDS = [
    ["explain", MATMUL, "--on", "tpu_v5e"],
    ["explain", MATMUL, "--on", "h200", *SIZES],
    ["explain", MATMUL, "--on", "tpu_v5e", "--split", "D=2", *SIZES],
    ["explain", "x: bf16[N]\ny: f32[N] = cos(x)", "--on", "tpu_v5e", "N=8"],
    ["explain", MLP, "--on", "h200", "--plan"],
    ["explain", GEGLU, "--plan", "--no-fuse"],
    ["explain", MATMUL, "--on", "h200", "--plan", *SIZES],
    ["explain", "x: bf16[B, D_X]\ny[B, D_X] = softmax(x over D)", "--on", "h100", "X=4"],
    ["explain", "--flops", "1e12", "--bytes", "1e9", "--on", "h100"],
    ["explain", MLP, "--on", "zen5"],
    ["explain", MLP, "--on", "h100", "--weights", "int8", "--fuse", "g,u,h"],
    ["explain", MLP, "--on", "h100,h200,tpu_v5e"],
    ["explain", MLP, "--on", "h100", "--against", "h200"],
    ["explain", MATMUL, "--on", "h100", "--check", "B > 300"],
    ["explain", MATMUL, "--on", "h100", *SIZES, "--check", "intensity = 2"],
    ["explain", "x: f32[N, M]   y: f32[N, M] = cos(x)", "--on", "h100", "N=4", "M=13", "--lines", "4"],
    ["explain", "x: f32[N]   y: f32[N] = repeat(64, cos, x)", "--on", "a100_40", "--chain", "--cost", "cos=20"],
    ["explain", "x: f32[N]   y: f32[N] = exp(cos(x))", "--on", "mi300x", "--chain"],
    ["explain", MATMUL, "--on", "a100_40", *SIZES, "--tile", "256x128"],
    ["explain", MLP, "--on", "h100", "--between", "g, u = y"],
    SMALL,
    [*SMALL, "--why"],
    [*SMALL, "--against", SMALL[1]],
    ["explain", MLP, "--on", "h200", "--plan", "--why", "B=16"],
    ["explain", MLP, "--on", "h100", "--plan", "--library", "cublaslt", "B=16"],
    ["advise", MLP, "--on", "h200", "B=16"],
    ["advise", MATMUL, *SIZES, "--confirm", "--runs", "1"],
    ["calibrate", str(ROOT / "data/library/h200_cublaslt.csv"), "--on", "h200"],
    ["sweep", MATMUL, "--on", "tpu_v5e", "--split", "D=2,4", "B=8", "F=8", "D=6..9"],
    ["sweep", MLP, "--on", "h100,h200", "B=1..4096:*2"],
    ["sweep", MATMUL, "--stripes", "--on", "h200", "B=1984..2112:64", "D=2048", "F=2048"],
    ["sweep", MATMUL, "--stripes", "--measure", "B=8..24:8", "D=64", "F=64"],
    ["simulate", "systolic", "--rows", "4", "--cols", "4", "--dataflow", "ws", "4", "4", "4"],
    ["simulate", "systolic", "--rows", "4", "--cols", "4", "--dataflow", "os", "--bandwidth", "2", "8", "4", "4"],
    ["simulate", "weights"],
    ["shard", MLP, "--on", "h200", "--chips", "8"],
    ["shard", "x: bf16[B_X, D]   w: bf16[D_X, F]\ng[D, F] = w\ny: bf16[B_X, F] = x * g", "--on", "tpu_v5p"],
    ["shard", "x: bf16[B_X, D_Y]\nw: bf16[D_Y, F]\ny: bf16[B_X, F] = x * w", "--on", "tpu_v5p", "--chips", "8", *SIZES],
    ["shard", "--collective", "all-to-all", "--bytes", "1e9", "--chips", "64", "--ragged", "8/64", "--compute", "1e-3", "--on", "h100"],
    ["simulate", MLP, "--on", "sn40l"],
    ["simulate", str(ROOT / "examples/flash_attention.ridge"), "--on", "sn40l", "--inner", "T=256"],
    ["simulate", str(ROOT / "examples/llama_decoder.ridge"), "--on", "sn40l", "--layers", "32", "--sync", "1e-7..1e-4:*10"],
    ["simulate", "metapipe", str(ROOT / "examples/matmul.pipe")],
    ["simulate", "decode", "--on", "sn40l", "--chips", "16"],
    ["simulate", "kernel", "sm90_128x192x64_pingpong"],
    ["bench", "repeats", "--elements", "8192", "--most", "2", "--rounds", "1"],
    ["kernels"],
    ["kernels", "sm90_128x192x64_pingpong"],
    ["machines"],
    ["machines", "h100"],
    ["machines", "cpu"],
    [*SMALL, "--ranks", "3"],
    ["run", "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F_X] = x * w", "--mesh", "X=2", "B=4", "D=4", "F=4"],
    ["explain", "x: bf16[B, D_X]   w: bf16[D_X, F]\ny: bf16[B, F] = x * w", "--on", "h100", "X=8", *SIZES],
    ["model", "llama_3_8b"],
    ["model", "gemma_3_1b", "--context", "4096", "--batch", "2"],
    ["model", "llama_3_8b", "--context", "4096", "--batch", "8", "--on", "h200", "--pp", "4"],
    ["model", "llama_3_8b", "--context", "4096", "--on", "h200", "--chips", "1..4"],
    ["model", "qwen3_next_80b_a3b", "--context", "64", "--on", "h200"],
    ["explain", str(ROOT / "examples/mlp.onnx"), "--on", "h200", "batch=8"],
    ["trace", str(ROOT / "examples/trace.json"), "--on", "h200"],
]
# Output of commands that take long, or need a device or other libraries.
RECORDED = [("probe", "tests/golden/probe.json"), ("bench", "tests/golden/bench_cpu_products.json"),
            ("bench", "tests/golden/bench_device_products.json"), ("bench", "tests/golden/bench_stream.json")]


def first(printed, *words):
    """Returns the output of the first command that begins with these words."""
    return next(p for command, p in zip(COMMANDS, printed) if command[:len(words)] == list(words))


def corruptions(printed, schemas, benchmark):
    """Returns documents, their schemas and functions that corrupt them."""
    good, planned = printed[1], printed[6]
    report, bench = schemas["explain"], schemas["bench"]
    return [(good, report, lambda d: d.pop("total")), (good, report, lambda d: d["ops"][0].update(limiter="luck")),
            (good, report, lambda d: d["ops"][0].update(flops="many")), (good, report, lambda d: d["machine"].update(host="here")),
            (good, report, lambda d: d["ops"][0]["thresholds"][0].pop("roofs")),
            (good, report, lambda d: d["summary"].pop("next")), (good, report, lambda d: d["summary"]["next"][0].pop("gain_s")),
            (planned, report, lambda d: d["ops"][0]["plan"].update(cuts="halves")),
            (planned, report, lambda d: d["ops"][0]["candidates"][0].pop("split_mode")),
            (printed[13], report, lambda d: d.update(verdict="perhaps")),
            (printed[11], report, lambda d: d["machines"][0].pop("dims")),
            (first(printed, "sweep"), schemas["sweep"], lambda d: d.update(schema="ridge.report/2")),
            (first(printed, "simulate", "systolic"), schemas["simulate"], lambda d: d.pop("cycles")),
            (benchmark, bench, lambda d: d["rows"][0].update(per_cycle="most")),
            (benchmark, bench, lambda d: d["rows"][0].update(clock=1e9)), (benchmark, bench, lambda d: d["rows"][0].update(right=1))]


def main() -> int:
    ridge = sys.argv[1]

    def printed_by(words):
        return subprocess.run([ridge, *words], capture_output=True, text=True)

    verbs = {command[0] for command in COMMANDS} | {verb for verb, _ in RECORDED}
    schemas = {verb: json.loads(printed_by([verb, "--schema"]).stdout) for verb in verbs}
    failed, printed = [], []
    for command in COMMANDS:
        done = printed_by([*command, "--json"])
        printed.append(json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else {})
        if fault := find_fault(printed[-1], schemas[command[0]]) if printed[-1] else done.stderr:
            failed.append(f"{' '.join(command)}: {fault}")
    recorded = [(verb, path, json.loads((ROOT / path).read_text())) for verb, path in RECORDED]
    for verb, path, document in recorded:
        if fault := find_fault(document, schemas[verb]):
            failed.append(f"{path}: {fault}")
    cases = corruptions(printed, schemas, next(d for _, path, d in recorded if "device_products" in path))
    for i, (document, schema, corrupt) in enumerate(cases):
        corrupted = copy.deepcopy(document)
        corrupt(corrupted)
        if not find_fault(corrupted, schema):
            failed.append(f"corrupted output {i} passed")
    print(*failed, f"{len(COMMANDS) + len(recorded)} documents, {len(cases)} corrupted ones, {len(failed)} wrong", sep="\n")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main())
