"""The sets of timings of tools/accuracy_table.py, each converted to a CSV that `ridge calibrate` reads."""
import csv
import pathlib
import statistics  # noqa: F401  for a template
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN_PRODUCTS = "data/library/h200_cublaslt.csv"
PUBLIC_PRODUCTS = "aic_gemm_bf16_h100_a100_l40s_b200.csv"
MAX_HEAD_DIM = 256  # largest head dimension; other kernels compute wider heads
MIN_US = 100  # minimum time of an operator timed from Python; below it the launch dominates
# Kernels read bf16 and write fp8. One that exceeds 4.8 TB/s by more than a tenth is wrong or has cached operands.
WITHIN_ROOF = "3e6 * int(m) * int(k) / 4.8e12 < 1.1 * float(latency_us)"
KINDS = {"Linear": "linear", "BMM": "bmm", "VECln": "norm", "VECsoftmax": "softmax"}
GPUS = {"A100-PCIE-40GB": "a100_pcie_40", "A100-PCIE-80GB": "a100_pcie_80", "H100-SXM-80GB": "h100", "L4": "l4", "T4": "t4",
        "V100-PCIE-32GB": "v100_pcie", "P100-PCIE-16GB": "p100"}


@dataclass
class TimingSet:
    title: str
    machine: str
    file: str  # name in `folder`
    goal: str
    columns: str  # Columns of the CSV
    cells: str  # f-string of a line over the fields of a row
    keep: str = "True"  # Expression that is true for rows of the set
    within_roof: str = "True"  # Expression; other rows are left out, and a remark counts them
    dtype: str = "bf16"
    folder: pathlib.Path = None
    updates_machine: bool = False  # if true, --write stores its numbers in machines/
    source: str = "ai-dynamo/aiconfigurator collections"
    kinds: tuple = ()  # Kinds of NeuSight's operators; one line of the table covers a kind on all machines
    remark: str = field(default="", init=False)

    def prepare(self, path):
        """Writes the timings. Returns times, kinds and predictions by others per kernel size, or None if the file is missing."""
        if not (self.folder / self.file).is_file():
            return None
        with (self.folder / self.file).open() as text:
            rows = [globals() | row | {"row": row} for row in csv.DictReader(line for line in text if not line.startswith("#"))]
        mine = [row for row in rows if eval(self.keep, row | {"kinds": self.kinds})]
        kept = [row for row in mine if eval(self.within_roof, row)]
        if len(kept) < len(mine):
            self.remark = f" ({len(mine) - len(kept)} of {len(mine)} above the roof left out)"
        path.write_text("\n".join([self.columns, *(eval(f'f"{self.cells}"', row) for row in kept)]) + "\n")
        kinds = {}
        for row in kept if self.kinds else []:
            sizes = tuple(map(float, operator_sizes(row)))
            kinds.setdefault(sizes, []).append((float(row["meas_us"]) * 1e-6, kind_of(row["op"]), float(row["neusight_us"]) * 1e-6))
        return kinds


def kind_of(op):
    return KINDS.get(op, "elementwise")


def operator_sizes(row):
    """Returns the sizes of an operator in the order of the formula's inputs."""
    batch, m, n, k = (int(row[c] or 0) for c in ("batch_or_rows", "m_or_cols", "n", "k"))
    if row["op"] == "BMM":
        return [m, n, k, batch]
    return [max(batch, 1) * m, n, k, 1] if row["op"] == "Linear" else [batch, int(row["bytes"]) / batch]


def list_timing_sets(public):
    """Yields the sets; `public` is the folder of timings by others."""
    def products(column):
        return {"columns": "dtype,m,n,k,us", "cells": "{row.get('dtype', '')},{m},{n},{k},{%s}" % column, "keep": column, "folder": public}

    def attention(library, phase, keys, length):
        heads = "{batch_size},{n_q_heads},{n_kv_heads if n_kv_heads != '0' else n_q_heads}"
        return TimingSet(f"H200 attention {phase}, {names[library]}", "h200",
                         f"aic_h200_attention_{'context' if phase == 'prefill' else 'generation'}_bf16.csv", "10 %",
                         f"batch,heads,key_heads,{keys},width,us", heads + ",{%s},{head_dim},{%s_us}" % (length, library),
                         f"{library}_us and int(head_dim) <= MAX_HEAD_DIM", folder=public)

    names = {"trtllm": "TensorRT-LLM", "sglang": "SGLang", "vllm": "vLLM"}
    yield TimingSet("H200 bf16, own random set and suite", "h200", OWN_PRODUCTS, "8 %", **products("us_best") | {"folder": ROOT},
                    updates_machine=True, source=OWN_PRODUCTS)
    yield TimingSet("H200 bf16, median of three", "h200", "aic_h200_gemm_bfloat16.csv", "6.5 %", "m,n,k,us", folder=public, cells=(
        "{m},{n},{k},{statistics.median(float(us) for us in (vllm_us, trtllm_us, sglang_us) if us)}"))
    for machine, name, goal in (("h100", "H100", 8), ("a100_80", "A100", 10), ("l40s", "L40S", 10), ("b200", "B200", 10)):
        yield TimingSet(f"{name} bf16", machine, PUBLIC_PRODUCTS, f"{goal} %", **products(f"{name.lower()}_us"), updates_machine=True)
    for library, name in names.items():
        yield TimingSet(f"H200 fp8, {name}", "h200", "aic_h200_gemm_fp8.csv", "12 %", **products(f"{library}_us"), dtype="e4m3")
        yield attention(library, "prefill", "rows", "isl")
        yield attention(library, "decode", "keys", "int(step) + 1")
    for library in ("trtllm", "vllm"):
        for op in ("scale_matrix", "computescale"):
            yield TimingSet(f"H200 pointwise, {names[library]} {op}", "h200", "aic_h200_quantize_pointwise.csv", "8 %", "rows,row_bytes,us",
                            "{m},{3 * int(k)},{latency_us}", f"framework == '{library}' and op == '{op}'", WITHIN_ROOF, folder=public)
    for gpu, machine in GPUS.items():
        for kinds in (("linear",), ("bmm",), ("elementwise", "norm", "softmax")):
            columns = "m,n,k,batch,us" if len(kinds) == 1 else "rows,row_bytes,us"
            yield TimingSet(f"NeuSight {gpu}, {' '.join(kinds)}", machine, "neusight_op_predictions.csv", "", columns,
                            "{','.join(map(str, operator_sizes(row)))},{meas_us}", f"gpu == '{gpu}' and float(meas_us) >= MIN_US and "
                            "kind_of(op) in kinds", dtype="f32", folder=public, source="sitar-lab/NeuSight", kinds=kinds)
