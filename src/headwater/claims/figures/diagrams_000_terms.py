"""Two more diagrams of document 000: the terms of the product, and what they add up to."""

from typing import TYPE_CHECKING

from torch import Tensor

from headwater.circuits.head import Head
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.drawings import draws
from headwater.claims.figures.one_run import OneRun, attended, one_run
from headwater.claims.figures.samples import apart, caption, joined, rendered, thumbnail
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.diagrams import Diagram, Edge, Group, Label, Node, Thumbnail, chain, draw_diagram, said
from headwater.show.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIRECT, OV, QK = 0, 1, 2
"""The colours of the paths."""


def _table(data: OneRun, table: Tensor, columns: Tensor | None = None) -> Thumbnail:
    """Some rows of a table over the whole vocabulary: those of the text's tokens."""
    ids, vocab = data.best if columns is None else columns, len(data.logits)
    return thumbnail(table, rows=data.words, columns=data.texts(ids), size=f"{vocab} × {vocab}")


def _said(data: OneRun, earlier: int | None, value: float) -> Label:
    """A bigram or a skip-trigram with its logit."""
    last, best = data.quoted(data.run.tokens[0, -1]), data.quoted(data.best[0])
    if earlier is None:
        return Label("{} → {}: {}", "{} → {}: {}", (last, best, value))
    return Label("{} … {} → {}: {}", "{} … {} → {}: {}", (data.quoted(data.run.tokens[0, earlier]), last, best, value))


def _masked(data: OneRun) -> Label:
    if not data.is_marked:
        return Label("masked", "com máscara")
    return Label("masked; with the\nterms of positions", "com máscara e os\ntermos das posições")


def _terms_and_pattern(data: OneRun) -> tuple[Node, ...]:
    ids, best, head = data.run.tokens[0], data.best, data.head
    table = data.weights.W_E[ids] @ data.W_QK @ data.weights.W_E[ids].T
    hot = (ids[:, None] == ids[None, :]).double()
    attention = Label("Attention\nterms", "Termos de\natenção")
    return (
        Node(key="direct", words=Label("Direct\nterm", "Termo\ndireto"), at=(0, 0), tint=DIRECT, kind="step"),
        Node(key="W_UW_E", words="$\\mathrm{Id}\\otimes W_U W_E$", at=(1, 0), tint=DIRECT,
             thumbnail=_table(data, (data.weights.W_E[ids] @ data.weights.W_U)[:, best])),
        Node(key="bigrams", words=Label("Bigrams", "Bigramas"), at=(2, 0), tint=DIRECT,
             note=_said(data, None, float(data.direct[best[0]]))),
        Node(key="attention", words=attention, at=(0, 1), tint=OV, kind="step"),
        Node(key="W_OV", words="$\\Sigma_h\\, A^h\\otimes(W_U W_{OV}^h W_E)$", at=(1, 1), tint=OV,
             thumbnail=_table(data, data.said[head][:, best])),
        Node(key="trigrams", words=Label("Skip-trigrams", "Skip-trigramas"), at=(2, 1), tint=OV,
             note=_said(data, data.source, float(data.added[head, data.source, best[0]]))),
        Node(key="tokens", words=Label("Token input", "Token de\nentrada"), at=(3, 0), note=Label("{}", "{}", (data.text,))),
        Node(key="t", words="$t$", at=(4, 0), thumbnail=thumbnail(hot, kind="amounts", size=f"{len(ids)} × {len(data.logits)}")),
        Node(key="QK", words=Label("QK matrix", "Matriz QK"), at=(3, 1), tint=QK, kind="step"),
        Node(key="W_QK", words="$W_E^{\\top} W_{QK}^h W_E/\\sqrt{d_k}$", at=(4, 1), tint=QK, thumbnail=_table(data, table, ids)),
        Node(key="softmax", words="softmax*", at=(5, 0), tint=QK, kind="step",
             note=_masked(data)),
        Node(key="A", words="$A^h$", at=(5, 1), tint=QK,
             thumbnail=thumbnail(data.pattern[head], kind="amounts", rows=data.words, columns=data.words)),
    )  # fmt: skip


