"""One run from configuration to result.json: directory, lock, resume, training, records, exit code."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import IO, Any

import torch
from omegaconf import OmegaConf
from torch import nn

from rmsrepro import seeding
from rmsrepro.config import Config
from rmsrepro.errors import ConfigError, DataError, UserError, single_line
from rmsrepro.kernels.allocator import keep_large_blocks
from rmsrepro.norms.factory import NormFactory
from rmsrepro.runs.atomic import write_bytes_atomic, write_json_atomic
from rmsrepro.runs.machine import hardware
from rmsrepro.runs.manifest import build_manifest
from rmsrepro.runs.progress import Progress, setup_run_logging
from rmsrepro.runs.result import build_result
from rmsrepro.runs.rundir import RunDir
from rmsrepro.runs.sinks import JsonlSink, Row, Sink, SinkGroup
from rmsrepro.runs.source import git_commit
from rmsrepro.tasks.base import Task, build_task
from rmsrepro.train import distributed
from rmsrepro.train.checkpoint import CheckpointError, CheckpointStore
from rmsrepro.train.distributed import World
from rmsrepro.train.ending import Ending, ending_of, interrupted
from rmsrepro.train.guard import DivergedError
from rmsrepro.train.loop import Hooks, Outcome, Trainer
from rmsrepro.train.place import manifest_of, run_directory, say_done, say_result
from rmsrepro.train.signals import Interrupted, StopSignals
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
        if device.type == "cpu":
            keep_large_blocks()
        task = build_task(cfg, device)
        factory.require(task.sites(), cfg.train.batch_size, device.type)
        with ExitStack() as held:
            rundir, done = _claim(cfg, world, held)
            if done:
                return say_done(rundir, cfg) if world.is_main else 0
            code = Run(cfg, argv, factory, task, rundir, world, device).attempt()
        return say_result(rundir) if code == 0 and world.is_main else code
    finally:
        distributed.leave(world)


def _claim(cfg: Config, world: World, held: ExitStack) -> tuple[RunDir, bool]:
    """Take the run's directory for as long as `held` lasts; return it and whether the run is done already.

    The main process decides for all. Raises UserError in each where the directory cannot be had.
    """
    rundir, refusal, done = run_directory(cfg), None, False
    if world.is_main:
        try:
            held.enter_context(rundir.lock())
            if cfg.runs.overwrite:
                rundir.clear()
            done = rundir.is_done()
        except UserError as error:
            refusal = error
    refusal, done = world.share((refusal, done))
    if refusal is not None:
        raise refusal
    return rundir, done


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
        self.commit = git_commit()  # now, of the source that was imported: in hours the checkout may be at another
        self.store = CheckpointStore(rundir.checkpoints)
        self.log = setup_run_logging(rundir.log) if world.is_main else None
        self.sinks: Sink | None = None
        self._last_save_s = time.monotonic()
        self._saved_step: int | None = None

    def attempt(self) -> int:
        """Train and record; turn every way in which it can end into a status and an exit code.

        Raises UserError, after writing the status, for what the user can mend.
        """
        with StopSignals() as signals:
            try:
                ending, fault = self._train_and_record(signals), None
            except (Exception, Interrupted) as error:
                ending, fault = ending_of(error, self.rundir.path, self._saved_step), error
            with signals.deferred():
                self._end(ending)
        if isinstance(fault, UserError):
            raise fault
        if ending.message and self.world.is_main:
            where = f"; the traceback is in {self.rundir.log}" if ending.trace else ""
            print(f"{ending.state}: {single_line(ending.message)}{where}", file=sys.stderr)
        return ending.code

    def _train_and_record(self, signals: StopSignals) -> Ending:
        if self.world.is_main:
            self.rundir.write_status("running")
        self.task.load()
        trainer = self._build_trainer()
        with signals.deferred():
            outcome = self._train(trainer, signals)
        if stopped_by := outcome.stopped_by or signals.received:
            return interrupted(stopped_by, outcome.steps)
        if self.world.is_main:
            self._write_result(trainer, outcome)
        return Ending("done", 0, fields={"step": outcome.steps})

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
        state, complaints = self.world.share(self.store.load_newest() if self.world.is_main else (None, []))
        for complaint in complaints:
            self._warn(complaint + ("; going on from the one before it" if state else "; starting anew"))
        if state is None:
            self.task.init_model(trainer.model)
        else:
            self._require_same_data()
            try:
                trainer.restore(state)
            except CheckpointError as error:
                raise CheckpointError(f"{self.store.folder}: {error}") from error
            self._saved_step = trainer.step
            self._say(f"resuming after step {trainer.step} of {trainer.total_steps}")
        if self.world.is_main:
            self._write_records(trainer, None if state is None else trainer.step)
        return trainer

    def _require_same_data(self) -> None:
        """Refuse to go on with other data than the run began with: its configuration does not say what files hold."""
        began_with = manifest_of(self.rundir).get("data_checksums") if self.world.is_main else None
        began_with, present = self.world.share(began_with) or {}, self.task.checksums()
        changed = sorted(name for name, checksum in began_with.items() if present.get(name) != checksum)
        if changed:
            raise DataError(
                f"{self.rundir.path} began with other data ({', '.join(changed)} changed since):"
                " give it those again, or begin anew with runs.overwrite=true"
            )

    def _write_records(self, trainer: Trainer, resumed_after: int | None) -> None:
        cfg = self.cfg
        write_bytes_atomic(self.rundir.config_yaml, OmegaConf.to_yaml(asdict(cfg)).encode())
        facts = {
            "facts": self.task.facts(),
            "data_root": str(self.task.data_root),
            "resumed_after_step": resumed_after,
            "world_size": self.world.size,
            "steps": trainer.total_steps,
            "micro_batches_per_epoch": trainer.micro_batches_per_epoch,
            "micro_batches_dropped_per_epoch": self.task.batches_per_epoch() - trainer.micro_batches_per_epoch,
        }
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
        self._saved_step = state["step"]
        self._last_save_s = time.monotonic()

    def _wants_save(self, step: int) -> bool:
        every = self.cfg.runs.checkpoint_every
        if every is not None:
            return step % every == 0
        # Processes that train together must agree, so with several only evaluations save.
        return self.world.size == 1 and time.monotonic() - self._last_save_s > CHECKPOINT_EVERY_S

    def _write_result(self, trainer: Trainer, outcome: Outcome) -> None:
        cfg, spec = self.cfg, self.task.spec
        metrics = self._final_metrics(trainer)
        for name, text in self.task.files().items():
            write_bytes_atomic(self.rundir.path / name, text.encode())
        timing = trainer.timer.summary()
        result = build_result(
            task=cfg.task.name,
            norm=cfg.norm.name,
            impl=self.factory.resolved_impl(self.device.type),
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
            commit=self.commit,
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
        self.sinks.summary({**metrics, **{f"timing/{key}": value for key, value in result["timing"].items()}})
        write_json_atomic(self.rundir.result_json, result)

    def _final_metrics(self, trainer: Trainer) -> dict[str, float]:
        """Measure the parameters that the run reports; raises DivergedError rather than report what is no number."""
        if self.cfg.train.report == "best" and trainer.best.best_step is not None:
            trainer.model.load_state_dict(self.store.load_best()["model"])
            trainer.average.stop()
        metrics = trainer.evaluate("valid") | trainer.evaluate("test")
        bad = [name for name, value in metrics.items() if not math.isfinite(value)]
        if bad:
            lr = self.cfg.train.lr
            raise DivergedError("the final metrics are no numbers", trainer.step, lr, trainer.losses.latest, bad)
        return metrics

    def _end(self, ending: Ending) -> None:
        """Write log and status and close the sinks; what cannot be written is said in one line."""
        if not self.world.is_main:
            return
        if self.log is not None and ending.message:
            self.log.info("%s: %s\n%s", ending.state, ending.message, ending.trace)
        try:
            self.rundir.write_status(ending.state, exit_code=ending.code, message=ending.message, **ending.fields)
            if self.sinks is not None:
                self.sinks.finish(ending.code)
        except OSError as error:
            ending.code = ending.code or 1
            ending.message += f" (and the status cannot be written: {error})"

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
        wanted = self.world.is_main and self.cfg.track.progress
        return sys.stderr if wanted and sys.stderr is not None else io.StringIO()


def parameter_count(model: nn.Module) -> int:
    """Count the trainable numbers of a model."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def device_name(device: torch.device) -> str:
    """Name the hardware that trained."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return hardware()["cpu"] or "cpu"
