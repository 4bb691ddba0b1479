"""The five diagrams of document 000, drawn from the one-layer model's run on a short text."""

from typing import TYPE_CHECKING

from torch import Tensor

from headwater.circuits.head import Head
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.drawings import draws
from headwater.claims.figures.one_run import OneRun, one_run
from headwater.claims.figures.samples import apart, caption, joined, rendered, thumbnail
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.diagrams import Diagram, Edge, Group, Label, Node, Place, Thumbnail, chain, draw_diagram, said
from headwater.show.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIRECT, OV, QK = 0, 1, 2
"""The colours of the paths."""


def _logits(data: OneRun, values: Tensor, words: tuple[str, ...] = ()) -> Thumbnail:
    """Logits of the likeliest next tokens; rows are ``words`` where there are several."""
    rows = 1 if values.ndim == 1 else len(values)
    return thumbnail(values[..., data.best], rows=words, columns=data.texts(data.best), size=f"{rows} × {values.shape[-1]}")


def _tokens(data: OneRun, at: Place) -> Node:
    return Node(key="tokens", words=Label("Input tokens", "Tokens de entrada"), at=at, note=Label("{}", "{}", (data.text,)))


def _best(data: OneRun, values: Tensor) -> Label:
    """The likeliest next token with its number."""
    return Label("{}: {}", "{}: {}", (data.quoted(data.best[0]), float(values[data.best[0]])))


def flow(data: OneRun) -> Diagram:
    """QK decides where to look, OV what is said of it, and the direct path passes by both."""
    head, words = data.head, data.words
    pattern, current = data.pattern[head], data.quoted(data.run.tokens[0, -1])
    nodes = (
        _tokens(data, (0, 0)),
        Node(key="embedding", words="Embedding", at=(0, 1), thumbnail=thumbnail(data.x0, rows=words)),
        Node(key="qk", at=(1, 0), thumbnail=thumbnail(data.W_QK), tint=QK,
             words=Label("QK circuit\n$W_Q W_K^{\\top}/\\sqrt{d_k}$", "Circuito QK\n$W_Q W_K^{\\top}/\\sqrt{d_k}$")),
        Node(key="ov", at=(1, 2), thumbnail=thumbnail(data.W_OV), tint=OV,
             words=Label("OV circuit\n$W_V W_O$", "Circuito OV\n$W_V W_O$")),
        Node(key="pattern", at=(2, 0), thumbnail=thumbnail(pattern, kind="amounts", rows=words, columns=words), tint=QK,
             words=Label("Attention pattern", "Padrão de atenção")),
        Node(key="values", at=(2, 2), thumbnail=_logits(data, data.said[head], words), tint=OV,
             words=Label("Value transformation\n$x\\,W_V W_O W_U$", "Transformação de valores\n$x\\,W_V W_O W_U$")),
        Node(key="weights", at=(3, 0), thumbnail=thumbnail(pattern[-1], kind="amounts", columns=words), tint=QK,
             words=Label("Attention weights\nof {}", "Pesos de atenção\nde {}", (current,))),
        Node(key="logits", at=(4, 1), thumbnail=_logits(data, data.logits), note=_best(data, data.logits),
             words=Label("Output logits", "Logits de saída")),
    )  # fmt: skip
    direct = Label("direct path  $W_E W_U$", "caminho direto  $W_E W_U$")
    edges = (
        *chain("tokens", "embedding"), *chain("embedding", "qk", tint=QK),
        Edge(source="qk", target="pattern", label="softmax", tint=QK), *chain("pattern", "weights", "logits", tint=QK),
        *chain("embedding", "ov", "values", "logits", tint=OV),
        Edge(source="embedding", target="logits", label=direct, tint=DIRECT),
    )  # fmt: skip
    text = caption(
        "The {} model reads {}; one of its {} heads is shown, {}. What all heads add and the direct path are together the logits. "
        "Of the vocabulary, the likeliest next tokens are shown.",
        "O modelo {} lê {}; mostra-se uma de suas {} cabeças, {}. O que todas as cabeças somam e o caminho direto são juntos os "
        "logits. Do vocabulário mostram-se os próximos tokens mais prováveis.",
        (data.name, f"‘{data.text}’", data.run.config.heads, str(Head(0, head))),
    )
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("000-MER1", one_run)
def draw_flow(data: OneRun, look: Look) -> "Figure":
    """QK and OV, with the direct path."""
    return draw_diagram(flow(data), look)


