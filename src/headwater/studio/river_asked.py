"""What is asked of a river, as it stands in an address, and as it is asked without a studio."""

import re
import shlex
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from headwater.studio.asked import Lines, Named, Position, Text, TokenName
from headwater.studio.work import Stop
from headwater.text.tokenizer import Tokenizer
from headwater.trace.parts import Split
from headwater.trace.river import logits_of
from headwater.trace.run import Run


@dataclass(frozen=True)
class Logit:
    """A logit of a text, as an address names it."""

    model: str
    text: str
    position: int
    token: str
    against: str
    centred: bool

    def explain(self, run: Run) -> Split:
        """Its parts."""
        return run.explain(self.position, token_of(run, self.token), token_of(run, self.against), centred=self.centred)


def logit_asked(
    model: Named,
    text: Text,
    position: Position = -1,
    token: TokenName = "",
    against: TokenName = "",
    centred: bool = False,  # noqa: FBT001, FBT002  (a choice in an address)
) -> Logit:
    """The logit that an address is about."""
    return Logit(model, text, position, token, against, centred)


Asking = Annotated[Logit, Depends(logit_asked)]


def number_in(text: str, *, has_words: bool) -> int | None:
    """The id that ``#id`` names; where there are no words, a bare number is one too."""
    number = re.fullmatch(r"#(\d{1,9})" if has_words else r"#?(\d{1,9})", text, re.ASCII)
    return int(number[1]) if number else None


def token_of(run: Run, text: str) -> int | None:
    """The token that a text is, or that ``#id`` names; none where nothing is said."""
    if not text:
        return None
    number = number_in(text, has_words=run.tokenizer is not None)
    return run.find(text if number is None else number)


def lines_of(model: str, text: str, why: Split, *, centred: bool) -> Lines:
    """The same logit with the same parts, without a studio."""
    position, (token, *against) = why.facts["position"], logits_of(why)
    asked = [str(position), str(token), *map(str, against), *(["centred=True"] if centred else [])]
    ids = text.removeprefix("ids:").replace(",", " ").split() if text.startswith("ids:") else None
    given = repr(text) if ids is None else f"[{', '.join(ids)}]"
    python = f"import headwater as hw; print(hw.load({model!r}).record({given}).explain({', '.join(asked)}))"
    options = [f"--position {position}", f"--token '#{token}'", *(f"--against '#{each}'" for each in against)]
    options += ["--centred"] * centred + ["--most 20", "--json"]
    named, said = shlex.quote(model), shlex.quote(text)
    if ids is not None:
        begin = f"headwater explain {named} --ids {shlex.quote(','.join(ids))}"
    elif text.startswith("-"):
        begin = f"printf %s {said} | headwater explain {named} -"
    else:
        begin = f"headwater explain {named} {said}"
    told = f"{begin} {' '.join(options)}"
    return Lines(python=python, shell=told)


def begins_like(tokenizer: Tokenizer, text: str, count: int, stop: Stop) -> list[int]:
    """Tokens that begin with a text, or with a space and it: the shortest first."""
    wanted = (text.encode(), f" {text}".encode())
    found: list[tuple[int, int]] = []
    for token in range(tokenizer.size):
        if token % 4096 == 0:
            stop()
        said = tokenizer.token_bytes(token)
        if said.startswith(wanted):
            found.append((len(said), token))
    return [token for _, token in sorted(found)[:count]]
