"""A Llama, slow and obvious: the same numbers by another road."""

import numpy as np


def logits(tensors, tokens, *, heads, key_heads, pairs, eps=1e-5, base=10_000.0):
    """Logits after each token; ``tensors`` are stored as ``[out, in]`` under llama2.c's names, biases as ``….bias``."""
    stream = tensors["tok_embeddings"][tokens].astype(np.float64)
    layers = 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("layers."))
    for layer in range(layers):
        own = {name.split(".", 2)[2]: value for name, value in tensors.items() if name.startswith(f"layers.{layer}.")}
        stream = stream + attention(own, norm(stream, own["attention_norm"], eps), heads, key_heads, pairs, base)
        inner = norm(stream, own["ffn_norm"], eps)
        gate = inner @ own["w1"].T
        stream = stream + (gate / (1 + np.exp(-gate)) * (inner @ own["w3"].T)) @ own["w2"].T
    return norm(stream, tensors["norm"], eps) @ tensors.get("output", tensors["tok_embeddings"]).T


def norm(stream, gain, eps):
    return stream / np.sqrt((stream**2).mean(axis=-1, keepdims=True) + eps) * gain


def attention(own, inner, heads, key_heads, pairs, base):
    query, key, value = (inner @ own[name].T + own.get(f"{name}.bias", 0) for name in ("wq", "wk", "wv"))
    d_head = query.shape[1] // heads
    out = np.zeros((len(inner), heads * d_head))
    for head in range(heads):
        own_key = head // (heads // key_heads)
        mine, theirs = slice(head * d_head, (head + 1) * d_head), slice(own_key * d_head, (own_key + 1) * d_head)
        for dest in range(len(inner)):
            turned = turn(query[dest, mine], dest, pairs, base)
            scores = [turned @ turn(key[source, theirs], source, pairs, base) / np.sqrt(d_head) for source in range(dest + 1)]
            weights = np.exp(scores - np.max(scores))
            out[dest, mine] = weights / weights.sum() @ value[: dest + 1, theirs]
    return out @ own["wo"].T


def turn(vector, position, pairs, base):
    half = len(vector) // 2
    result = np.empty(len(vector))
    for pair in range(half):
        first, second = (2 * pair, 2 * pair + 1) if pairs == "adjacent" else (pair, pair + half)
        angle = position * base ** (-pair / half)
        result[first] = vector[first] * np.cos(angle) - vector[second] * np.sin(angle)
        result[second] = vector[first] * np.sin(angle) + vector[second] * np.cos(angle)
    return result


def random_llama(*, seed, d_model, d_mlp, layers, heads, key_heads, vocab, tied):
    """Random float32 tensors under llama2.c's names."""
    random = np.random.default_rng(seed)
    width, key_width = d_model, d_model // heads * key_heads
    block = {
        "attention_norm": (d_model,), "wq": (width, d_model), "wk": (key_width, d_model), "wv": (key_width, d_model),
        "wo": (d_model, width), "ffn_norm": (d_model,), "w1": (d_mlp, d_model), "w2": (d_model, d_mlp), "w3": (d_mlp, d_model),
    }  # fmt: skip
    shapes = {"tok_embeddings": (vocab, d_model), "norm": (d_model,)} | ({} if tied else {"output": (vocab, d_model)})
    shapes |= {f"layers.{layer}.{name}": shape for layer in range(layers) for name, shape in block.items()}
    return {name: (random.normal(size=shape) / 2).astype(np.float32) for name, shape in shapes.items()}