@checks("000-MER1")
def qk_and_ov_flow(given: Given) -> Finding:
    """The eight boxes and eight arrows of the source, the direct arrow besides; and what is shown adds up to the logits."""
    data = one_run(given)
    diagram = flow(data)
    read = data.x0 @ data.W_OV @ data.weights.W_U
    return found(
        *rendered(diagram, nodes=8, edges=9),
        drawn("direct", joined(diagram, "embedding", "logits"), equal=1),
        drawn("rows", apart(data.pattern.sum(dim=-1), data.pattern.new_ones(())), within=1e-10),
        drawn("values", apart(data.said[data.head], read + data.bias("b_V") @ data.weights.W_U), within=1e-10),
        drawn("sum", apart(data.direct + data.added.sum(dim=(0, 1)), data.logits), within=1e-10),
        on=given.name("one-layer"),
    )


def _copied(data: OneRun) -> tuple[Node, ...]:
    head, source, words = data.head, data.source, data.words
    scores, weight = data.scores[head, -1], float(data.pattern[head, -1, source])
    earlier, current = data.quoted(data.run.tokens[0, source]), data.quoted(data.run.tokens[0, -1])
    weights = thumbnail(data.pattern[head, -1], kind="amounts", columns=words)
    copied, terms = data.added[head, source], (float(data.direct[data.best[0]]), float(data.added[head, source, data.best[0]]))
    return (
        Node(key="B", words=Label("Present token B\n{}", "Token presente B\n{}", (current,)), at=(0, 0), tint=DIRECT),
        Node(key="A", words=Label("Earlier token A\n{}", "Token anterior A\n{}", (earlier,)), at=(0, 1.5), tint=OV),
        Node(key="query", words="Query", at=(1, 0), thumbnail=thumbnail(data.query), tint=QK),
        Node(key="key", words="Key", at=(1, 1), thumbnail=thumbnail(data.key), tint=QK),
        Node(key="value", words="Value", at=(1, 2), thumbnail=thumbnail(data.value), tint=OV),
        Node(key="score", words="Score  $q\\cdot k/\\sqrt{d_k}$", at=(2, 0), numbers=(float(scores[source]),), tint=QK),
        Node(key="weight", at=(2, 1), thumbnail=weights, tint=QK, note=Label("{} to A; all sum to 1", "{} para A; todos somam 1", (weight,)),
             words=Label("Attention weight", "Peso de atenção")),
        Node(key="copy", at=(2, 2), thumbnail=_logits(data, copied), tint=OV,
             words=Label("Copied information\nweight · value · $W_O W_U$", "Informação copiada\npeso · value · $W_O W_U$")),
        Node(key="adjustment", at=(3, 1), thumbnail=_logits(data, data.direct + copied),
             words=Label("Logit adjustment", "Ajuste de logit"),
             note=Label("{}: {} by B, {} copied", "{}: {} por B, {} copiado", (data.quoted(data.best[0]), *terms))),
        Node(key="C", words=Label("Next token C\n{}", "Próximo token C\n{}", (data.quoted(data.best[0]),)), at=(4, 1),
             note=Label("p = {}\nwith all heads", "p = {}\ncom todas as cabeças", (float(data.p.max()),))),
    )  # fmt: skip


def copying(data: OneRun) -> Diagram:
    """One head looks from B to A, and what A says is added to what B says by itself."""
    nodes = _copied(data)
    edges = (
        *chain("B", "query", "score", tint=QK), *chain("A", "key", "score", tint=QK), *chain("A", "value", tint=OV),
        Edge(source="score", target="weight", tint=QK, label=Label("softmax over all keys", "softmax sobre todas as keys")),
        *chain("value", "copy", tint=OV), *chain("weight", "copy", tint=QK), *chain("copy", "adjustment", tint=OV),
        Edge(source="B", target="adjustment", leaves="top", arrives="top", via=((0, -0.7), (3, -0.7)), tint=DIRECT,
             label=Label("what B says by itself", "o que B diz sozinho")),
        *chain("adjustment", "C"),
    )  # fmt: skip
    inside = tuple(node.key for node in nodes if node.key != "C")
    text = caption(
        "Head {} of the {} model, reading {}: of all heads and tokens before B, these add most to the likeliest next token. "
        "Logits are added, not probabilities.",
        "Cabeça {} do modelo {}, lendo {}: entre todas as cabeças e tokens antes de B, são estes os que mais somam ao próximo "
        "token mais provável. Somam-se logits, não probabilidades.",
        (str(Head(0, data.head)), data.name, f"‘{data.text}’"),
    )
    frame = Group(title=Label("Copy mechanism", "Mecanismo de cópia"), nodes=inside)
    return Diagram(nodes=nodes, edges=edges, groups=(frame,), caption=text)


