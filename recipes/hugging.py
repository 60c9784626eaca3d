"""transformers' side of recipes/tuned.py: the same recipe, by its classes and its tokenizers, in a
plain loop that does what its Trainer does (AdamW, linear schedule, clipping, autocast, padding a
batch to its longest text), without what the Trainer does besides."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch.utils.data import DataLoader

from glassformer.metrics.answers import exact_match, word_f1
from glassformer.metrics.entities import entity_scores
from glassformer.train.recipe import Recipe

Features = list[dict[str, Any]]
STRIDE, LONGEST = 128, 30  # of windows, and of answers, in tokens


class Peer:
    """One recipe: read, tokenized, trained, judged."""

    def __init__(self, recipe: Recipe, device: str) -> None:
        (objective,) = recipe.objective
        self.recipe, self.device = recipe, device
        self.length = int(objective.options.get("length") or recipe.model.context or 512)
        hf.set_seed(recipe.train.seed)

    # --- What the tasks differ in ---

    heads: Any  # the auto class
    encode: Callable[[Sequence[dict[str, Any]]], Features]

    def collate(self, features: Features) -> dict[str, torch.Tensor]:
        return dict(hf.DataCollatorWithPadding(self.tokenizer)(features))

    def scores(self, records: Sequence[dict[str, Any]]) -> dict[str, float]:
        raise NotImplementedError

    # --- What they share ---

    def run(self) -> dict[str, Any]:
        begun = time.perf_counter()
        records = [one for file in self.recipe.data.train for one in read(file)]
        self.labels = sorted({label for one in records for label in self.labels_of(one)})
        self.tokenizer = self.make_tokenizer(records)
        features = self.encode(records)
        self.model = self.make_model()
        trained = self.train(features)
        found = self.scores([one for file in self.recipe.data.test for one in read(file)])
        self.model.save_pretrained(self.recipe.run.folder)
        return {**found, "seconds": time.perf_counter() - begun, "training": trained}

    def labels_of(self, record: dict[str, Any]) -> list[str]:
        return []

    def make_tokenizer(self, records: Sequence[dict[str, Any]]) -> Any:
        if self.recipe.model.folder is not None:
            return hf.AutoTokenizer.from_pretrained(self.recipe.model.folder)
        from tokenizers import BertWordPieceTokenizer

        learned = BertWordPieceTokenizer(lowercase=False)
        texts = ("".join(one["words"]) if "words" in one else one["text"] for one in records)
        learned.train_from_iterator(texts, vocab_size=self.recipe.tokenizer.size)
        names = {f"{n}_token": f"[{n.upper()}]" for n in ("unk", "sep", "pad", "cls", "mask")}
        return hf.PreTrainedTokenizerFast(tokenizer_object=learned._tokenizer, **names)

    def make_model(self) -> Any:
        said = self.recipe.model
        options = {"num_labels": len(self.labels)} if self.labels else {}
        if said.folder is not None:
            model = self.heads.from_pretrained(said.folder, dtype=torch.float32, **options)
        else:
            sizes = {
                "num_hidden_layers": said.layers,
                "num_attention_heads": said.heads,
                "hidden_size": said.width,
                "intermediate_size": said.ffn,
                "max_position_embeddings": said.context,
            }
            sizes |= dict.fromkeys(
                ("hidden_dropout_prob", "attention_probs_dropout_prob"),
                0.1 if said.dropout is None else said.dropout,
            )
            config = hf.BertConfig(vocab_size=len(self.tokenizer), **sizes, **options)
            model = self.heads.from_config(config)
        if self.recipe.train.freeze_body:  # the pooler is a part of the head, there as here
            for part in (model.bert.embeddings, model.bert.encoder):
                part.requires_grad_(False)
        if self.recipe.adapter is not None:
            import peft

            given = self.recipe.adapter.options
            lora = peft.LoraConfig(
                r=given["rank"],
                lora_alpha=16,
                target_modules=list(given["targets"]),
                modules_to_save=["classifier"],
            )
            model = peft.get_peft_model(model, lora)
        return model.to(self.device)

    def train(self, features: Features) -> float:
        said, model = self.recipe.train, self.model.train()
        learns = [p for p in model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in learns if p.ndim > 1], "weight_decay": said.weight_decay},
            {"params": [p for p in learns if p.ndim < 2], "weight_decay": 0.0},
        ]
        options: dict[str, Any] = {"lr": said.learning_rate, "betas": said.betas, "fused": True}
        optimizer = torch.optim.AdamW(groups, **options)
        schedule = hf.get_linear_schedule_with_warmup(optimizer, said.warmup, said.steps)
        cuda = self.device == "cuda"
        loader: Any = DataLoader(
            features,  # type: ignore[arg-type]
            batch_size=said.batch,
            shuffle=True,
            collate_fn=self.collate,
            pin_memory=cuda,
        )
        begun = time.perf_counter()
        for batch in self.steps(loader, said.steps):
            moved = {k: v.to(self.device, non_blocking=cuda) for k, v in batch.items()}
            with self.autocast():
                loss = model(**moved).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learns, said.clip)
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
        """Batch by batch; texts of like length together, as the Trainer can, in their order."""
        self.model.eval()
        for start in range(0, len(features), self.recipe.train.batch):
            batch = self.collate(features[start : start + self.recipe.train.batch])
            moved = {k: v.to(self.device) for k, v in batch.items()}
            with self.autocast():
                said = self.model(**moved)
            yield [said[name].float() for name in names]


class Classify(Peer):
    heads = hf.AutoModelForSequenceClassification

    def labels_of(self, record: dict[str, Any]) -> list[str]:
        return [str(record["label"])]

    def encode(self, records: Sequence[dict[str, Any]]) -> Features:
        texts = [one["text"] for one in records]
        encoded = self.tokenizer(texts, truncation=True, max_length=self.length)
        numbers = {label: number for number, label in enumerate(self.labels)}
        rows: Features = [
            dict(zip(encoded, row, strict=True)) for row in zip(*encoded.values(), strict=True)
        ]
        for row, one in zip(rows, records, strict=True):
            row["labels"] = numbers.get(str(one["label"]), 0)
        return rows

    def probabilities(self, records: Sequence[dict[str, Any]]) -> torch.Tensor:
        """[text, label]"""
        return torch.cat([x.softmax(-1) for (x,) in self.logits(self.encode(records), "logits")])

    def scores(self, records: Sequence[dict[str, Any]]) -> dict[str, float]:
        if not records:
            return {}
        found = self.probabilities(records).argmax(-1).tolist()
        right = [self.labels.index(str(one["label"])) for one in records]
        hits = sum(f == r for f, r in zip(found, right, strict=True))
        return {"accuracy": hits / len(right)}


class Tag(Peer):
    heads = hf.AutoModelForTokenClassification

    def labels_of(self, record: dict[str, Any]) -> list[str]:
        return list(record["tags"])

    def encode(self, records: Sequence[dict[str, Any]]) -> Features:
        """A word's tag at its first token, -100 elsewhere: as run_ner.py has it."""
        words = [one["words"] for one in records]
        options = {"truncation": True, "max_length": self.length}
        encoded = self.tokenizer(words, is_split_into_words=True, **options)
        numbers = {label: number for number, label in enumerate(self.labels)}
        rows: Features = []
        for i, one in enumerate(records):
            tags, before = [], None
            for word in encoded.word_ids(i):
                begins = word is not None and word != before
                tags.append(numbers[one["tags"][word]] if begins else -100)
                before = word
            rows.append({name: encoded[name][i] for name in encoded} | {"labels": tags})
        return rows

    def collate(self, features: Features) -> dict[str, torch.Tensor]:
        return dict(hf.DataCollatorForTokenClassification(self.tokenizer)(features))

    def scores(self, records: Sequence[dict[str, Any]]) -> dict[str, float]:
        features = self.encode(records)
        said = [
            row for (batch,) in self.logits(features, "logits") for row in batch.argmax(-1).tolist()
        ]
        pairs = [
            [(f, r) for f, r in zip(row, one["labels"], strict=False) if r != -100]
            for row, one in zip(said, features, strict=True)
        ]
        found, right = ([[self.labels[x[side]] for x in row] for row in pairs] for side in (0, 1))
        return entity_scores(found, right)


