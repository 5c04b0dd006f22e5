#!/usr/bin/env python3
"""Times convolutions against PyTorch's, in turn:

    convolution_times.py RIDGE [--on cuda] [--threads N] [--dtype f32] [--batch N]

Prints a CSV row for each shape: the medians of PyTorch with channels second and with channels last (oneDNN or cuDNN), that of
`ridge run`, and Ridge's speed over the faster of the two; then the geometric means, each convolution of ResNet-50 as often as the
network has it. On a CPU Ridge has channels second, on a device last. PyTorch's weights have its own order before the measurement
begins. On a device both sides replay a graph of many calls on copies of the operands that together exceed the L2, and cuDNN tries its
algorithms first. Needs PyTorch; unset OPENBLAS_CORETYPE first."""
import argparse
import json
import math
import statistics
import subprocess
import time

import torch

# Channels, results, image, window, stride, padding, groups, times in the network
RESNET50 = [(3, 64, 224, 7, 2, 3, 1, 1), (64, 64, 56, 1, 1, 0, 1, 1), (64, 64, 56, 3, 1, 1, 1, 3), (64, 256, 56, 1, 1, 0, 1, 4),
            (256, 64, 56, 1, 1, 0, 1, 2), (256, 128, 56, 1, 1, 0, 1, 1), (128, 128, 56, 3, 2, 1, 1, 1), (128, 512, 28, 1, 1, 0, 1, 4),
            (256, 512, 56, 1, 2, 0, 1, 1), (512, 128, 28, 1, 1, 0, 1, 3), (128, 128, 28, 3, 1, 1, 1, 3), (512, 256, 28, 1, 1, 0, 1, 1),
            (256, 256, 28, 3, 2, 1, 1, 1), (256, 1024, 14, 1, 1, 0, 1, 6), (512, 1024, 28, 1, 2, 0, 1, 1), (1024, 256, 14, 1, 1, 0, 1, 5),
            (256, 256, 14, 3, 1, 1, 1, 5), (1024, 512, 14, 1, 1, 0, 1, 1), (512, 512, 14, 3, 2, 1, 1, 1), (512, 2048, 7, 1, 1, 0, 1, 3),
            (1024, 2048, 14, 1, 2, 0, 1, 1), (2048, 512, 7, 1, 1, 0, 1, 2), (512, 512, 7, 3, 1, 1, 1, 2)]
CONVNEXT = [(3, 96, 224, 4, 4, 0, 1, 1), (96, 96, 56, 7, 1, 3, 96, 3), (192, 192, 28, 7, 1, 3, 192, 3), (384, 384, 14, 7, 1, 3, 384, 9),
            (768, 768, 7, 7, 1, 3, 768, 3), (96, 192, 56, 2, 2, 0, 1, 1), (192, 384, 28, 2, 2, 0, 1, 1), (384, 768, 14, 2, 2, 0, 1, 1)]


def median_seconds(run):
    run()
    taken, end = [], time.perf_counter() + 0.4
    while time.perf_counter() < end or len(taken) < 5:
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def median_device_seconds(make_operands, call):
    """Replays a graph of about two milliseconds; each call has the next copy of the operands, at least 256 MiB together."""
    operands = [make_operands()]
    size = sum(x.numel() * x.element_size() for x in (*operands[0], call(*operands[0])))
    operands += [make_operands() for _ in range(min(256, (1 << 28) // size))]
    for each in operands:
        call(*each)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def record(calls):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = [call(*operands[i % len(operands)]) for i in range(calls)]
        return graph, results

    def replay(graph):
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    graph, _ = record(len(operands))
    replay(graph)
    calls = max(1, round(2e-3 / (replay(graph) / len(operands))))
    graph, _ = record(calls)
    replay(graph)
    return statistics.median(replay(graph) for _ in range(15)) / calls


def time_torch_on_device(shape, options):
    c, k, image, window, stride, padding, groups, _ = shape
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[options.dtype]
    torch.backends.cudnn.benchmark = True

    def make_operands(order):
        x = torch.randn(options.batch, c, image, image, device="cuda").to(dtype).to(memory_format=order)
        return x, torch.randn(k, c // groups, window, window, device="cuda").to(dtype).to(memory_format=order)

    with torch.inference_mode():
        for order in (torch.contiguous_format, torch.channels_last):
            yield median_device_seconds(
                lambda: make_operands(order),
                lambda x, w: torch.nn.functional.conv2d(x, w, stride=stride, padding=padding, groups=groups))


def time_torch(shape, options):
    c, k, image, window, stride, padding, groups, _ = shape
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[options.dtype]
    x, w = torch.randn(options.batch, c, image, image).to(dtype), torch.randn(k, c // groups, window, window).to(dtype)
    with torch.inference_mode():
        for order in (torch.contiguous_format, torch.channels_last):
            a, b = x.to(memory_format=order), w.to(memory_format=order)
            yield median_seconds(lambda: torch.nn.functional.conv2d(a, b, stride=stride, padding=padding, groups=groups))


def time_ridge(shape, options):
    c, k, image, window, stride, padding, groups, _ = shape
    out, t = (image + 2 * padding - window) // stride + 1, options.dtype
    each = "G" if groups > 1 else "C"
    last = f"x: {t}[N, H, W, C]   w: {t}[K, {window}, {window}, {each}]\ny: {t}[N, P, Q, K]"
    second = f"x: {t}[N, C, H, W]   w: {t}[K, {each}, {window}, {window}]\ny: {t}[N, K, P, Q]"
    text = (last if options.on == "cuda" else second) + (
        f" = conv(x, w, stride = {stride}, padding = {padding}, groups = {groups})")
    sizes = {"N": options.batch, "C": c, "K": k, "H": image, "W": image, "P": out, "Q": out}
    if groups > 1:
        sizes["G"] = c // groups
    command = [options.ridge, "run", text, "--json"]
    command += ["--on", "cuda"] if options.on == "cuda" else ["--threads", str(options.threads)]
    for name, size in sizes.items():
        command += ["-d", f"{name}={size}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr)
        return math.nan
    return json.loads(done.stdout)["total"]["measured_s"]["median"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ridge")
    parser.add_argument("--on", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("network,channels,results,image,window,stride,groups,torch_s,torch_channels_last_s,ridge_s,ratio")
    for network, shapes in (("resnet50", RESNET50), ("convnext", CONVNEXT)):
        logs = count = 0
        for shape in shapes:
            second, last = (time_torch_on_device if options.on == "cuda" else time_torch)(shape, options)
            ours = time_ridge(shape, options)
            ratio = min(second, last) / ours
            if ratio == ratio:
                logs, count = logs + shape[-1] * math.log(ratio), count + shape[-1]
            print(network, *shape[:5], shape[6], f"{second:.3e},{last:.3e},{ours:.3e},{ratio:.2f}", sep=",", flush=True)
        print(f"{network}: geometric mean of {count} convolutions {math.exp(logs / max(count, 1)):.2f}")


if __name__ == "__main__":
    main()
