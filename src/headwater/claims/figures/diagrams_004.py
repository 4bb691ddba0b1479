"""The two diagrams of document 004: the feed-forward layer, and attention with and without a mask."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from headwater.api import Model
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.drawings import draws
from headwater.claims.figures.post_norm import Block, post_norm
from headwater.claims.figures.samples import apart, caption, rendered, thumbnail
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.model.weights import Weights
from headwater.show.diagrams import Diagram, Edge, Group, Label, Node, Place, chain, draw_diagram
from headwater.show.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAM, KEYS, FEED_FORWARD = 0, 1, 2
"""The colours: of the stream and of queries, of keys and values, and of the feed-forward layer."""
TOKENS = 3


def layers(data: Block) -> Diagram:
    """Wider, cut off below nothing, narrower."""
    words, idle = data.words, float((data["neurons"] == 0).double().mean())
    layer = data.model.weights.blocks[0].feed_forward
    assert layer is not None, "the recipe has a feed-forward layer"
    nodes = (
        Node(key="t3", words="$t_3$", at=(0, 0), thumbnail=thumbnail(data["t3"], rows=words), tint=STREAM),
        Node(key="linear 1", words=Label("Linear layer 1\n$t_3 W_1 + b_1$", "Camada linear 1\n$t_3 W_1 + b_1$"), at=(1, 0), tint=FEED_FORWARD,
             thumbnail=thumbnail(data["hidden"])),
        Node(key="ReLU", words="ReLU\n$\\max(0, \\cdot)$", at=(2, 0), tint=FEED_FORWARD,
             thumbnail=thumbnail(data["neurons"], kind="amounts"), note=Label("{}% are 0", "{}% são 0", (100 * idle,), form=".0f")),
        Node(key="linear 2", words=Label("Linear layer 2\n$W_2$", "Camada linear 2\n$W_2$"), at=(3, 0), tint=FEED_FORWARD,
             thumbnail=thumbnail(layer.W_out)),
        Node(key="t4", words="$t_4$", at=(4, 0), thumbnail=thumbnail(data["t4"], rows=words), tint=STREAM),
    )  # fmt: skip
    text = caption(
        "A post-norm block with the sizes of the recipe block-post, trained for {} updates, reads {}: each token alone, by the same matrices.",
        "Um bloco post-norm com os tamanhos da receita block-post, treinado por {} atualizações, lê {}: cada token sozinho, pelas mesmas matrizes.",
        (data.steps, f"‘{''.join(words)}’"),
    )  # fmt: skip
    edges = chain("t3", "linear 1", "ReLU", "linear 2", "t4", tint=FEED_FORWARD)
    return Diagram(nodes=nodes, edges=edges, caption=text, gap=(0.4, 0.4))


@draws("004-MER1", post_norm)
def draw_layers(data: Block, look: Look) -> "Figure":
    """From t3 to t4."""
    return draw_diagram(layers(data), look)


@checks("004-MER1")
def linear_relu_linear(given: Given) -> Finding:
    """Five boxes and four arrows: W₁, then what is above 0, then W₂; and a token alone gives the same as among others."""
    data = post_norm(given)
    layer = data.model.weights.blocks[0].feed_forward
    assert layer is not None, "the recipe has a feed-forward layer"
    assert layer.b_in is not None, "with biases"
    assert layer.b_out is not None, "on both sides"
    hidden = data["t3"] @ layer.W_in + layer.b_in
    return found(
        *rendered(layers(data), nodes=5, edges=4),
        drawn("linear", apart(hidden, data["hidden"]), within=1e-10),
        drawn("relu", apart(torch.where(hidden > 0, hidden, 0.0), data["neurons"]), within=1e-10),
        drawn("t4", apart(data["neurons"] @ layer.W_out + layer.b_out, data["t4"]), within=1e-10),
    )


@dataclass(frozen=True, eq=False)
class Masks:
    """The first tokens of a text, read by the same weights without a mask and with the causal one."""

    full: Block
    causal: Block


def masks(given: Given) -> Masks:
    """The trained block, and its weights under the other mask."""
    causal = post_norm(given)
    config = causal.model.config
    assert config.attention is not None, "the recipe has heads"
    open_ = replace(config, attention=replace(config.attention, mask="full"))
    models = (Model(Weights.assemble(open_, causal.model.weights.tensors()), causal.model.tokenizer), causal.model)
    return Masks(*(Block(model, model.record(causal.run.tokens[:, :TOKENS]), causal.steps) for model in models))


def _input(data: Block, n: int, key: str, at: Place) -> Node:
    words = Label(f"$x_{n + 1}$  {{}}", f"$x_{n + 1}$  {{}}", (f"‘{data.words[n]}’",))
    return Node(key=key, words=words, at=at, thumbnail=thumbnail(data["in"][n]) if at[0] == 0 else None)


def _pattern(data: Block, key: str, at: Place) -> Node:
    shown = thumbnail(data["pattern"].mean(dim=0), kind="amounts", rows=data.words, columns=data.words)
    return Node(
        key=key,
        words=Label("Attention", "Atenção"),
        at=at,
        kind="step",
        thumbnail=shown,
        note=Label("mean of the heads", "média das cabeças"),
    )


def everyone(data: Block) -> tuple[list[Node], list[Edge]]:
    """The source's graph: every token's query, key and value go to one attention."""
    nodes = [*(_input(data, n, f"full x{n + 1}", (0, n)) for n in range(TOKENS)), _pattern(data, "full attention", (1, 1))]
    nodes.append(Node(key="full t", words="$[t_1, t_2, t_3]$", at=(2, 1), thumbnail=thumbnail(data["t1"]), tint=STREAM))
    edges: list[Edge] = []
    for n in range(1, TOKENS + 1):
        # Only the middle one is straight: there labels have room, and colours say the same of the others.
        query, key = ("Query", "Key, Value") if n == 2 else ("", "")
        edges += [
            Edge(source=f"full x{n}", target="full attention", label=query, tint=STREAM, lane=-1, slide=-0.22),
            Edge(source=f"full x{n}", target="full attention", label=key, tint=KEYS, lane=1, slide=-0.22),
        ]
    return nodes, [*edges, Edge(source="full attention", target="full t")]


def earlier(data: Block, first: int) -> tuple[list[Node], list[Edge]]:
    """The causal version: to each token's attention go its own query, and keys and values up to its own."""
    nodes, edges = list[Node](), list[Edge]()
    for n in range(TOKENS):
        row = thumbnail(data["pattern"].mean(dim=0)[n], kind="amounts", columns=data.words)
        name, target = Label(f"Attention$_{n + 1}$", f"Atenção$_{n + 1}$"), f"attention {n + 1}"
        nodes += [
            _input(data, n, f"causal x{n + 1}", (first, n)),
            Node(key=target, words=name, at=(first + 1, n), kind="step", thumbnail=row),
            Node(key=f"t{n + 1}", words=f"$t_{n + 1}$", at=(first + 2, n), thumbnail=thumbnail(data["t1"][n]), tint=STREAM),
        ]
        edges.append(Edge(source=f"causal x{n + 1}", target=target, tint=STREAM, lane=-1))
        edges += [Edge(source=f"causal x{m + 1}", target=target, tint=KEYS, lane=1) for m in range(n + 1)]
        edges.append(Edge(source=target, target=f"t{n + 1}"))
    return nodes, edges


