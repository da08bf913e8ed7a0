"""One run from configuration to result.json: directory, lock, resume, training, records, exit code."""

from __future__ import annotations

import errno
import io
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Any

import torch
from omegaconf import OmegaConf
from torch import nn

from rmsrepro import seeding
from rmsrepro.config import Config
from rmsrepro.errors import ConfigError, UserError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.runs.atomic import write_bytes_atomic, write_json_atomic
from rmsrepro.runs.machine import hardware
from rmsrepro.runs.manifest import build_manifest
from rmsrepro.runs.progress import Progress, setup_run_logging
from rmsrepro.runs.result import build_result
from rmsrepro.runs.rundir import RunDir, State, runs_root
from rmsrepro.runs.sinks import JsonlSink, Row, Sink, SinkGroup
from rmsrepro.runs.source import git_commit
from rmsrepro.tasks.base import Task, build_task
from rmsrepro.train import distributed
from rmsrepro.train.checkpoint import CheckpointStore, load
from rmsrepro.train.distributed import World
from rmsrepro.train.guard import DivergedError
from rmsrepro.train.loop import Hooks, Outcome, Trainer
from rmsrepro.train.signals import StopSignals
from rmsrepro.train.timing import peak_memory_bytes

#: Seconds between checkpoints where the configuration does not count steps.
CHECKPOINT_EVERY_S = 60.0


def train(cfg: Config, argv: Sequence[str]) -> int:
    """Run `cfg` to its end, or go on where an earlier attempt stopped; return the exit code.

    Raises UserError, before training, for what the user can mend.
    """
    factory = NormFactory(cfg.norm, cfg.impl)
    world, device = distributed.join(cfg.device)
    try:
        if cfg.train.threads is not None:
            torch.set_num_threads(cfg.train.threads)
        task = build_task(cfg, device)
        factory.require(task.sites(), cfg.train.batch_size)
        rundir = RunDir.locate(runs_root(cfg.runs.root), cfg.task.name, cfg.norm.name, cfg.hash())
        if not world.is_main:
            return Run(cfg, argv, factory, task, rundir, world, device).attempt()
        rundir.create()
        with rundir.lock():
            if cfg.runs.overwrite:
                rundir.clear()
            if rundir.is_done():
                print(f"already done: {rundir.path} (runs.overwrite=true trains it again)", file=sys.stderr)
                print(rundir.result_json)
                return 0
            return Run(cfg, argv, factory, task, rundir, world, device).attempt()
    finally:
        distributed.leave(world)


