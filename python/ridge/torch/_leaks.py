"""Fake tensors that a traced model's code stored where no copy was made: in a cached function or a global of its module."""
import functools
import gc
import sys
import warnings

_MAX_SEARCHES = 16  # Each looks through all objects of the process, which takes some 0.1 s


def release_stored(references):
    """Empties the caches of functions that hold tensors of a trace, and warns of other places that hold some.

    references  weak references to the results of a trace that has ended
    """
    if not _alive(references):
        return
    gc.collect()
    for reference in [each for each in references if each() is not None][:_MAX_SEARCHES]:
        for cached in _cached_functions(reference()):
            cached.cache_clear()
    left = _alive(references)
    if left:
        warnings.warn(f"the traced code stored a fake tensor in {_place_of(left[0], left)}, which the next call will read: delete it "
                      "before the model runs", stacklevel=4)


def _alive(references):
    return [tensor for tensor in (reference() for reference in references) if tensor is not None]


def _cached_functions(tensor, depth=4):
    """Returns the functools.lru_cache functions that refer to a tensor, directly or through containers; none for None."""
    if tensor is None:
        return []
    found, seen, level = [], set(), [tensor]
    for _ in range(depth):
        level = [each for each in gc.get_referrers(*level) if id(each) not in seen and not hasattr(each, "f_code")]
        seen |= {id(each) for each in level}
        found += [each for each in level if isinstance(each, functools._lru_cache_wrapper)]
        level = [each for each in level if type(each) in (tuple, list, dict) or type(each).__name__ == "_lru_list_elem"][:64]
        if not level:
            break
    return found


def _place_of(tensor, own):
    """Returns the name of the global that holds a tensor, or the type of an object that does."""
    holders = [each for each in gc.get_referrers(tensor) if each is not own and not hasattr(each, "f_code")]
    held = {id(each) for each in holders} | {id(tensor)}
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()) if hasattr(module, "__dict__") else []:
            if id(value) in held:
                return f"{getattr(module, '__name__', '?')}.{name}"
    return f"an object of type {type(holders[0]).__name__}" if holders else "an object"
