"""The four diagrams of document 001: the zero-layer model and its text, and direct paths in models with layers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.api import Model
from headwater.claims.evidence import Finding, drawn, found, outside, reported
from headwater.claims.figures.drawings import draws
from headwater.claims.figures.one_run import BEST, TEXT
from headwater.claims.figures.post_norm import post_norm
from headwater.claims.figures.samples import apart, caption, joined, rendered, thumbnail
from headwater.claims.given import Given
from headwater.claims.one_layer.held_out import Reading, reading
from headwater.claims.registry import checks
from headwater.errors import InputError
from headwater.model.config import NoPositions
from headwater.model.weights import Weights
from headwater.show.diagrams import Diagram, Edge, Group, Label, Node, Thumbnail, chain, draw_diagram
from headwater.show.looks import Look
from headwater.text.spoken import Spoken
from headwater.train.studies.bigram import fit
from headwater.train.studies.pairs import Pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIRECT, LAYERS, TRUE = 0, 1, 2
"""The colours: of the direct path, of layers, and of what the text itself says."""


@dataclass(frozen=True, eq=False)
class NextToken:
    """A model, and what it says after the last token of a short text."""

    model: Model
    name: str
    token: int
    logits: Float[Tensor, " vocab"]

    @property
    def best(self) -> Tensor:
        """The likeliest next tokens."""
        return self.logits.argsort(descending=True, stable=True)[:BEST]

    def quoted(self, token: int | Tensor) -> str:
        """A token in quotes."""
        return Spoken(self.model.tokenizer)(int(token))

    @property
    def columns(self) -> tuple[str, ...]:
        """The likeliest next tokens, as they are."""
        spoken = Spoken(self.model.tokenizer)
        return tuple(spoken.text(int(token)) or spoken(int(token)) for token in self.best)

    def over_vocabulary(self, values: Tensor, *, amounts: bool = False) -> Thumbnail:
        """Numbers of all tokens, of which those of the likeliest are shown."""
        kind = "amounts" if amounts else "signed"
        return thumbnail(values[self.best], kind=kind, columns=self.columns, size=f"1 × {len(self.logits)}")


def unembedded(stream: Tensor, weights: Weights) -> Tensor:
    """``x W_U``, and the bias where there is one, which belongs to the direct path."""
    return stream @ weights.W_U if weights.b_U is None else stream @ weights.W_U + weights.b_U


def one_token(given: Given) -> NextToken:
    """The zero-layer model after one token."""
    model = given.model("zero-layer")
    token = int(model.tokens(TEXT)[0, -1])
    return NextToken(model, given.name("zero-layer"), token, model.logits([token])[0, -1])


def zero_layer(data: NextToken) -> Diagram:
    """Two matrices, one after the other."""
    weights = data.model.weights
    nodes = (
        Node(key="token", words=Label("Input token\n{}", "Token de entrada\n{}", (data.quoted(data.token),)), at=(0, 0)),
        Node(key="W_E", words="Embedding  $W_E$", at=(1, 0), thumbnail=thumbnail(weights.W_E), tint=DIRECT),
        Node(key="W_U", words="Unembedding  $W_U$", at=(2, 0), thumbnail=thumbnail(weights.W_U), tint=DIRECT),
        Node(key="logits", words=Label("Output logits", "Logits de saída"), at=(3, 0), thumbnail=data.over_vocabulary(data.logits),
             note=Label("{}: {}", "{}: {}", (data.quoted(data.best[0]), float(data.logits.max())))),
    )  # fmt: skip
    text = caption(
        "The {} model after {}. Of the {} logits, those of the likeliest next tokens are shown.",
        "O modelo {} depois de {}. Dos {} logits mostram-se os dos próximos tokens mais prováveis.",
        (data.name, data.quoted(data.token), len(data.logits)),
    )
    edges = (
        Edge(source="token", target="W_E", tint=DIRECT, label=Label("one row", "uma linha")),
        Edge(source="W_E", target="W_U", tint=DIRECT, label="$x_0$"),
        *chain("W_U", "logits", tint=DIRECT),
    )
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("001-MER1", one_token)
def draw_zero_layer(data: NextToken, look: Look) -> "Figure":
    """From token to logits."""
    return draw_diagram(zero_layer(data), look)


@checks("001-MER1")
def token_to_logits(given: Given) -> Finding:
    """Four boxes and three arrows: the token's row of W_E, through W_U, is what the model says."""
    data = one_token(given)
    weights = data.model.weights
    if not isinstance(data.model.config.positions, NoPositions):
        raise InputError(
            "positions in the stream", "nothing but the two matrices between token and logits", "use another model"
        )
    one_hot = torch.nn.functional.one_hot(torch.tensor(data.token), len(data.logits)).double()
    return found(
        *rendered(zero_layer(data), nodes=4, edges=3),
        drawn("product", apart(unembedded(one_hot @ weights.W_E, weights), data.logits), within=1e-10),
        on=given.name("zero-layer"),
    )


