"""Sites of the forward pass, and taps that look at them.

A site is a named value on its way from tokens to logits, ``L2.pattern`` for one inside block 2. A tap sees each site that it
wants, and no other, and hands back what the pass goes on with: the same value to record it, another one to intervene.

===================== ========================================= ==============================================
site                  shape                                     what it is
===================== ========================================= ==============================================
embed                 batch pos d_model                         ``W_E`` of each token
positions             pos d_model                               what positions add to the stream, if they do
L0.in                 batch pos d_model                         the stream that block 0 gets
L0.norm_1.scale       batch pos                                 what the first norm multiplies by
L0.attention_input    batch pos d_model                         what attention reads
L0.queries            batch head dest d_head                    after rotary positions, where there are any
L0.keys, L0.values    batch key_head source d_head
L0.scores             batch head dest source                    scaled; −∞ where the mask forbids
L0.pattern            batch head dest source                    softmax of the scores
L0.mixed              batch head dest d_head                    values mixed by the pattern
L0.head_writes        batch head dest d_model                   what each head adds, without ``b_O``
L0.attention          batch pos d_model                         what attention writes: heads and ``b_O``
L0.middle             batch pos d_model                         the stream after attention wrote
L0.norm_2.scale       batch pos                                 what the second norm multiplies by
L0.feed_forward_input batch pos d_model                         what the feed-forward layer reads
L0.gate_input         batch pos d_mlp                           ``x W_gate + b_gate`` of a gated layer
L0.hidden             batch pos d_mlp                           ``x W_in + b_in``
L0.gates              batch pos d_mlp                           what ``hidden`` is multiplied by
L0.neurons            batch pos d_mlp                           ``gates ∘ hidden``
L0.feed_forward       batch pos d_model                         what the feed-forward layer writes
L0.sum                batch pos d_model                         post-norm: the stream after that write, before its norm
L0.out                batch pos d_model                         the stream that block 0 leaves
final.scale           batch pos                                 what the last norm multiplies by
final                 batch pos d_model                         what the unembedding reads
logits                batch pos vocab
===================== ========================================= ==============================================

The documents' steps are names of the same sites: in post-norm blocks ``t1 … t5, h`` of equations 10.32 to 10.37, in other
blocks the same letters in the order in which a pre-norm block computes them.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from torch import Tensor

from headwater.errors import InputError, did_you_mean
from headwater.model.config import GatedFeedForward, LearnedPositions, ModelConfig, NoNorm, PostNorm, SinusoidalPositions
from headwater.model.foreign.spellings import site_of

POST_NORM_STEPS = {
    "t1": "attention", "t2": "middle", "t3": "feed_forward_input", "t4": "feed_forward", "t5": "sum", "h": "out",
}  # fmt: skip
PRE_NORM_STEPS = {
    "t1": "attention_input", "t2": "attention", "t3": "middle", "t4": "feed_forward_input", "t5": "feed_forward", "h": "out",
}  # fmt: skip


class Tap:
    """Looks at nothing: what a forward pass without an observer uses, and the base of taps that look.

    A tap says which sites it ``wants`` and is then called with each of them. It must not change a value in place (others may
    hold the same tensor); to intervene, it returns another one.
    """

    def wants(self, site: str) -> bool:
        """Whether this tap looks at ``site``; what nobody wants may not be computed at all."""
        del site
        return False

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """The value that the pass goes on with."""
        del site
        return value


NOBODY = Tap()


class Recorder(Tap):
    """Keeps the sites whose names match one of ``patterns`` (``"L*.pattern"``), and changes nothing."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        self.kept: dict[str, Tensor] = {}

    def wants(self, site: str) -> bool:
        """Whether ``site`` is to be kept."""
        return any(fnmatchcase(site, pattern) for pattern in self.patterns)

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Keep the value."""
        self.kept[site] = value
        return value


class Enough(Exception):  # noqa: N818  (no error: the pass has done what it was for)
    """Raised by a tap to end a pass: it has seen all that it wanted."""


class Fetcher(Recorder):
    """Keeps the sites of these names, and ends the pass when it has them all: nothing further is computed."""

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Keep the value; leave when it was the last."""
        super().__call__(site, value)
        if len(self.kept) == len(self.patterns):
            raise Enough
        return value


class Chain(Tap):
    """Several taps, each seeing what the one before it handed on."""

    def __init__(self, *taps: Tap) -> None:
        self.taps = taps

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.taps))})"

    def wants(self, site: str) -> bool:
        """Whether any of them looks at ``site``."""
        return any(tap.wants(site) for tap in self.taps)

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """The value after all of them."""
        for tap in self.taps:
            value = show(tap, site, value)
        return value


