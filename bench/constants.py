"""What a core, a byte and a user cost: the measured numbers of docs/scaling.md that bench/scaling.py does not print.

python bench/constants.py corpus     text into tokens: speed, memory, bytes; tokenizers; n-grams; several corpora side by side
python bench/constants.py cores      products a second; spectra, copying, composition and passes at the shapes of GPT-2 and of one layer of Llama 3
python bench/constants.py atlases    what atlases have in common, and how many bytes a search reads
python bench/constants.py studio     answers a second and how long they take with 1, 10 and 50 who ask; memory of models and runs
"""

import os

# One core does one thing, in every library that is loaded from here on and in every process that is started from here.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "HEADWATER_THREADS"), "1")

import hashlib
import http.client
import itertools
import multiprocessing
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

SIZES = (4, 16, 32)
"""Megabytes of text."""
LEARNED = ((8, 4_096), (16, 50_257), (32, 50_257))
"""Tokenizers: megabytes of text that they are learned from, and their tokens."""
FILE = 4_000_000
"""Bytes of one file of text."""


def show(*rows: list[object]) -> None:
    """A table as the page has it; the first row is its head."""
    for number, row in enumerate(rows):
        print("| " + " | ".join(str(cell) for cell in row) + " |")
        if number == 0:
            print("|" + "---|" * len(row))
    print(flush=True)