@dataclass(frozen=True, eq=False)
class Approximated(NextToken):
    """The same beside the bigrams of the text that the model was trained on."""

    true: Float[Tensor, " vocab"]
    """``p(next | token)`` of the text."""
    error: float
    """``KL(true ‖ model)`` averaged over the text, in nats."""
    loss: float
    entropy: float
    """``H(X2 | X1)`` of the text."""

    @property
    def divergence(self) -> Float[Tensor, ""]:
        """``KL(true ‖ model)`` after this one token."""
        log_q, there = self.logits.log_softmax(dim=-1), self.true > 0
        return (self.true[there] * (self.true[there].log() - log_q[there])).sum()


def approximated(given: Given) -> Approximated:
    """The zero-layer model against the pairs of its text."""
    at = one_token(given)
    pairs = given.once("diagrams: pairs", lambda: Pairs.of(given.corpus("zero-layer").train, len(at.logits)))
    measured, here = fit(at.model.weights, pairs), pairs.first == at.token
    true = torch.zeros_like(at.logits).index_put_((pairs.second[here],), pairs.log_p[here].exp())
    return Approximated(at.model, at.name, at.token, at.logits, true, measured.excess, measured.loss, pairs.entropy)


def approximation(data: Approximated) -> Diagram:
    """From tokens through d dimensions to logits; their softmax beside what the text says."""
    weights, p = data.model.weights, data.logits.softmax(dim=-1)
    before = data.quoted(data.token)
    nodes = (
        Node(key="tokens", at=(0, 0), note=Label("{} tokens; here {}", "{} tokens; aqui {}", (len(data.logits), before)),
             words=Label("Input space:\ntokens", "Espaço de entrada:\ntokens")),
        Node(key="W_E", words=Label("Embedding matrix\n$W_E$", "Matriz de embedding\n$W_E$"), at=(1, 0), tint=DIRECT,
             thumbnail=thumbnail(weights.W_E)),
        Node(key="latent", words=Label("Latent space,\n$d$ = {}", "Espaço latente,\n$d$ = {}", (weights.config.d_model,)), at=(2, 0),
             thumbnail=thumbnail(weights.W_E[data.token]), tint=DIRECT),
        Node(key="W_U", words=Label("Unembedding matrix\n$W_U$", "Matriz de unembedding\n$W_U$"), at=(3, 0), tint=DIRECT,
             thumbnail=thumbnail(weights.W_U)),
        Node(key="logits", words=Label("Output space:\nlogits", "Espaço de saída:\nlogits"), at=(4, 0), tint=DIRECT,
             thumbnail=data.over_vocabulary(data.logits)),
        Node(key="softmax", words="softmax", at=(4, 1), kind="step", tint=DIRECT),
        Node(key="model", words=Label("Model's approximation", "Aproximação do modelo"), at=(3, 1), tint=DIRECT,
             thumbnail=data.over_vocabulary(p, amounts=True)),
        Node(key="true", words=Label("True bigram\ndistribution", "Distribuição real\nde bigramas"), at=(1, 1), tint=TRUE,
             thumbnail=data.over_vocabulary(data.true, amounts=True)),
        Node(key="error", at=(3, 2), tint=TRUE, words=Label("Approximation error", "Erro de aproximação"),
             note=Label("$D_{KL}$ = {} nats after {};\n{} nats over the whole text", "$D_{KL}$ = {} nats depois de {};\n{} nats em todo o texto",
                        (float(data.divergence), before, data.error))),
    )  # fmt: skip
    edges = (
        *chain("tokens", "W_E", "latent", "W_U", "logits", "softmax", "model", tint=DIRECT),
        Edge(source="true", target="model", dotted=True, tint=TRUE, label=Label("approximated by", "aproximada por")),
        Edge(source="model", target="error", dotted=True, tint=TRUE, leaves="bottom", arrives="top"),
    )
    text = caption(
        "The {} model after {}, and how often the text it was trained on goes on with each token. Of the vocabulary, the likeliest "
        "next tokens are shown.",
        "O modelo {} depois de {}, e a frequência com que o texto em que foi treinado continua com cada token. Do vocabulário "
        "mostram-se os próximos tokens mais prováveis.",
        (data.name, before),
    )
    return Diagram(nodes=nodes, edges=edges, caption=text)


@draws("001-MER2", approximated)
def draw_approximation(data: Approximated, look: Look) -> "Figure":
    """What the model makes of the text's bigrams."""
    return draw_diagram(approximation(data), look)


