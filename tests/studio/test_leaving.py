"""Whoever leaves while something long is computed ends it, in the middle of whatever it is."""

import threading

import pytest

from headwater.atlas import diff
from headwater.claims import given
from headwater.studio import atlas_search
from headwater.studio.documents_measured import Watched
from headwater.studio.errors import Gone
from headwater.studio.work import Desk, Stop
from headwater.text import corpus
from headwater.text.sources import Files
from headwater.trace.parts import Part
from headwater.trace.sweep import _Sweep
from studio_app import Studio, filled
from tiny_atlas import build_here, save_model


@pytest.fixture(scope="module")
def desk():
    return Desk()


@pytest.fixture(scope="module")
def studio(tmp_path_factory, desk):
    folder = tmp_path_factory.mktemp("left")
    (folder / "tiny").mkdir()
    save_model(folder / "tiny" / "model")
    build_here(folder / "tiny", folder / "tiny" / "atlas", with_text=False)
    there = Studio(filled(folder, "tiny/model", "two-layer"), desk)
    yield there
    there.close()


def leave_at(desk, monkeypatch, place, step):
    """Let everybody leave while the first of some steps is done; those that are done, by their names."""
    done, real = list[str](), getattr(place, step)

    def counted(*asked, **ways):
        done.append(step)
        desk.rest(0)
        return real(*asked, **ways)

    monkeypatch.setattr(place, step, counted)
    return done


@pytest.mark.parametrize(
    ("target", "place", "step"),
    [
        ("/api/river/totals?model=two-layer&text=def%20f(self", _Sweep, "take"),
        ("/api/river/totals?model=two-layer&text=def%20f(self&centred=true", _Sweep, "take"),
        ("/api/attention/why?model=two-layer&text=def%20f(self&head=L1H0", Part, "split"),
        ("/api/atlas/compare?atlas=tiny&other=tiny", diff, "_changes"),
        ("/api/atlas/compare?atlas=tiny&other=tiny&limit=1", diff, "_same"),
    ],
)
def test_the_step_in_which_somebody_leaves_is_the_last(studio, desk, monkeypatch, target, place, step):
    with monkeypatch.context() as meanwhile:
        done = leave_at(desk, meanwhile, place, step)
        assert studio.ask(target).status == 499
        assert done == [step] * (2 if step == "_same" else 1), "of a head two lists are compared in one step"
    assert studio.ask(target).status == 200


def test_a_text_that_is_made_for_claims_is_given_up(monkeypatch, tmp_path):
    (tmp_path / "long.py").write_text("".join(f"line_{number} = {number}\n" for number in range(300_000)))
    monkeypatch.setattr(given, "StandardLibrary", lambda: Files(paths=(str(tmp_path / "long.py"),)))
    stop, pieces, real = Stop(), [], corpus._Writer.add

    def add(writer, piece):
        pieces.append(piece.bytes)
        stop.now()
        real(writer, piece)

    with Watched() as watched, monkeypatch.context() as meanwhile:
        watched.stop = stop
        meanwhile.setattr(corpus._Writer, "add", add)
        with pytest.raises(Gone):
            watched.corpus("zero-layer")
        assert len(pieces) == 1
        meanwhile.undo()
        watched.stop = Stop()
        assert watched.corpus("zero-layer").train.size > 0, "nothing of the first is in its way"


def test_a_search_is_ended_while_the_database_is_at_it(studio, monkeypatch):
    ended, why = threading.Event(), []

    def endless(atlas, _):
        try:
            with atlas.cursor() as cursor:
                cursor.execute("SELECT sum(hash(range)) FROM range(1_000_000_000_000)").fetchall()
        except Exception as error:
            why.append(error)
            raise
        finally:
            ended.set()

    monkeypatch.setattr(atlas_search, "search_atlas", endless)
    assert studio.ask("/api/atlas/search?atlas=tiny", leave=2).status in (0, 499)
    assert ended.wait(60)
    assert [type(error) for error in why] == [Gone]
    monkeypatch.undo()
    assert studio.ask("/api/atlas/search?atlas=tiny").status == 200


def test_a_stop_calls_nothing_whose_time_is_over():
    stop, called = Stop(), []
    with stop.calling(lambda: called.append(1)):
        pass
    stop.now()
    assert called == []
    with pytest.raises(Gone), stop.calling(lambda: called.append(2)):
        called.append(3)
    assert called == []


def test_what_fails_by_itself_keeps_its_words():
    with pytest.raises(ValueError, match="its own"), Stop().calling(lambda: None):
        raise ValueError("its own")
