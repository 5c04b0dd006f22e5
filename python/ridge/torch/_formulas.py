"""Derivatives of the operators, written with PyTorch's operators in f32. PyTorch can differentiate them again, to any order
and in both modes, so second derivatives and forward mode use them. First derivatives of the backward pass use kernels."""
import math

import torch

from ridge._attention import hidden_rows, masked_rows


def multiply_softmax_jacobian(y, vector, axis):
    """Returns the Jacobian of softmax at its result y, which is symmetric, times a vector of y's shape."""
    result, direction = y.float(), vector.float()
    return (result * (direction - (result * direction).sum(axis, keepdim=True))).to(y.dtype)


def as_rows(x):
    """Returns x[..., D] as a matrix [N, D]; N or D may be 0."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _normalize(x, eps):
    """Returns x in f32 and the reciprocal of its root mean square along the last axis."""
    x = x.float()
    return x, torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def rmsnorm_backward(gradient, x, weight, eps):
    """Returns the gradients of x and of weight, which is None without one."""
    values, scale = _normalize(x, eps)
    of_y = gradient.float()
    scaled = of_y if weight is None else of_y * weight.float()
    of_x = scale * (scaled - values * scale.square() * (scaled * values).mean(-1, keepdim=True))
    if weight is None:
        return of_x.to(x.dtype), None
    return of_x.to(x.dtype), as_rows(of_y * values * scale).sum(0).to(weight.dtype)


def rmsnorm_tangent(x, weight, eps, of_x, of_weight):
    """Returns the tangent of the result for the tangents of x and weight; None is a tangent of 0."""
    values, scale = _normalize(x, eps)
    out = torch.zeros_like(values)
    if of_x is not None:
        along = of_x.float()
        out = scale * (along - values * scale.square() * (along * values).mean(-1, keepdim=True))
        out = out if weight is None else out * weight.float()
    if of_weight is not None:
        out = out + values * scale * of_weight.float()
    return out.to(x.dtype)


def _gate(g):
    """Returns gelu(g) and its derivative."""
    below = 0.5 * (1 + torch.erf(g * math.sqrt(0.5)))
    return g * below, below + g * torch.exp(-0.5 * g * g) / math.sqrt(2 * math.pi)


def geglu_backward(gradient, x, w, b):
    """Returns the gradients of x, w and b, which is None without one."""
    rows, weight = as_rows(x.float()), w.float()
    u, g = torch.nn.functional.linear(rows, weight, None if b is None else b.float()).chunk(2, -1)
    value, slope = _gate(g)
    of_y = as_rows(gradient.float())
    of_h = torch.cat([of_y * value, of_y * u * slope], -1)
    of_b = None if b is None else of_h.sum(0).to(b.dtype)
    return (of_h @ weight).reshape(x.shape).to(x.dtype), (of_h.t() @ rows).to(w.dtype), of_b


def geglu_tangent(x, w, b, of_x, of_w, of_b):
    """Returns the tangent of the result for the tangents of x, w and b; None is a tangent of 0."""
    values, weight = x.float(), w.float()
    u, g = torch.nn.functional.linear(values, weight, None if b is None else b.float()).chunk(2, -1)
    of_h = torch.zeros_like(torch.cat([u, g], -1))
    if of_x is not None:
        of_h = of_h + of_x.float() @ weight.t()
    if of_w is not None:
        of_h = of_h + values @ of_w.float().t()
    if of_b is not None:
        of_h = of_h + of_b.float()
    of_u, of_g = of_h.chunk(2, -1)
    value, slope = _gate(g)
    return (of_u * value + u * slope * of_g).to(x.dtype)


def _share_heads(x, like):
    """Returns keys or values in f32 with as many heads as the queries have."""
    if x.shape[:-2] == like.shape[:-2] or x.dim() < 3:
        return x.float()
    return x.float().repeat_interleave(like.shape[-3] // x.shape[-3], -3)


def _sum_heads(gradient, like):
    """Sums the gradient of shared keys or values over the heads that share them."""
    if gradient.shape != like.shape:
        heads = like.shape[-3]
        gradient = gradient.reshape(*like.shape[:-3], heads, gradient.shape[-3] // heads, *like.shape[-2:]).sum(-3)
    return gradient.to(like.dtype)


def attention_weights(q, k, mask, causal, scale, lengths):
    """Returns softmax(scale * q @ k.T) in f32, with rows of 0 for queries that attend to no key. k has q's heads."""
    scores = q.float() @ k.transpose(-1, -2) * scale
    rows, keys = scores.shape[-2:]
    hidden, seen = None, None
    if lengths is not None:
        n = lengths.reshape([*lengths.shape, *[1] * (scores.dim() - lengths.dim())])
        hidden = hidden_rows(scores.shape, lengths, causal)
        seen = torch.arange(keys, device=q.device)
        seen = seen <= torch.arange(rows, device=q.device)[:, None] + n - rows if causal else seen < n
    elif causal:
        seen = torch.ones(rows, keys, dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        hidden = masked_rows(mask)
        if mask.dtype == torch.bool:
            seen = mask
        else:
            scores = scores + mask
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    if hidden is None:
        return scores.softmax(-1)
    return scores.masked_fill(hidden, 0).softmax(-1).masked_fill(hidden, 0)


def attention_backward(gradient, q, k, v, mask, causal, scale, lengths):
    """Returns the gradients of q, k, v and of a mask of numbers, which is None without one."""
    keys, values, of_y = _share_heads(k, q), _share_heads(v, q), gradient.float()
    weights = attention_weights(q, keys, mask, causal, scale, lengths)
    of_weights = of_y @ values.transpose(-1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True))
    of_mask = None
    if mask is not None and mask.is_floating_point():
        of_mask = of_scores.sum_to_size(mask.shape).to(mask.dtype)
    of_k = _sum_heads(of_scores.transpose(-1, -2) @ q.float() * scale, k)
    return ((of_scores @ keys * scale).to(q.dtype), of_k, _sum_heads(weights.transpose(-1, -2) @ of_y, v), of_mask)


def attention_tangent(q, k, v, mask, causal, scale, lengths, of_q, of_k, of_v, of_mask):
    """Returns the tangent of the result for the tangents of q, k, v and mask; None is a tangent of 0."""
    keys, values = _share_heads(k, q), _share_heads(v, q)
    weights = attention_weights(q, keys, mask, causal, scale, lengths)
    of_scores = torch.zeros_like(weights)
    if of_q is not None:
        of_scores = of_scores + of_q.float() @ keys.transpose(-1, -2) * scale
    if of_k is not None:
        of_scores = of_scores + q.float() @ _share_heads(of_k, q).transpose(-1, -2) * scale
    if of_mask is not None:
        of_scores = of_scores + of_mask.float()
    out = weights * (of_scores - (weights * of_scores).sum(-1, keepdim=True)) @ values
    if of_v is not None:
        out = out + weights @ _share_heads(of_v, q)
    return out.to(q.dtype)