@checks("001-MER2")
def approximation_error(given: Given) -> Finding:
    """The source's eight boxes and six arrows, and the softmax between logits and approximation; the error is loss − H(X2|X1)."""
    data = given.once("diagrams: approximated", lambda: approximated(given))
    diagram = approximation(data)
    log_p = data.logits - data.logits.exp().sum().log()
    entropy = -(data.true * data.true.clamp(min=1e-300).log()).sum()
    return found(
        *rendered(diagram, nodes=9, edges=8),
        drawn("dotted", sum(edge.dotted for edge in diagram.edges), equal=2),
        drawn("softmax", joined(diagram, "logits", "softmax") + joined(diagram, "softmax", "model"), equal=2),
        drawn("sums", abs(float(data.true.sum()) - 1) + abs(float(log_p.exp().sum()) - 1), within=1e-10),
        drawn("here", data.divergence + (data.true @ log_p) + entropy, within=1e-10),
        drawn("error", data.error - (data.loss - data.entropy), within=1e-10),
        on=given.name("zero-layer"),
    )


@dataclass(frozen=True, eq=False)
class TwoPaths(NextToken):
    """The last token's stream in a model with layers: what was embedded, and what all layers added."""

    embedded: Float[Tensor, " d_model"]
    written: Float[Tensor, " d_model"]


def two_paths(given: Given) -> TwoPaths:
    """The two-layer model on a short text."""
    model = given.model("two-layer")
    run = model.record(TEXT)
    layers = range(model.config.layers)
    written = torch.stack([run[f"L{layer}.attention"][0, -1] for layer in layers]).sum(dim=0)
    embedded, token = run["L0.in"][0, -1], int(run.tokens[0, -1])
    return TwoPaths(model, given.name("two-layer"), token, run.logits[0, -1], embedded, written)


def direct_and_layers(data: TwoPaths) -> Diagram:
    """What is embedded reaches the unembedding as it is, and layers add to it."""
    W_U = data.model.weights.W_U
    nodes = (
        Node(key="token", words=Label("Input token\n{}", "Token de entrada\n{}", (data.quoted(data.token),)), at=(0, 0.5)),
        Node(key="W_E", words="Embedding  $W_E$", at=(1, 0.5), thumbnail=thumbnail(data.model.weights.W_E)),
        Node(key="direct", words=Label("Direct path", "Caminho direto"), at=(2, 0), thumbnail=thumbnail(data.embedded), tint=DIRECT),
        Node(key="layers", at=(2, 1), thumbnail=thumbnail(data.written), tint=LAYERS,
             words=Label("Intermediate layers: {}", "Camadas intermediárias: {}", (data.model.config.layers,)),
             note=Label("what they add", "o que elas somam")),
        Node(key="W_U", words="Unembedding  $W_U$", at=(3, 0.5), thumbnail=thumbnail(W_U)),
        Node(key="logits", words=Label("Output logits", "Logits de saída"), at=(4, 0.5), thumbnail=data.over_vocabulary(data.logits),
             note=Label("{}: {} direct\nand {} by layers", "{}: {} direto\ne {} das camadas",
                        (data.quoted(data.best[0]), *(float(part @ W_U[:, data.best[0]]) for part in (data.embedded, data.written))))),
    )  # fmt: skip
    edges = (
        *chain("token", "W_E"), *chain("W_E", "direct", "W_U", tint=DIRECT), *chain("W_E", "layers", "W_U", tint=LAYERS),
        *chain("W_U", "logits"),
    )  # fmt: skip
    text = caption(
        "The {} model reads {}; it has no norms. With pre-norm blocks the paths split in the same way before the last norm; "
        "in post-norm blocks there is no separate direct path.",
        "O modelo {} lê {}; ele não tem normalizações. Em blocos pre-norm os caminhos se separam do mesmo modo antes da última normalização; "
        "em blocos post-norm não há caminho direto separado.",
        (data.name, f"‘{TEXT}’"),
    )
    title = Label("Direct path vs. complex paths", "Caminho direto vs. caminhos complexos")
    return Diagram(nodes=nodes, edges=edges, caption=text, groups=(Group(title=title, nodes=tuple(n.key for n in nodes)),))


@draws("001-MER3", two_paths)
def draw_direct_and_layers(data: TwoPaths, look: Look) -> "Figure":
    """The direct path and the layers."""
    return draw_diagram(direct_and_layers(data), look)


