"""Encode a training corpus piece by piece, in several processes; pieces that are done outlive a kill."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path

import numpy as np

from rmsrepro.data.parallel.encoded import SIDES, Ragged, id_type, write_side
from rmsrepro.data.parallel.lines import blocks, read_lines
from rmsrepro.data.parallel.subwords import Subwords
from rmsrepro.runs.atomic import atomic_writer, write_json_atomic

SHARD_PAIRS = 50_000
COUNTS_FILE, HASHES = "counts.json", "hashes.npy"
COUNTS = ("read", "kept", "dropped_empty", "dropped_nul", "dropped_too_long", "source_is_target")
"""What is counted in every shard; the reason of a pair that breaks several rules is the first of them."""


@dataclass(frozen=True)
class EncodingRules:
    """What becomes of a training pair."""

    lowercase: bool
    max_length: int  # subwords on either side


@dataclass(frozen=True)
class _Piece:
    """A shard to be made: the lines of both sides, and where the result goes."""

    source: bytes
    target: bytes
    path: Path


def encode_corpus(
    sides: tuple[Sequence[Path], Sequence[Path]],
    limit: int,
    subwords: Subwords,
    rules: EncodingRules,
    folder: Path,
    workers: int | None = None,
) -> None:
    """Encode the first `limit` pairs of the files into `folder`, for `EncodedPairs.open`; COUNTS go to COUNTS_FILE.

    Shards of SHARD_PAIRS lines are kept in `folder`.shards meanwhile, and one that is whole is not made again.
    `folder` appears when all is done. Call it under a lock. More than one shard is made in `workers` processes (by
    default one for each core), which hold one shard each.
    """
    work, merged = folder.with_name(f"{folder.name}.shards"), folder.with_name(f"{folder.name}.merged")
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(merged, ignore_errors=True)
    paths = [work / f"{index:05d}.npz" for index in range(-(-limit // SHARD_PAIRS))]
    pieces = _missing(sides, limit, paths)
    if len(paths) == 1:
        for piece in pieces:
            _encode(piece, subwords, rules)
    else:
        _encode_in_processes(pieces, subwords, rules, workers or len(os.sched_getaffinity(0)))
    _merge(paths, merged, id_type(len(subwords)))
    merged.replace(folder)
    shutil.rmtree(work, ignore_errors=True)


def _merge(shards: Sequence[Path], folder: Path, dtype: np.dtype) -> None:
    folder.mkdir()
    for side in SIDES:
        lengths = np.concatenate([_member(shard, f"{side}_lengths") for shard in shards])
        write_side(folder, side, lengths, (_member(shard, f"{side}_ids") for shard in shards), dtype)
    np.save(folder / HASHES, np.sort(np.concatenate([_member(shard, "hashes") for shard in shards])))
    totals = np.sum([_member(shard, "counts") for shard in shards], axis=0).tolist()
    write_json_atomic(folder / COUNTS_FILE, dict(zip(COUNTS, totals, strict=True)))


def _member(shard: Path, name: str) -> np.ndarray:
    with np.load(shard) as arrays:
        return arrays[name]


def _missing(sides: tuple[Sequence[Path], Sequence[Path]], limit: int, paths: Sequence[Path]) -> Iterator[_Piece]:
    """Read the corpus once, and yield the pieces whose shards are not there."""
    source, target = (blocks(islice(read_lines(files), limit), SHARD_PAIRS) for files in sides)
    for path, source_lines, target_lines in zip(paths, source, target, strict=True):
        if not path.is_file():
            yield _Piece(b"\n".join(source_lines), b"\n".join(target_lines), path)


def _encode_in_processes(pieces: Iterator[_Piece], subwords: Subwords, rules: EncodingRules, workers: int) -> None:
    """Encode with at most one waiting piece per process, so that memory does not grow with the corpus."""
    context = get_context("spawn")  # a fork would copy the locks of whatever threads there are
    with ProcessPoolExecutor(workers, context, _start_worker, (subwords.model, rules)) as pool:
        pending: set[Future[None]] = set()
        try:
            for piece in pieces:
                pending.add(pool.submit(_encode_in_worker, piece))
                if len(pending) >= 2 * workers:
                    pending = _settle(pending, FIRST_COMPLETED)
            _settle(pending, ALL_COMPLETED)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _settle(pending: set[Future[None]], until: str) -> set[Future[None]]:
    finished, pending = wait(pending, return_when=until)
    for future in finished:
        future.result()
    return pending


_worker: tuple[Subwords, EncodingRules]


def _start_worker(model: bytes, rules: EncodingRules) -> None:
    global _worker
    _worker = Subwords(model), rules
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when a killed parent cannot say so any more."""
    if parent := parent_process():
        parent.join()
        os._exit(1)


def _encode_in_worker(piece: _Piece) -> None:
    _encode(piece, *_worker)


def _encode(piece: _Piece, subwords: Subwords, rules: EncodingRules) -> None:
    counts = dict.fromkeys(COUNTS, 0)
    sources, targets = [], []
    for source, target in zip(_lines(piece.source, rules), _lines(piece.target, rules), strict=True):
        counts["read"] += 1
        if "\0" in source or "\0" in target:
            counts["dropped_nul"] += 1
        elif not source.strip() or not target.strip():
            counts["dropped_empty"] += 1
        else:
            sources.append(source)
            targets.append(target)
    kept: list[tuple[list[int], list[int]]] = []
    hashes: list[int] = []
    encoded = zip(subwords.encode_lines(sources), subwords.encode_lines(targets), strict=True)
    for source, target, ids in zip(sources, targets, encoded, strict=True):
        if max(map(len, ids)) > rules.max_length:
            counts["dropped_too_long"] += 1
            continue
        counts["source_is_target"] += source == target
        kept.append(ids)
        hashes.append(pair_hash(source, target))
    counts["kept"] = len(kept)
    source_side, target_side = (
        Ragged.of([ids[number] for ids in kept], id_type(len(subwords))) for number in range(len(SIDES))
    )
    with atomic_writer(piece.path) as file:
        np.savez(
            file,
            counts=np.array([counts[name] for name in COUNTS]),
            hashes=np.array(hashes, np.int64),
            source_ids=source_side.ids,
            source_lengths=np.diff(source_side.offsets),
            target_ids=target_side.ids,
            target_lengths=np.diff(target_side.offsets),
        )


def _lines(content: bytes, rules: EncodingRules) -> list[str]:
    text = content.decode()
    return (text.lower() if rules.lowercase else text).split("\n")


def pair_hash(source: str, target: str) -> int:
    """Return 64 bits that tell pairs apart."""
    return int.from_bytes(blake2b(f"{source}\n{target}".encode(), digest_size=8).digest(), "little", signed=True)
