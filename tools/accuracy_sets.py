"""The sets of timings of tools/accuracy_table.py, each converted to a CSV that `ridge calibrate` reads."""
import csv
import pathlib
import statistics
from dataclasses import dataclass, field
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTED_SOURCE = "ai-dynamo/aiconfigurator collections"
OWN_PRODUCTS = "data/library/h200_cublaslt.csv"
PUBLIC_PRODUCTS = "aic_gemm_bf16_h100_a100_l40s_b200.csv"
QUANTIZED = "aic_h200_quantize_pointwise.csv"
OPERATORS = "neusight_op_predictions.csv"
MAX_ROOF_FRACTION = 1.1  # a faster timing is wrong or has cached operands
MAX_HEAD_DIM = 256  # largest head dimension; other kernels compute wider heads
MIN_US = 100  # minimum time of an operator timed from Python; below it the launch dominates


@dataclass
class TimingSet:
    title: str
    machine: str
    file: str  # name in `folder`
    dtype: str
    goal: str
    rows: Callable  # maps the file's rows to (head, rows, kinds, remark)
    folder: pathlib.Path
    updates_machine: bool = False  # if true, --write stores its numbers in machines/
    pooled: bool = False  # if true, one line of the table covers this and other machines
    source: str = COLLECTED_SOURCE
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


def products_from_column(name):
    """Returns a converter of product timings whose times are in column `name`."""
    def convert_rows(rows):
        return ["dtype", "m", "n", "k", "us"], [[r.get("dtype", ""), r["m"], r["n"], r["k"], r[name]] for r in rows if r[name]], {}, ""
    return convert_rows


def products_from_medians(rows):
    times = [statistics.median(float(r[c]) for c in ("vllm_us", "trtllm_us", "sglang_us") if r[c]) for r in rows]
    return ["m", "n", "k", "us"], [[r["m"], r["n"], r["k"], t] for r, t in zip(rows, times)], {}, ""


def attention_from_columns(name, length, more):
    """Returns a converter of attention timings; the number of keys is column `length` plus `more`."""
    def convert_rows(rows):
        out = [[r["batch_size"], r["n_q_heads"], r["n_kv_heads"] if r["n_kv_heads"] != "0" else r["n_q_heads"],
                int(r[length]) + more, r["head_dim"], r[name]] for r in rows if r[name] and int(r["head_dim"]) <= MAX_HEAD_DIM]
        return ["batch", "heads", "key_heads", "keys" if more else "rows", "width", "us"], out, {}, ""
    return convert_rows


def quantize_kernels(framework, op, bytes_per_s):
    """Returns a converter of timings of kernels that read bf16 and write fp8."""
    def convert_rows(rows):
        mine = [r for r in rows if r["framework"] == framework and r["op"] == op]
        kept = [r for r in mine if 3e6 * int(r["m"]) * int(r["k"]) / bytes_per_s < MAX_ROOF_FRACTION * float(r["latency_us"])]
        remark = f" ({len(mine) - len(kept)} of {len(mine)} above the roof left out)" if len(kept) < len(mine) else ""
        return ["rows", "row_bytes", "us"], [[r["m"], 3 * int(r["k"]), r["latency_us"]] for r in kept], {}, remark
    return convert_rows


KINDS = {"Linear": "linear", "BMM": "bmm", "VECln": "norm", "VECsoftmax": "softmax"}


def operator_sizes(row):
    """Returns the sizes of an operator in the order of the formula's inputs."""
    batch, m, n, k = (int(row[c] or 0) for c in ("batch_or_rows", "m_or_cols", "n", "k"))
    if row["op"] == "BMM":
        return [m, n, k, batch]
    return [max(batch, 1) * m, n, k, 1] if row["op"] == "Linear" else [batch, int(row["bytes"]) / batch]


def neusight_operators(gpu, kinds_of):
    def convert_rows(rows):
        mine = [r for r in rows if r["gpu"] == gpu and float(r["meas_us"]) >= MIN_US and KINDS.get(r["op"], "elementwise") in kinds_of]
        kinds = {}
        for r in mine:
            timing = float(r["meas_us"]) * 1e-6, KINDS.get(r["op"], "elementwise"), float(r["neusight_us"]) * 1e-6
            kinds.setdefault(tuple(map(float, operator_sizes(r))), []).append(timing)
        head = ["rows", "row_bytes", "us"] if "elementwise" in kinds_of else ["m", "n", "k", "batch", "us"]
        return head, [[*operator_sizes(r), r["meas_us"]] for r in mine], kinds, ""
    return convert_rows


GPUS = {"A100-PCIE-40GB": "a100_pcie_40", "A100-PCIE-80GB": "a100_pcie_80", "H100-SXM-80GB": "h100", "L4": "l4", "T4": "t4",
        "V100-PCIE-32GB": "v100_pcie", "P100-PCIE-16GB": "p100"}
H200_BYTES_PER_S = 4.8e12


def list_timing_sets(public):
    yield TimingSet("H200 bf16, own random set and suite", "h200", OWN_PRODUCTS, "bf16", "8 %", products_from_column("us_best"), ROOT,
                    updates_machine=True, source=OWN_PRODUCTS)
    yield TimingSet("H200 bf16, median of three", "h200", "aic_h200_gemm_bfloat16.csv", "bf16", "6.5 %", products_from_medians, public)
    for machine, name, goal in (("h100", "H100", 8), ("a100_80", "A100", 10), ("l40s", "L40S", 10), ("b200", "B200", 10)):
        yield TimingSet(f"{name} bf16", machine, PUBLIC_PRODUCTS, "bf16", f"{goal} %", products_from_column(f"{name.lower()}_us"), public,
                        updates_machine=True)
    for framework, name in (("trtllm", "TensorRT-LLM"), ("sglang", "SGLang"), ("vllm", "vLLM")):
        yield TimingSet(f"H200 fp8, {name}", "h200", "aic_h200_gemm_fp8.csv", "e4m3", "12 %",
                        products_from_column(f"{framework}_us"), public)
        yield TimingSet(f"H200 attention prefill, {name}", "h200", "aic_h200_attention_context_bf16.csv", "bf16", "10 %",
                        attention_from_columns(f"{framework}_us", "isl", 0), public)
        yield TimingSet(f"H200 attention decode, {name}", "h200", "aic_h200_attention_generation_bf16.csv", "bf16", "10 %",
                        attention_from_columns(f"{framework}_us", "step", 1), public)
    for framework, name in (("trtllm", "TensorRT-LLM"), ("vllm", "vLLM")):
        for op in ("scale_matrix", "computescale"):
            yield TimingSet(f"H200 pointwise, {name} {op}", "h200", QUANTIZED, "bf16", "8 %",
                            quantize_kernels(framework, op, H200_BYTES_PER_S), public)
    for gpu, machine in GPUS.items():
        for kinds in (["linear"], ["bmm"], ["elementwise", "norm", "softmax"]):
            yield TimingSet(f"NeuSight {gpu}, {' '.join(kinds)}", machine, OPERATORS, "f32", "", neusight_operators(gpu, kinds), public,
                            pooled=True, source="sitar-lab/NeuSight")
