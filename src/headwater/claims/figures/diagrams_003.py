"""The three diagrams of document 003: one head of the one-layer model, from inputs to output."""

from typing import TYPE_CHECKING

import torch

from headwater.circuits.head import Head
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.drawings import draws
from headwater.claims.figures.one_run import OneRun, attended, one_run, projected
from headwater.claims.figures.samples import apart, caption, joined, rendered, thumbnail
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.diagrams import Diagram, Edge, Group, Label, Node, chain, draw_diagram, said
from headwater.show.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERY, KEY, VALUE = 0, 2, 1
"""The colours."""


def _caption(data: OneRun, en: str, pt: str) -> Label:
    marked = (
        " Its queries and keys are made of inputs and positions.",
        " Suas queries e keys são feitas das entradas e das posições.",
    )
    marks = marked if data.is_marked else ("", "")
    return caption(
        f"{en} Head {{}} of the {{}} model reads {{}}.{marks[0]}",
        f"{pt} A cabeça {{}} do modelo {{}} lê {{}}.{marks[1]}",
        (str(Head(0, data.head)), data.name, f"‘{data.text}’"),
    )


def self_attention(data: OneRun) -> Diagram:
    """Every token asks every token before it, and takes what they offer."""
    head, words = data.head, data.words
    nodes = (
        Node(key="X", words=Label("Input $X$", "Entrada $X$"), at=(0, 1), thumbnail=thumbnail(data.x0, rows=words)),
        Node(key="Q", words="Query $= XW^Q$", at=(1, 0), thumbnail=thumbnail(data.queries), tint=QUERY),
        Node(key="K", words="Key $= XW^K$", at=(1, 1), thumbnail=thumbnail(data.keys), tint=KEY),
        Node(key="V", words="Value $= XW^V$", at=(1, 2), thumbnail=thumbnail(data.values), tint=VALUE),
        Node(key="scores", words=Label("Attention scores\n$QK^{\\top}/\\sqrt{d_k}$", "Escores de atenção\n$QK^{\\top}/\\sqrt{d_k}$"), at=(2, 0.5),
             thumbnail=thumbnail(data.scores[head], rows=words, columns=words), note=Label("empty: masked", "vazio: mascarado")),
        Node(key="softmax", words="Softmax", at=(3, 0.5), note=Label("rows sum to 1", "as linhas somam 1"),
             thumbnail=thumbnail(data.pattern[head], kind="amounts", rows=words, columns=words)),
        Node(key="output", words=Label("Output", "Saída"), at=(4, 2), thumbnail=thumbnail(data.run["L0.mixed"][0, head], rows=words)),
    )  # fmt: skip
    edges = (
        *chain("X", "Q", "scores", tint=QUERY), *chain("X", "K", "scores", tint=KEY), *chain("scores", "softmax", "output"),
        *chain("X", "V", "output", tint=VALUE),
    )  # fmt: skip
    text = _caption(
        data,
        "Scores are divided by $\\sqrt{d_k}$, and a token sees none after itself.",
        "Os escores são divididos por $\\sqrt{d_k}$, e um token não vê os que vêm depois dele.",
    )
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("003-MER1", one_run)
def draw_self_attention(data: OneRun, look: Look) -> "Figure":
    """From X to the output."""
    return draw_diagram(self_attention(data), look)


@checks("003-MER1")
def queries_keys_values(given: Given) -> Finding:
    """Seven boxes and eight arrows, the scale added; every box is the formula of those before it."""
    data = one_run(given)
    diagram, (q, k, v) = self_attention(data), projected(one_run(given))
    made, weights = (
        max(apart(q, data.queries), apart(k, data.keys), apart(v, data.values)),
        attended(data),
    )
    return found(
        *rendered(diagram, nodes=7, edges=8),
        drawn("scale", "sqrt{d_k}" in said(diagram.node("scores").words, Look()), equal=1),
        drawn("projections", made, within=1e-10),
        drawn("softmax", apart(weights, data.pattern[data.head]), within=1e-10),
        drawn("output", apart(weights @ v, data.run["L0.mixed"][0, data.head]), within=1e-10),
        on=given.name("one-layer"),
    )  # fmt: skip