def two_masks(data: Masks) -> Diagram:
    """Both versions side by side."""
    (full, to_all), (causal, to_earlier) = everyone(data.full), earlier(data.causal, 3)
    groups = (
        Group(title=Label("Without a mask: every token sees all", "Sem máscara: todo token vê todos"), nodes=tuple(n.key for n in full)),
        Group(title=Label("Causal: no token sees a later one", "Causal: nenhum token vê um posterior"), nodes=tuple(n.key for n in causal)),
    )  # fmt: skip
    text = caption(
        "Blue arrows are queries, orange ones keys and values. A post-norm block with the sizes of the recipe block-post, trained "
        "with the causal mask for {} updates; at the left the same weights without it.",
        "Setas azuis são queries, as laranjas keys e values. Um bloco post-norm com os tamanhos da receita block-post, treinado com "
        "a máscara causal por {} atualizações; à esquerda os mesmos pesos sem ela.",
        (data.causal.steps,),
    )
    return Diagram(nodes=(*full, *causal), edges=(*to_all, *to_earlier), groups=groups, caption=text, gap=(0.65, 0.35))


@draws("004-MER2", masks)
def draw_two_masks(data: Masks, look: Look) -> "Figure":
    """Who is seen by whom."""
    return draw_diagram(two_masks(data), look)


@checks("004-MER2")
def who_sees_whom(given: Given) -> Finding:
    """The source's five boxes and seven arrows, and the causal version, where no arrow comes from a later token."""
    data = masks(given)
    diagram, (nodes, edges) = two_masks(data), everyone(data.full)
    later = [(f"causal x{m}", f"attention {n}") for n in (1, 2, 3) for m in (1, 2, 3) if m > n]
    patterns = data.full["pattern"], data.causal["pattern"]
    above = torch.ones(TOKENS, TOKENS).triu(1).bool()
    return found(
        *rendered(diagram, nodes=14, edges=19),
        drawn("full-nodes", len(nodes), equal=5),
        drawn("full-edges", len(edges), equal=7),
        drawn("later", sum(diagram.arrows.count(pair) for pair in later), equal=0),
        drawn("rows", max(apart(pattern.sum(dim=-1), pattern.new_ones(())) for pattern in patterns), within=1e-10),
        drawn("all", patterns[0][:, above].min(), above=0),
        drawn("causal", patterns[1][:, above].max(), equal=0),
    )
