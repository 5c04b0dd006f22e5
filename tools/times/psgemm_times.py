#!/usr/bin/env python3
"""Times products on ranks of one machine: `ridge run --ranks P --spread` and psgemm of MKL's ScaLAPACK over Open MPI, with one
thread per rank and evenly distributed operands and results. A round is a median of five passes:

    psgemm_times.py ridge MKL_LIBRARIES OUT.json [RANKS …]

MKL_LIBRARIES is the folder of libmkl_scalapack_lp64.so.2 (from the wheel `mkl`). psgemm uses the fastest of all process
grids of that many ranks and of blocks of 64 and 256."""
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

import harness

SHAPES = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 1024, 1024), (1024, 1024, 8192),
          (3000, 2500, 2000)]  # m, n, k
BLOCKS, PASSES, SERVE = [64, 256], 5, "--serve"
LIBRARIES = ["core", "sequential", "intel_lp64", "blacs_openmpi_lp64", "scalapack_lp64"]
PEER = "psgemm of MKL's ScaLAPACK, sequential, Open MPI"
INT = ctypes.c_int


def references(*numbers):
    """Returns arguments as Fortran takes them."""
    return [ctypes.byref(x if isinstance(x, (INT, ctypes.c_float)) else INT(x)) for x in numbers]


class PsgemmRank:
    """A rank of psgemm: libraries through ctypes, arguments by reference."""

    def __init__(self, folder):
        self.mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.mpi.MPI_Init(None, None)
        found = {}
        for name in LIBRARIES:
            path = next(pathlib.Path(folder).glob(f"libmkl_{name}.so.*"))
            found[name] = ctypes.CDLL(str(path), mode=os.RTLD_LAZY | os.RTLD_GLOBAL)
        self.blacs, self.library = found["blacs_openmpi_lp64"], found["scalapack_lp64"]
        self.library.numroc_.restype = INT
        rank, count = INT(), INT()
        self.blacs.blacs_pinfo_(*references(rank, count))
        self.rank, self.count = rank.value, count.value

    def make_matrix(self, context, size, block, place, grid):
        """Returns this rank's part of a random matrix, and its description."""
        import numpy

        here = [self.library.numroc_(*references(n, block, at, 0, count)) for n, at, count in zip(size, place, grid)]
        data = numpy.random.default_rng(self.rank).standard_normal(here, dtype=numpy.float32)
        return numpy.asfortranarray(data), (INT * 9)(1, context.value, *size, block, block, 0, 0, max(1, here[0]))

    def time_passes(self, shape, grid, block):
        m, n, k = shape
        context, row, col = INT(), INT(), INT()
        self.blacs.blacs_get_(*references(-1, 0, context))
        self.blacs.blacs_gridinit_(*references(context), ctypes.c_char_p(b"R"), *references(*grid))
        self.blacs.blacs_gridinfo_(*references(context, *grid, row, col))
        matrices = [self.make_matrix(context, size, block, (row.value, col.value), grid) for size in ((m, k), (k, n), (m, n))]
        a, b, c = ([ctypes.c_void_p(data.ctypes.data), *references(1, 1), description] for data, description in matrices)
        alpha, beta = references(ctypes.c_float(1), ctypes.c_float(0))
        times = []
        for _ in range(1 + PASSES):
            self.blacs.blacs_barrier_(*references(context), ctypes.c_char_p(b"A"))
            begin = time.perf_counter()
            self.library.psgemm_(ctypes.c_char_p(b"N"), ctypes.c_char_p(b"N"), *references(m, n, k), alpha, *a, *b, beta, *c)
            self.blacs.blacs_barrier_(*references(context), ctypes.c_char_p(b"A"))
            times.append(time.perf_counter() - begin)
        self.blacs.blacs_gridexit_(*references(context))
        return times[1:]


def serve(folder, shape):
    theirs = PsgemmRank(folder)
    grids = [(rows, theirs.count // rows) for rows in range(1, theirs.count + 1) if theirs.count % rows == 0]
    found = {f"{grid[0]} x {grid[1]}, {block}": statistics.median(theirs.time_passes(shape, grid, block))
             for grid in grids for block in BLOCKS}
    if theirs.rank == 0:
        print(json.dumps(found), flush=True)
    theirs.mpi.MPI_Finalize()


def time_shape(ridge, folder, ranks, shape, rounds):
    m, n, k = shape
    product = [ridge, "run", "f32[M, K] * f32[K, N] -> f32[M, N]", f"M={m}", f"N={n}", f"K={k}"]
    psgemm = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks, sys.executable, __file__, SERVE, folder, f"{m},{n},{k}"]
    runs = harness.alternate({"ridge": lambda: harness.run_json([*product, "--ranks", ranks, "--threads", "1", "--spread", "--json"]),
                              "psgemm": lambda: json.loads(harness.run_text(psgemm).splitlines()[-1])}, rounds)
    ours = [run["total"]["measured_s"]["median"] for run in runs["ridge"]]
    theirs = {way: [run[way] for run in runs["psgemm"]] for way in runs["psgemm"][0]}
    best = min(theirs, key=lambda way: statistics.median(theirs[way]))
    ridge_s, psgemm_s = statistics.median(ours), statistics.median(theirs[best])
    return {"m": m, "n": n, "k": k, "ranks": ranks, "ridge_s": ridge_s, "ridge_spread_s": harness.spread(ours),
            "grid": runs["ridge"][-1]["network"]["grid"], "psgemm_s": psgemm_s, "psgemm_spread_s": harness.spread(theirs[best]),
            "psgemm_grid": best, "ours_over_theirs": round(ridge_s / psgemm_s, 3)}


def main():
    arguments = harness.parse_arguments(__doc__, "ridge folder out ranks...", 3)
    result = harness.Result(arguments.out, harness.name_cpu(), peer=PEER)
    for ranks in map(int, arguments.ranks or ["2"]):
        for shape in SHAPES:
            result.add(time_shape(arguments.ridge, arguments.folder, ranks, shape, arguments.rounds))


if __name__ == "__main__":
    serve(sys.argv[2], tuple(map(int, sys.argv[3].split(",")))) if sys.argv[1:2] == [SERVE] else main()
