"""An atlas' tables by loops over all entries and all triples: slow, obvious, and to the last bit where the tables are."""

import math
from itertools import product

import numpy as np

from headwater.atlas.subject import DIRECT, Subject
from headwater.files.safetensors import read_tensors
from headwater.files.tables import read_table

SLOTS = ("source", "dest", "out")


def entries(left, right):
    """The definition: in float64, one product after the other."""
    rows, columns = left.double().tolist(), right.T.double().tolist()
    total = np.zeros((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            for x, y in zip(row, column, strict=True):
                total[i, j] += x * y
    return total


def first(values, count):
    """The ids of the largest, the largest first, equal ones by id."""
    return sorted(range(len(values)), key=lambda each: (-values[each], each))[:count]


class Head:
    """All that a head's tables are made from, multiplied out; the mass as the atlas has it."""

    def __init__(self, subject: Subject, name: str, mass: np.ndarray):
        scores, outputs = subject.scores(name), subject.outputs(name)
        self.name, self.mass = name, mass
        self.scores = entries(scores.left, scores.right)
        self.outputs = entries(outputs.left, outputs.right)
        self.leads = (self.scores - mass[:, None]).T
        with np.errstate(over="ignore"):
            self.attention = 1 / (1 + np.exp(math.log(subject.settings.others) - self.leads))
        self.true_mass = np.log(np.exp(self.scores - self.scores.max(axis=1, keepdims=True)) @ subject.shares.numpy())
        self.true_mass += self.scores.max(axis=1)

    def triples(self, sign):
        """All that raise an output (lower one: sign −1), in their order: ``(source, dest, out)``."""
        leads, outputs, lifts = self.leads.tolist(), (sign * self.outputs).tolist(), (sign * self.lift).tolist()
        rows = [row for row in product(range(len(leads)), repeat=3) if lifts[row[0]][row[1]][row[2]] > 0]
        return sorted(rows, key=lambda row: (-lifts[row[0]][row[1]][row[2]], row[0], -leads[row[0]][row[1]], -outputs[row[0]][row[2]], row[1], row[2]))  # fmt: skip

    @property
    def lift(self):
        """``[source, dest, out]``."""
        return self.attention[:, :, None] * self.outputs[:, None, :]


class OnDisk:
    """What a finished atlas holds, tables in one piece."""

    def __init__(self, folder):
        self.folder = folder

    def table(self, name):
        """A table, whatever parts it lies in."""
        place, _, stem = name.rpartition("/")
        parts = [path for path in (self.folder / place).glob("*.parquet") if path.name.split(".")[0] == stem]
        return read_table(sorted(parts, key=lambda path: int(path.name.split(".")[1]) if path.name.count(".") > 1 else 0))

    def joined(self, way):
        """All parts of one look-up direction."""
        return read_table(sorted((self.folder / "trigrams" / f"by_{way}").glob("*.parquet")))

    def lines(self, name):
        """One number for each token."""
        return {key: tensor.numpy() for key, tensor in read_tensors(self.folder / "lines" / f"{name}.safetensors").items()}

    def everything(self):
        """Every column of every table, by its name; ids that are missing are −1."""
        found = {}
        lists = sorted({f"{path.parent.name}/{path.name.split('.')[0]}" for path in self.folder.glob("s*/*.parquet")})
        names = [path.stem for path in sorted((self.folder / "lines").glob("*"))]
        tables = {name: self.table(name) for name in [*lists, "bigrams", "vocab"]}
        if len(names) > 1:
            tables |= {"strongest": self.table("strongest")} | {f"by_{way}": self.joined(way) for way in SLOTS}
        tables |= {f"lines/{name}": self.lines(name) for name in names}
        for table, columns in tables.items():
            for column, values in columns.items():
                found[f"{table}: {column}"] = np.ma.filled(values, -1) if isinstance(values, np.ma.MaskedArray) else values
        return found


def check_list(table, line, other, best, columns):
    """A list against its lines: ``best[sign]`` are the values by which places are given, ``columns`` what stands beside them."""
    rows = list(zip(table[line].tolist(), table["place"].tolist(), table[other].tolist(), strict=True))
    expected = []
    for number in range(len(best[1])):
        up = [(number, place, each) for place, each in enumerate(best[1][number], 1)]
        down = [(number, -place, each) for place, each in enumerate(best[-1][number], 1)] if -1 in best else []
        expected += [*reversed(down), *up]
    assert rows == expected
    lines, others = table[line].astype(int), table[other].astype(int)
    for name, values in columns.items():
        np.testing.assert_array_equal(table[name], values[lines, others], strict=True)


def check_head(atlas, subject, head):
    """Lists and lines of one head."""
    name, k, outputs = head.name, subject.settings.k, head.outputs
    both = {sign: [first(row, k) for row in sign * outputs] for sign in (1, -1)}
    check_list(atlas.table(f"says/{name}"), "source", "out", both, {"output": outputs})
    columns = {"score": head.scores, "attention": head.attention.T}
    check_list(atlas.table(f"seeks/{name}"), "dest", "source", {1: [first(row, k) for row in head.scores]}, columns)
    turned = {key: values.T for key, values in columns.items()}
    check_list(atlas.table(f"sought/{name}"), "source", "dest", {1: [first(row, k) for row in head.leads]}, turned)
    lines, raw = atlas.lines(name), subject.says(name)
    best, dense = head.attention.max(axis=1), entries(raw.left, raw.right)
    check_said(atlas.table(f"said/{name}"), best[:, None] * outputs, outputs, k)
    np.testing.assert_array_equal(lines["best_attention"], best)
    np.testing.assert_allclose(lines["mass"], head.true_mass, rtol=0, atol=0.51 * 2.0**-20)
    np.testing.assert_array_equal(lines["mass"] * 2.0**20 % 1, 0)
    check_rows(lines, dense, outputs)


def check_said(table, lift, output, k):
    """For every out its sources by the lift of their best dest; at the last place rounding may choose among equals."""
    down = table["out"].astype(int), table["source"].astype(int)
    np.testing.assert_array_equal(table["lift"], lift.T[down], strict=True)
    np.testing.assert_array_equal(table["output"], output.T[down], strict=True)
    places = [*range(-min(k, len(lift)), 0), *range(1, min(k, len(lift)) + 1)]
    assert table["place"].tolist() == places * len(lift)
    assert down[0].tolist() == np.repeat(np.arange(len(lift)), len(places)).tolist()
    scale = np.abs(lift).max(initial=0) * 1e-13
    for out, column in enumerate(lift.T):
        listed, sources = table["lift"][down[0] == out], down[1][down[0] == out]
        width = len(listed) // 2
        for sign, mine, ids in ((1, listed[width:], sources[width:]), (-1, -listed[:width][::-1], sources[:width][::-1])):
            np.testing.assert_allclose(mine, np.sort(sign * column)[::-1][:width], rtol=0, atol=scale)
            assert [*zip(-mine, ids, strict=True)] == sorted(zip(-mine, ids, strict=True))
            assert len(set(ids.tolist())) == width


def check_rows(lines, dense, outputs):
    """What is told of whole rows."""
    before = [sum((row > row[n]) | ((row == row[n]) & (np.arange(len(row)) < n))) for n, row in enumerate(outputs)]
    assert lines["own_rank"].tolist() == before
    scale = np.abs(dense).max(initial=1)
    np.testing.assert_allclose(lines["mean"], dense.mean(axis=1), rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(lines["spread"], dense.std(axis=1), rtol=0, atol=1e-12 * scale)


def check_direct(atlas, subject, *, precision):
    """The direct path's bigrams."""
    raw, centred, table = subject.says(DIRECT), subject.outputs(DIRECT), atlas.table("bigrams")
    outputs, k, lines = entries(centred.left, centred.right), subject.settings.k, atlas.lines(DIRECT)
    both = {sign: [first(row, k) for row in sign * outputs] for sign in (1, -1)}
    check_list(table, "token", "out", both, {"output": outputs})
    check_rows(lines, entries(raw.left, raw.right), outputs)
    logs = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(table["log_share"], logs[table["token"], table["out"]], rtol=0, atol=precision)


def check_strongest(atlas, subject, heads):
    """The strongest of each head and of the model, against all triples of all heads."""
    table, most = atlas.table("strongest"), subject.settings.triples
    ours = {sign: [head.triples(sign)[:most] for head in heads] for sign in (1, -1)}
    expected = []
    for number in range(len(heads)):
        down, up = ours[-1][number], ours[1][number]
        expected += [(number, -place, row) for place, row in reversed([*enumerate(down, 1)])]
        expected += [(number, place, row) for place, row in enumerate(up, 1)]
    rows = list(zip(*(table[slot].tolist() for slot in SLOTS), strict=True))
    assert list(zip(table["head"].tolist(), table["place"].tolist(), rows, strict=True)) == expected
    in_model = {}
    for sign in (1, -1):
        everyone = [
            (-abs(heads[n].lift[row]), n, place, row) for n, rows in enumerate(ours[sign]) for place, row in enumerate(rows)
        ]
        in_model |= {(n, row): sign * place for place, (_, n, _, row) in enumerate(sorted(everyone)[:most], 1)}
    told = np.ma.filled(table["in_model"], 0).tolist()
    assert told == [in_model.get((number, row), 0) for number, _, row in expected]
    check_numbers(table, heads, np.float64)


def check_numbers(table, heads, dtype):
    """Joins equal products, row for row."""
    for n, head in enumerate(heads):
        mine = table["head"] == n
        a, b, c = (table[slot][mine].astype(int) for slot in SLOTS)
        found = {
            "score": head.scores[b, a],
            "output": head.outputs[a, c],
            "attention": head.attention[a, b],
            "lift": head.lift[a, b, c],
        }
        for name, values in found.items():
            np.testing.assert_array_equal(table[name][mine], values.astype(dtype), strict=True)


def check_joined(atlas, subject, heads):
    """The joined rows: which, what numbers, in what order, in each of three directions; and what is said of those left out."""
    tables = {way: atlas.joined(way) for way in SLOTS}
    for way, table in tables.items():
        check_numbers(table, heads, np.float32)
        keys = _sorted_by(table, way)
        assert keys == sorted(keys)
    found = {
        way: list(zip(table["head"].tolist(), *(table[slot].tolist() for slot in SLOTS), strict=True))
        for way, table in tables.items()
    }
    assert len(found["source"]) == len(set(found["source"]))
    assert sorted(found["source"]) == sorted(found["dest"]) == sorted(found["out"])
    for number, head in enumerate(heads):
        mine = {row[1:] for row in found["source"] if row[0] == number}
        wanted = {sign: wanted_rows(head, subject.settings, sign) for sign in (1, -1)}
        assert mine == set.union(*wanted[1], *wanted[-1])
        check_bounds(atlas.lines(head.name), head, mine, subject.settings.each)


def _sorted_by(table, way):
    others = [slot for slot in SLOTS if slot != way]
    columns = (
        table[way].tolist(),
        (-np.abs(table["lift"])).tolist(),
        table["head"].tolist(),
        *(table[slot].tolist() for slot in others),
    )
    return list(zip(*columns, strict=True))


def wanted_rows(head, settings, sign):
    """Of each source its best, and the strongest; of each out its best; of each dest the best among its listed sources."""
    triples, each = head.triples(sign), settings.each
    listed = [set(first(row, settings.k)) for row in head.scores]
    vocab = range(len(head.scores))
    of_sources = {row for n in vocab for row in [row for row in triples if row[0] == n][:each]}
    of_outs = {row for n in vocab for row in [row for row in triples if row[2] == n][:each]}
    of_dests = {row for n in vocab for row in [row for row in triples if row[1] == n and row[0] in listed[n]][:each]}
    return of_sources | set(triples[: settings.triples]), of_outs, of_dests


def check_bounds(lines, head, mine, each):
    """No skip-trigram of a source with a larger lift than its bound is missing; and the bound is the last of its best."""
    for sign, name in ((1, "bound"), (-1, "bound_lowering")):
        triples = head.triples(sign)
        for source, bound in enumerate(lines[name].tolist()):
            own = [row for row in triples if row[0] == source]
            assert bound == (abs(head.lift[own[each - 1]]) if len(own) >= each else 0.0)
            assert all(row in mine for row in own if abs(head.lift[row]) > bound)