def show(tap: Tap, site: str, value: Tensor) -> Tensor:
    """Hand a value to a tap that wants it, and go on with what comes back."""
    if not tap.wants(site):
        return value
    # Inference tensors keep no count of the changes made to them.
    version = None if value.is_inference() else value._version
    after = tap(site, value)
    if not isinstance(after, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"a tap that hands back no tensor for {site}", "the value to go on with", "end it with `return value`")
    if version is not None and value._version != version:
        raise InputError(f"a tap that changed {site} in place", "a new tensor", "return value.clone() with the change")
    return after


class Look:
    """A tap as one block sees it: sites without the block's name."""

    def __init__(self, tap: Tap, prefix: str = "") -> None:
        self.tap, self.prefix = tap, prefix

    def wants(self, *sites: str) -> bool:
        """Whether the tap looks at any of these."""
        return any(self.tap.wants(self.prefix + site) for site in sites)

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Show the value to the tap, under its full name."""
        return show(self.tap, self.prefix + site, value)


def block_sites(config: ModelConfig) -> list[str]:
    """The sites of one block of this model, in the order in which they come up."""
    post, gated = isinstance(config.norm, PostNorm), isinstance(config.feed_forward, GatedFeedForward)
    norm_1, norm_2 = ([] if isinstance(config.norm, NoNorm) else [f"norm_{n}.scale"] for n in (1, 2))
    attention = [
        "attention_input",
        *["queries", "keys", "values", "scores", "pattern", "mixed", "head_writes", "attention", "middle"],
    ]
    feeding = [
        "feed_forward_input",
        *(["gate_input", "gates", "hidden"] if gated else ["hidden", "gates"]),
        "neurons",
        "feed_forward",
    ]
    match post, config.feed_forward:
        case True, None:
            return ["in", *attention, *norm_1, "out"]
        case True, _:
            return ["in", *attention, *norm_1, *feeding, "sum", *norm_2, "out"]
        case False, None:
            return ["in", *norm_1, *attention, "out"]
        case _:
            return ["in", *norm_1, *attention, *norm_2, *feeding, "out"]


def all_sites(config: ModelConfig) -> list[str]:
    """Every site of this model."""
    placed = isinstance(config.positions, LearnedPositions | SinusoidalPositions) and config.positions.into == "stream"
    normed = not isinstance(config.norm, NoNorm | PostNorm)
    blocks = [f"L{layer}.{site}" for layer in range(config.layers) for site in block_sites(config)]
    return ["embed"] + ["positions"] * placed + blocks + ["final.scale"] * normed + ["final", "logits"]


def steps(config: ModelConfig) -> dict[str, str]:
    """The documents' letters for the sites of one block of this model."""
    if not isinstance(config.norm, PostNorm):
        return {step: site for step, site in PRE_NORM_STEPS.items() if site in block_sites(config)}
    found = {step: site for step, site in POST_NORM_STEPS.items() if site in block_sites(config)}
    # Without a feed-forward layer the normalised t3 is what the block leaves.
    return found if config.feed_forward else found | {"t3": "out"}


def canonical(config: ModelConfig, site: str) -> str:
    """The site that a name stands for: ``L0.t4`` is ``L0.feed_forward`` in a post-norm model."""
    block, _, step = str(site).partition(".")
    name = f"{block}.{steps(config).get(step, step)}" if step else site
    if name not in all_sites(config):
        known = [site for site in all_sites(config) if site.startswith("L0.") or not site.startswith("L")]
        raise InputError(f"no site is called {site!r:.80}", "a site of this model", _advice(config, site, known))
    return name


def _advice(config: ModelConfig, name: object, known: Iterable[str]) -> str:
    """The nearest names; of TransformerLens' ones ours, whose axes may stand in another order."""
    ours = site_of(name, config)
    if ours is None or ours not in [*all_sites(config), *(f"L*.{site}" for site in block_sites(config))]:
        return did_you_mean(str(name), known)
    return f"TransformerLens' {name} is {ours} here; headwater.model.taps lists all, with their axes"


def expand(config: ModelConfig, names: Iterable[str]) -> list[str]:
    """The sites that names, the documents' letters and patterns such as ``"L*.pattern"`` stand for; none may match nothing."""
    letters = [f"L{layer}.{step}" for layer in range(config.layers) for step in steps(config)]
    found: list[str] = []
    for name in [names] if isinstance(names, str) else names:
        if not any(sign in name for sign in "*?["):
            found.append(canonical(config, name))
            continue
        matches = [site for site in [*all_sites(config), *letters] if fnmatchcase(site, name)]
        if not matches:
            raise InputError(
                f"no site matches {name!r:.80}", "a pattern of this model's sites", _advice(config, name, all_sites(config))
            )
        found += [canonical(config, site) for site in matches]
    return found