@checks("001-MER3")
def direct_path_beside_layers(given: Given) -> Finding:
    """Six boxes and six arrows; both paths through W_U are the logits, which they are not where the stream itself is normalised."""
    data, post = two_paths(given), post_norm(given).run
    W_U, theirs = data.model.weights.W_U, post.weights.W_U
    split = post["L0.in"] + post["L0.t1"] + post["L0.t4"]
    return found(
        *rendered(direct_and_layers(data), nodes=6, edges=6),
        drawn("sum", apart(unembedded(data.embedded, data.model.weights) + data.written @ W_U, data.logits), within=1e-10),
        outside("post", apart(split @ theirs, post.logits), within=1e-10),
        on=given.name("two-layer"),
    )


@dataclass(frozen=True)
class Shares:
    """What each part of the one-layer model is worth on held-out text: nats for each token."""

    name: str
    heads: int
    tokens: int
    whole: float
    direct: float
    """Without the heads."""
    upper: float
    """Without the direct path."""


def shares(given: Given) -> Shares:
    """The model as it is, and with one part of its logits left out."""
    model, read = given.model("one-layer"), reading(given)
    direct, upper = both_parts(read)

    def nats(logits: Float[Tensor, "batch pos vocab"]) -> float:
        log_p = logits.log_softmax(dim=-1)
        return -float(log_p.gather(2, read.next[:, :, None]).mean())

    whole = nats(read.run.logits)
    return Shares(given.name("one-layer"), model.config.heads, read.tokens.numel(), whole, nats(direct), nats(upper))


def both_parts(read: Reading) -> tuple[Tensor, Tensor]:
    """The logits of the direct path alone, and of the heads alone."""
    return unembedded(read.run["L0.in"], read.run.weights), read.run["L0.attention"] @ read.run.weights.W_U


def specialisation(data: Shares) -> Diagram:
    """A hypothesis, with what was measured."""
    without = (
        Label("alone: {} nats", "sozinho: {} nats", (data.direct,)),
        Label("alone: {} nats", "sozinhas: {} nats", (data.upper,)),
    )
    measured = Label("measured", "medido")
    nodes = (
        Node(key="input", words=Label("Input", "Entrada"), at=(0, 0.5)),
        Node(key="direct", words=Label("Direct path", "Caminho direto"), at=(1, 0), note=without[0], tint=DIRECT),
        Node(key="upper", words=Label("Upper layers", "Camadas superiores"), at=(1, 1), tint=LAYERS, note=without[1]),
        Node(key="bigrams", words=Label("Bigram statistics", "Estatísticas de bigramas"), at=(2, 0), tint=DIRECT,
             note=Label("hypothesis", "hipótese")),
        Node(key="grammar", words=Label("Grammatical rules", "Regras gramaticais"), at=(2, 1), tint=LAYERS,
             note=Label("hypothesis", "hipótese")),
        Node(key="prediction", words=Label("Final prediction", "Predição final"), at=(3, 0.5),
             note=Label("together: {} nats", "juntos: {} nats", (data.whole,))),
    )  # fmt: skip
    edges = (
        Edge(source="input", target="direct", tint=DIRECT), Edge(source="input", target="upper", tint=LAYERS),
        *chain("direct", "bigrams", tint=DIRECT), *chain("upper", "grammar", tint=LAYERS),
        Edge(source="bigrams", target="prediction", tint=DIRECT, label=measured),
        Edge(source="grammar", target="prediction", tint=LAYERS, label=measured),
    )  # fmt: skip
    text = Label(
        "Measured on the {} model, whose upper layer is {} heads: nats for each of {} held-out tokens, with all of it and with one part "
        "of its logits alone. What a part is worth is measured; what it knows is a hypothesis.",
        "Medido no modelo {}, cuja camada superior são {} cabeças: nats para cada um de {} tokens reservados, com o modelo todo e com uma "
        "só parte dos logits. O que uma parte vale é medido; o que ela sabe é hipótese.",
        (data.name, data.heads, data.tokens),
    )  # fmt: skip
    title = Label("Functional specialisation", "Especialização funcional")
    return Diagram(nodes=nodes, edges=edges, caption=text, groups=(Group(title=title, nodes=tuple(n.key for n in nodes)),))


@draws("001-MER4", shares)
def draw_specialisation(data: Shares, look: Look) -> "Figure":
    """Who knows what, as far as it is measured."""
    return draw_diagram(specialisation(data), look)


@checks("001-MER4")
def functional_specialisation(given: Given) -> Finding:
    """Six boxes and six arrows, with measured numbers: the parts together do better than either alone."""
    data, read = shares(given), reading(given)
    direct, upper = both_parts(read)
    labels = sum(edge.label == Label("measured", "medido") for edge in specialisation(data).edges)
    return found(
        *rendered(specialisation(data), nodes=6, edges=6),
        drawn("labels", labels, equal=2),
        drawn("parts", apart(direct + upper, read.run.logits), within=1e-10),
        reported("together", data.whole, below=min(data.direct, data.upper)),
        on=given.name("one-layer"),
    )