def product(data: OneRun) -> Diagram:
    """The terms of the product, and where a pattern comes from."""
    nodes = _terms_and_pattern(data)
    edges = (
        *chain("direct", "W_UW_E", "bigrams", tint=DIRECT), *chain("attention", "W_OV", "trigrams", tint=OV),
        *chain("tokens", "t"), *chain("QK", "W_QK", "softmax", tint=QK), *chain("softmax", "A", tint=QK),
        Edge(source="t", target="softmax", label="$t^{\\top}$", lane=-1), Edge(source="t", target="softmax", label="$t$", lane=1),
    )  # fmt: skip
    groups = (
        Group(title=Label("Expansion of the product", "Expansão do produto"), nodes=tuple(node.key for node in nodes[:6])),
        Group(title=Label("Attention patterns", "Padrões de atenção"), nodes=tuple(node.key for node in nodes[6:])),
    )
    text = caption(
        "The {} model, head {}. Rows are the tokens of {}, columns the likeliest next tokens or the tokens read: of the vocabulary, "
        "these alone are shown. Rows are what a matrix is applied to, so the document's products stand here transposed.",
        "O modelo {}, cabeça {}. As linhas são os tokens de {}, as colunas os próximos tokens mais prováveis ou os tokens lidos: do "
        "vocabulário só estes são mostrados. As linhas são aquilo a que a matriz se aplica; os produtos do documento estão aqui transpostos.",
        (data.name, str(Head(0, data.head)), f"‘{data.text}’"),
    )  # fmt: skip
    return Diagram(nodes=nodes, edges=edges, groups=groups, caption=text, gap=(0.4, 0.4))


@draws("000-MER4", one_run)
def draw_product(data: OneRun, look: Look) -> "Figure":
    """The product's terms."""
    return draw_diagram(product(data), look)


@checks("000-MER4")
def product_and_pattern(given: Given) -> Finding:
    """Both sub-graphs; t enters on both sides, and scores are divided by √d_k: their softmax is the model's pattern."""
    data = one_run(given)
    diagram = product(data)
    labels = [said(edge.label, Look()) for edge in diagram.edges if edge.target == "softmax" and edge.label]
    return found(
        *rendered(diagram, nodes=12, edges=10),
        drawn("groups", len(diagram.groups), equal=2),
        drawn("sides", len({"$t$", "$t^{\\top}$"} & set(labels)) + joined(diagram, "t", "softmax"), equal=4),
        drawn("scale", "sqrt{d_k}" in said(diagram.node("W_QK").words, Look()), equal=1),
        drawn("pattern", apart(attended(data), data.pattern[data.head]), within=1e-10),
        on=given.name("one-layer"),
    )


