"""The sets of timings of tools/accuracy_table.py, each converted to a CSV that `ridge calibrate` reads."""
import csv
import pathlib
import statistics
from dataclasses import dataclass, field
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTED = "ai-dynamo/aiconfigurator collections"
OWN = "data/library/h200_cublaslt.csv"
OTHERS = "aic_gemm_bf16_h100_a100_l40s_b200.csv"
QUANTIZED = "aic_h200_quantize_pointwise.csv"
OPERATORS = "neusight_op_predictions.csv"
MAX_OF_ROOF = 1.1  # a faster timing is wrong or has cached operands
MAX_HEAD_DIM = 256  # largest head dimension; other kernels compute wider heads
MIN_US = 100  # minimum time of an operator timed from Python; below it the launch dominates


@dataclass
class Set:
    what: str
    machine: str
    file: str  # name in `folder`
    dtype: str
    goal: str
    rows: Callable  # maps the file's rows to (head, rows, kinds, remark)
    folder: pathlib.Path
    writes: bool = False  # if true, --write stores its numbers in machines/
    pooled: bool = False  # one machine of a line over several
    source: str = COLLECTED
    remark: str = field(default="", init=False)

    def prepare(self, path):
        """Writes the timings. Returns times, kinds and predictions by others per kernel size, or None if the file is missing."""
        file = self.folder / self.file
        if not file.is_file():
            return None
        with file.open() as text:
            head, rows, kinds, self.remark = self.rows(list(csv.DictReader(line for line in text if not line.startswith("#"))))
        path.write_text("\n".join([",".join(head)] + [",".join(str(x) for x in row) for row in rows]) + "\n")
        return kinds


def column(name):
    """Products with one column of times."""
    def rows_of(rows):
        return ["dtype", "m", "n", "k", "us"], [[r.get("dtype", ""), r["m"], r["n"], r["k"], r[name]] for r in rows if r[name]], {}, ""
    return rows_of


def medians(rows):
    times = [statistics.median(float(r[c]) for c in ("vllm_us", "trtllm_us", "sglang_us") if r[c]) for r in rows]
    return ["m", "n", "k", "us"], [[r["m"], r["n"], r["k"], t] for r, t in zip(rows, times)], {}, ""


def attention(name, length, more):
    """The number of keys is column `length` plus `more`."""
    def rows_of(rows):
        out = [[r["batch_size"], r["n_q_heads"], r["n_kv_heads"] if r["n_kv_heads"] != "0" else r["n_q_heads"],
                int(r[length]) + more, r["head_dim"], r[name]] for r in rows if r[name] and int(r["head_dim"]) <= MAX_HEAD_DIM]
        return ["batch", "heads", "key_heads", "keys" if more else "rows", "width", "us"], out, {}, ""
    return rows_of


def quantized(framework, op, bytes_per_s):
    """Kernels that read bf16 and write fp8."""
    def rows_of(rows):
        mine = [r for r in rows if r["framework"] == framework and r["op"] == op]
        kept = [r for r in mine if 3e6 * int(r["m"]) * int(r["k"]) / bytes_per_s < MAX_OF_ROOF * float(r["latency_us"])]
        remark = f" ({len(mine) - len(kept)} of {len(mine)} above the roof left out)" if len(kept) < len(mine) else ""
        return ["rows", "row_bytes", "us"], [[r["m"], 3 * int(r["k"]), r["latency_us"]] for r in kept], {}, remark
    return rows_of


KINDS = {"Linear": "linear", "BMM": "bmm", "VECln": "norm", "VECsoftmax": "softmax"}


def sized(row):
    """Returns the sizes of an operator in the order of the form's columns."""
    batch, m, n, k = (int(row[c] or 0) for c in ("batch_or_rows", "m_or_cols", "n", "k"))
    if row["op"] == "BMM":
        return [m, n, k, batch]
    return [max(batch, 1) * m, n, k, 1] if row["op"] == "Linear" else [batch, int(row["bytes"]) / batch]


def operators(gpu, kinds_of):
    def rows_of(rows):
        mine = [r for r in rows if r["gpu"] == gpu and float(r["meas_us"]) >= MIN_US and KINDS.get(r["op"], "elementwise") in kinds_of]
        kinds = {}
        for r in mine:
            timing = float(r["meas_us"]) * 1e-6, KINDS.get(r["op"], "elementwise"), float(r["neusight_us"]) * 1e-6
            kinds.setdefault(tuple(map(float, sized(r))), []).append(timing)
        head = ["rows", "row_bytes", "us"] if "elementwise" in kinds_of else ["m", "n", "k", "batch", "us"]
        return head, [[*sized(r), r["meas_us"]] for r in mine], kinds, ""
    return rows_of


GPUS = {"A100-PCIE-40GB": "a100_pcie_40", "A100-PCIE-80GB": "a100_pcie_80", "H100-SXM-80GB": "h100", "L4": "l4", "T4": "t4",
        "V100-PCIE-32GB": "v100_pcie", "P100-PCIE-16GB": "p100"}
H200_BYTES_PER_S = 4.8e12


def sets(public):
    yield Set("H200 bf16, own random set and suite", "h200", OWN, "bf16", "8 %", column("us_best"), ROOT, writes=True, source=OWN)
    yield Set("H200 bf16, median of three", "h200", "aic_h200_gemm_bfloat16.csv", "bf16", "6.5 %", medians, public)
    for machine, name, goal in (("h100", "H100", 8), ("a100_80", "A100", 10), ("l40s", "L40S", 10), ("b200", "B200", 10)):
        yield Set(f"{name} bf16", machine, OTHERS, "bf16", f"{goal} %", column(f"{name.lower()}_us"), public, writes=True)
    for framework, name in (("trtllm", "TensorRT-LLM"), ("sglang", "SGLang"), ("vllm", "vLLM")):
        yield Set(f"H200 fp8, {name}", "h200", "aic_h200_gemm_fp8.csv", "e4m3", "12 %", column(f"{framework}_us"), public)
        yield Set(f"H200 attention prefill, {name}", "h200", "aic_h200_attention_context_bf16.csv", "bf16", "10 %",
                  attention(f"{framework}_us", "isl", 0), public)
        yield Set(f"H200 attention decode, {name}", "h200", "aic_h200_attention_generation_bf16.csv", "bf16", "10 %",
                  attention(f"{framework}_us", "step", 1), public)
    for framework, name in (("trtllm", "TensorRT-LLM"), ("vllm", "vLLM")):
        for op in ("scale_matrix", "computescale"):
            yield Set(f"H200 pointwise, {name} {op}", "h200", QUANTIZED, "bf16", "8 %", quantized(framework, op, H200_BYTES_PER_S), public)
    for gpu, machine in GPUS.items():
        for kinds in (["linear"], ["bmm"], ["elementwise", "norm", "softmax"]):
            yield Set(f"NeuSight {gpu}, {' '.join(kinds)}", machine, OPERATORS, "f32", "", operators(gpu, kinds), public, pooled=True,
                      source="sitar-lab/NeuSight")