class Answer(Peer):
    heads = hf.AutoModelForQuestionAnswering

    def windows(self, records: Sequence[dict[str, Any]]) -> Any:
        return self.tokenizer(
            [one["question"].strip() for one in records],
            [one["context"] for one in records],
            truncation="only_second",
            max_length=self.length,
            stride=STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )

    def rows(self, encoded: Any) -> Features:
        read = [name for name in encoded if name in self.tokenizer.model_input_names]
        return [{name: encoded[name][i] for name in read} for i in range(len(encoded["input_ids"]))]

    def encode(self, records: Sequence[dict[str, Any]]) -> Features:
        """An answer that is not in a window is at its first token: as run_qa.py has it."""
        encoded = self.windows(records)
        rows = self.rows(encoded)
        for i, row in enumerate(rows):
            (answer, *_) = records[encoded["overflow_to_sample_mapping"][i]]["answers"]
            start = answer["answer_start"]
            stop = start + len(answer["text"])
            inside = [
                place
                for place, (whose, (a, b)) in enumerate(
                    zip(encoded.sequence_ids(i), encoded["offset_mapping"][i], strict=True)
                )
                if whose == 1 and b > start and a < stop
            ]
            spans = [encoded["offset_mapping"][i][place] for place in (inside[:1] + inside[-1:])]
            whole = bool(spans) and spans[0][0] <= start and spans[1][1] >= stop
            row["start_positions"], row["end_positions"] = (
                (inside[0], inside[-1]) if whole else (0, 0)
            )
        return rows

    def scores(self, records: Sequence[dict[str, Any]]) -> dict[str, float]:
        encoded = self.windows(records)
        best: list[tuple[float, str]] = [(float("-inf"), "")] * len(records)
        number = 0
        for starts, ends in self.logits(self.rows(encoded), "start_logits", "end_logits"):
            slots = starts.shape[1]
            inside = torch.zeros(starts.shape, dtype=torch.bool)
            for row in range(len(starts)):
                whose = encoded.sequence_ids(number + row)
                inside[row, : len(whose)] = torch.tensor([one == 1 for one in whose])
            near = torch.ones(slots, slots, dtype=torch.bool).triu().tril(LONGEST - 1)
            allowed = (near & inside[:, :, None] & inside[:, None]).to(starts.device)
            pairs = (starts[:, :, None] + ends[:, None]).masked_fill(~allowed, float("-inf"))
            score, place = pairs.flatten(1).max(-1)
            for row, (value, at) in enumerate(zip(score.tolist(), place.tolist(), strict=True)):
                asked = encoded["overflow_to_sample_mapping"][number + row]
                offsets = encoded["offset_mapping"][number + row]
                text = records[asked]["context"][offsets[at // slots][0] : offsets[at % slots][1]]
                best[asked] = max(best[asked], (value, text))
            number += len(starts)
        right = [[answer["text"] for answer in one["answers"]] for one in records]
        given = [(text, texts) for (_, text), texts in zip(best, right, strict=True)]
        return {
            "exact": sum(exact_match(*one) for one in given) / len(given),
            "f1": sum(word_f1(*one) for one in given) / len(given),
        }


PEERS: dict[str, type[Peer]] = {"classification": Classify, "tagging": Tag, "span": Answer}


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