def roles(data: OneRun) -> Diagram:
    """One token's question, all tokens' answers to it, and what they say."""
    head, words, last = data.head, data.words, data.quoted(data.run.tokens[0, -1])
    nodes = (
        Node(key="embedding", words=Label("Input embedding", "Embedding de entrada"), at=(0, 1), thumbnail=thumbnail(data.x0, rows=words)),
        Node(key="query", words=Label("Query of {}:\nfocus of attention", "Query de {}:\nfoco da atenção", (last,)), at=(1, 0),
             thumbnail=thumbnail(data.query), tint=QUERY),
        Node(key="key", words=Label("Key:\nelement to compare with", "Key:\nelemento para comparação"), at=(1, 1),
             thumbnail=thumbnail(data.keys), tint=KEY),
        Node(key="value", words=Label("Value:\ninformation to compute with", "Value:\ninformação para computação"), at=(1, 2),
             thumbnail=thumbnail(data.values), tint=VALUE),
        Node(key="scores", words=Label("Similarity scores", "Escores de similaridade"), at=(2, 0.5),
             thumbnail=thumbnail(data.scores[head, -1], columns=words)),
        Node(key="weights", words=Label("Attention weights\n(softmax)", "Pesos de atenção\n(softmax)"), at=(3, 0.5),
             thumbnail=thumbnail(data.pattern[head, -1], kind="amounts", columns=words), note=Label("sum 1", "somam 1")),
        Node(key="output", words=Label("Output for {}", "Saída para {}", (last,)), at=(4, 2),
             thumbnail=thumbnail(data.run["L0.mixed"][0, head, -1])),
    )  # fmt: skip
    edges = (
        *chain("embedding", "query", "scores", tint=QUERY), *chain("embedding", "key", "scores", tint=KEY),
        *chain("embedding", "value", "output", tint=VALUE), *chain("scores", "weights", "output"),
    )  # fmt: skip
    text = _caption(data, "The same embeddings in three roles.", "Os mesmos embeddings em três papéis.")
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("003-MER2", one_run)
def draw_roles(data: OneRun, look: Look) -> "Figure":
    """Query, key and value."""
    return draw_diagram(roles(data), look)


@checks("003-MER2")
def three_roles(given: Given) -> Finding:
    """Seven boxes and eight arrows; one row of weights sums to 1, and the output is the values mixed by it."""
    data = one_run(given)
    weights = data.pattern[data.head, -1]
    scores = data.query @ data.keys.T * data.scale
    mixed = torch.stack([weight * value for weight, value in zip(weights, data.values, strict=True)]).sum(dim=0)
    return found(
        *rendered(roles(data), nodes=7, edges=8),
        drawn("scores", apart(scores, data.scores[data.head, -1]), within=1e-10),
        drawn("sum", weights.sum() - 1, within=1e-10),
        drawn("output", apart(mixed, data.run["L0.mixed"][0, data.head, -1]), within=1e-10),
        on=given.name("one-layer"),
    )


def spaces(data: OneRun) -> Diagram:
    """Three matrices take the input into three smaller spaces."""
    block, head, shared = data.block, data.head, data.shared(data.head)
    made = (
        ("Q", "Query", "k", data.queries, block.W_Q[head], QUERY),
        ("K", "Key", "k", data.keys, block.W_K[shared], KEY),
        ("V", "Value", "v", data.values, block.W_V[shared], VALUE),
    )
    nodes = [
        Node(key="X", words=Label("Input vectors $x_i$", "Vetores de entrada $x_i$"), at=(0, 1),
             thumbnail=thumbnail(data.x0, rows=data.words)),
    ]  # fmt: skip
    edges: list[Edge] = []
    for row, (key, name, d, vectors, matrix, tint) in enumerate(made):
        nodes += [
            Node(key=key, words=Label(f"{name} space ($d_{d}$)", f"Espaço de {name} ($d_{d}$)"), at=(1, row), thumbnail=thumbnail(vectors), tint=tint),
            Node(key=f"W^{key}", words=f"$W^{key}\\in\\mathbb{{R}}^{{d\\times d_{d}}}$", at=(2, row), thumbnail=thumbnail(matrix), tint=tint),
        ]  # fmt: skip
        edges += [
            Edge(source="X", target=key, label=f"$x_i W^{key}$", tint=tint),
            Edge(source=f"W^{key}", target=key, dotted=True, tint=tint),
        ]
    groups = (
        Group(title=Label("Input space ($d$)", "Espaço de entrada ($d$)"), nodes=("X",)),
        Group(title=Label("Projected spaces", "Espaços projetados"), nodes=("Q", "K", "V")),
        Group(title=Label("Projection matrices", "Matrizes de projeção"), nodes=("W^Q", "W^K", "W^V")),
    )
    text = _caption(
        data,
        "Dotted arrows join each matrix to the space that it makes.",
        "Setas pontilhadas ligam cada matriz ao espaço que ela produz.",
    )
    return Diagram(nodes=tuple(nodes), edges=tuple(edges), groups=groups, caption=text, gap=(0.4, 0.4))


@draws("003-MER3", one_run)
def draw_spaces(data: OneRun, look: Look) -> "Figure":
    """Projections."""
    return draw_diagram(spaces(data), look)


@checks("003-MER3")
def projected_spaces(given: Given) -> Finding:
    """Seven boxes in three groups and three labelled arrows; each matrix is joined to its space, and sizes are d × d_k and d × d_v."""
    data = one_run(given)
    diagram, config = spaces(data), data.run.config
    q, k, v = projected(data)
    sizes = [node.thumbnail.size for node in diagram.nodes if node.key.startswith("W^") and node.thumbnail]
    return found(
        *rendered(diagram, nodes=7, edges=6),
        drawn("groups", len(diagram.groups), equal=3),
        drawn("labels", sum(bool(edge.label) for edge in diagram.edges), equal=3),
        drawn("matrices", sum(joined(diagram, f"W^{name}", name) for name in "QKV"), equal=3),
        drawn("sizes", sizes.count(f"{config.d_model} × {config.d_head}"), equal=3),
        drawn("projections", max(apart(q, data.queries), apart(k, data.keys), apart(v, data.values)), within=1e-10),
        on=given.name("one-layer"),
    )
