"""The three diagrams of document 002: one token through a post-norm block, step by step."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.drawings import draws
from headwater.claims.figures.post_norm import Block, post_norm
from headwater.claims.figures.samples import apart, caption, rendered, thumbnail
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.model.weights import NormWeights
from headwater.show.diagrams import Diagram, Edge, Label, Node, Place, chain, draw_diagram
from headwater.show.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAM, ATTENTION, FEED_FORWARD = 0, 1, 2
"""The colours: of the stream, and of what is written to it."""


def _step(data: Block, key: str, words: str, at: Place, tint: int = STREAM) -> Node:
    """One step of the last token, with its length."""
    vector = data["in" if key == "x2" else key][-1]
    note = Label("length {}", "norma {}", (float(vector.square().sum().sqrt()),))
    return Node(key=key, words=words, at=at, thumbnail=thumbnail(vector), note=note, tint=tint)


def _caption(data: Block, en: str, pt: str) -> Label:
    return caption(
        en + " A post-norm block with the sizes of the recipe block-post, trained for {} updates, reads {}; the document's second token "
        "is here the last one, {}.",
        pt + " Um bloco post-norm com os tamanhos da receita block-post, treinado por {} atualizações, lê {}; o segundo token do "
        "documento é aqui o último, {}.",
        (data.steps, f"‘{''.join(data.words)}’", f"‘{data.words[-1]}’"),
    )  # fmt: skip


def first_sum(data: Block) -> Diagram:
    """Attention reads all tokens and writes to one."""
    pattern = data["pattern"][:, -1]
    heads = Label("{} heads; rows sum to 1", "{} cabeças; as linhas somam 1", (len(pattern),))
    nodes = (
        _step(data, "x2", "$x_2$", (0, 0)),
        Node(key="contexts", words=Label("Contexts", "Contextos"), at=(0, 1), thumbnail=thumbnail(data["in"][:-1], rows=data.words[:-1])),
        Node(key="attention", words="MultiHeadAttention", at=(1, 1), kind="step", tint=ATTENTION, note=heads,
             thumbnail=thumbnail(pattern, kind="amounts", columns=data.words)),
        _step(data, "t1", "$t_1$", (2, 1), ATTENTION),
        _step(data, "t2", "$t_2 = x_2 + t_1$", (3, 0)),
    )  # fmt: skip
    edges = (
        *chain("x2", "attention"), *chain("contexts", "attention"), *chain("attention", "t1", "t2", tint=ATTENTION),
        Edge(source="x2", target="t2", tint=STREAM, label=Label("the stream itself", "o próprio fluxo")),
    )  # fmt: skip
    text = _caption(data, "What attention writes is added to the token.", "O que a atenção escreve é somado ao token.")
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("002-MER1", post_norm)
def draw_first_sum(data: Block, look: Look) -> "Figure":
    """t2 = x2 + t1."""
    return draw_diagram(first_sum(data), look)


@checks("002-MER1")
def attention_and_first_sum(given: Given) -> Finding:
    """Five boxes and five arrows; t1 is what the heads write by their weights, and t2 = x2 + t1."""
    data = post_norm(given)
    block = data.model.weights.blocks[0].attention
    written = torch.einsum("hs,hse,hed->d", data["pattern"][:, -1], data["values"], block.W_O)
    bias = torch.zeros_like(written) if block.b_O is None else block.b_O
    return found(
        *rendered(first_sum(data), nodes=5, edges=5),
        drawn("rows", apart(data["pattern"].sum(dim=-1), data["pattern"].new_ones(())), within=1e-10),
        drawn("t1", apart(data["t1"][-1], written + bias), within=1e-10),
        drawn("t2", apart(data["t2"], data["in"] + data["t1"]), within=1e-10),
    )


def normalised(x: Tensor, norm: NormWeights, eps: float) -> Tensor:
    """LayerNorm by its formula, at each token alone."""
    centred = x - x.mean(dim=-1, keepdim=True)
    scaled = centred / (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    gained = scaled if norm.gain is None else scaled * norm.gain
    return gained if norm.bias is None else gained + norm.bias


def _norm(key: str, x: Tensor, at: Place) -> Node:
    """A LayerNorm, with the mean and the spread that it takes out."""
    spread = float((x - x.mean()).square().mean().sqrt())
    note = Label(
        "mean {} → 0\nspread {} → 1,\nthen gain and bias",
        "média {} → 0\ndesvio {} → 1,\ndepois ganho e bias",
        (float(x.mean()), spread),
    )
    return Node(key=key, words="LayerNorm", at=at, kind="step", note=note)  # fmt: skip


def feed_forward(data: Block) -> Diagram:
    """The stream is normalised, and a network at each token alone reads it."""
    neurons = data["neurons"][-1]
    active = Label("{} neurons,\n{} of them active", "{} neurônios,\n{} deles ativos", (len(neurons), int((neurons > 0).sum())))
    nodes = (
        _step(data, "t2", "$t_2$", (0, 0)),
        _norm("norm", data["t2"][-1], (1, 0)),
        _step(data, "t3", "$t_3$", (2, 0)),
        Node(key="FFN", words="FFN", at=(3, 0), kind="step", tint=FEED_FORWARD, note=active),
        _step(data, "t4", "$t_4$", (4, 0), FEED_FORWARD),
    )
    edges = (*chain("t2", "norm", "t3", tint=STREAM), *chain("t3", "FFN", "t4", tint=FEED_FORWARD))
    text = _caption(data, "The stream is normalised, then read.", "O fluxo é normalizado, depois lido.")
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("002-MER2", post_norm)
def draw_feed_forward(data: Block, look: Look) -> "Figure":
    """From t2 to t4."""
    return draw_diagram(feed_forward(data), look)


@checks("002-MER2")
def norm_and_feed_forward(given: Given) -> Finding:
    """Five boxes and four arrows; t3 is LayerNorm's formula of t2, and t4 is ReLU(t3 W₁ + b₁) W₂ + b₂."""
    data = post_norm(given)
    block, layer = data.model.weights.blocks[0], data.model.weights.blocks[0].feed_forward
    assert layer is not None, "the recipe has a feed-forward layer"
    assert layer.b_in is not None, "with biases"
    assert layer.b_out is not None, "on both sides"
    hidden = (data["t3"] @ layer.W_in + layer.b_in).clamp(min=0)
    return found(
        *rendered(feed_forward(data), nodes=5, edges=4),
        drawn("t3", apart(data["t3"], normalised(data["t2"], block.norm_1, 1e-5)), within=1e-10),
        drawn("t4", apart(data["t4"], hidden @ layer.W_out + layer.b_out), within=1e-10),
    )


