"""The other side of written.py: transformers' own model, from the weights that ours starts from, in
a plain loop that does what its Seq2SeqTrainer does, as the recipe says: fused AdamW, the schedule,
bfloat16 by autocast, smoothed labels, clipping, batches by length and padded as they come. The
average of the weights, which the Trainer has no word for, is torch's. cuDNN's attention is left out
(recipes/hugging.py says why)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hugging import fused_adamw
from torch.nn.attention import sdpa_kernel
from torch.nn.utils.rnn import pad_sequence
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    PreTrainedTokenizerFast,
    logging,
    set_seed,
)
from written_data import lines_of

from glassformer.core.attention.sdpa import SOUND
from glassformer.train.recipe import Recipe
from glassformer.train.schedules import schedule

logging.set_verbosity_error()
logging.disable_progress_bar()
IGNORED, EVEN = -100, 8
Example = dict[str, torch.Tensor]
Pair = tuple[str, str]


class Peer:
    """A model of transformers with its tokenizer, trained and writing."""

    def __init__(self, start: Path, recipe: Recipe, device: torch.device) -> None:
        self.recipe, self.device = recipe, device
        self.options = recipe.objective[0].options
        self.alone = recipe.objective[0].name == "continuation"
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(start)
        kind: Any = AutoModelForCausalLM if self.alone else AutoModelForSeq2SeqLM
        self.model = kind.from_pretrained(start, dtype=torch.float32).to(device)
        self.laid_out = self.model.config.task_specific_params["text2text"]
        set_seed(recipe.train.seed)

    # --- texts to batches ----------------------------------------------------------------------

    def examples(self, files: Sequence[str]) -> list[Example]:
        pairs = list(self.pairs(files))
        sources, targets = (self.ids([pair[side] for pair in pairs]) for side in (0, 1))
        eos = self.tokenizer.eos_token_id
        made = []
        for source, target in zip(sources, targets, strict=True):
            if self.alone:
                room = self.laid_out["length"] - len(self.laid_out["separator"])
                target = [*target, eos][:room]
                before = [*source[max(0, len(source) + len(target) - room) :]]
                before += self.laid_out["separator"]
                labels = [IGNORED] * len(before) + target
                made.append({"input_ids": before + target, "labels": labels})
            else:
                source = source[: self.options["max_source_length"]]
                target = [*target[: self.options["max_target_length"] - 1], eos]
                made.append({"input_ids": source, "labels": target})
        return [{k: torch.tensor(ids) for k, ids in example.items()} for example in made]

    def pairs(self, files: Sequence[str]) -> Iterator[Pair]:
        data = self.recipe.data
        if data.format == "parallel":
            yield from zip(*map(lines_of, files), strict=True)
            return
        names = [data.columns.get(name, name) for name in ("source", "target")]
        for line in lines_of(files[0]):
            source, target = (json.loads(line)[name] for name in names)
            source = " ".join(source) if isinstance(source, list) else source
            for one in target if isinstance(target, list) else [target]:
                if source and one:
                    yield source, one

    def ids(self, texts: list[str]) -> list[list[int]]:
        return self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []

    def collate(self, examples: Sequence[Example]) -> Example:
        padded = {"input_ids": self.tokenizer.pad_token_id or 0, "labels": IGNORED}
        batch = {}
        for name, fill in padded.items():
            rows = pad_sequence([one[name] for one in examples], True, fill)
            batch[name] = F.pad(rows, (0, -rows.shape[1] % EVEN), value=fill)
        lengths = torch.tensor([len(one["input_ids"]) for one in examples])
        batch["attention_mask"] = (torch.arange(batch["input_ids"].shape[1]) < lengths[:, None]) * 1
        return batch

    def batches(self, lengths: np.ndarray, rng: np.random.Generator) -> list[list[int]]:
        """Rows of like length, as many as the recipe's tokens hold, shuffled anew."""
        rounded = -(-lengths // EVEN) * EVEN
        order = np.lexsort((rng.random(len(lengths)), rounded))
        made, row = [], len(order)
        while row > 0:  # from the longest on
            fitting = max(1, self.recipe.data.tokens_per_batch // int(rounded[order[row - 1]]))
            made.append(order[max(0, row - fitting) : row].tolist())
            row -= fitting
        return [made[i] for i in rng.permutation(len(made))]

    # --- learning ------------------------------------------------------------------------------

    @sdpa_kernel(SOUND)
    def train(self) -> float:
        """All steps; the perplexity of the validation files is what comes back."""
        settings, model = self.recipe.train, self.model
        learned = self.examples(self.recipe.data.train)
        lengths = np.array([max(map(len, one.values())) for one in learned])
        rng = np.random.default_rng(settings.seed)

        def numbers() -> Iterator[list[int]]:
            left = settings.max_steps
            while left > 0:
                epoch = self.batches(lengths, rng)[:left]
                left -= len(epoch)
                yield from epoch

        gpu = self.device.type == "cuda"
        sampler: Any = numbers()
        reading = DataLoader(learned, batch_sampler=sampler, collate_fn=self.collate,  # type: ignore[arg-type]
                             pin_memory=gpu)  # fmt: skip
        optimizer = fused_adamw(list(model.parameters()), settings)
        falling = torch.optim.lr_scheduler.LambdaLR(
            optimizer, schedule(settings, model.config.hidden_size)
        )
        average = None
        if settings.ema_decay:
            average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(settings.ema_decay))
            average.n_averaged.fill_(1)  # from the weights it starts with, as ours
        model.train()
        for batch in reading:
            with self.autocast():
                loss = self.loss(batch, self.options.get("label_smoothing", 0.0))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimizer.step()
            falling.step()
            optimizer.zero_grad()
            if average is not None:
                average.update_parameters(model)
        if average is not None:
            self.model = average.module
        return self.perplexity(self.examples(self.recipe.data.validation))

    def loss(self, batch: Example, smoothing: float, reduction: str = "mean") -> torch.Tensor:
        given = {name: rows.to(self.device, non_blocking=True) for name, rows in batch.items()}
        labels = given.pop("labels")
        if not self.alone:
            prepare = self.model.prepare_decoder_input_ids_from_labels
            given["decoder_input_ids"] = prepare(labels=labels)
        logits = self.model(**given, use_cache=False).logits
        if self.alone:
            logits, labels = logits[:, :-1], labels[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(),
                               label_smoothing=smoothing, reduction=reduction)  # fmt: skip

    @torch.no_grad()
    def perplexity(self, examples: Sequence[Example]) -> float:
        self.model.eval()
        lengths = np.array([max(map(len, one.values())) for one in examples])
        total = count = 0.0
        for numbers in self.batches(lengths, np.random.default_rng(0)):
            batch = self.collate([examples[i] for i in numbers])
            with self.autocast():
                total += float(self.loss(batch, 0.0, "sum"))
            asked = batch["labels"][:, 1:] if self.alone else batch["labels"]
            count += int(asked.ne(IGNORED).sum())
        return math.exp(total / count)

    def autocast(self) -> Any:
        narrow = self.recipe.train.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=narrow)

    # --- writing -------------------------------------------------------------------------------

    @sdpa_kernel(SOUND)
    @torch.inference_mode()
    def write(self, texts: Sequence[str], at_once: int, **settings: Any) -> list[str]:
        """By its own `generate`, so many texts at once, in the order of their length."""
        self.model.eval()
        sources = self.ids(list(texts))
        if self.alone:
            behind = self.laid_out["separator"]
            room = self.laid_out["length"] - settings["max_new_tokens"] - len(behind)
            sources = [[*ids[max(0, len(ids) - room) :], *behind] for ids in sources]
        else:
            sources = [ids[: self.laid_out["length"]] for ids in sources]
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        written = {}
        fill = self.tokenizer.pad_token_id or 0
        side = "left" if self.alone else "right"
        for first in range(0, len(order), at_once):
            some = order[first : first + at_once]
            rows = [torch.tensor(sources[i]) for i in some]
            read = pad_sequence(rows, True, fill, padding_side=side)
            real = pad_sequence([torch.ones_like(row) for row in rows], True, padding_side=side)
            ids = self.model.generate(
                input_ids=read.to(self.device),
                attention_mask=real.to(self.device),
                do_sample=False,
                pad_token_id=fill,
                eos_token_id=self.tokenizer.eos_token_id,
                **settings,
            )
            new = ids[:, read.shape[1] :] if self.alone else ids
            said = self.tokenizer.batch_decode(new, skip_special_tokens=True)
            written |= dict(zip(some, map(str.strip, said), strict=True))
        return [written[i] for i in range(len(sources))]


def train_peer(start: Path, recipe: Recipe, device: torch.device) -> tuple[Peer, dict[str, Any]]:
    begun = time.perf_counter()
    peer = Peer(start, recipe, device)
    perplexity = peer.train()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return peer, {"seconds": time.perf_counter() - begun, "perplexity": perplexity}
