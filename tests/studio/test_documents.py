"""The executed documents and their figures: the studio's answers are the library's numbers."""

import io
import json
import shlex
from contextlib import redirect_stdout
from xml.etree import ElementTree

import pytest
import torch
from starlette.testclient import TestClient

import headwater as hw
from headwater.claims.figures.attended import telling
from headwater.claims.labels import number
from headwater.claims.registry import TITLES, all_claims, code_of
from headwater.model.config import Attention, FeedForward, GatedFeedForward, ModelConfig, NoNorm, PostNorm, PreNorm, RMSNorm
from headwater.studio.app import studio
from headwater.studio.errand import say
from headwater.studio.errand_claims import Wanted, measure_claims
from headwater.studio.formulas import prose
from headwater.studio.guard import Door
from headwater.studio.plain_data import plain
from headwater.studio.shelf import fill
from headwater.trace.view.lookup import head_lookup
from headwater.trace.view.stages import see
from strategies import random_weights

TEXT = "for line in open("
IDS = "ids:3,1,4,1,5,9,2,6"
MATH = "{http://www.w3.org/1998/Math/MathML}"
SIZES = {"vocab": 40, "context": 16, "d_model": 12, "attention": Attention(heads=4, d_head=4, group_size=2)}
FULL = {**SIZES, "attention": Attention(heads=2, d_head=4, mask="full", scaled=False)}
KINDS = {
    "post": ModelConfig(layers=2, norm=PostNorm(), feed_forward=FeedForward(d_mlp=9), **SIZES),
    "post-attention": ModelConfig(layers=1, norm=PostNorm(), **SIZES),
    "post-rms": ModelConfig(layers=1, norm=PostNorm(norm=RMSNorm()), feed_forward=FeedForward(d_mlp=9), **SIZES),
    "gated": ModelConfig(layers=1, norm=PreNorm(norm=RMSNorm()), feed_forward=GatedFeedForward(d_mlp=9), **SIZES),
    "parallel": ModelConfig(layers=1, norm=PreNorm(), feed_forward=FeedForward(d_mlp=9, reads="beside-attention"), **SIZES),
    "bare": ModelConfig(layers=1, norm=NoNorm(), feed_forward=FeedForward(d_mlp=9), **SIZES),
    "bare-parallel": ModelConfig(layers=1, feed_forward=FeedForward(d_mlp=9, reads="beside-attention"), **SIZES),
    "post-full": ModelConfig(layers=1, norm=PostNorm(), feed_forward=FeedForward(d_mlp=9), **FULL),
    "full": ModelConfig(layers=1, norm=PreNorm(norm=RMSNorm()), feed_forward=FeedForward(d_mlp=9), **FULL),
    "zero": ModelConfig(layers=0, vocab=40, context=16, d_model=12),
}

EQUATIONS = {letter: f"002-E10.{32 + number}" for number, letter in enumerate(("t1", "t2", "t3", "t4", "t5", "h"))}
PRINTED = {
    "post-full": EQUATIONS,
    # The document's attention looks at all tokens.
    "post": {letter: id_ for letter, id_ in EQUATIONS.items() if letter != "t1"},
    # Attention alone ends at t3, which is h: what the document has for its own h is made of what is not there.
    "post-attention": {letter: EQUATIONS[letter] for letter in ("t2", "t3")},
    # The document's norm is another one.
    "post-rms": {letter: id_ for letter, id_ in EQUATIONS.items() if letter not in ("t1", "t3", "h")},
}
"""By model: the claims with the document's equations, where the model's block computes just that."""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, config in KINDS.items():
        hw.Model(random_weights(config, 3, torch.float32)).save(folder / name)
    door = Door(hosts=frozenset({"127.0.0.1:8000"}), token="secret", cookie="documents")
    shelf = fill(["one-layer", "block", *(str(folder / name) for name in KINDS)])
    return TestClient(studio(shelf, door), base_url="http://127.0.0.1:8000", headers={"authorization": "Bearer secret"})