def second_sum(data: Block) -> Diagram:
    """What the network writes is added, and the sum normalised."""
    nodes = (
        _step(data, "t3", "$t_3$", (0, 0)),
        _step(data, "t4", "$t_4$", (0, 1), FEED_FORWARD),
        _step(data, "t5", "$t_5 = t_3 + t_4$", (1, 0.5)),
        _norm("norm", data["t5"][-1], (2, 0.5)),
        _step(data, "h", "$h_i$", (3, 0.5)),
    )
    edges = (*chain("t3", "t5", "norm", "h", tint=STREAM), *chain("t4", "t5", tint=FEED_FORWARD))
    text = _caption(
        data, "The second sum is normalised: that is what the block hands on.", "A segunda soma é normalizada: é isso que o bloco passa adiante."
    )  # fmt: skip
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("002-MER3", post_norm)
def draw_second_sum(data: Block, look: Look) -> "Figure":
    """From t3 and t4 to h."""
    return draw_diagram(second_sum(data), look)


@checks("002-MER3")
def second_sum_and_norm(given: Given) -> Finding:
    """Five boxes and four arrows; t5 − t3 − t4 is nothing, and h is LayerNorm's formula of t5."""
    data = post_norm(given)
    return found(
        *rendered(second_sum(data), nodes=5, edges=4),
        drawn("t5", (data["t5"] - data["t3"] - data["t4"]).abs().max(), within=1e-10),
        drawn("h", apart(data["h"], normalised(data["t5"], data.model.weights.blocks[0].norm_2, 1e-5)), within=1e-10),
    )
