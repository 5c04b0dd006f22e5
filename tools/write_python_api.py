#!/usr/bin/env python3
"""Writes docs/python_api.md from the docstrings and annotations of the Python package, without importing it.

    tools/write_python_api.py [--check]     --check writes nothing and fails if the page is not what would be written
"""
import argparse
import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/python_api.md"
FUNCTIONS = {"_explain.py": ["explain", "sweep", "measure"], "_compute.py": ["run", "matmul", "softmax", "rmsnorm", "geglu"],
             "_attention.py": ["attention"], "_weights.py": ["weights_from_gptq", "weights_from_awq"]}
OPERATORS = {"torch/_trace.py": ["explain"], "torch/_operators.py": ["matmul", "geglu", "softmax", "rmsnorm"],
             "torch/_attention.py": ["attention"]}
CLASSES = ["Report", "Op", "Time", "Formula", "Threshold", "Kernel", "Measured", "Sweep"]
HEAD = """# Python reference

This page is written from the docstrings by `tools/write_python_api.py`; [python.md](python.md) shows the functions at
work. Shapes are in brackets, times in seconds, work in FLOP and traffic in bytes.
"""


def parse_file(name):
    return ast.parse((ROOT / "python/ridge" / name).read_text())


def describe_function(node, prefix):
    """Returns a heading, the signature and the docstring of a function."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    signature = f"{prefix}.{node.name}({ast.unparse(node.args)}){returns}"
    signature = signature.replace("_ridge.", "ridge.")
    return f"### {prefix}.{node.name}\n\n```text\n{wrap_signature(signature)}\n\n{ast.get_docstring(node)}\n```\n"


def wrap_signature(text, width=110):
    """Breaks a signature after commas."""
    lines, line = [], ""
    for part in text.split(", "):
        piece = part if not line else f"{line}, {part}"
        if len(piece) > width and line:
            lines.append(line + ",")
            piece = "    " + part
        line = piece
    return "\n".join([*lines, line])


def describe_functions(files, prefix):
    out = []
    for file, names in files.items():
        nodes = {node.name: node for node in parse_file(file).body if isinstance(node, ast.FunctionDef)}
        out += [describe_function(nodes[name], prefix) for name in names]
    return "\n".join(out)


def describe_class(node):
    """Returns a heading, the docstring and a table of the members of a class of the stub."""
    lines = [f"### ridge.{node.name}\n"]
    if ast.get_docstring(node):
        lines.append(ast.get_docstring(node) + "\n")
    lines += ["| member | type | meaning |", "| --- | --- | --- |"]
    for member in node.body:
        if not isinstance(member, ast.FunctionDef) or member.name.startswith("_"):
            continue
        is_property = any(isinstance(each, ast.Name) and each.id == "property" for each in member.decorator_list)
        cells = [f"`{member.name}`" if is_property else f"`{member.name}()`",
                 "`" + ast.unparse(member.returns).replace("|", "\\|") + "`", ast.get_docstring(member) or ""]
        lines.append(f"| {' | '.join(cells)} |".replace("  |", " |"))
    return "\n".join(lines) + "\n"


def write_page():
    """Returns the text of the page."""
    classes = {node.name: node for node in parse_file("_ridge.pyi").body if isinstance(node, ast.ClassDef)}
    weights = next(node for node in parse_file("_weights.py").body if isinstance(node, ast.ClassDef))
    error = next(node for node in parse_file("_error.py").body if isinstance(node, ast.ClassDef))
    return "\n".join([HEAD, "## Functions\n", describe_functions(FUNCTIONS, "ridge"),
                      "## Classes\n", *(describe_class(classes[name]) for name in CLASSES),
                      describe_class(weights),
                      f"### ridge.Error\n\n```text\n{ast.get_docstring(error)}\n```\n",
                      "## PyTorch\n", describe_functions(OPERATORS, "ridge.torch")])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    text = write_page()
    if not parser.parse_args().check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not what the docstrings say: run tools/write_python_api.py")


if __name__ == "__main__":
    main()
