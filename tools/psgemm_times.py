#!/usr/bin/env python3
"""Times products on ranks of one machine: `ridge run --ranks P --spread` and psgemm of MKL's ScaLAPACK over Open MPI
alternate, with one thread per rank and evenly distributed operands and results. Prints a line per case and writes JSON:

    psgemm_times.py ridge MKL_LIBRARIES OUT.json [RANKS …]

MKL_LIBRARIES is the folder of libmkl_scalapack_lp64.so.2 (from the wheel `mkl`). psgemm uses the fastest of all process
grids of that many ranks and of blocks of 64 and 256. Both run in PSGEMM_TURNS rounds (3), each a median of 5 passes."""
import ctypes
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

SHAPES = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 1024, 1024), (1024, 1024, 8192), (3000, 2500, 2000)]  # m, n, k
BLOCKS, TURNS, PASSES = [64, 256], int(os.environ.get("PSGEMM_TURNS", "3")), 5
LIBRARIES = ["core", "sequential", "intel_lp64", "blacs_openmpi_lp64", "scalapack_lp64"]


def grids(ranks: int) -> list:
    return [(rows, ranks // rows) for rows in range(1, ranks + 1) if ranks % rows == 0]


class PsgemmRank:
    """A rank of psgemm: libraries through ctypes, arguments by reference as in Fortran."""

    def __init__(self, folder: str):
        import numpy

        self.numpy = numpy
        self.mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.mpi.MPI_Init(None, None)
        found = {}
        for name in LIBRARIES:
            path = next(pathlib.Path(folder).glob(f"libmkl_{name}.so.*"))
            found[name] = ctypes.CDLL(str(path), mode=os.RTLD_LAZY | os.RTLD_GLOBAL)
        self.communication, self.library = found["blacs_openmpi_lp64"], found["scalapack_lp64"]
        rank, count = ctypes.c_int(), ctypes.c_int()
        self.blacs("blacs_pinfo_", rank, count)
        self.rank, self.count = rank.value, count.value

    def blacs(self, name: str, *arguments) -> None:
        getattr(self.communication, name)(*[ctypes.byref(a) if isinstance(a, ctypes.c_int) else a for a in arguments])

    def local_extent(self, extent: int, block: int, place: int, places: int) -> int:
        numroc = self.library.numroc_
        numroc.restype = ctypes.c_int
        return numroc(*[ctypes.byref(ctypes.c_int(x)) for x in (extent, block, place, 0, places)])

    def time_passes(self, shape, grid, block) -> list:
        m, n, k = shape
        context, row, col = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.blacs("blacs_get_", ctypes.c_int(-1), ctypes.c_int(0), context)
        self.blacs("blacs_gridinit_", context, ctypes.c_char_p(b"R"), ctypes.c_int(grid[0]), ctypes.c_int(grid[1]))
        self.blacs("blacs_gridinfo_", context, ctypes.c_int(grid[0]), ctypes.c_int(grid[1]), row, col)
        matrices = []
        for rows, cols in ((m, k), (k, n), (m, n)):
            here = self.local_extent(rows, block, row.value, grid[0]), self.local_extent(cols, block, col.value, grid[1])
            data = self.numpy.asfortranarray(self.numpy.random.default_rng(self.rank).standard_normal(here, dtype=self.numpy.float32))
            description = (ctypes.c_int * 9)(1, context.value, rows, cols, block, block, 0, 0, max(1, here[0]))
            matrices.append((data, description))
        one, alpha, beta = ctypes.c_int(1), ctypes.c_float(1), ctypes.c_float(0)
        arguments = [ctypes.c_char_p(b"N"), ctypes.c_char_p(b"N"), *[ctypes.byref(ctypes.c_int(x)) for x in (m, n, k)], ctypes.byref(alpha)]
        for at, (data, description) in enumerate(matrices):
            arguments += [*([ctypes.byref(beta)] if at == 2 else []), ctypes.c_void_p(data.ctypes.data), ctypes.byref(one), ctypes.byref(one), description]
        times = []
        for _ in range(1 + PASSES):
            self.blacs("blacs_barrier_", context, ctypes.c_char_p(b"A"))
            begin = time.perf_counter()
            self.library.psgemm_(*arguments)
            self.blacs("blacs_barrier_", context, ctypes.c_char_p(b"A"))
            times.append(time.perf_counter() - begin)
        self.blacs("blacs_gridexit_", context)
        return times[1:]


def serve(folder: str, shape) -> None:
    theirs = PsgemmRank(folder)
    found = {}
    for grid in grids(theirs.count):
        for block in BLOCKS:
            found[f"{grid[0]} x {grid[1]}, {block}"] = statistics.median(theirs.time_passes(shape, grid, block))
    if theirs.rank == 0:
        print(json.dumps(found), flush=True)
    theirs.mpi.MPI_Finalize()


def main() -> None:
    ridge, folder, target = sys.argv[1:4]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS", "OMP_", "MKL_"))}
    rows = []
    for ranks in map(int, sys.argv[4:] or ["2"]):
        for m, n, k in SHAPES:
            ours, theirs, words = [], {}, {}
            for _ in range(TURNS):
                mine = subprocess.run([ridge, "run", "f32[M, K] * f32[K, N] -> f32[M, N]", f"M={m}", f"N={n}", f"K={k}", "--ranks", str(ranks), "--threads", "1", "--spread", "--json"],
                                      capture_output=True, text=True, check=True, env=clean)
                report = json.loads(mine.stdout)
                ours.append(report["total"]["measured_s"]["median"])
                words = report["network"]
                done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), sys.executable, __file__, "--serve", folder, f"{m},{n},{k}"],
                                      capture_output=True, text=True, check=True, env=clean)
                for way, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                    theirs.setdefault(way, []).append(seconds)
            middle = {way: statistics.median(times) for way, times in theirs.items()}
            best = min(middle, key=middle.get)
            row = {"m": m, "n": n, "k": k, "ranks": ranks, "ridge_s": statistics.median(ours), "ridge_spread_s": max(ours) - min(ours), "grid": words["grid"],
                   "psgemm_s": middle[best], "psgemm_spread_s": max(theirs[best]) - min(theirs[best]), "psgemm_grid": best,
                   "ours_over_theirs": round(statistics.median(ours) / middle[best], 3)}
            rows.append(row)
            print(json.dumps(row), flush=True)
            cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
            document = {"date": datetime.date.today().isoformat(), "device": cpu, "commit": os.environ.get("RIDGE_COMMIT", ""),
                        "command": "tools/psgemm_times.py ridge MKL_LIBRARIES OUT.json", "peer": "psgemm of MKL's ScaLAPACK, sequential, Open MPI", "rows": rows}
            pathlib.Path(target).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], tuple(map(int, sys.argv[3].split(","))))
    else:
        main()