@draws("000-MER2", one_run)
def draw_copying(data: OneRun, look: Look) -> "Figure":
    """A head that copies."""
    return draw_diagram(copying(data), look)


@checks("000-MER2")
def copy_mechanism(given: Given) -> Finding:
    """Ten boxes and eleven arrows; the score is q·k/√d_k, the weight its softmax over all keys, and what is adjusted are logits."""
    data, diagram = one_run(given), copying(one_run(given))
    head, source, scores = data.head, data.source, data.scores[data.head, -1]
    total = data.run["L0.mixed"][0, head, -1] @ data.block.W_O[head] @ data.weights.W_U
    return found(
        *rendered(diagram, nodes=10, edges=11),
        drawn("label", "Logit" in said(diagram.node("adjustment").words, Look()), equal=1),
        drawn("score", apart(data.query @ data.key * data.scale, scores[source]), within=1e-10),
        drawn("softmax", apart(scores.exp() / scores.exp().sum(), data.pattern[head, -1]), within=1e-10),
        drawn("copied", apart(data.added[head].sum(dim=0), total), within=1e-10),
        on=given.name("one-layer"),
    )


def expansion(data: OneRun) -> Diagram:
    """Every head adds to the stream, and what was there before stays in it."""
    words, count = data.words, data.run.config.heads
    others = data.writes[2:].sum(dim=0)
    nodes = (
        _tokens(data, (0, 0)),
        Node(key="embedding", words="Embedding\n$x_0 = W_E\\,t$", at=(0, 1), thumbnail=thumbnail(data.x0, rows=words)),
        Node(key="stream", words=Label("Residual stream", "Fluxo residual"), at=(1, 1), tint=DIRECT, note="$x_0$"),
        *(Node(key=f"head {n}", at=(2, n), thumbnail=thumbnail(data.writes[n]), tint=OV,
               words=Label("Attention head $h_{}$", "Cabeça de atenção $h_{}$", (str(n + 1),))) for n in range(min(2, count))),
        Node(key="others", words=Label("… the other {}", "… as outras {}", (max(0, count - 2),)), at=(2, 2),
             thumbnail=thumbnail(others), tint=OV),
        Node(key="sum", words=Label("Sum in the\nresidual stream", "Soma no\nfluxo residual"), at=(3, 1), kind="step"),
        Node(key="x1", words="$x_1 = x_0 + \\Sigma_h\\, h(x_0)$", at=(4, 0), thumbnail=thumbnail(data.x1, rows=words)),
        Node(key="unembedding", words="Unembedding  $W_U$", at=(4, 1), thumbnail=thumbnail(data.weights.W_U)),
        Node(key="logits", words=Label("Final logits", "Logits finais"), at=(4, 2), thumbnail=_logits(data, data.logits)),
    )  # fmt: skip
    heads = [node.key for node in nodes if node.at[0] == 2]
    edges = (
        *chain("tokens", "embedding", "stream"), *(e for head in heads for e in chain("stream", head, "sum", tint=OV)),
        Edge(source="stream", target="sum", leaves="bottom", arrives="bottom", via=((1, 2.8), (3, 2.8)), tint=DIRECT,
             label=Label("$x_0$ itself: the skip edge", "o próprio $x_0$: a aresta de salto")),
        *chain("sum", "x1", "unembedding", "logits"),
    )  # fmt: skip
    text = caption(
        "The {} model reads {}; heads are counted from 1, and the other heads' writes are shown as one sum.",
        "O modelo {} lê {}; contam-se as cabeças a partir de 1, e o que as outras escrevem é mostrado como uma só soma.",
        (data.name, f"‘{data.text}’"),
    )
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("000-MER3", one_run)
def draw_expansion(data: OneRun, look: Look) -> "Figure":
    """From tokens to logits through the stream."""
    return draw_diagram(expansion(data), look)


@checks("000-MER3")
def path_expansion(given: Given) -> Finding:
    """The source's eleven arrows, and the one that it leaves out; x₁ is x₀ and all writes, and W_U makes logits of it."""
    data = one_run(given)
    diagram = expansion(data)
    heads = min(2, data.run.config.heads)
    written = data.x0 + data.writes.sum(dim=0) + data.bias("b_O")
    return found(
        *rendered(diagram, nodes=8 + heads, edges=8 + 2 * heads),
        drawn("skip", joined(diagram, "stream", "sum"), equal=1),
        drawn("stream", apart(data.x1, written), within=1e-10),
        drawn("unembedding", apart(data.x1[-1] @ data.weights.W_U + data.b_U, data.logits), within=1e-10),
        on=given.name("one-layer"),
    )