class Run:
    """One attempt at a run, and what it writes into the run's directory."""

    def __init__(
        self,
        cfg: Config,
        argv: Sequence[str],
        factory: NormFactory,
        task: Task,
        rundir: RunDir,
        world: World,
        device: torch.device,
    ) -> None:
        self.cfg, self.argv, self.factory, self.task = cfg, argv, factory, task
        self.rundir, self.world, self.device = rundir, world, device
        self.store = CheckpointStore(rundir.checkpoints)
        self.log = setup_run_logging(rundir.log) if world.is_main else None
        self.sinks: Sink | None = None
        self._last_save_s = time.monotonic()

    def attempt(self) -> int:
        """Train and record; turn every way in which it can end into a status and an exit code."""
        step = 0
        with StopSignals() as signals:
            try:
                self._set_status("running")
                self.task.load()
                trainer = self._build_trainer()
                outcome = self._train(trainer, signals)
                step = outcome.steps
                if outcome.stopped_by:
                    return self._end("interrupted", 128 + outcome.stopped_by, f"interrupted after step {step}")
                if self.world.is_main:
                    self._write_result(trainer, outcome)
                return self._end("done", 0, "", step=step)
            except UserError as error:
                self._end("failed", 2, str(error), quiet=True)
                raise
            except DivergedError as error:
                return self._end("diverged", 1, str(error), step=error.step, loss=error.loss, tensors=error.tensors)
            except (torch.cuda.OutOfMemoryError, MemoryError) as error:
                return self._end("oom", 1, f"out of memory: {_first_line(error)}", trace=True)
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
                what = f"the disk is full: {error}; the checkpoint before it is whole" if full else str(error)
                return self._end("failed", 1, what, trace=not full)
            except Exception as error:
                return self._end("failed", 1, f"{type(error).__name__}: {_first_line(error)}", trace=True)

    def _build_trainer(self) -> Trainer:
        cfg = self.cfg
        seeding.seed_step(cfg.seed, 0)
        if cfg.train.deterministic:
            torch.use_deterministic_algorithms(True)
        model = self.task.build_model(self.factory)
        trainer = Trainer(self.task, model, cfg, self.device, self.world, compiled=cfg.impl == "compile")
        if trainer.steps_per_epoch < 1:
            raise ConfigError(
                f"train.batch_size={cfg.train.batch_size}: the training data holds {self.task.batches_per_epoch()} "
                f"batches, fewer than train.accumulate={cfg.train.accumulate} times {self.world.size} processes needs"
            )
        state, complaints = self.store.load_newest() if self.world.is_main else (None, [])
        if self.world.size > 1:
            box = [state]
            torch.distributed.broadcast_object_list(box)
            state = box[0]
        for complaint in complaints:
            self._warn(complaint + ("; going on from the one before it" if state else "; starting anew"))
        if state is None:
            self.task.init_model(trainer.model)
        else:
            trainer.restore(state)
            self._say(f"resuming after step {trainer.step} of {trainer.total_steps}")
        if self.world.is_main:
            self._write_records(trainer, None if state is None else trainer.step)
        return trainer

    def _write_records(self, trainer: Trainer, resumed_after: int | None) -> None:
        cfg = self.cfg
        write_bytes_atomic(self.rundir.config_yaml, OmegaConf.to_yaml(asdict(cfg)).encode())
        facts = {"facts": self.task.facts(), "resumed_after_step": resumed_after, "world_size": self.world.size}
        manifest = build_manifest(
            argv=["python", "-m", "rmsrepro", *self.argv],
            config_hash=cfg.hash(),
            data_checksums=self.task.checksums(),
            extra=facts,
        )
        write_json_atomic(self.rundir.manifest_json, manifest)
        others: list[Sink] = []
        if cfg.track.wandb:
            from rmsrepro.runs.wandb_sink import WandbSink

            others.append(
                WandbSink(
                    self.rundir,
                    config={**asdict(cfg), "config_hash": cfg.hash()},
                    project=cfg.track.project,
                    entity=cfg.track.entity,
                    group=cfg.track.group or cfg.task.name,
                    name=f"{cfg.task.name}-{cfg.norm.name}-{cfg.size}-s{cfg.seed}-{cfg.hash()[:4]}",
                    tags=[cfg.task.name, cfg.norm.name, cfg.size, *([cfg.tag] if cfg.tag else [])],
                    mode=cfg.track.mode,
                )
            )
        self.sinks = SinkGroup(JsonlSink(self.rundir.metrics_jsonl, resumed_after), others)

    def _train(self, trainer: Trainer, signals: StopSignals) -> Outcome:
        with Progress(trainer.total_steps, trainer.step, self._title(), self._progress_stream()) as progress:
            hooks = Hooks(
                on_rows=self._on_rows,
                on_step=lambda step, loss: progress.update(step, loss=loss),
                save=self._save,
                save_best=self.store.save_best,
                wants_save=self._wants_save,
                stop_signal=lambda: signals.received,
            )
            return trainer.run(hooks)

    def _on_rows(self, step: int, row: Row) -> None:
        assert self.sinks is not None
        self.sinks.log(step, row)

    def _save(self, state: dict[str, Any]) -> None:
        self.store.save(state)
        self._last_save_s = time.monotonic()

    def _wants_save(self, step: int) -> bool:
        every = self.cfg.runs.checkpoint_every
        if every is not None:
            return step % every == 0
        # Processes that train together must agree, so with several only evaluations save.
        return self.world.size == 1 and time.monotonic() - self._last_save_s > CHECKPOINT_EVERY_S

    def _write_result(self, trainer: Trainer, outcome: Outcome) -> None:
        cfg, spec = self.cfg, self.task.spec
        if cfg.train.report == "best":
            trainer.model.load_state_dict(load(self.store.best)["model"])
            trainer.average.stop()
        metrics = trainer.evaluate("valid") | trainer.evaluate("test")
        timing = trainer.timer.summary()
        result = build_result(
            task=cfg.task.name,
            norm=cfg.norm.name,
            impl=self.factory.resolved_impl(),
            size=cfg.size,
            seed=cfg.seed,
            data=cfg.data.name,
            metrics=metrics,
            primary=spec.primary,
            direction=spec.direction,
            timing={
                "steps": outcome.steps,
                "train_s": trainer.timer.train_s,
                **timing,
                "peak_memory_bytes": peak_memory_bytes(self.device),
            },
            params=parameter_count(trainer.model),
            device=device_name(self.device),
            config_hash=cfg.hash(),
            commit=git_commit(),
            impl_requested=cfg.impl,
            items=spec.items,
            reported=cfg.train.report,
            best=trainer.best.state_dict(),
            reached_target=outcome.reached_target,
            skipped_steps=trainer.skipped_steps,
            tag=cfg.tag,
            facts=self.task.facts(),
        )
        assert self.sinks is not None
        self.sinks.log(outcome.steps, dict(metrics))
        self.sinks.summary({**metrics, **{f"timing/{key}": value for key, value in result["timing"].items()}})
        write_json_atomic(self.rundir.result_json, result)

    def _end(
        self, state: State, code: int, message: str, *, trace: bool = False, quiet: bool = False, **fields: Any
    ) -> int:
        """Write the status, close the sinks, print what happened, and return the exit code."""
        if not self.world.is_main:
            return code
        if self.log is not None and (message or trace):
            self.log.info("%s: %s\n%s", state, message, traceback.format_exc() if trace else "")
        try:
            self._set_status(state, exit_code=code, message=message, **fields)
        except OSError as error:
            print(f"error: the status cannot be written: {error}", file=sys.stderr)
        if self.sinks is not None:
            self.sinks.finish(code)
        if code == 0:
            print(self.rundir.result_json)
        elif not quiet:
            where = f"; the traceback is in {self.rundir.log}" if trace else ""
            print(f"{state}: {' '.join(message.split())}{where}", file=sys.stderr)
        return code

    def _set_status(self, state: State, **fields: Any) -> None:
        if self.world.is_main:
            self.rundir.write_status(state, **fields)

    def _say(self, text: str) -> None:
        if self.log is not None:
            self.log.info(text)
            print(text, file=sys.stderr)

    def _warn(self, text: str) -> None:
        if self.log is not None:
            self.log.warning(text)

    def _title(self) -> str:
        return f"{self.cfg.task.name} {self.cfg.norm.name}"

    def _progress_stream(self) -> IO[str]:
        return sys.stderr if self.world.is_main and self.cfg.track.progress else io.StringIO()


def parameter_count(model: nn.Module) -> int:
    """Count the trainable numbers of a model."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def device_name(device: torch.device) -> str:
    """Name the hardware that trained."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return hardware()["cpu"] or "cpu"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
