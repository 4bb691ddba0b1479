"""All claims, with the check that answers each: the texts beside a module of checks are those of its claims.

``one_layer/paths.toml`` holds the statements in both languages, ``one_layer/paths.py`` the functions that measure them.
"""

import ast
import functools
import importlib
import inspect
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.claims.claim import Claim, Words
from headwater.claims.evidence import VERDICTS, Finding
from headwater.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from headwater.claims.given import Given

HERE = Path(__file__).parent
TITLES = {
    "000": {"en": "One-layer attention-only transformers", "pt": "Transformers de uma camada baseados em atenção"},
    "001": {"en": "Zero-layer transformers", "pt": "Transformers de zero camadas"},
    "002": {
        "en": "Self-attention and contextual integration in the residual stream",
        "pt": "Autoatenção e integração contextual no fluxo residual",
    },
    "003": {"en": "Self-attention and transformer blocks", "pt": "Self-attention e blocos transformer"},
    "004": {
        "en": "Perspectives on the residual stream: feed-forward, attention, normalisation",
        "pt": "Perspectivas no fluxo residual: feed-forward, atenção, normalização",
    },
}
Check: TypeAlias = Callable[["Given"], Finding]
_CHECKS: dict[str, Check] = {}


def checks(*ids: str) -> Callable[[Check], Check]:
    """Says which claims a function answers; several where they state the same thing."""

    def register(check: Check) -> Check:
        for id_ in ids:
            assert id_ not in _CHECKS or _CHECKS[id_].__qualname__ == check.__qualname__, f"{id_} has a check already"
            _CHECKS[id_] = check
        return check

    return register


@functools.cache
def all_claims() -> dict[str, Claim]:
    """Every claim by its id, document by document in the order of the text."""
    claims = [claim for path in sorted(HERE.glob("*/*.toml")) for claim in _read(path)]
    ordered = sorted(claims, key=lambda claim: (claim.document, claim.line))
    assert len({claim.id for claim in ordered}) == len(ordered), "an id stands in two files"
    return {claim.id: claim for claim in ordered}


def _read(path: Path) -> list[Claim]:
    entries: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    return [_claim(id_, dict(entry)) for id_, entry in entries.items()]


def _claim(id_: str, entry: dict[str, Any]) -> Claim:
    """Our own files: a key that is missing or unknown is a mistake of ours."""
    en, pt = Words(**entry.pop("en")), Words(**entry.pop("pt"))
    related, unsupported = tuple(entry.pop("related", ())), frozenset(entry.pop("unsupported", ()))
    verdict = entry.pop("verdict", entry["ledger"])
    return Claim(id=id_, verdict=verdict, related=related, unsupported=unsupported, en=en, pt=pt, **entry)


def check_of(id_: str) -> Check:
    """The function that answers a claim."""
    if id_ not in _CHECKS:
        importlib.import_module(_module_of(id_))
    return _CHECKS[id_]


@functools.cache
def _homes() -> dict[str, str]:
    return {
        id_: f"headwater.claims.{path.parent.name}.{path.stem}"
        for path in HERE.glob("*/*.toml")
        for id_ in tomllib.loads(path.read_text("utf-8"))
    }


def _module_of(id_: str) -> str:
    return _homes()[id_]


def code_of(id_: str) -> str:
    """The text of the function that answers a claim, as a person reads it: without its list of ids."""
    lines = inspect.getsource(check_of(id_)).splitlines()
    (function,) = ast.parse("\n".join(lines)).body
    return "\n".join(lines[function.lineno - 1 :])


def chosen(ids: Sequence[str] = (), *, document: str | None = None, verdict: str | None = None) -> list[Claim]:
    """The claims that are meant: those of these ids, in letters of either case, of this document and of this verdict."""
    claims, ids = all_claims(), [id_.upper() for id_ in ids]
    for id_ in ids:
        if id_ not in claims:
            raise InputError(f"no claim is called {id_:.40}", "an id such as 000-L1", did_you_mean(id_, claims))
    if document is not None and document not in TITLES:
        raise InputError(f"document {document:.40}", f"one of {', '.join(TITLES)}", "change --document")
    if verdict is not None and verdict not in VERDICTS:
        raise InputError(f"verdict {verdict:.40}", f"one of {', '.join(VERDICTS)}", did_you_mean(verdict, VERDICTS))
    return [
        claim
        for claim in claims.values()
        if (not ids or claim.id in ids)
        and (document is None or claim.document == document)
        and (verdict is None or claim.verdict == verdict)
    ]
