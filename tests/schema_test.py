#!/usr/bin/env python3
"""Holds what `ridge explain --json` and `ridge run --json` print and the committed results of `ridge bench matmul --against
cublaslt` against docs/report.schema.json, and the schema against spoilt output: schema_test.py RIDGE. Reads the part of JSON Schema that the file uses; a keyword that it does not know fails."""
import copy
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "null": type(None), "boolean": bool}
KNOWN = {"$schema", "title", "description", "$defs", "$ref", "type", "enum", "required", "properties", "additionalProperties", "items"}


def wrong(value, schema, root, at="$"):
    """The first place where the value leaves the schema; empty: none."""
    if unknown := set(schema) - KNOWN:
        return f"{at}: the schema uses {unknown}"
    if "$ref" in schema:
        return wrong(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    if "enum" in schema and value not in schema["enum"]:
        return f"{at}: {value!r} is none of {schema['enum']}"
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not ("boolean" in types if isinstance(value, bool) else any(isinstance(value, TYPES[t]) for t in types)):
            return f"{at}: {value!r} is no {types}"
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                return f"{at}: lacks {key}"
        extra = schema.get("additionalProperties", True)
        for key, inner in value.items():
            inside = schema.get("properties", {}).get(key, extra)
            if inside is False:
                return f"{at}: has {key}"
            if inside is not True and (found := wrong(inner, inside, root, f"{at}.{key}")):
                return found
    if isinstance(value, list) and "items" in schema:
        for i, inner in enumerate(value):
            if found := wrong(inner, schema["items"], root, f"{at}[{i}]"):
                return found
    return ""


def main() -> int:
    ridge = sys.argv[1]
    schema = json.loads((ROOT / "docs/report.schema.json").read_text())
    matmul = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
    sizes = ["-d", "B=64", "-d", "D=64", "-d", "F=64"]
    commands = [
        ["explain", matmul, "--on", "tpu_v5e"],
        ["explain", matmul, "--on", "h200", *sizes],
        ["explain", matmul, "--on", "tpu_v5e", "--split", "D=2", *sizes],
        ["explain", "x: bf16[N]\ny: f32[N] = cos(x)", "--on", "tpu_v5e", "-d", "N=8"],
        ["explain", str(ROOT / "examples/mlp.ridge"), "--on", "h200", "--plan"],
        ["explain", str(ROOT / "examples/geglu.ridge"), "--plan", "--no-fuse"],
        ["explain", matmul, "--on", "h200", "--plan", *sizes],
        ["explain", "x: bf16[B, D_X]\ny[B, D_X] = softmax(x over D)", "--on", "h100", "-d", "X=4"],
        ["explain", "--flops", "1e12", "--bytes", "1e9", "--on", "h100"],
        ["explain", str(ROOT / "examples/mlp.ridge"), "--on", "zen5"],
        ["run", "f32[M, K] * f32[K, N] -> f32[M, N]", "-d", "M=8", "-d", "K=8", "-d", "N=8"],
    ]
    failed = 0
    for command in commands:
        done = subprocess.run([ridge, *command, "--json"], capture_output=True, text=True)
        found = wrong(json.loads(done.stdout), schema, schema) if done.returncode == 0 else done.stderr
        if found:
            failed += 1
            print(f"{' '.join(command)}: {found}")
    contests = [json.loads((ROOT / f"results/h200_matmul_{name}.json").read_text()) for name in ("suite", "random")]
    contest = {"$ref": "#/$defs/device_contest"}
    for each in contests:
        if found := wrong(each, contest, schema):
            failed += 1
            print(f"{each['command']}: {found}")
    good = json.loads(subprocess.run([ridge, *commands[1], "--json"], capture_output=True, text=True).stdout)
    planned = json.loads(subprocess.run([ridge, *commands[6], "--json"], capture_output=True, text=True).stdout)
    spoils = [(good, schema, lambda d: d.pop("total")), (good, schema, lambda d: d["ops"][0].update(limiter="luck")),
              (good, schema, lambda d: d["ops"][0].update(flops="many")), (good, schema, lambda d: d["machine"].update(host="here")),
              (good, schema, lambda d: d["ops"][0]["thresholds"][0].pop("roofs")),
              (planned, schema, lambda d: d["ops"][0]["plan"].update(cuts="halves")),
              (planned, schema, lambda d: d["ops"][0]["candidates"][0].pop("split_mode")),
              (contests[0], contest, lambda d: d["rows"][0].update(per_cycle="most")),
              (contests[0], contest, lambda d: d["rows"][0].update(clock=1e9)), (contests[0], contest, lambda d: d["rows"][0].update(right=1))]
    for i, (report, kind, spoil) in enumerate(spoils):
        spoilt = copy.deepcopy(report)
        spoil(spoilt)
        if not wrong(spoilt, kind, schema):
            failed += 1
            print(f"spoilt output {i} passed")
    print(f"{len(commands) + len(contests)} reports, {len(spoils)} spoilt ones, {failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
