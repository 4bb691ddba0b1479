"""The training screen's answers: the numbers of the log and of the library, news while it trains, and nothing that breaks them."""

import contextlib
import io
import json
import shlex
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headwater.atlas.timeline import timeline
from headwater.studio.app import studio
from headwater.studio.guard import Door
from headwater.studio.limits import FOLLOWERS
from headwater.studio.shelf import fill
from headwater.studio.training_live import Follower
from headwater.train.folder import RunFolder
from headwater.train.history import read_history
from headwater.train.recipe import read_recipe
from headwater.train.run import run_recipe
from headwater.train.studies import bigram
from tiny import tiny_recipe

TOKEN = "t" * 24


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A training that has ended, a recurrent one on the same text, one without layers, and one that has only begun."""
    folder = tmp_path_factory.mktemp("trainings")
    recipe = tiny_recipe(folder)
    run_recipe(read_recipe(recipe), folder / "run")
    run_recipe(read_recipe(recipe, ["architecture=recurrent", "model.norm=no-norm"]), folder / "network")
    (folder / "begun").mkdir()
    shutil.copy(folder / "run" / "recipe.toml", folder / "begun")
    return folder


@pytest.fixture(scope="module")
def app(runs):
    return studio(fill([runs / name for name in ("run", "network", "begun")]), Door(frozenset({"testserver"}), TOKEN, "c"))


@pytest.fixture(scope="module")
def client(app):
    return TestClient(app, headers={"authorization": f"Bearer {TOKEN}"})


@pytest.fixture
def get(client):
    def got(route, status=200, **query):
        answer = client.get(f"/api/training{route}", params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    return got


def log(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_the_curve_is_the_log(get, runs):
    told = get("", training="run")
    lines = log(runs / "run")
    assert told["curve"]["step"] == [line["step"] for line in lines]
    for name in ("loss", "held_out", "bits_per_byte", "learning_rate", "gradient_norm", "seconds"):
        assert told["curve"][name] == [line.get(name) for line in lines]
    assert told["state"]["phase"] == "finished"
    assert told["snapshots"] == [0, 1, 2, 4, 8, 12]
    assert told["recipe"]["name"] == "tiny"
    assert told["model"] == "run"
    bigrams = next(each["nats"] for each in told["baselines"] if each["kind"] == "bigram")
    assert told["gap"] == pytest.approx(lines[-1]["held_out"] - bigrams, abs=1e-12)


def test_a_long_log_is_thinned_to_draw_it_and_whole_where_it_is_asked_for(get, runs, tmp_path):
    place = runs / "begun" / "log.jsonl"
    rows = [{"step": step, "loss": 5.0 - (step == 4321) + (step == 77), "seconds": float(step)} for step in range(1, 9001)]
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    try:
        told = get("", training="begun")
        assert told["points"] == 9000
        assert len(told["curve"]["step"]) <= 2000
        assert (min(told["curve"]["loss"]), max(told["curve"]["loss"])) == (4.0, 6.0)
        assert told["state"]["phase"] == "stopped"
        assert get("", training="begun", full=True)["curve"]["step"] == list(range(1, 9001))
    finally:
        place.unlink()


def test_one_that_has_only_begun_has_a_state_and_nothing_else(get):
    told = get("", training="begun")
    assert (told["state"]["phase"], told["curve"]["step"], told["snapshots"], told["model"]) == ("begun", [], [], None)
    assert [each["kind"] for each in told["baselines"]] == ["uniform"]
    assert get("/heads", training="begun")["heads"] == []
    assert get("/said", training="begun", head="L0H0")["said"] == []
    assert get("/bigrams", 404, training="begun")["needed"]
    assert get("/baselines", 404, training="begun")["needed"]


def test_heads_are_the_timelines_however_many_at_a_time(get, runs):
    found = timeline(runs / "run", top=2)
    part = get("/heads", training="run", fresh=2)
    assert (part["steps"], part["left"]) == ([8, 12], 4)
    told = get("/heads", training="run")
    assert (told["steps"], told["left"]) == ([0, 1, 2, 4, 8, 12], 0)
    assert get("/heads", training="run", fresh=0) == told
    for head, became in zip(told["heads"], found.became, strict=True):
        moments = found.by_head[became.head]
        assert (head["head"], head["role"], head["since"]) == (str(became.head), became.role, became.since)
        for name in ("copying", "centred", "previous", "positions", "induction"):
            assert head[name] == [getattr(moment, name) for moment in moments]
    said = get("/said", training="run", head="l0h1", top=2)
    for at, moment in zip(said["said"], [m for m in found.moments if str(m.head) == "L0H1"], strict=True):
        told = [(each["source"]["id"], each["dest"]["id"], each["out"]["id"], each["lift"]) for each in at["says"]]
        assert (at["step"], told) == (moment.step, [(one.source, one.dest, one.out, one.lift) for one in moment.says])


def test_a_snapshot_without_files_is_not_waited_for(get, runs):
    empty = RunFolder(runs / "run").snapshot(20)
    empty.mkdir()
    try:
        for route, query in (("/heads", {}), ("/said", {"head": "L0H0"}), ("/bigrams", {})):
            told = get(route, training="run", **query)
            assert told["left"] == 0, route
        assert get("/heads", training="run")["steps"] == [0, 1, 2, 4, 8, 12]
    finally:
        empty.rmdir()


def test_bigrams_are_the_studys(get, runs):
    study = bigram.of_training(runs / "run", often=100).plain()
    assert get("/bigrams", training="run", often=100, fresh=1)["left"] == 5
    told = get("/bigrams", training="run", often=100)
    assert told["fits"] == list(study["fits"])
    assert (told["entropy"], told["rows"], told["whole"]) == (study["entropy"], study["rows"], False)


@pytest.mark.parametrize(
    ("route", "query"),
    [
        ("", {}),
        ("/heads", {}),
        ("/said", {"head": "L0H0", "top": 1}),
        ("/bigrams", {"often": 50}),
        ("/baselines", {"against": "bigram,trigram"}),
    ],
)
def test_lines_print_the_same_numbers(get, headwater, route, query):
    told = get(route, training="run", **query)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(told["lines"]["python"], {})
    commands = [shlex.split(each) for each in told["lines"]["shell"].split("\n")]
    shown = headwater(*commands[-1][1:])
    assert shown.returncode == 0, shown.stderr
    plain = json.loads(shown.stdout)
    match route:
        case "":
            numbers = [told["curve"]["loss"][-1], told["curve"]["held_out"][-1], told["baselines"][2]["nats"]]
            assert json.loads(Path(commands[0][-1]).read_text().splitlines()[-1])["loss"] == numbers[0]
            assert plain["entropy"] == {"unigram": told["baselines"][1]["nats"], "bigram": told["baselines"][2]["nats"]}
        case "/heads":
            numbers = told["heads"][1]["copying"]
            assert [one["copying"] for one in plain["moments"] if one["head"] == "L0H1"] == numbers
        case "/said":
            numbers = [each["says"][0]["lift"] for each in told["said"]]
            assert [one["says"][0]["lift"] for one in plain["moments"] if one["head"] == "L0H0"] == numbers
        case "/bigrams":
            numbers = [each["excess"] for each in told["fits"]]
            assert [each["excess"] for each in plain["fits"]] == numbers
        case _:
            numbers = [each["nats"] for each in told["baselines"]]
            assert [row["nats"] for row in plain["rows"] if row["name"] != "the model"] == numbers
    assert all(repr(number) in printed.getvalue() for number in numbers)


def test_a_recurrent_network_is_a_baseline_and_has_no_heads(get, runs):
    told = get("/baselines", training="run", against="trigram", recurrent="network")
    assert {each["kind"] for each in told["baselines"]} == {"trigram", "recurrent"}
    assert get("", training="network")["recipe"]["architecture"] == "recurrent"
    assert "recurrent" in get("/heads", 422, training="network")["given"]
    assert "recurrent" in get("/bigrams", 422, training="network")["given"]


@pytest.mark.parametrize(
    ("route", "status", "query"),
    [
        ("", 404, {"training": "nobody"}),
        ("", 404, {"training": "../run"}),
        ("/live", 404, {"training": "nobody"}),
        ("/heads", 422, {"training": "run", "fresh": -1}),
        ("/said", 422, {"training": "run", "head": "L7H9"}),
        ("/said", 422, {"training": "run", "head": "x"}),
        ("/baselines", 422, {"training": "run", "against": "tetragram"}),
        ("/baselines", 422, {"training": "run", "against": ","}),
        ("/baselines", 404, {"training": "run", "recurrent": "nobody"}),
        ("/live", 422, {"training": "run", "after": "x"}),
    ],
)
def test_what_is_not_there_is_told(get, route, status, query):
    assert set(get(route, status, **query)) == {"given", "needed", "do"}


def test_news_of_one_that_has_ended_ends(client):
    with client.stream("GET", "/api/training/live", params={"training": "run", "after": 8}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        [event] = answer.read().decode().strip().split("\n\n")
    news = json.loads(event.removeprefix("data: "))
    assert (news["curve"]["step"], news["ended"], news["state"]["phase"]) == ([9, 10, 11, 12], True, "finished")


def test_not_too_many_follow_at_once(app, client):
    memory = app.app.state.memory
    memory.followers = FOLLOWERS
    try:
        assert client.get("/api/training/live", params={"training": "run"}).status_code == 429
        memory.followers = FOLLOWERS - 1
        assert client.get("/api/training/live", params={"training": "run"}).status_code == 200
        # Its seat has been given back.
        assert memory.followers == FOLLOWERS - 1
    finally:
        memory.followers = 0


def lines(*steps, loss=3.0):
    return "".join(json.dumps({"step": step, "loss": loss, "seconds": step / 2}) + "\n" for step in steps)


@pytest.fixture
def growing(runs, tmp_path):
    """A folder that only has a recipe, and somebody who follows it."""
    folder = tmp_path / "growing"
    folder.mkdir()
    shutil.copy(runs / "run" / "recipe.toml", folder)
    return RunFolder(folder), Follower(RunFolder(folder), -1)


def test_new_lines_are_told_once_and_half_of_one_not_at_all(growing):
    folder, follower = growing
    assert follower.look().state.phase == "begun"
    assert follower.look() is None
    with folder.log.open("a") as file:
        file.write(lines(1, 2) + '{"step": 3, "lo')
        file.flush()
        assert follower.look().curve.step == [1, 2]
        assert follower.look() is None
        file.write('ss": 2.5, "seconds": 1.5}\n')
    news = follower.look()
    assert (news.curve.step, news.curve.loss, news.rewound) == ([3], [2.5], False)
    # Two updates for each second, of 8 windows of 16 tokens.
    assert news.curve.tokens_per_second == [256.0]
    assert news.state.tokens_per_second == 256.0


def test_news_begins_after_what_is_known(growing):
    folder, _ = growing
    folder.log.write_text(lines(1, 2, 3))
    assert Follower(folder, 2).look().curve.step == [3]
    assert Follower(folder, 3).look().curve is None
    # Somebody knows more than there is: it was taken back meanwhile.
    assert Follower(folder, 9).look().rewound


def test_a_log_that_is_rewound_or_replaced_is_told(growing):
    folder, follower = growing
    folder.log.write_text(lines(1, 2, 3, 4))
    follower.look()
    folder.rewind_log(2)
    news = follower.look()
    assert news.rewound
    assert news.state.step == 2
    with folder.log.open("a") as file:
        file.write(lines(3, loss=1.0))
    news = follower.look()
    assert (news.curve.step, news.curve.loss, news.rewound) == ([3], [1.0], False)
    folder.log.unlink()
    assert follower.look().rewound
    folder.log.write_text(lines(1))
    assert follower.look().state.step == 1


def test_snapshots_a_start_and_an_end_are_told(growing):
    folder, follower = growing
    folder.log.write_text(lines(1))
    follower.look()
    with folder.locked():
        assert follower.look().state.phase == "running"
        folder.snapshot(1).mkdir(parents=True)
        assert follower.look().snapshots == [1]
        assert follower.look() is None
    assert follower.look().state.phase == "stopped"
    folder.model.mkdir()
    news = follower.look()
    assert (news.ended, news.state.phase) == (True, "finished")


def test_hostile_lines_break_nothing(growing, runs):
    folder, follower = growing
    folder.log.write_bytes(b'\xff\xfe\n[1]\n{"step": "x"}\n{"step": 5, "loss": NaN, "seconds": Infinity}\n' + lines(7).encode())
    news = follower.look()
    assert (news.curve.step, news.curve.loss) == ([5, 7], [None, 3.0])
    assert json.loads(news.model_dump_json())
    assert read_history(folder.path).state.step == 7
