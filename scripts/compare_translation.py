"""Training and search of translation models: this project's against OpenNMT-py's and JoeyNMT's, interleaved.

    python scripts/compare_translation.py --data-root DIR [--data multi30k] [--set KEY=VALUE ...]
        [--models transformer rnn] [--peers opennmt joeynmt] [--norms rmsnorm ...] [--threads 2]
        [--rounds 5] [--steps 20] [--decode] [--decode-steps 500] [--decode-sentences N] [--json FILE] [--work DIR]

The peers come from PyPI into environments below --work: OpenNMT-py 3.5.1 with a torch of its own (its limit is
torch < 2.3; pip's is several GB), JoeyNMT 2.3 with the torch that runs this script. All arms live side by side as
processes of --threads threads each and take turns, in another order every round: one block of --steps steps, or, with
--decode, one translation of the test set. The first block of each arm, which holds what starting it costs, is a
warm-up. Tokens are those to be predicted, the ends of sentences counted and padding not, over the time between two
reports of training; a ratio is taken within a round. On a machine that others use too, `--threads 1` and the figures
of the processor's clock say more. The search follows --decode-steps steps of training, as an untrained model does not
know where to end; it is timed without loading the model, and the mean length of the translations is shown.

Equal in all arms: sentence pairs, subwords and their number; widths, layers, heads; the budget of a batch (4,096
positions for the Transformer, 80 sentences for the RNN); Adam at a constant rate; label smoothing of 0.1; the rate of
dropout; shared embeddings in the Transformer; clipping; a beam of 5, and 128 sentences side by side. Not equal:

- How batches are made of pairs is each project's own: this one and OpenNMT-py sort by length, JoeyNMT does not; in
  OpenNMT-py no source is twice in a batch.
- OpenNMT-py's Transformer is pre-norm, the others are post-norm; JoeyNMT also drops attention weights.
- RNN: this project's is Nematus's (two GRU transitions a step, deep output, with --norms none no normaliser).
  The peers' have one transition, that reads the attention's last output. OpenNMT-py's encoder has half as many units
  a direction, since it wants both directions together to be as wide as the decoder.
- When search stops and how length is penalised is each project's own. The longest translation is 1.5 times the source's
  subwords, and 5 more except in JoeyNMT.
- OpenNMT-py's release of torch is older.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import torch
import yaml
from peers import joeynmt, opennmt, project
from peers.arm import Arm
from peers.contest import CLOCKS, Contest, Found, ratios, rows
from peers.corpus import Corpus, export
from peers.environment import PEERS, NotInstalledError, installed
from peers.sizes import MODELS, Length, configuration

from rmsrepro.errors import UserError
from rmsrepro.kernels.cpu import library
from rmsrepro.runs.atomic import write_json_atomic
from rmsrepro.runs.machine import hardware

_WORK = Path(tempfile.gettempdir()) / "rmsrepro-compared"

#: How an arm of the name is started in a phase, `train` or `translate`.
Starters = dict[str, Callable[[str], Arm]]


def pythons(peers: Sequence[str], work: Path) -> dict[str, Path]:
    """Return the Python of each peer that can be installed; say why where one cannot."""
    found = {}
    for peer in peers:
        try:
            found[peer] = installed(PEERS[peer], work / "environments" / peer)
        except NotInstalledError as error:
            print(f"{PEERS[peer].title} is left out, it cannot be installed: {error}", file=sys.stderr)
    return found


def starters(
    arguments: argparse.Namespace, kind: str, corpus: Corpus, length: Length, found: dict[str, Path]
) -> Starters:
    """Write every arm's configurations and return how it is started."""
    model, starts = MODELS[kind], {}

    def add(name: str, worker: str, python: Path, make: Callable[[Path], dict[str, Any]]) -> None:
        folder = arguments.work / "arms" / kind / name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        for phase, settings in make(folder).items():
            configuration(folder, phase).write_text(yaml.safe_dump(settings, sort_keys=False))

        def start(phase: str) -> Arm:
            command = [phase, str(configuration(folder, phase))]
            return Arm(python, worker, command, arguments.threads, folder / f"{phase}.log")

        starts[name] = start

    for peer, module in {"opennmt": opennmt, "joeynmt": joeynmt}.items():
        if peer in found:
            make = partial(module.configurations, model, corpus, length)
            add(PEERS[peer].title, peer, found[peer], make)
    for norm in arguments.norms or model.norms:
        make = partial(project.configurations, model, norm, data_overrides(arguments), corpus, length)
        add(f"rmsrepro {norm}", "project", Path(sys.executable), make)
    return starts