def _paths(data: OneRun) -> tuple[Node, ...]:
    best, last = data.best, data.run.tokens[0, -1]
    columns, vocab = data.texts(best), len(data.logits)
    trigrams = data.added.sum(dim=0)

    def logits(values: Tensor, rows: tuple[str, ...] = ()) -> Thumbnail:
        return thumbnail(values[..., best], rows=rows, columns=columns, size=f"{max(1, len(rows))} × {vocab}")

    return (
        Node(key="input", words=Label("Input", "Entrada"), at=(0, 0.5), note=Label("{}", "{}", (data.text,))),
        Node(key="direct", words=Label("Direct path\n$x_0$ of {}", "Caminho direto\n$x_0$ de {}", (data.quoted(last),)), at=(1, 0),
             thumbnail=thumbnail(data.x0[-1]), tint=DIRECT),
        Node(key="attention", words=Label("Attention paths\nof {} heads", "Caminhos de atenção\nde {} cabeças", (data.run.config.heads,)),
             at=(1, 1), thumbnail=thumbnail(data.pattern[:, -1], kind="amounts", columns=data.words), tint=OV),
        Node(key="bigrams", words=Label("Bigram statistics", "Estatísticas de bigramas"), at=(2, 0), thumbnail=logits(data.direct), tint=DIRECT),
        Node(key="trigrams", words=Label("Skip-trigrams", "Skip-trigramas"), at=(2, 1), thumbnail=logits(trigrams, data.words), tint=OV),
        Node(key="sum", words=Label("Sum of the logits", "Soma dos logits"), at=(3, 0.5), thumbnail=logits(data.logits)),
        Node(key="softmax", words=Label("softmax:\nfinal behaviour", "softmax:\ncomportamento final"), at=(4, 0.5),
             thumbnail=thumbnail(data.p[best], kind="amounts", columns=columns, size=f"1 × {vocab}"),
             note=Label("p({}) = {}", "p({}) = {}", (data.quoted(best[0]), float(data.p.max())))),
        Node(key="token", words=Label("Token {}", "Token {}", (data.quoted(last),)), at=(0, 2), tint=DIRECT),
        Node(key="W_E", words="Embedding  $W_E$", at=(1, 2), thumbnail=thumbnail(data.weights.W_E), tint=DIRECT),
        Node(key="W_U", words="Unembedding  $W_U$", at=(2, 2), thumbnail=thumbnail(data.weights.W_U), tint=DIRECT),
        Node(key="logits", words="Logits", at=(3, 2), thumbnail=logits(data.weights.W_E[last] @ data.weights.W_U), tint=DIRECT),
    )  # fmt: skip


def terms(data: OneRun) -> Diagram:
    """Two paths whose logits are added before one softmax, and the first of them in full."""
    nodes = _paths(data)
    edges = (
        *chain("input", "direct", "bigrams", "sum", tint=DIRECT), *chain("input", "attention", "trigrams", "sum", tint=OV),
        *chain("sum", "softmax"), *chain("token", "W_E", "W_U", "logits", tint=DIRECT),
    )  # fmt: skip
    groups = (
        Group(title=Label("Decomposition into terms", "Decomposição de termos"), nodes=tuple(node.key for node in nodes[:7])),
        Group(title=Label("The direct path", "Caminho direto"), nodes=tuple(node.key for node in nodes[7:])),
    )
    text = caption(
        "The {} model reads {}. Logits of the likeliest next tokens, of a vocabulary of {}: both paths are added, then one softmax "
        "makes probabilities of the sum.",
        "O modelo {} lê {}. Logits dos próximos tokens mais prováveis, de um vocabulário de {}: os dois caminhos se somam, e um só "
        "softmax faz da soma probabilidades.",
        (data.name, f"‘{data.text}’", len(data.logits)),
    )
    return Diagram(nodes=nodes, edges=edges, groups=groups, caption=text)


@draws("000-MER5", one_run)
def draw_terms(data: OneRun, look: Look) -> "Figure":
    """Bigrams and skip-trigrams."""
    return draw_diagram(terms(data), look)


@checks("000-MER5")
def decomposition(given: Given) -> Finding:
    """With a node for the sum and one for the softmax: bigrams and skip-trigrams are the logits, and these the probabilities."""
    data = one_run(given)
    total = data.direct + data.added.sum(dim=(0, 1))
    last = int(data.run.tokens[0, -1])
    table = given.model("one-layer").direct.rows([last])[0]
    return found(
        *rendered(terms(data), nodes=11, edges=10),
        drawn("joined", joined(terms(data), "sum", "softmax"), equal=1),
        drawn("direct", apart(data.weights.W_E[last] @ data.weights.W_U, table), within=1e-10),
        drawn("sum", apart(total, data.logits), within=1e-10),
        drawn("softmax", apart(total.exp() / total.exp().sum(), data.p), within=1e-10),
        on=given.name("one-layer"),
    )
