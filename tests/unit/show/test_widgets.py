"""Drawings in notebooks: what is in the bundle, with and without anywidget and the page; questions and their replies; and what stays text."""

import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import headwater as hw
from headwater.errors import InputError
from headwater.show import widgets
from headwater.show.widgets import VIEW, Displayed, Drawing, finite
from headwater.trace.river import asked_of, river_told
from shown import HOSTILE

pytestmark = pytest.mark.studio

TEXT = "for line in open("


@pytest.fixture(scope="module")
def run():
    return hw.load("one-layer").record(TEXT)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A built page, wherever the tests run."""
    (tmp_path / "widgets.js").write_text("export default { render() {} };")
    (tmp_path / "widgets.css").write_text(".headwater-widget {}")
    monkeypatch.setattr(widgets, "PAGE", tmp_path)
    return tmp_path


class Value(Displayed):
    """Something that adds numbers, refuses some, and is not what it seems."""

    def __repr__(self):
        return "Value()"

    def _repr_html_(self):
        return "<b>value</b>"

    def drawing(self):
        return Drawing(kind="table", data={"rows": [(1, float("nan"))], "title": list(HOSTILE)}, answer=self.answer)

    def answer(self, request):
        if request["ask"] == "sum":
            return {"sum": sum(request["of"]), "infinite": [float("inf")], "values": b"\1\2"}
        if request["ask"] == "bug":
            return {"impossible": 1 / 0}
        raise InputError("no", "yes", "try")


class Line:
    """The line between a widget and its browser: what is sent is kept, and what a browser says is heard."""

    def __init__(self, value, monkeypatch):
        self.sent = []
        self.widget = value.widget()
        monkeypatch.setattr(type(self.widget), "send", lambda _, content, buffers=None: self.sent.append((content, buffers)))

    def ask(self, request, question=1):
        self.widget._handle_custom_msg({"question": question, "request": request}, [])
        return self.sent.pop()


def river(why, opened):
    return river_told(why, asked_of(why, opened))


def test_the_bundle_has_html_and_text_beside_the_widget(page, run):
    for value in (Value(), run.explain(), run.attend("L0H5"), run.patterns()):
        bundle = value._repr_mimebundle_()
        assert bundle["text/plain"] == repr(value)
        assert bundle["text/html"] == value._repr_html_()
        assert bundle[VIEW]["model_id"]
        json.dumps(bundle, allow_nan=False)


def test_a_widget_has_the_built_files_the_data_and_what_was_chosen(page):
    made = Value().widget(language="pt", theme="dark")
    assert (made._esm, made._css) == ((page / "widgets.js").read_text(), (page / "widgets.css").read_text())
    assert (made.kind, made.language, made.theme) == ("table", "pt", "dark")
    assert made.data == {"rows": [[1, None]], "title": list(HOSTILE)}
    assert Value().widget().theme == "auto"


def test_without_anywidget_all_is_as_it_was(page, run, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "anywidget" else found(name, *rest))
    assert run.explain()._repr_mimebundle_() is None
    assert run.explain()._display_()._repr_html_() == run.explain()._repr_html_()
    with pytest.raises(InputError, match="without anywidget"):
        run.explain().widget()


def test_without_the_built_page_all_is_as_it_was(page, run):
    (page / "widgets.css").unlink()
    assert run.explain()._repr_mimebundle_() is None
    with pytest.raises(InputError, match="without the built page"):
        run.explain().widget()


def test_in_a_terminal_nothing_is_made(page, monkeypatch):
    import anywidget  # noqa: F401  (it imports parts of IPython, which has to be itself then)

    shell = SimpleNamespace(display_formatter=SimpleNamespace(active_types=["text/plain"]))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert Value()._repr_mimebundle_() is None
    shell.display_formatter.active_types.append("text/html")
    assert VIEW in Value()._repr_mimebundle_()


def test_what_cannot_be_clicked_is_shown_as_html(page, run):
    why = run.explain()
    for value in (why.split("path"), why["L0H5"].split(), run.attend("L0H5").query):
        assert value._repr_mimebundle_() is None
        assert value._display_()._repr_html_() == value._repr_html_()
        with pytest.raises(InputError, match="a widget of"):
            value.widget()
    assert hw.load("zero-layer").record(TEXT).patterns().drawing() is None


def test_marimo_gets_the_widget_itself(page):
    assert Value()._display_().kind == "table"


def test_questions_are_answered_by_their_numbers(page, monkeypatch):
    line = Line(Value(), monkeypatch)
    reply, buffers = line.ask({"ask": "sum", "of": [1, 2]}, question=7)
    assert reply == {"question": 7, "answer": {"sum": 3, "infinite": [None]}, "arrays": ["values"]}
    assert buffers == [b"\1\2"]


def test_errors_are_told_in_three_parts(page, monkeypatch):
    line = Line(Value(), monkeypatch)
    assert line.ask({"ask": "what"})[0] == {"question": 1, "error": {"given": "no", "needed": "yes", "do": "try"}}


def test_a_bug_is_told_and_stays_a_bug(page):
    sent = []
    asked = {"question": 1, "request": {"ask": "bug"}}
    with pytest.raises(ZeroDivisionError):
        widgets._reply(SimpleNamespace(send=lambda content, **_: sent.append(content)), asked, Value().answer)
    assert sent[0]["error"]["given"].startswith("ZeroDivisionError")


@pytest.mark.parametrize("content", [{}, {"question": "1", "request": {}}, {"question": 1, "request": []}, {"question": 1}])
def test_whatever_is_no_question_has_no_reply(page, content):
    widgets._reply(SimpleNamespace(send=pytest.fail), content, pytest.fail)


def test_splitting_through_messages_gives_the_librarys_numbers(page, run, monkeypatch):
    why = run.explain(token="line")
    line = Line(why, monkeypatch)
    nodes = {node["key"]: node for node in line.widget.data["nodes"]}
    assert nodes["logit"]["value"] == why.value
    for part in (part for part in why.parts if part.kind == "head"):
        assert nodes[f"{part.facts['name']}@4"]["value"] == pytest.approx(part.value, rel=1e-6)
    assert nodes["L0H5@4"]["by"]
    closed = line.ask({"ask": "river", "open": "-L0H5@4"})[0]["answer"]
    assert {node["key"]: node["by"] for node in closed["nodes"]}["L0H5@4"] is None
    opened = line.ask({"ask": "river", "open": "L0H5@4"})[0]["answer"]
    flows = {link["source"]: link for link in opened["links"] if link["target"] == "L0H5@4"}
    sources = why["L0H5"].split(most=None)
    for part in sources.parts:
        key = f"token@{part.facts['position']}"
        if key in flows:
            assert flows[key]["value"] == pytest.approx(part.value, rel=1e-5, abs=1e-6)
            assert flows[key]["attention"] == pytest.approx(part.facts["attention"])
    assert len(flows) >= 3
    assert sum(flow["value"] for flow in flows.values()) == pytest.approx(why["L0H5"].value, rel=1e-5)


def test_a_river_begins_the_way_it_was_split(run):
    by_head = river(run.explain().split("head"), "")
    assert next(node for node in by_head["nodes"] if node["key"] == "logit")["by"] == "head"
    by_layer = river(run.explain().split("head"), "logit:layer")
    assert next(node for node in by_layer["nodes"] if node["key"] == "logit")["by"] == "layer"
    centred, against = (river(why, "") for why in (run.explain(centred=True), run.explain(against=7)))
    assert (centred["centred"], against["centred"], against["against"]["id"]) == (True, False, 7)
    with pytest.raises(InputError, match="a river of"):
        river(run.explain()["L0H5"].split(), "")
    with pytest.raises(InputError, match="the question"):
        run.explain().drawing().answer({"ask": "river", "open": 3})


def test_patterns_and_reasons_through_messages_are_the_librarys(run):
    drawing = run.patterns().drawing()
    survey = run.survey()
    assert [fact["previous"] for fact in drawing.data["facts"]] == [one.previous for one in survey.heads]
    small = torch.frombuffer(bytearray(drawing.data["small_pattern"]), dtype=torch.uint8).view(8, 5, 5)
    assert torch.equal(small, (255 * survey.pattern.double()).round().to(torch.uint8))
    for view in ("pattern", "weighted", "scores"):
        found = drawing.answer({"ask": "pattern", "head": "L0H5", "view": view})
        values = torch.frombuffer(bytearray(found["values"]), dtype=torch.float32).view(5, 5)
        wanted = run.looks("L0H5", view)
        assert torch.equal(values.nan_to_num(nan=-torch.inf), wanted)
    told, why = drawing.answer({"ask": "why", "head": "L0H5", "dest": 4, "source": 1}), run.attend("L0H5", 4, 1)
    assert (told["score"], told["attention"], told["certificate"]) == (why.score, why.attention, why.certificate)
    assert told["total"] == pytest.approx(why.value, abs=1e-5)
    assert run.attend("L0H5", 4, 1).drawing().data["why"] == told


def test_the_documents_are_those_of_the_studio(run):
    from headwater.studio.attention import Why
    from headwater.studio.river import River, RiverLink, RiverNode

    told = river(run.explain(), "")
    assert set(told) == set(River.model_fields) - {"model", "lines"}
    assert all(set(node) == set(RiverNode.model_fields) for node in told["nodes"])
    assert all(set(link) == set(RiverLink.model_fields) for link in told["links"])
    why = run.patterns().answer({"ask": "why", "head": "L0H5", "dest": 4, "source": 1, "against": 3})
    assert set(why) == set(Why.model_fields) - {"model", "lines"}
    assert Why(model="m", lines={"python": "", "shell": ""}, **why).model_dump(exclude={"model", "lines"}) == why


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"ask": "pattern"},
        {"ask": "pattern", "head": "L9H9"},
        {"ask": "pattern", "head": "L0H0", "view": "all"},
        {"ask": "why", "head": "L0H0", "dest": "4"},
        {"ask": "why", "head": "L0H0", "dest": 0, "source": 3},
    ],
)
def test_senseless_questions_are_refused(run, request_):
    with pytest.raises(InputError):
        run.patterns().answer(request_)


def test_patterns_print_and_draw_themselves(run):
    patterns = run.patterns()
    assert str(patterns).count("L0H") == 8
    assert "‘ line’@1" in patterns._repr_html_()
    assert torch.equal(patterns["L0H3"], run.looks("L0H3"))
    assert len(patterns.plain()["heads"]) == 8


def test_heads_are_told_as_one_value():
    model = hw.load("two-layer")
    heads = model.heads(["L1H1", "L0H2"], quick=True)
    assert len(heads) == 2
    assert heads["L1H1"].induction.fed_by == heads["L0H2"].head
    assert "L1H1" in str(heads)
    assert "<table" in heads._repr_html_()
    with pytest.raises(InputError, match="not looked at"):
        heads["L0H0"]
    drawing = heads.drawing()
    json.dumps(finite(drawing.data), allow_nan=False)
    found = drawing.answer({"ask": "entries", "head": "L1H1", "count": 20})
    assert len(found["says"]) == 20
    largest = model.ov("L1H1").centred_rows().top(1)
    (row, column, value), ((_, source), (_, out), said) = next(iter(largest)), found["says"][0]
    assert (source, out, said) == (row, column, value)
    assert found["says"][:3] == drawing.data["told"][0]["says"]
    for senseless in ({"ask": "entries", "head": 3, "count": 1}, {"ask": "entries", "head": "L0H0", "count": -1}, {}):
        with pytest.raises(InputError, match="the question"):
            drawing.answer(senseless)


def test_importing_headwater_does_not_import_anywidget():
    code = "import headwater, headwater.show.widgets, sys; print([m for m in sys.modules if 'widget' in m or m == 'torch'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['headwater.show.widgets']"
