"""What is asked of a river, as it stands in an address, and as it is asked without a studio."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from headwater.studio.asked import Lines, Named, Position, Text, TokenName, token_of
from headwater.studio.lines import command, recorded
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
        token, against = (token_of(run, text or None) for text in (self.token, self.against))
        return run.explain(self.position, token, against, centred=self.centred)

    def lines(self, name: str, run: Run, why: Split) -> Lines:
        """The same logit of the model of that name with the same parts, without a studio."""
        position, (token, *against) = why.facts["position"], logits_of(why)
        asked = [str(position), str(token), *map(str, against), *(["centred=True"] if self.centred else [])]
        options = [f"--position {position}", f"--token '#{token}'", *(f"--against '#{each}'" for each in against)]
        options += ["--centred"] * self.centred + ["--most 20", "--json"]
        return Lines.of(
            f"import headwater as hw; print({recorded(name, self.text, run)}.explain({', '.join(asked)}))",
            command("explain", name, self.text, run, " ".join(options)),
        )


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