def best(work: Callable[[], object], turns: int = 3) -> float:
    """Core-seconds of the fastest of several turns: those that the process itself had, not those in which it waited for its turn."""
    times: list[float] = []
    for _ in range(turns):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def memory(field: str, process: int | str = "self") -> float:
    """Megabytes that a process has (VmRSS), or had at most (VmHWM)."""
    return int(re.findall(rf"{field}:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[0]) * 1024 / 1e6


def alone(work: Callable[..., dict[str, float]], *given: object) -> dict[str, float]:
    """What a function measures in a process of its own, and the most memory that it had above what it began with."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_watched, work, given).result()


def _watched(work: Callable[..., dict[str, float]], given: tuple[object, ...]) -> dict[str, float]:
    found = work(*given)
    return {**found, "peak": memory("VmHWM")}


# ---- Corpora ----


def corpus() -> None:
    """Python's source texts, as many as there are among the installed packages, in an order that mixes them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_text(folder / "text", 32 * 10**6)
        tokenizer = folder / "tokenizer.json"
        rows = [["tokenizer from", "tokens", "seconds", "MB of memory"]]
        for size, vocab in LEARNED:
            found = alone(learn, files[: size * 10**6 // FILE], vocab, tokenizer)
            rows.append([f"{size} MB", f"{vocab:,}", f"{found['seconds']:.1f}", f"{found['peak']:.0f}"])
        show(*rows)
        rows = [
            ["text", "seconds", "MB/s", "tokens/s", "bytes of text a token", "bytes on disk a token", "pairs", "MB of memory"]
        ]
        for size in SIZES:
            found = alone(build, files[: size * 10**6 // FILE], tokenizer, folder / f"{size}", 0.05)
            rows.append([f"{size} MB", *built_row(found, size)])
        show(*rows)
        steps(files[: 16 * 10**6 // FILE], tokenizer, folder)
        ngrams(folder)
        side_by_side(files[: 8 * 10**6 // FILE], tokenizer, folder)


def write_text(folder: Path, size: int) -> list[str]:
    """Files of equal size that hold the installed packages' modules, one after the other."""
    folder.mkdir()
    modules = sorted(
        Path(sysconfig.get_path("purelib")).rglob("*.py"), key=lambda path: hashlib.sha256(str(path).encode()).digest()
    )
    waiting, files = bytearray(), list[str]()
    for module in modules:
        waiting += module.read_bytes()
        while len(waiting) >= FILE and len(files) < size // FILE:
            files.append(str(folder / f"{len(files):04}.txt"))
            Path(files[-1]).write_bytes(waiting[:FILE])
            del waiting[:FILE]
    if len(files) < size // FILE:
        raise SystemExit(f"{len(files) * FILE / 1e6:.0f} MB of text, needed {size / 1e6:.0f}: install the development packages")
    return files


def learn(files: list[str], vocab: int, place: Path) -> dict[str, float]:
    from headwater.text.sources import Files
    from headwater.text.training import make_tokenizer

    begin = time.process_time()
    tokenizer = make_tokenizer(Files(paths=tuple(files)), "bpe", vocab)
    seconds = time.process_time() - begin
    place.write_bytes(tokenizer.to_json())
    return {"seconds": seconds}


def build(files: list[str], tokenizer: Path, folder: Path, share: float) -> dict[str, float]:
    from headwater.text.corpus import build_corpus
    from headwater.text.sources import Files
    from headwater.text.tokenizer import read_tokenizer

    words = read_tokenizer(tokenizer)
    begin = time.process_time()
    built = build_corpus(Files(paths=tuple(files)), words, folder, held_out=share)
    seconds = time.process_time() - begin
    tokens = built.manifest.train.tokens + built.manifest.held_out.tokens
    disk = sum(file.bytes for file in built.manifest.files)
    return {"seconds": seconds, "tokens": tokens, "disk": disk, "pairs": len(built.bigrams.count)}


def built_row(found: dict[str, float], size: int) -> list[str]:
    seconds, tokens = found["seconds"], found["tokens"]
    return [
        f"{seconds:.1f}", f"{size / seconds:.2f}", f"{tokens / seconds:,.0f}", f"{size * 1e6 / tokens:.2f}",
        f"{found['disk'] / tokens:.2f}", f"{found['pairs']:,.0f}", f"{found['peak']:.0f}",
    ]  # fmt: skip


def steps(files: list[str], tokenizer: Path, folder: Path) -> None:
    """Where the time goes: each step of a build by itself, in the same order."""
    import numpy as np

    from headwater.text.corpus import open_corpus
    from headwater.text.counts import Counter
    from headwater.text.encoding import divide, pieces
    from headwater.text.sources import Files
    from headwater.text.tokenizer import read_tokenizer

    source, words, size = Files(paths=tuple(files)), read_tokenizer(tokenizer), len(files) * FILE / 1e6
    division = divide(source, words, 0.05, 0)
    ids = np.array(open_corpus(folder / "16").train)

    def count() -> None:
        counter = Counter(words.size, folder)
        for part in np.array_split(ids, len(ids) // 2_000):
            counter.add(part)
        counter.write_bigrams(folder / "counted")

    took = {
        "reading it through, to divide it": best(lambda: divide(source, words, 0.05, 0)),
        "reading it again, and encoding": best(lambda: sum(1 for _ in pieces(source, words, division)), 1),
        "counting tokens and pairs": best(count),
        "opening it, all hashes compared": best(lambda: open_corpus(folder / "16", verify=True)),
    }
    show(
        ["step", "seconds", "MB of text a second"],
        *([name, f"{each:.2f}", f"{size / each:.0f}"] for name, each in took.items()),
    )


def ngrams(folder: Path) -> None:
    rows = [["n-grams up to", "tokens", "seconds", "tokens/s", "different ones", "bytes of memory a token"]]
    for order in (2, 3, 5):
        found = alone(count_in_memory, folder / "32", order)
        tokens = found["tokens"]
        taken = (found["peak"] - found["before"]) * 1e6 / tokens
        rows.append([order, f"{tokens:,.0f}", f"{found['seconds']:.1f}", f"{tokens / found['seconds']:,.0f}", f"{found['kept']:,.0f}", f"{taken:.0f}"])  # fmt: skip
    show(*rows)


def count_in_memory(folder: Path, order: int) -> dict[str, float]:
    import numpy as np

    from headwater.text.corpus import open_corpus
    from headwater.train.ngrams import count_ngrams

    ids, vocab = np.array(open_corpus(folder).train), open_corpus(folder).vocab
    before, begin = memory("VmRSS"), time.process_time()
    found = count_ngrams(ids, vocab=vocab, order=order)
    return {"seconds": time.process_time() - begin, "tokens": len(ids), "kept": found.kept(order), "before": before}


def side_by_side(files: list[str], tokenizer: Path, folder: Path) -> None:
    """Two halves by two processes beside the whole by one: seconds on the clock, and whether what they wrote is the whole."""
    import numpy as np

    from headwater.text.corpus import open_corpus

    work = {"whole": files, "first": files[: len(files) // 2], "second": files[len(files) // 2 :]}
    took: list[float] = []
    for names in (["whole"], ["first", "second"]):
        begin = time.perf_counter()
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
            for each in [processes.submit(build, work[name], tokenizer, folder / name, 0.0) for name in names]:
                each.result()
        took.append(time.perf_counter() - begin)
    whole, one, two = (open_corpus(folder / name) for name in work)
    is_same = np.array_equal(np.concatenate([one.train, two.train]), whole.train)
    is_sum = np.array_equal(one.unigrams + two.unigrams, whole.unigrams)
    across = int(whole.bigrams.count.sum() - one.bigrams.count.sum() - two.bigrams.count.sum())
    print(f"{len(files) * FILE / 1e6:.0f} MB by one process: {took[0]:.1f} s on the clock; halves by two: {took[1]:.1f} s")
    print(
        f"the halves' ids one after the other are the whole's: {is_same}; counts of tokens add up: {is_sum}; pairs across the cut: {across}"
    )


# ---- Models ----

GPT2 = {"small": (768, 12, 12), "medium": (1024, 24, 16), "XL, a quarter of its layers": (1600, 12, 25)}
"""d_model, layers, heads; every head has 64 dimensions."""
VOCAB = 8_192
"""Of spectra: what the vocabulary adds grows with it."""
LLAMA = {"Llama 3 8B": (4096, 32, 14_336), "Llama 3 70B": (8192, 64, 28_672)}
"""d_model, heads, neurons; every head has 128 dimensions, and there are eight heads of keys and values."""


def cores() -> None:
    """Core-seconds with one thread; the shapes are real, the weights random: how long a product takes does not depend on them."""
    works = {work.__name__: work for work in (products, spectra, compositions, passes, layers_of_llama)}
    for name in sys.argv[2:] or works:
        alone(works[name])


def products() -> dict[str, float]:
    import torch

    rows = [["", "a core"]]
    for dtype in (torch.float32, torch.float64):
        ours = torch.randn(2_048, 2_048, dtype=dtype)
        rows.append(
            [f"products in {str(dtype)[6:]}", f"{2 * 2_048**3 / best(lambda ours=ours: ours @ ours, 5) / 1e9:.0f} GFLOP/s"]
        )
    data = bytes(10**9)
    rows.append(["SHA-256", f"{1 / best(lambda: hashlib.sha256(data).digest()):.2f} GB/s"])
    show(*rows)
    return {}


def heads_alone(width: int, layers: int, heads: int, vocab: int = 64):
    """A model of which nothing is there but embeddings and heads."""
    from headwater.model.config import Attention, LearnedPositions, ModelConfig, PreNorm, Unembedding
    from headwater.model.weights import Weights

    attention = Attention(heads=heads, d_head=64)
    return Weights.draw(
        ModelConfig(vocab=vocab, context=64, d_model=width, layers=layers, attention=attention, norm=PreNorm(),
                    positions=LearnedPositions(), unembedding=Unembedding(tied=True)),
        seed=0,
    )  # fmt: skip


def spectra() -> dict[str, float]:
    """Of few heads and of many: the difference is the heads' own, the rest is the vocabulary's, once for all."""
    from headwater.circuits.copying import Known, copying
    from headwater.circuits.cores import ov_cores
    from headwater.circuits.tables import ov

    rows = [
        [
            f"OV spectra, V = {VOCAB:,}",
            "core-seconds for the vocabulary",
            "its GFLOP/s",
            "for each head",
            "its GFLOP/s",
            "copying from a core, without ranks",
        ]
    ]
    for name in ("small", "medium"):
        width, _, heads = GPT2[name]
        few, many = (heads_alone(width, layers, heads, VOCAB) for layers in (1, 4))
        little, much = (best(lambda weights=weights: ov_cores(weights), 2) for weights in (few, many))
        each = (much - little) / (3 * heads)
        vocabulary = little - heads * each
        known = next(iter(ov_cores(few).values()))
        circuit = ov(few, "L0H0")
        told = best(lambda circuit=circuit, known=known: copying(circuit, known=Known(known, leaves_out_ranks=True)))
        # Tied: one Gram matrix as it is; centred, another one and the way round. Eight products of a head with d_model × d_model.
        rates = [4 * VOCAB * width**2 / vocabulary / 1e9, 16 * 64 * width**2 / each / 1e9]
        rows.append([name, f"{vocabulary:.1f}", f"{rates[0]:.0f}", f"{each:.3f}", f"{rates[1]:.0f}", f"{told:.2f}"])
    show(*rows)
    return {}


def compositions() -> dict[str, float]:
    from headwater.circuits.composition import composition

    rows = [["composition, one mode", "heads", "core-seconds", "TFLOP", "GFLOP/s", "MB over the weights"]]
    for name, (width, layers, heads) in GPT2.items():
        weights, count = heads_alone(width, layers, heads), layers * heads
        before = memory("VmRSS")
        took = best(lambda weights=weights: composition(weights, "K"), 2)
        work = composed(count, width, 64)
        rows.append(
            [
                name,
                f"{count:,}",
                f"{took:.2f}",
                f"{work / 1e12:.3f}",
                f"{work / took / 1e9:.0f}",
                f"{memory('VmHWM') - before:,.0f}",
            ]
        )
    show(*rows)
    return {}


def composed(heads: int, width: int, inner: int) -> float:
    """Operations of one mode: the Gram matrices of all writers and readers, above the diagonal, and their products with each other where one comes before."""
    return 2 * heads * inner * width**2 + heads**2 * width**2 / 2


def passes() -> dict[str, float]:
    import torch

    from headwater.api import Model
    from headwater.model.forward import forward
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    model = Model(Weights.draw(named("gpt2-small"), seed=0))
    rows = [
        [
            "GPT-2 small, tokens",
            "a pass, core-seconds",
            "tokens/s",
            "GFLOP/s",
            "recorded and one logit explained",
            "by every token too",
        ]
    ]
    for length in (64, 256):
        text = torch.randint(0, 50_257, (1, length), generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            plain = best(lambda text=text: forward(model.weights, text), 2)
        why = best(lambda text=text: model.record(text).explain().split(most=None), 2)
        tokens = best(lambda text=text: model.record(text).explain().split("token", most=None), 2)
        rate = 2 * 124e6 * length / plain / 1e9
        rows.append([length, f"{plain:.2f}", f"{length / plain:.0f}", f"{rate:.0f}", f"{why:.2f}", f"{tokens:.2f}"])
    show(*rows)
    return {}


def layers_of_llama() -> dict[str, float]:
    """One layer as wide as the real ones: what a worker that holds a single layer would do."""
    import torch

    from headwater.circuits.composition import composition
    from headwater.model.config import Attention, GatedFeedForward, ModelConfig, PreNorm, RMSNorm, RotaryPositions
    from headwater.model.forward import forward
    from headwater.model.weights import Weights

    rows = [
        [
            "one layer of",
            "GB in float32",
            "a pass of 64 tokens, core-seconds",
            "GFLOP/s",
            "composition with itself, one mode",
            "GFLOP/s",
        ]
    ]
    for name, (width, heads, neurons) in LLAMA.items():
        config = ModelConfig(
            vocab=64, context=128, d_model=width, layers=1, attention=Attention(heads=heads, d_head=128, group_size=heads // 8),
            feed_forward=GatedFeedForward(d_mlp=neurons), norm=PreNorm(norm=RMSNorm()), positions=RotaryPositions(dims=128),
        )  # fmt: skip
        weights = Weights.draw(config, seed=0)
        count = sum(tensor.numel() for tensor in weights.tensors().values())
        with torch.inference_mode():
            took = best(lambda weights=weights: forward(weights, torch.zeros(1, 64, dtype=torch.int64)), 2)
        grams = best(lambda weights=weights: composition(weights, "K"), 1)
        # Nothing comes before itself: only Gram matrices are made.
        made = 2 * heads * 128 * width**2 / grams / 1e9
        rows.append(
            [name, f"{count * 4e-9:.2f}", f"{took:.2f}", f"{2 * count * 64 / took / 1e9:.0f}", f"{grams:.1f}", f"{made:.0f}"]
        )
    show(*rows)
    return {}


# ---- Atlases ----

SEARCHES = {
    "a source": {"source": " self"},
    "a dest": {"dest": " self"},
    "an out": {"out": " self"},
    "a source and an out": {"source": " self", "out": "."},
    "a source, one head": {"source": " self", "head": "L0H3"},
    "the strongest of one head": {"head": "L0H3"},
    "the strongest of all": {},
}


def atlases() -> None:
    """The reference model's atlas is built, unless a folder is named where it lies already."""
    from headwater.atlas.build import build_atlas

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = Path([*sys.argv[2:], folder / "one-layer"][0])
        [text] = write_text(folder / "text", FILE)
        # Two heads of the recipe's eight: what heads have in common does not depend on how many there are.
        chosen = ("training.steps=16", "training.warmup=4", "training.batch=4", "model.attention.heads=2", "model.vocab=2048")
        run(
            "train",
            "one-layer",
            "--text",
            text,
            "--out",
            folder / "run",
            *(word for each in chosen for word in ("--set", each)),
        )
        models = {"after 8 updates": folder / "run/snapshots/00000008", "after 16 updates": folder / "run/model"}
        for title, model in models.items():
            build_atlas(model, folder / title)
        if not reference.exists():
            build_atlas("one-layer", reference)
        build_atlas(folder / "run/model", folder / "again")
        rows = [["atlases", "MB of the second", "in equal files", "in equal column chunks"]]
        first, second = (folder / title for title in models)
        for title, one, two in (
            ("of one model, built twice", second, folder / "again"),
            ("of two snapshots of one training", first, second),
            ("of two models with different tokenizers", second, reference),
        ):
            rows.append([title, *in_common(one, two)])
        show(*rows)
        sizes(reference)
        rows = [["search in one-layer's atlas", "rows found", "kB read to open", "kB read to search", "ms"]]
        for title, query in SEARCHES.items():
            found = alone(searched, reference, query)
            rows.append(
                [
                    title,
                    f"{found['rows']:,.0f}",
                    f"{found['open'] / 1e3:,.0f}",
                    f"{found['read'] / 1e3:,.0f}",
                    f"{found['seconds'] * 1e3:.0f}",
                ]
            )
        show(*rows)


def run(*words: object) -> None:
    """One of Headwater's own commands."""
    subprocess.run([sys.executable, "-m", "headwater", *map(str, words)], check=True, capture_output=True)


def in_common(one: Path, two: Path) -> list[str]:
    """How much of an atlas another one holds already: whole files by the manifests' hashes, and columns of row groups by their bytes."""
    from headwater.atlas.manifest import read_manifest

    files = read_manifest(two).files
    known = {file.sha256 for file in read_manifest(one).files}
    total = sum(file.bytes for file in files)
    equal = sum(file.bytes for file in files if file.sha256 in known)
    seen = {digest for digest, _ in chunks(one)}
    again = sum(size for digest, size in chunks(two) if digest in seen)
    return [f"{total / 1e6:.1f}", f"{equal / total:.1%}", f"{again / total:.1%}"]


def chunks(folder: Path):
    """Every column of every row group of every table: the hash of its bytes, and how many they are."""
    import duckdb

    for path in sorted(folder.rglob("*.parquet")):
        data = path.read_bytes()
        places = duckdb.execute(
            "SELECT coalesce(dictionary_page_offset, data_page_offset), data_page_offset, total_compressed_size FROM parquet_metadata(?)",
            [str(path)],
        ).fetchall()
        for dictionary, page, size in places:
            first = min(dictionary or page, page)
            yield hashlib.sha256(data[first : first + size]).hexdigest(), size


def sizes(folder: Path) -> None:
    """Bytes by kind of file: what a head adds, and what is there once."""
    from headwater.atlas.manifest import read_manifest

    manifest = read_manifest(folder)
    kinds: dict[str, int] = {}
    for file in manifest.files:
        kind = file.path.split("/")[0]
        kinds[kind] = kinds.get(kind, 0) + file.bytes
    largest = sorted(kinds.items(), key=lambda each: -each[1])
    print(
        f"{len(manifest.files)} files, manifest {(folder / 'manifest.json').stat().st_size / 1e3:.0f} kB;",
        ", ".join(f"{kind} {size / 1e6:.1f} MB" for kind, size in largest),
        "\n",
    )


def searched(folder: Path, query: dict[str, str]) -> dict[str, float]:
    """Bytes that were asked of the system, whether it had them in memory or not: what an object store would be asked for."""
    from headwater.atlas.atlas import open_atlas

    def read() -> int:
        return int(re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())[0])

    open_atlas(folder).close()
    begin = read()
    with open_atlas(folder) as atlas:
        opened, before = read(), time.perf_counter()
        found = atlas.search(**query, limit=50)
        return {"open": opened - begin, "read": read() - opened, "seconds": time.perf_counter() - before, "rows": found.total}


# ---- Studio ----

SECONDS = 4.0
"""For each number of people who ask."""
LONG = 16
"""Tokens of a text that nobody asked about before."""


def studio() -> None:
    from headwater import Model
    from headwater.atlas.build import build_atlas
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = Model(Weights.draw(named("gpt2-small"), seed=0))
        model.save(folder / "gpt2-shape")
        print(f"a run of GPT-2 small's shape keeps {model.record(list(range(128))).size / 128 / 1e3:.0f} kB a token\n")
        reference = Path([*sys.argv[2:], folder / "one-layer/atlas"][0])
        if not reference.exists():
            build_atlas("one-layer", reference)
        with served("one-layer", folder / "gpt2-shape", "--atlas", reference) as (process, place, token):
            rows = [["", "MB of the process"]]
            for title, route in WARMING.items():
                ask(place, token, route)
                rows.append([title, f"{memory('VmRSS', process):,.0f}"])
            for number in range(2):
                ask(place, token, f"/api/tokens?model=gpt2-shape&count=0&text=ids:{ids(number, 1024)}")
            show(*rows, ["and two runs of 1,024 tokens with it", f"{memory('VmRSS', process):,.0f}"])
            head: list[object] = [
                "question",
                "who ask",
                "answers/s",
                "ms: half within",
                "95 % within",
                "99 % within",
                "refused",
            ]
            show(head)
            for title, route in QUESTIONS.items():
                ask(place, token, route(0))
                for people in (1, 10, 50):
                    print("|", title, "|", people, "|", " | ".join(loaded(place, token, route, people)), "|", flush=True)


def ids(number: int, length: int) -> str:
    """Another text each time."""
    return ",".join(str((7919 * number + 31 * step * step) % 50_257) for step in range(length))


WARMING = {
    "nothing is loaded but what reads models": "/api/shelf",
    "one-layer (9.4 MB of numbers)": "/api/tokens?model=one-layer&text=for+line+in",
    "a model of GPT-2 small's shape too (498 MB)": "/api/tokens?model=gpt2-shape&count=0&text=ids:1,2,3",
}
QUESTIONS = {
    "what is on the shelf": lambda number: "/api/shelf",
    "a search in an atlas": lambda number: "/api/atlas/search?atlas=one-layer&source=%23" + str(300 + number % 3_000),
    "next tokens of a text that is kept, one-layer": lambda number: "/api/tokens?model=one-layer&text=for+line+in",
    "a new text of 16 tokens explained, one-layer": lambda number: (
        f"/api/river?model=one-layer&auto=0&text=ids:{','.join(str((number * 31 + 7 * step) % 4_096) for step in range(16))}"
    ),
    f"a new text of {LONG} tokens explained, GPT-2 small's shape": lambda number: (
        f"/api/river?model=gpt2-shape&auto=0&text=ids:{ids(number, LONG)}"
    ),
}


@contextmanager
def served(*given: object):
    """A real studio in a process of its own; it may use both cores."""
    command = [sys.executable, "-m", "headwater", "studio", *map(str, given), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"http://([\w.]+:\d+)/\?token=(\S+)", line):
                threading.Thread(target=list, args=(process.stdout,), daemon=True).start()
                yield process.pid, found[1], found[2]
                return
        raise SystemExit("no studio")
    finally:
        process.terminate()
        process.wait(20)


def ask(place: str, token: str, route: str, tab: str = "one", connection: http.client.HTTPConnection | None = None) -> int:
    asking = connection or http.client.HTTPConnection(place, timeout=120)
    asking.request("GET", route, headers={"authorization": f"Bearer {token}", "x-tab": tab})
    answer = asking.getresponse()
    answer.read()
    if connection is None and answer.status != 200:
        raise SystemExit(f"{route[:80]} answers {answer.status}")
    return answer.status


def loaded(place: str, token: str, route: Callable[[int], str], people: int) -> list[str]:
    """So many people, each of whom asks the next question when the last is answered."""
    numbers, took, refused = itertools.count(random.randrange(10**9)), list[float](), list[int]()
    end = time.perf_counter() + SECONDS

    def asks(person: int) -> None:
        connection = http.client.HTTPConnection(place, timeout=120)
        while (begin := time.perf_counter()) < end:
            status = ask(place, token, route(next(numbers)), f"tab {person}", connection)
            took.append(time.perf_counter() - begin) if status == 200 else refused.append(status)

    begin = time.perf_counter()
    threads = [threading.Thread(target=asks, args=(person,)) for person in range(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, took = time.perf_counter() - begin, sorted(took)
    shares = [f"{took[min(len(took) - 1, int(share * len(took)))] * 1e3:,.0f}" for share in (0.5, 0.95, 0.99)]
    return [f"{len(took) / seconds:,.1f}", *shares, str(len(refused))]


COMMANDS = {"corpus": corpus, "cores": cores, "atlases": atlases, "studio": studio}


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        COMMANDS[sys.argv[1]]()
    else:
        sys.exit(__doc__)
