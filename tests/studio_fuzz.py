"""Asking a studio whatever comes to mind: by its own description, and by lists of values that have broken other servers."""

import json
from types import SimpleNamespace

import hypothesis
import pytest
import schemathesis

from conftest import IS_GATE
from headwater.studio.app import describe
from hostile_values import places_told
from studio_app import is_endless, quoted, target

LEAVE = 20.0
"""Seconds after which nobody waits for a stream any more."""


def check(answer, asked, given=()):
    assert answer.raised is None, asked
    assert answer.status < 500, (asked, answer.status, answer.body[:500])
    assert places_told(answer.body, given) == [], (asked, answer.body[:500])
    if answer.status >= 400:
        assert set(answer.json()) == {"given", "needed", "do"}, (asked, answer.body[:500])
        assert len(answer.body) < 4_000, asked


def ask(studio, method, place, asked):
    return studio.ask(place, method, leave=1.0 if is_endless(asked) else LEAVE)


def try_all(studio, route, values):
    """Every value in every parameter of a route, the others as they usually are; and each parameter twice."""
    method, path, parameters, asked = route
    for parameter in parameters:
        for value in values:
            place = target(path, parameters, {parameter["name"]: value})
            check(ask(studio, method, place, asked), place[:300], [value])
        twice = target(path, parameters) + f"&{parameter['name']}=a&{parameter['name']}=b"
        check(studio.ask(twice, method, leave=1.0), twice)


def schema_of(count):
    """The description, for schemathesis."""
    schema = schemathesis.openapi.from_dict(describe().openapi())
    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        derandomize=IS_GATE,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    return schema, settings


def fuzz(studio, count):
    """Ask what the description allows, and what it does not; whatever is answered, the description must have it."""
    schema, settings = schema_of(count)
    seen = SimpleNamespace(answers=0, statuses=set(), routes=set())
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.method.upper() == "GET" and not is_endless(operation.definition.raw):
            modes = (
                schemathesis.GenerationMode
                if operation.definition.raw.get("parameters")
                else [schemathesis.GenerationMode.POSITIVE]
            )
            for mode in modes:
                _fuzz_one(studio, operation, mode, settings, seen)
    return seen


def _fuzz_one(studio, operation, mode, settings, seen):
    usual = {"model": ["tiny", "wordless"], "atlas": ["tiny"], "training": ["training"]}

    @settings
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), data=hypothesis.strategies.data())
    def one(case, data):
        if mode is schemathesis.GenerationMode.POSITIVE and case.query:
            for name in usual.keys() & set(case.query):
                if isinstance(case.query[name], str):
                    case.query[name] = data.draw(hypothesis.strategies.sampled_from(usual[name]))
        query = [
            (name, each)
            for name, value in (case.query or {}).items()
            for each in (value if isinstance(value, list) else [value])
        ]
        written = "&".join(f"{quoted(str(name))}={quoted(_said(value))}" for name, value in query)
        place = case.formatted_path + (f"?{written}" if written else "")
        answer = studio.ask(place, case.method, leave=LEAVE)
        check(answer, place, [place, *(str(value) for _, value in query)])
        seen.answers += 1
        seen.statuses.add(answer.status)
        if answer.status == 200:
            seen.routes.add(operation.path)
        described = operation.definition.raw["responses"]
        assert str(answer.status) in described, (place, answer.status)
        if answer.status == 200:
            content = described["200"].get("content", {})
            assert answer.header("content-type") in content, place
            operation.validate_response(answer.httpx)
            if "application/json" in content:
                json.loads(answer.body, parse_constant=lambda name: pytest.fail(f"{name} in {place}"))

    one()


def _said(value):
    return value if isinstance(value, str) else json.dumps(value)
