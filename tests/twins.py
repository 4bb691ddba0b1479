"""For-loop versions of the fast functions: slow and obvious."""

import math

import torch

from headwater.model.config import GatedFeedForward, LayerNorm, NoNorm, PostNorm, PreNorm, RotaryPositions, SinusoidalPositions


def norm_twin(norm, weights, x):
    out = torch.zeros_like(x)
    d = len(x)
    mean = sum(float(v) for v in x) / d if isinstance(norm, LayerNorm) else 0.0
    power = sum((float(v) - mean) ** 2 for v in x) / d
    for i in range(d):
        out[i] = (x[i] - mean) / math.sqrt(power + norm.eps)
        out[i] *= 1 if weights.gain is None else weights.gain[i]
        out[i] += 0 if weights.bias is None else weights.bias[i]
    return out


def activation_twin(name, z):
    match name:
        case "relu":
            return max(z, 0.0)
        case "gelu":
            return z * 0.5 * (1 + math.erf(z / math.sqrt(2)))
        case "gelu-tanh":
            return 0.5 * z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
        case "silu":
            return z / (1 + math.exp(-z)) if z > -700 else 0.0


def sinusoid_twin(d_model, base, position):
    return torch.tensor(
        [(math.sin if i % 2 == 0 else math.cos)(position / base ** ((i - i % 2) / d_model)) for i in range(d_model)],
        dtype=torch.float64,
    )


def rotary_twin(rotary, x, position):
    """Turn pairs as complex numbers."""
    out, half = x.clone(), rotary.dims // 2
    for pair in range(half):
        a, b = (pair, pair + half) if rotary.pairs == "halves" else (2 * pair, 2 * pair + 1)
        speed = rotary.base ** (-2 * pair / rotary.dims)
        stretch = rotary.stretch
        if type(stretch).__name__ == "LinearStretch":
            speed /= stretch.factor
        elif type(stretch).__name__ == "Llama3Stretch":
            wavelength = 2 * math.pi / speed
            low, high = (
                stretch.original_context / stretch.low_frequency_factor,
                stretch.original_context / stretch.high_frequency_factor,
            )
            if wavelength > low:
                speed /= stretch.factor
            elif wavelength > high:
                smooth = (stretch.original_context / wavelength - stretch.low_frequency_factor) / (
                    stretch.high_frequency_factor - stretch.low_frequency_factor
                )
                speed = (1 - smooth) * speed / stretch.factor + smooth * speed
        turned = complex(x[a], x[b]) * complex(math.cos(position * speed), math.sin(position * speed))
        out[a], out[b] = turned.real, turned.imag
    return out


def forward_twin(weights, tokens):
    """One text at a time, one position at a time, one head at a time."""
    return torch.stack([_text_twin(weights, text.tolist()) for text in tokens])


def _text_twin(weights, text):
    config = weights.config
    marks = [_mark(weights, position) for position in range(len(text))]
    in_stream = getattr(config.positions, "into", None) == "stream"
    stream = [weights.W_E[token] + (mark if in_stream else 0) for token, mark in zip(text, marks, strict=True)]
    for block in weights.blocks:
        stream = _block_twin(config, block, stream, [0 if in_stream else mark for mark in marks])
    if isinstance(config.norm, PreNorm):
        stream = [norm_twin(config.norm.norm, weights.norm_final, x) for x in stream]
    return torch.stack([x @ weights.W_U + (0 if weights.b_U is None else weights.b_U) for x in stream])


def _mark(weights, position):
    if weights.W_pos is not None:
        return weights.W_pos[position]
    if isinstance(weights.config.positions, SinusoidalPositions):
        return sinusoid_twin(weights.config.d_model, weights.config.positions.base, position)
    return 0


def _block_twin(config, block, stream, marks):
    def norm(which, x):
        return x if isinstance(config.norm, NoNorm) else norm_twin(config.norm.norm, which, x)

    post = isinstance(config.norm, PostNorm)
    read = stream if post else [norm(block.norm_1, x) for x in stream]
    written = [x + _attention_twin(config, block.attention, read, marks, i) for i, x in enumerate(stream)]
    if post:
        written = [norm(block.norm_1, x) for x in written]
    if config.feed_forward is None:
        return written
    beside = config.feed_forward.reads == "beside-attention"
    read = [x if post else norm(block.norm_2, x) for x in (stream if beside else written)]
    out = [x + _feed_forward_twin(config.feed_forward, block.feed_forward, r) for x, r in zip(written, read, strict=True)]
    return [norm(block.norm_2, x) for x in out] if post else out


def _attention_twin(config, weights, read, marks, dest):
    total = torch.zeros_like(read[0]) if weights.b_O is None else weights.b_O.clone()
    for head in range(config.attention.heads):
        key_head = head // config.attention.group_size
        last = dest if config.attention.mask == "causal" else len(read) - 1
        q = _vector(config, read[dest] + marks[dest], weights.W_Q[head], weights.b_Q, head, dest)
        scores, values = [], []
        for source in range(last + 1):
            k = _vector(config, read[source] + marks[source], weights.W_K[key_head], weights.b_K, key_head, source)
            scores.append(float(q @ k) / (math.sqrt(config.attention.d_head) if config.attention.scaled else 1.0))
            values.append(read[source] @ weights.W_V[key_head] + (0 if weights.b_V is None else weights.b_V[key_head]))
        exponentials = [math.exp(score - max(scores)) for score in scores]
        for share, value in zip(exponentials, values, strict=True):
            total = total + share / sum(exponentials) * value @ weights.W_O[head]
    return total


def _vector(config, x, W, b, head, position):
    out = x @ W + (0 if b is None else b[head])
    return rotary_twin(config.positions, out, position) if isinstance(config.positions, RotaryPositions) else out


def _feed_forward_twin(layer, weights, x):
    hidden = x @ weights.W_in + (0 if weights.b_in is None else weights.b_in)
    if isinstance(layer, GatedFeedForward):
        opened = x @ weights.W_gate + (0 if weights.b_gate is None else weights.b_gate)
        hidden = torch.stack([activation_twin(layer.activation, float(z)) * h for z, h in zip(opened, hidden, strict=True)])
    else:
        hidden = torch.tensor([activation_twin(layer.activation, float(z)) for z in hidden], dtype=x.dtype)
    return hidden @ weights.W_out + (0 if weights.b_out is None else weights.b_out)