@pytest.fixture
def get(client):
    def asked(route, status=200, **query):
        answer = client.get(f"/api/documents{route}", params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


@pytest.fixture(scope="module")
def run():
    return hw.load("one-layer").record(TEXT)


def test_every_claim_is_told_in_both_languages_in_the_order_of_its_document(get):
    for lang in ("en", "pt"):
        told = get("", lang=lang)
        claims = [claim for document in told["documents"] for claim in document["claims"]]
        assert [claim["id"] for claim in claims] == list(all_claims())
        assert [document["title"] for document in told["documents"]] == [title[lang] for title in TITLES.values()]
        for document in told["documents"]:
            assert sum(each["count"] for each in document["counts"]) == len(document["claims"])
        first = all_claims()["002-E10.34"]
        (shown,) = [claim for claim in claims if claim["id"] == first.id]
        assert plain_text(shown["statement"]) == first.words(lang).statement
        assert shown["formula"]["latex"] == first.formula
        assert shown["verdict"] == first.verdict
        assert all(set(each["right"]) <= set(each["ids"]) for each in told["contradictions"])


def plain_text(pieces):
    around = {"text": "", "math": "$", "code": "`"}
    return "".join(around[piece["kind"]] + piece["text"] + around[piece["kind"]] for piece in pieces)


def test_formulas_are_mathml_and_nothing_else(get):
    """The page puts them in as they are: no element or attribute may be of another kind."""
    claims = [claim for document in get("")["documents"] for claim in document["claims"]]
    pieces = [piece for claim in claims for name in ("place", "statement", "why", "correction") for piece in claim[name]]
    formulas = {piece["mathml"] for piece in pieces if piece["kind"] == "math"}
    formulas |= {claim["formula"]["mathml"] for claim in claims if claim["formula"]}
    assert len(formulas) > 300
    for formula in formulas:
        for element in ElementTree.fromstring(formula).iter():
            assert element.tag.startswith(MATH + "m")
            assert not any(name.startswith("on") or "href" in name for name in element.attrib)
    hostile = prose("see <script>alert(1)</script> and $a < b$ & `x<y`")
    assert [piece.kind for piece in hostile] == ["text", "math", "text", "code"]
    assert "<script" not in hostile[1].mathml
    assert "&#x0003C;" in hostile[1].mathml
    assert all(not piece.mathml for piece in hostile if piece.kind != "math")


@pytest.mark.parametrize("id_", ["000-E4", "004-EX1", "002-E10.34"])
@pytest.mark.parametrize("lang", ["en", "pt"])
def test_a_claim_measured_now_has_the_librarys_numbers(get, id_, lang):
    (answer,) = hw.measure(id_)
    told = get("/claim", id=id_.lower(), lang=lang)
    assert (told["verdict"], told["recorded"], told["ok"]) == (answer.finding.verdict, answer.claim.verdict, answer.ok)
    assert [fact["measured"] for fact in told["facts"]] == [fact.measured for fact in answer.finding.facts]
    assert [fact["shown"] for fact in told["facts"]] == [number(fact.measured, lang) for fact in answer.finding.facts]
    assert [fact["passes"] for fact in told["facts"] if fact["relation"] != "none"] == [
        fact.passes for fact in answer.finding.facts if fact.relation != "none"
    ]
    assert [fact["printed"] for fact in told["facts"]] == [list(fact.printed) for fact in answer.finding.facts]
    assert told["code"] == code_of(id_)
    assert told["measured"] == answer.finding.leading.measured


def test_the_lines_of_a_claim_print_it(get, headwater):
    lines = get("/claim", id="000-E4", lang="pt")["lines"]
    assert "000-E4" in done(lines["python"])
    told = json.loads(headwater(*shlex.split(lines["shell"])[1:]).stdout)
    assert [claim["id"] for claim in told["claims"]] == ["000-E4"]


def done(python):
    said = io.StringIO()
    with redirect_stdout(said):
        exec(python, {})
    return said.getvalue()


def test_what_cannot_be_asked_is_refused(get):
    get("/claim", 422, id="000-NONE")
    get("/claim", 404, id="000-E4", model="nothing")
    assert "tokenizer" in get("/claim", 422, id="000-E4", model="post")["given"]
    get("/figure", 404, id="000-E4")
    get("/figure/data", 422, id="nothing")
    get("/lookup", 422, model="zero", text=IDS)
    get("/block", 422, model="zero", text=IDS)
    get("/block", 422, model="post", text=IDS, layer=2)
    get("/block", 422, model="block", text=IDS, of="document")
    get("/lookup", 422, model="post", text=IDS, head="L7H0")
    get("/lookup", 422, model="post", text=IDS, beta="nan")
    get("/overview", 422, model="post", text=IDS, position=99)


def test_a_figure_is_drawn_in_both_themes_and_languages(client, get):
    drawn = set()
    for lang, theme in (("en", "light"), ("pt", "dark")):
        answer = client.get("/api/documents/figure", params={"id": "001-MER1", "lang": lang, "theme": theme})
        assert answer.headers["content-type"] == "image/svg+xml"
        assert ElementTree.fromstring(answer.content).tag.endswith("svg")
        drawn.add(answer.content)
    assert len(drawn) == 2
    assert get("/figure/data", id="001-MER1")["data"]


def test_data_of_figures_is_plain():
    from headwater.claims.figures.drawings import drawing_of
    from headwater.claims.given import Given

    with Given() as given:
        data = drawing_of("000-MER1").data(given)
        told = json.loads(json.dumps(plain(data), allow_nan=False))
    assert told["pattern"] == data.pattern.tolist()
    assert told["run"]["tokens"] == data.run.tokens.tolist()
    assert told["said"] == {"shape": list(data.said.shape)}


def test_a_lookup_is_the_librarys_at_every_temperature(get, run, headwater):
    told = get("/lookup", model="one-layer", text=TEXT, beta=3.5)
    head, at = told["head"], told["position"]
    scores = torch.tensor(told["scores"], dtype=torch.float64)
    assert told["weights"] == run["L0.pattern"][0, int(head[3:]), at].tolist()
    assert {each["beta"] for each in told["series"]} > {3.5, 1.0}
    for each in told["series"]:
        own = head_lookup(run, head, at, [each["beta"]])
        assert each["distance"] == pytest.approx(float(own.distance), rel=1e-12)
        assert each["bound"] == pytest.approx(float(own.bound), rel=1e-12)
        # What the page does with the scores, the library does.
        assert torch.allclose((each["beta"] * (scores - scores.max())).softmax(0), own.weights[0], rtol=0, atol=1e-15)
    assert torch.allclose(own.weights.new_tensor(told["values"]), own.values)
    assert "L0" in done(told["lines"]["python"])
    series = json.loads(headwater(*shlex.split(told["lines"]["shell"])[1:]).stdout)["lookup"]["series"]
    assert [one["beta"] for one in series] == [pytest.approx(3.5)]


@pytest.mark.parametrize("model", ["one-layer", "post", "gated"])
def test_a_combination_adds_up_to_what_the_model_mixed(get, model):
    text = TEXT if model == "one-layer" else IDS
    told = get("/combination", model=model, text=text, head="L0H1", position=2)
    weights, values = (torch.tensor(told[name], dtype=torch.float64) for name in ("weights", "values"))
    mixed = torch.tensor(told["mixed"], dtype=torch.float64)
    assert len(told["sources"]) == 3
    assert float((weights @ values - mixed).abs().max()) == pytest.approx(told["certificate"], abs=1e-12)
    assert told["certificate"] <= told["bound"]
    assert told["mixed_length"] == pytest.approx(float(mixed.norm()))
    assert sum(told["weights"]) == pytest.approx(1, abs=1e-6)
    assert "tensor" in done(told["lines"]["python"])


@pytest.mark.parametrize("model", [name for name in KINDS if name != "zero"])
def test_a_walk_through_a_block_of_any_kind_follows_its_equations(get, client, model):
    told = get("/block", model=model, text=IDS, layer=-1, position=-2)
    weights = client.app.app.state.shelf.model(model)
    seen = see(weights.record([3, 1, 4, 1, 5, 9, 2, 6]), [6])
    layer = told["layer"]
    vectors = {
        letter: torch.tensor(step["vector"], dtype=torch.float64) for step in told["steps"] for letter in step["letters"]
    }
    letters = ["t0", "t1", "t2", "t3", "h"] if "attention" in model else ["t0", "t1", "t2", "t3", "t4", "t5", "h"]
    assert sorted(vectors) == sorted(letters)
    for letter, vector in vectors.items():
        assert torch.equal(vector, seen[f"L{layer}.{letter}"][0].double())
    for step in told["steps"]:
        if step["operation"] == "add":
            first, second = (vectors[letter] for letter in step["reads"])
            assert torch.allclose(first + second, vectors[step["letters"][0]], atol=told["bound"])
        assert step["length"] == pytest.approx(float(torch.tensor(step["vector"], dtype=torch.float64).norm()))
        assert step["equation"]["mathml"].startswith("<math")
    assert told["certificate"] <= told["bound"]
    assert told["norms"] == ("post-norm" if "post" in model else "no-norm" if "bare" in model else "pre-norm")
    printed = {step["letters"][0]: step["claim"] for step in told["steps"] if step["claim"]}
    assert printed == {letter: id_ for letter, id_ in PRINTED.get(model, {}).items() if letter in letters}
    for step in told["steps"]:
        assert step["claim"] is None or step["equation"]["latex"] == all_claims()[step["claim"]].formula


@pytest.mark.parametrize(
    ("model", "letter", "latex", "words"),
    [
        ("post", "t1", r"t^1 = \mathrm{MultiHeadAttention}(x_i, [x_1, \dots, x_i])", ("layer-norm", "causal")),
        ("post-rms", "t3", r"t^3 = \mathrm{RMSNorm}(t^2)", ("rms-norm", "causal")),
        ("full", "t2", r"t^2 = \mathrm{MultiHeadAttention}(t^1_i, [t^1_1, \dots, t^1_N])", ("rms-norm", "full")),
        ("bare-parallel", "t5", r"t^5 = \mathrm{FFN}(t^4)", (None, "causal")),
    ],
)
def test_equations_and_words_are_those_of_the_block(get, model, letter, latex, words):
    told = get("/block", model=model, text=IDS)
    assert next(step["equation"]["latex"] for step in told["steps"] if letter in step["letters"]) == latex
    assert (told["norm"], told["mask"]) == words


def test_a_head_is_chosen_by_all_that_it_may_look_at(get):
    ids = [int(each) for each in IDS.removeprefix("ids:").split(",")]
    pattern = hw.Model(random_weights(KINDS["full"], 3, torch.float32)).record(ids)["L0.pattern"][0]
    expected = [f"L0H{telling(pattern[:, at].double())}" for at in range(len(ids))]
    assert len(set(expected)) > 1
    assert [get("/lookup", model="full", text=IDS, position=at)["head"] for at in range(len(ids))] == expected


def test_a_walk_says_what_the_lens_says(get):
    told = get("/block", model="block", text=TEXT, layer=1)
    view = hw.load("block").record(TEXT).stream([-1], top=3)
    for step in told["steps"]:
        row = view.index(step["name"])
        assert [(said["token"]["id"], said["probability"]) for said in step["lens"]] == view.lenses[row].likeliest(0)
        assert step["length"] == float(view.norm[row, 0])
    assert "L1.t3" in done(told["lines"]["python"])


@pytest.mark.parametrize("model", ["one-layer", "block", "zero", "post"])
def test_the_overview_ends_in_what_the_model_says(get, client, model):
    text = TEXT if model in ("one-layer", "block") else IDS
    told = get("/overview", model=model, text=text)
    loaded = client.app.app.state.shelf.model(model)
    run = loaded.record(text if text == TEXT else [3, 1, 4, 1, 5, 9, 2, 6])
    assert [(each["token"]["id"], each["probability"]) for each in told["logits"]] == run.top(-1, 5)
    logits = [float(run.logits[0, -1, each["token"]["id"]]) for each in told["logits"]]
    assert [each["logit"] for each in told["logits"]] == pytest.approx(logits, abs=1e-5)
    assert len(told["blocks"]) == loaded.config.layers
    for block in told["blocks"]:
        pattern = run[f"L{block['layer']}.pattern"][0, :, -1]
        assert [head["weight"] for head in block["heads"]] == pytest.approx(pattern.max(dim=-1).values.tolist())
        stream = run[f"L{block['layer']}.out"][0, -1].double()
        assert block["out"]["length"] == pytest.approx(float(stream.norm()))
        before = run[f"L{block['layer']}.in"][0, -1].double()
        assert block["cosine"] == pytest.approx(float(torch.cosine_similarity(stream, before, dim=0)))


def test_the_errand_tells_each_claim_and_the_counts(capsys, monkeypatch):
    from headwater.studio import errand_claims

    few = [all_claims()[id_] for id_ in ("004-EX1", "004-EX2")]
    monkeypatch.setattr(errand_claims, "chosen", lambda document: few)
    measure_claims(Wanted("004", "pt"), say)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    answers = [event["answer"] for event in events if "answer" in event]
    assert [answer["id"] for answer in answers] == ["004-EX1", "004-EX2"]
    assert answers[0]["facts"][0]["measured"] == hw.measure("004-EX1")[0].finding.facts[0].measured
    assert [event["share"] for event in events if "share" in event] == [0.0, 0.5, 1.0]
    assert events[-1]["done"]["answered"] == events[-1]["done"]["as_recorded"] == 2
