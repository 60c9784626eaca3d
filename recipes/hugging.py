"""transformers' side of recipes/tuned.py: the same recipe, by its classes and its tokenizers, in a
plain loop that does what its Trainer does (AdamW, linear schedule, clipping, autocast, padding a
batch to its longest text), without what the Trainer does besides. cuDNN's attention is left out, as
ours leaves it out: its gradients may be NaN, and it prepares itself for every length of a text."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch.nn.attention import sdpa_kernel
from torch.utils.data import DataLoader

from glassformer.core.attention.sdpa import SOUND
from glassformer.train.recipe import Recipe, TrainSettings

Features = list[dict[str, Any]]


class Peer:
    """One recipe: read, tokenized, trained, judged."""

    def __init__(self, recipe: Recipe, device: str) -> None:
        (objective,) = recipe.objective
        self.recipe, self.device = recipe, device
        room = hf.AutoConfig.from_pretrained(recipe.model.base).max_position_embeddings
        self.length = int(objective.options.get("max_length") or room)
        hf.set_seed(recipe.train.seed)
        hf.logging.set_verbosity_error()
        hf.logging.disable_progress_bar()

    # --- What the tasks differ in ---

    heads: Any  # the auto class
    encode: Callable[[Sequence[dict[str, Any]]], Features]

    def collate(self, features: Features) -> dict[str, torch.Tensor]:
        return dict(hf.DataCollatorWithPadding(self.tokenizer)(features))

    def scores(self, records: Sequence[dict[str, Any]]) -> dict[str, float]:
        raise NotImplementedError

    # --- What they share ---

    @sdpa_kernel(SOUND)
    def run(self) -> dict[str, Any]:
        begun = time.perf_counter()
        records = [one for file in self.recipe.data.train for one in read(file)]
        self.labels = sorted({label for one in records for label in self.labels_of(one)})
        self.tokenizer = hf.AutoTokenizer.from_pretrained(self.recipe.model.base)
        features = self.encode(records)
        self.model = self.make_model()
        trained = self.train(features)
        found = self.scores([one for file in self.recipe.data.test for one in read(file)])
        self.model.save_pretrained(self.recipe.run.out)
        return {**found, "seconds": time.perf_counter() - begun, "training": trained}

    def labels_of(self, record: dict[str, Any]) -> list[str]:
        return []

    def make_model(self) -> Any:
        said = self.recipe.model
        options = {"num_labels": len(self.labels)} if self.labels else {}
        model = self.heads.from_pretrained(said.base, dtype=torch.float32, **options)
        if self.recipe.train.freeze_base:  # the pooler is a part of the head, there as here
            for part in (model.bert.embeddings, model.bert.encoder):
                part.requires_grad_(False)
        if self.recipe.adapter is not None:
            import peft

            given = self.recipe.adapter.options
            lora = peft.LoraConfig(
                r=given["rank"],
                lora_alpha=16,
                target_modules=list(given["target_modules"]),
                modules_to_save=["classifier"],
            )
            model = peft.get_peft_model(model, lora)
        return model.to(self.device)

    def train(self, features: Features) -> float:
        said, model = self.recipe.train, self.model.train()
        learns = [p for p in model.parameters() if p.requires_grad]
        optimizer = fused_adamw(learns, said)
        schedule = hf.get_linear_schedule_with_warmup(
            optimizer, said.num_warmup_steps, said.max_steps
        )
        cuda = self.device == "cuda"
        loader: Any = DataLoader(
            features,  # type: ignore[arg-type]
            batch_size=said.batch_size,
            shuffle=True,
            collate_fn=self.collate,
            pin_memory=cuda,
        )
        begun = time.perf_counter()
        for batch in self.steps(loader, said.max_steps):
            moved = {k: v.to(self.device, non_blocking=cuda) for k, v in batch.items()}
            with self.autocast():
                loss = model(**moved).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learns, said.max_grad_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        loss.item()  # a GPU is waited for
        return time.perf_counter() - begun

    @staticmethod
    def steps(loader: Any, count: int) -> Iterator[dict[str, torch.Tensor]]:
        while True:
            for batch in loader:
                if count == 0:
                    return
                count -= 1
                yield batch

    def autocast(self) -> Any:
        narrow = self.recipe.train.precision == "bfloat16"
        return torch.autocast(self.device, torch.bfloat16, enabled=narrow)

    @torch.inference_mode()
    def logits(self, features: Features, *names: str) -> Iterator[list[torch.Tensor]]:
        """Batch by batch, in their order."""
        self.model.eval()
        for start in range(0, len(features), self.recipe.train.batch_size):
            batch = self.collate(features[start : start + self.recipe.train.batch_size])
            moved = {k: v.to(self.device) for k, v in batch.items()}
            with self.autocast():
                said = self.model(**moved)
            yield [said[name].float() for name in names]


def fused_adamw(learns: Sequence[torch.nn.Parameter], said: TrainSettings) -> torch.optim.AdamW:
    """As the recipe says; vectors do not decay."""
    groups = [
        {"params": [p for p in learns if p.ndim > 1], "weight_decay": said.weight_decay},
        {"params": [p for p in learns if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=said.learning_rate, **said.options, fused=True)


def read(file: str) -> list[dict[str, Any]]:
    text = Path(file).read_text("utf-8")
    if file.endswith(".jsonl"):
        return [json.loads(line) for line in text.split("\n") if line]
    if file.endswith(".json"):
        return [
            {"context": part["context"], **asked}
            for article in json.loads(text)["data"]
            for part in article["paragraphs"]
            for asked in part["qas"]
        ]
    found: list[dict[str, Any]] = [{"words": [], "tags": []}]
    for line in text.split("\n"):
        cells = line.split("\t") if "\t" in line else line.split()
        if line.strip():
            found[-1]["words"].append(cells[0])
            found[-1]["tags"].append(cells[-1])
        elif found[-1]["words"]:
            found.append({"words": [], "tags": []})
    return [one for one in found if one["words"]]
