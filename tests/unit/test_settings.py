import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError
from headwater.model.config import ModelConfig, NoNorm, PreNorm, RMSNorm
from headwater.model.presets import NAMED
from headwater.settings import from_plain, setting, to_plain
from strategies import configs


@setting
class Shelf:
    names: tuple[str, ...]
    norms: tuple[NoNorm | PreNorm, ...] = ()
    numbers: tuple[float, ...] | None = None


@setting
class Drawer:
    norm: NoNorm | PreNorm = NoNorm()
    one: NoNorm = NoNorm()


ONE_LAYER = {"vocab": 5, "context": 4, "d_model": 4, "layers": 1, "attention": {"heads": 2, "d_head": 2}}


@given(configs())
def test_a_configuration_survives_plain_data(config):
    assert from_plain(ModelConfig, to_plain(config)) == config


def test_an_alternative_without_settings_may_be_its_name():
    assert from_plain(ModelConfig, {**ONE_LAYER, "norm": "pre-norm"}).norm == PreNorm()
    assert from_plain(ModelConfig, {**ONE_LAYER, "norm": {"kind": "pre-norm", "norm": "rms-norm"}}).norm == PreNorm(
        norm=RMSNorm()
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"layer": 1}, "did you mean layers"),
        ({"vocab": "5"}, "vocab is '5'"),
        ({"vocab": True}, "vocab is True"),
        ({"vocab": 5.0}, "vocab is 5.0"),
        ({"norm": "pre-nrm"}, "did you mean pre-norm"),
        ({"norm": {"norm": "rms-norm"}}, "norm is {'norm'"),
        ({"norm": {"kind": "pre-norm", "norm": {"kind": "layer-norm", "epps": 1}}}, "norm.norm has an unknown key 'epps'"),
        ({"attention": {"heads": 2}}, "attention has no 'd_head'"),
        ({"attention": {"heads": 2, "d_head": 2, "mask": "casual"}}, "did you mean causal"),
        ({"attention": 3}, "attention is 3"),
        ({"positions": {"kind": "rotary-positions", "dims": 2, "base": float("nan")}}, "positions.base is nan"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place_and_advice(change, told):
    with pytest.raises(ConfigError) as caught:
        from_plain(ModelConfig, {**ONE_LAYER, **change})
    assert told in str(caught.value)


@given(st.lists(st.text()), st.lists(st.sampled_from([NoNorm(), PreNorm(), PreNorm(norm=RMSNorm())])))
def test_lists_survive_plain_data(names, norms):
    shelf = Shelf(names=tuple(names), norms=tuple(norms))
    plain = json.loads(json.dumps(to_plain(shelf)))
    assert plain["names"] == names
    assert from_plain(Shelf, plain) == shelf


def test_a_list_becomes_a_tuple_so_that_a_setting_can_be_hashed():
    shelf = Shelf(names=["a"], numbers=[1, 2.5])
    assert (shelf.names, shelf.numbers) == (("a",), (1.0, 2.5))
    assert isinstance(hash(shelf), int)
    assert to_plain(shelf) == {"names": ["a"], "norms": [], "numbers": [1.0, 2.5]}


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ({"names": "abc"}, "names is 'abc'\na list"),
        ({"names": [1]}, "names[0] is 1"),
        ({"names": ["a", ["b"]]}, "names[1] is ['b']"),
        ({"names": [], "norms": ["no-norm", "pre-nrm"]}, "norms[1] has kind 'pre-nrm'"),
        ({"names": [], "numbers": [float("inf")]}, "numbers[0] is inf"),
    ],
)
def test_a_wrong_member_of_a_list_is_refused_with_its_place(plain, told):
    with pytest.raises(ConfigError) as caught:
        from_plain(Shelf, plain)
    assert told in str(caught.value)


def test_a_wrong_member_is_refused_when_a_value_is_made():
    with pytest.raises(ConfigError, match=r"norms\[0\] is 'no-norm'"):
        Shelf(names=(), norms=("no-norm",))


def test_nothing_is_no_alternative_unless_it_is_named_as_one():
    assert Shelf(names=(), numbers=None).numbers is None
    for name in ("norm", "one"):
        with pytest.raises(ConfigError, match=f"{name} is None"):
            Drawer(**{name: None})


def test_configurations_with_a_name_say_what_they_are():
    assert NAMED["original"].d_model == 512
    assert (NAMED["original"].heads, NAMED["original"].d_head) == (8, 64)
    assert NAMED["zero-layer"].layers == 0
    assert NAMED["one-layer"].feed_forward is None
    assert all(dataclasses.is_dataclass(config) for config in NAMED.values())