def data_overrides(arguments: argparse.Namespace) -> list[str]:
    """Return the overrides that say which data is read."""
    root = [f"data.root={arguments.data_root.resolve()}"] if arguments.data_root else []
    return [f"data={arguments.data}", *root, *arguments.set]


def measure(starts: Starters, phase: str, rounds: int, blocks_left: int | None) -> Found:
    """Let the arms take turns in one phase; `blocks_left` more blocks are worked for the sake of the model."""
    contest = Contest()
    try:
        for name, start in starts.items():
            contest.add(name, partial(start, phase))
        found = contest.rounds(rounds)
        if blocks_left is not None:
            contest.finish(blocks_left)
        return {name: blocks for name, blocks in found.items() if name in contest.arms}
    finally:
        contest.stop()


def show(kind: str, phase: str, found: Found) -> dict[str, Any]:
    """Print one contest, and return it for --json."""
    titles = [peer.title for peer in PEERS.values() if peer.title in found]
    what = "tokens" if phase == "train" else "sentences"
    print(f"\n{kind}, {'training' if phase == 'train' else 'search'}, medians, ratios with range of the rounds")
    print("\n".join(rows(found, titles, what)), flush=True)
    own = [name for name in found if name not in titles]
    return {
        "model": kind,
        "phase": phase,
        "blocks": {name: [asdict(block) for block in blocks] for name, blocks in found.items()},
        "ratios": {
            f"{name} / {title}": {clock: ratios(found[name], found[title], clock) for clock in CLOCKS}
            for name in own
            for title in titles
        },
    }


def compare(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all contests."""
    found = pythons(arguments.peers, arguments.work)
    overrides = [*data_overrides(arguments), "size=small"]
    corpus = export(overrides, arguments.work / "corpus", arguments.decode_sentences)
    rounds, steps = arguments.rounds, arguments.steps
    blocks = max(1 + rounds, ceil(arguments.decode_steps / steps) if arguments.decode else 0)
    print(f"{arguments.data}: {corpus.train_pairs} pairs, {corpus.subwords} subwords")
    print(f"{hardware()['cpu']}, {arguments.threads} threads, torch {torch.__version__}")
    print(f"{rounds} rounds of {steps} steps or {corpus.test_sentences} sentences", flush=True)
    if library.missing:
        print(f"this project runs without its fused kernels: {library.missing}", flush=True)
    contests = []
    for kind in arguments.models:
        starts = starters(arguments, kind, corpus, Length(steps, blocks), found)
        trained = measure(starts, "train", rounds, blocks - 1 - rounds if arguments.decode else None)
        contests.append(show(kind, "train", trained))
        if arguments.decode:
            searched = measure({name: starts[name] for name in trained}, "translate", rounds, None)
            contests.append(show(kind, "translate", searched))
    return contests


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, help="the folder of all data sets")
    parser.add_argument("--data", default="multi30k")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of this project")
    parser.add_argument("--models", nargs="+", default=[*MODELS], choices=[*MODELS])
    parser.add_argument("--peers", nargs="*", default=[*PEERS], choices=[*PEERS])
    parser.add_argument("--norms", nargs="+", help="by default layernorm and rmsnorm, and none and rmsnorm in the RNN")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of a block")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--decode", action="store_true", help="time the search for translations too")
    parser.add_argument("--decode-steps", type=int, default=500, help="of training before that")
    parser.add_argument("--decode-sentences", type=int, help="of the test set that are translated; all by default")
    parser.add_argument("--work", type=Path, default=_WORK, help=f"a folder for what this makes, by default {_WORK}")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.steps, arguments.threads) < 1:
        parser.error("--rounds, --steps and --threads must be at least 1")
    arguments.work = arguments.work.resolve()
    try:
        contests = compare(arguments)
    except UserError as error:
        sys.exit(str(error))
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items() if name not in ("work", "json")}
        write_json_atomic(arguments.json, {"settings": settings, "machine": hardware(), "contests": contests})


if __name__ == "__main__":
    main()
