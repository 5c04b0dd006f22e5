"""Defines JAX primitives that XLA runs by calls of ridge's handlers, on a CPU and on CUDA."""
import functools

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from ridge import _ridge

for _target, _platform, _handler in _ridge.xla_handlers():
    jax.ffi.register_ffi_target(_target, _handler, platform=_platform)

PLATFORMS = ("cpu", "cuda")
_SPELLING = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "int8": "int8", "int32": "int32"}
_NAMES = {spelling: name for name, spelling in _SPELLING.items()}


def check_dtype(name, array):
    """Raises ridge.Error for a dtype that ridge.run does not accept, in the same words."""
    if array.dtype.name not in _SPELLING:
        _ridge.run("x[N]\ny[N] = x", [(name, np.zeros(1, array.dtype))], {}, None, [], {}, True, 1)


def spelling(array):
    """Returns the name of an array's dtype in programs, such as "bf16"."""
    return _SPELLING[array.dtype.name]


def _varying_axes(array):
    """Returns the mesh axes of jax.shard_map along which an array differs."""
    aval = jax.typeof(array)
    manual = getattr(aval, "manual_axis_type", None)
    return manual.varying if manual is not None else getattr(aval, "vma", frozenset())


class _Call(Primitive):
    """A primitive whose operands and results differ along the same mesh axes of jax.shard_map."""

    def bind(self, *operands, **params):
        axes = [_varying_axes(operand) for operand in operands]
        together = frozenset().union(*axes)
        spread = [jax.lax.pcast(operand, tuple(sorted(together - own)), to="varying") if together - own else operand
                  for operand, own in zip(operands, axes)]
        return super().bind(*spread, **params)


def like(operand, shape, dtype):
    """Returns the type of a result of this shape and dtype on the devices of an operand."""
    sharding = jax.sharding.NamedSharding(operand.sharding.mesh, jax.sharding.PartitionSpec(*[None] * len(shape)))
    return operand.update(shape=tuple(shape), dtype=jax.numpy.dtype(dtype), weak_type=False, sharding=sharding)


def define(name, abstract, lower, batch):
    """Returns a primitive with several results.

    abstract   returns the type of each result, from those of the operands
    lower      takes JAX's lowering context, a platform of PLATFORMS, the operands' values and the parameters
    batch      takes the operands with the mapped axis in front (or None, for operands without one) and its size; returns the
               results with it in front
    """
    primitive = _Call(f"ridge_{name}")
    primitive.multiple_results = True
    primitive.def_abstract_eval(abstract)

    @functools.lru_cache(maxsize=None)
    def compiled(params):
        return jax.jit(lambda *operands: primitive.bind(*operands, **dict(params)))

    primitive.def_impl(lambda *operands, **params: compiled(tuple(params.items()))(*operands))
    for platform in PLATFORMS:
        mlir.register_lowering(primitive, functools.partial(_lower, lower, platform), platform=platform)

    def map_operands(operands, axes, **params):
        is_mapped = [axis is not None for axis in axes]
        size = next(x.shape[axis] for x, axis in zip(operands, axes) if axis is not None)
        moved = [jax.numpy.moveaxis(x, axis, 0) if axis is not None else x for x, axis in zip(operands, axes)]
        results = batch(is_mapped, size, *moved, **params)
        return results, [0] * len(results)

    batching.primitive_batchers[primitive] = map_operands
    return primitive


def _lower(lower, platform, context, *operands, **params):
    return lower(context, platform, *operands, **params)


def define_program(name, build, batch):
    """Returns a primitive that runs a program. `build` takes a platform, the operands' shapes and dtypes and the parameters, and
    returns the program, the names of its inputs in its order, and the names of the results."""
    def abstract(*operands, **params):
        program, names, results = build("cpu", *operands, **params)
        for input_name, operand in zip(names, operands):
            check_dtype(input_name, operand)
        inputs = [(input_name, spelling(operand), operand.shape) for input_name, operand in zip(names, operands)]
        return [like(operands[0], shape, _NAMES[dtype])
                for _, dtype, shape in _ridge.infer_results(program, inputs, results)]

    def lower(context, platform, *operands, **params):
        program, _, results = build(platform, *context.avals_in, **params)
        return jax.ffi.ffi_lowering("ridge_run")(context, *operands, program=program, results=",".join(results))

    return define(name, abstract, lower, batch)


def lower_function(function):
    """Returns the `lower` of a primitive that is computed by a function of other operations."""
    return lambda context, platform, *operands, **params: mlir.lower_fun(function, True)(context, *operands, **params)


def in_front(is_mapped, size, operand):
    """Returns an operand with the mapped axis in front, by repeating one that has none."""
    return operand if is_mapped else jax.numpy.broadcast_to(operand, (size, *operand.shape))
