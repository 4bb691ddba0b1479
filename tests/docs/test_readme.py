"""The README's example prints what the README says, and its commands exist."""

import json
import re
import subprocess
import sys
from pathlib import Path

from headwater.api import load
from headwater.circuits.copying import tally
from headwater.circuits.overview import Choices, overview
from headwater.cli.main import app
from headwater.model.reference import reference_models

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_examples_print_what_the_readme_says():
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 6
    code, printed = ("".join(parts) for parts in zip(*blocks, strict=True))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Certificates are rounding, which differs from machine to machine.
    assert without_certificates(result.stdout) == without_certificates(printed)
    # A trained model's logits reach some tens: float32 has seven digits for them.
    found = re.findall(r"certificate (\S+):", result.stdout)
    assert len(found) == 4
    assert all(float(each) < 1e-4 for each in found)


def test_the_first_screen_is_a_sentence_a_picture_two_commands_and_ten_lines_of_python():
    head, sentence, picture, commands, *_ = README.split("\n\n")
    code, printed = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL).groups()
    assert head == "# Headwater"
    assert sentence.count(".") == 1
    assert "docs/pictures/river.png" in picture
    assert re.findall(r"^make (\w+)", commands, re.MULTILINE) == ["demo", "test"]
    assert README.split(commands)[1].strip().startswith("```python")
    assert len(code.splitlines()) == 10
    assert "certificate" in printed


def without_certificates(text):
    return re.sub(r"\d(\.\d)?e-\d\d", "rounding", text)


def test_every_command_in_the_readme_exists_and_no_other_does():
    named = set(re.findall(r"^headwater (\w+)", README, re.MULTILINE))
    assert named == {name for name in app if not name.startswith("-")}


def test_every_file_in_the_readme_exists():
    tree = re.search(r"```\n(src/headwater/\n.*?)```", README, re.DOTALL)[1]
    inside = [ROOT]
    for line in tree.splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        inside = [*inside[: depth + 1], inside[depth] / name]
        assert inside[-1].exists(), line


def test_the_table_of_models_says_what_their_cards_say():
    assert reference_table() in README
    names = ", ".join(f"`{name}`" for name in sorted(reference_models()))
    assert names in README


def reference_table():
    """The README's table, from the cards."""
    lines = ["| model | | parameters | its loss | bigram | trigram | 5-gram |", "|---|---|---|---|---|---|---|"]
    for name, folder in sorted(reference_models().items()):
        card = json.loads((folder / "card.json").read_text())
        nats = {row["predictor"].removesuffix(", Kneser-Ney"): f"{row['nats']:.3f}" for row in card["held_out"]["rows"]}
        losses = " | ".join(nats[predictor] for predictor in ("this model", "bigram", "trigram", "5-gram"))
        lines.append(f"| `{name}` | {card['about']} | {card['parameters']:,} | {losses} |")
    return "\n".join(lines)


def test_the_skip_trigrams_are_those_of_their_page():
    page = (ROOT / "docs" / "skip-trigrams.md").read_text()
    listed = [line for line in page.split("--sort nats --limit 40\n")[1].splitlines()[:42] if re.search("→|L0H", line)]
    rows = re.findall(r"^\| (L0H\d) \| `(.*) … (.*) → (.*)` \| (.*) \| (.*) \| (.*) \| (.*) \| (.*) \|$", README, re.MULTILINE)
    assert rows
    for row in rows:
        assert any(all(part in line for part in row) for line in listed), row


def test_every_make_target_in_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= targets


def test_as_many_heads_copy_as_the_readme_says():
    one, two = (_tally(name) for name in ("one-layer", "two-layer"))
    assert f"{one['verdict']['copying']} are copying by score and\ntrace" in README
    assert f"{one['raw score']['copying']} by the paper's raw score" in README
    assert f"eight, {two['score']['copying']} copy and {two['score']['anti-copying']} do the opposite by either score" in README
    assert two["score"] == two["raw score"] == two["verdict"]


def _tally(name):
    told, _ = overview(load(name).weights, None, Choices(ranks=False, examples=1))
    return tally([one.copying for one in told])
