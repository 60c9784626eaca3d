"""transformers' side of recipes/tuned.py, task by task: what its own example scripts (run_glue.py,
run_ner.py, run_qa.py) make of records and of what a model says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers as hf
from hugging import Features, Peer

from glassformer.metrics.ner import entity_scores
from glassformer.metrics.squad import exact_match, word_f1

STRIDE, LONGEST = 128, 30  # of windows, and of answers, in tokens


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
