"""Classification of a few random vectors, with trouble on request; found as `rmsrepro.tasks.toy`."""

from __future__ import annotations

import time

import torch
from torch import nn

from rmsrepro.tasks.base import Batch, TaskSpec
from rmsrepro.tasks.images import ImageTask

FEATURES, CLASSES = 6, 3
ERRORS = {
    "bug": ValueError("a bug\nwith two lines"),
    "memory": MemoryError("no more"),
    "cuda": torch.cuda.OutOfMemoryError("CUDA out of memory"),
    "cpu": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
}


class Task(ImageTask):
    train_error = True
    spec = TaskSpec("toy", primary="test/accuracy", direction="max", select="valid/accuracy", items="items")

    def __init__(self, cfg, device):
        super().__init__(cfg, device)
        self.settings = cfg.task
        self.evaluations = 0
        if self.settings.direction == "min":
            self.spec = TaskSpec("toy", primary="test/loss", direction="min", select="valid/loss", items="items")

    def sites(self):
        return {"linear"}

    def load(self):
        time.sleep(self.settings.load_sleep_s)
        generator = torch.Generator().manual_seed(5)
        self.splits = {}
        for split, n in (("train", self.settings.train_items), ("valid", 30), ("test", 30)):
            inputs = torch.randn(n, FEATURES, generator=generator)
            self.put(split, inputs, (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long())

    def build_model(self, norm):
        return nn.Sequential(
            norm.linear(FEATURES, 8), nn.ReLU(), nn.Dropout(self.settings.dropout), nn.Linear(8, CLASSES)
        )

    def batch(self, epoch, index):
        settings, number = self.settings, epoch * self.batches_per_epoch() + index
        time.sleep(settings.step_sleep_s)
        if number == settings.error_at:
            raise ERRORS[settings.error]
        batch = super().batch(epoch, index)
        inputs, labels = batch.inputs
        if number == settings.nan_at:
            inputs[0, 0] = torch.nan
        if number == settings.padding_at:
            return Batch((inputs, torch.full_like(labels, -100)), weight=0, items=0)
        return batch

    def initial_carry(self):
        return torch.zeros(CLASSES, device=self.device) if self.settings.carry else None

    def loss_sum(self, model, batch, carry):
        if carry is None:
            return super().loss_sum(model, batch, carry)
        inputs, labels = batch.inputs
        logits = model(inputs).float() + carry
        return nn.functional.cross_entropy(logits, labels, reduction="sum"), logits.detach().mean(0)

    def evaluate(self, model, split):
        time.sleep(self.settings.eval_sleep_s)
        metrics = super().evaluate(model, split)
        if self.settings.eval_values and split == "valid":
            metrics[self.spec.select] = self.settings.eval_values[self.evaluations % len(self.settings.eval_values)]
            self.evaluations += 1
        return metrics

    def checksums(self):
        return {"toy": "sha256:0"}
