"""Speech recognition: a decoder writes the text of a sound that an encoder reads (Whisper)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.core.input_rules import shifted_right
from glassformer.data.record import Record, invalid
from glassformer.errors import ConfigError
from glassformer.metrics.speech import SpeechErrors
from glassformer.metrics.text_normalizers import Normalizer, normalizer_of
from glassformer.model import Model
from glassformer.spec import HeadSpec
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import head_loss, head_of
from glassformer.train.objectives.ctc import HEAD as CTC
from glassformer.train.objectives.ctc import ctc_loss, ctc_texts
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Example, RaggedColumn, Rows, column_of
from glassformer.train.objectives.sequence_level import Answer, SequenceLevelObjective
from glassformer.train.objectives.spec_augment import Augmentation, at_speed, mask_spectrograms
from glassformer.train.objectives.speech_decoding import greedy_tokens
from glassformer.train.objectives.speech_inputs import SoundInputs, SpeechTargets, stored
from glassformer.train.objectives.text_inputs import IGNORED, count, require_head, target_positions

BANDS, FRAMES = "masked_bands", "masked_frames"  # columns that `augment` adds
SPARE = 16  # tokens that a transcript may have beyond twice those of the right one
AUGMENTATION = Augmentation()


@objective("speech-recognition")
class SpeechRecognition(SequenceLevelObjective):
    """Speech recognition with columns `audio` and `text`, as Whisper is trained.

    `audio` is the path of a file, relative to the file that names it. The decoder predicts the
    language and the task (of a model that has several), the token for a text without times, the
    text and its end. Of the rows, it learns a fraction `timestamps` with times: those at which the
    text, or each of the column `segments` (objects with text, start and end in seconds), begins and
    ends. An evaluation is without times, unless all rows are with them. The language is given here
    or in the column `language`.

    Audio that is longer than `max_duration`, by default what the encoder reads, is left out and
    counted. With a `ctc_weight` w above 0, the encoder gets a second head that spells the text; the
    loss is (1 - w) times the decoder's and w times that of CTC.

    Sounds are augmented, see `Augmentation`. An evaluation writes the transcripts greedily, and
    measures their word and character errors after the `normalizer`, one of `NORMALIZERS`.
    """

    pipeline_tag = "automatic-speech-recognition"

    columns = ("audio", "text", "speaker", "language", "segments")
    fields: ClassVar = {
        "audio": np.uint8,
        "tokens": np.int32,
        "timed": np.int32,  # the tokens with times; empty unless some rows are learned with them
        "text": np.uint8,
    }
    records_per_block = 32

    def __init__(
        self,
        model: Model,
        *,
        language: str | None = None,
        timestamps: float = 0.0,
        max_duration: float | None = None,
        label_smoothing: float = 0.0,
        ctc_weight: float = 0.0,
        normalizer: Normalizer = "basic",
        augmentation: Augmentation = AUGMENTATION,
    ) -> None:
        super().__init__()
        require_head(model, "lm", "speech-recognition", "WhisperForConditionalGeneration")
        self.sounds = SoundInputs(model)
        if not 0 <= timestamps <= 1:
            raise ConfigError(
                f"objective.timestamps is the fraction of rows that are learned with times, from 0 "
                f"to 1, not {timestamps}."
            )
        self.timestamps, self.always_timed = timestamps, timestamps == 1
        self.texts = SpeechTargets(model, language, timestamps > 0)
        longest = self.sounds.processor.seconds
        self.max_duration = longest if max_duration is None else max_duration
        if not 0 < self.max_duration <= longest:
            raise ConfigError(
                f"objective.max_duration is {max_duration}; {model.architecture} hears up to "
                f"{longest:g} s."
            )
        if not 0 <= ctc_weight < 1:
            raise ConfigError(
                f"objective.ctc_weight must be at least 0 and below 1, not {ctc_weight}."
            )
        self.normalize = normalizer_of(normalizer)
        assert model.spec.decoder is not None
        self.target_length = model.spec.decoder.context_length
        self.words = next(head.num_outputs or 0 for head in model.spec.heads if head.name == "lm")
        saved = model.generation_config or model.config
        self.suppressed = tuple(saved.get("suppress_tokens") or ())
        self.suppressed_first = tuple(saved.get("begin_suppress_tokens") or ())
        self.smoothing, self.augmentation = label_smoothing, augmentation
        self.weights = {"lm": 1.0 - ctc_weight}
        if ctc_weight:
            require_head(model, "ctc", "ctc_weight", "a model that a recipe gives this head")
            self.weights["ctc"] = ctc_weight

    @classmethod
    def new_heads(cls, options: Mapping[str, Any]) -> tuple[HeadSpec, ...]:
        return (CTC,) if options.get("ctc_weight") else ()

    def prepare(self, record: Record) -> Iterable[Example]:
        samples = self.sounds.read(record)
        seconds = len(samples) / self.sounds.processor.rate
        if seconds > self.max_duration:
            self.tally.too_long += 1
            return
        tokens = self.texts.of(record, seconds, times=self.always_timed)
        mixed = self.timestamps > 0 and not self.always_timed
        timed = self.texts.of(record, seconds, times=True) if mixed else []
        longest = max(tokens, timed, key=len)
        if self.target_length is not None and len(longest) > self.target_length:
            raise invalid(
                record,
                f"the text has {len(longest)} tokens, and the decoder writes {self.target_length}",
            )
        if max(longest) >= self.words:
            raise invalid(
                record, f"the token {max(longest)} of the text is not in the model's vocabulary"
            )
        self.tally.count_sound(seconds, record.get("speaker"))
        yield {
            "audio": stored(samples),
            "tokens": np.array(tokens, dtype=np.int32),
            "timed": np.array(timed, dtype=np.int32),
            "text": np.frombuffer(record["text"].strip().encode(), np.uint8),
        }

    def augment(self, rows: Rows, draws: RowRandom) -> Rows:
        options, columns = self.augmentation, dict(rows.columns)
        if len(columns["timed"].values):
            chosen = np.where(draws.uniform("times") < self.timestamps, len(rows), 0)
            both = concatenated(columns["tokens"], columns["timed"])
            columns["tokens"] = both.take(np.arange(len(rows)) + chosen)
        if options.speed_perturbation:
            columns |= self._at_speeds(Rows(columns), draws)
        frames = self.sounds.frames(columns["audio"])
        bands = options.masked_bands(draws, self.sounds.processor.bands)
        masked = {BANDS: bands, FRAMES: options.masked_frames(draws, frames)}
        return Rows(columns | {name: one for name, one in masked.items() if one is not None})

    def _at_speeds(self, rows: Rows, draws: RowRandom) -> dict[str, RaggedColumn]:
        """Returns the sounds and tokens of rows at their drawn speeds."""
        audio, rate = rows.columns["audio"], self.sounds.processor.rate
        seconds = audio.lengths / 2 / rate
        speeds = self.augmentation.drawn_speeds(draws)
        speeds = np.where(seconds / speeds > self.sounds.processor.seconds, 1.0, speeds)
        changed = [
            stored(at_speed(torch.from_numpy(samples), speed, rate))
            for samples, speed in zip(self.sounds.samples(audio), speeds.tolist(), strict=True)
        ]
        lengths = np.array([len(one) for one in changed], np.int64)
        values = np.concatenate(changed) if changed else audio.values
        return {
            "audio": RaggedColumn(values, lengths),
            "tokens": self.texts.at_speeds(rows.columns["tokens"], speeds),
        }

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        longest = int(column_of(examples, "tokens").lengths.max())
        slots = self.padded_length(longest, self.target_length)
        return self.collate_to(examples, {"tokens": slots})

    def collate_to(self, examples: Sequence[Example], slots: Mapping[str, int]) -> TrainingBatch:
        audio, text = column_of(examples, "audio"), column_of(examples, "text")
        masked = [
            column if len(column.values) else None
            for column in (column_of(examples, BANDS), column_of(examples, FRAMES))
        ]
        features = mask_spectrograms(self.sounds.spectrograms(audio), *masked)
        length = max(slots["tokens"], slots.get("timed", 0))
        length = min(length, self.target_length or length)
        target, real = pad(examples, "tokens", length=length)
        start = torch.full((len(examples), 1), self.texts.start)
        inputs = {
            "input_features": features,
            "decoder_input_ids": shifted_right(target, real, start),
        }
        most = len(examples) * length if self.few_shapes else None
        targets = target_positions(target.masked_fill(~real, IGNORED), self.few_shapes, most)
        counts = {"lm": count(targets)}
        if "ctc" in self.weights:
            targets["letters"] = torch.from_numpy(text.values.astype(np.int64) + 1)
            targets["letter_counts"] = torch.from_numpy(text.lengths)
            targets["positions"] = torch.from_numpy(self.sounds.vectors(audio))
            counts["ctc"] = float(text.lengths.sum())
        ends = np.cumsum(text.lengths)[:-1]
        right = [part.tobytes().decode() for part in np.split(text.values, ends)]
        return TrainingBatch(
            inputs, targets, counts, int(real.sum()), {"texts": right, "longest": longest_of(real)}
        )

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        out = model(**batch.inputs, heads=("lm",), return_features=True)
        rows = out.head_outputs["lm"].flatten(0, -2).index_select(0, batch.targets["at"])
        losses = {
            "lm": head_loss(head_of(model, "lm"), rows, batch.targets["tokens"], self.smoothing)
        }
        if "ctc" in self.weights:
            logits = head_of(model, "ctc")(out.encoder_last_hidden_state, None)
            names = ("positions", "letters", "letter_counts")
            losses["ctc"] = ctc_loss(logits, *(batch.targets[name] for name in names))
        return losses

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        """Returns the texts of the decoder, with those of CTC if there are any, and the right ones.

        The first control tokens are given, as in a transcription in a known language. A transcript
        is cut after twice the tokens of the longest right one.
        """
        net: Any = model
        memory = net.encode(batch.inputs["input_features"])
        given = self.texts.prefix_length(times=self.always_timed)
        begun = batch.inputs["decoder_input_ids"][:, : 1 + given]
        room = (self.target_length or 2**15) - begun.shape[1]
        written = greedy_tokens(
            model,
            memory,
            begun,
            self.texts.end,
            min(room, 2 * batch.extra["longest"] + SPARE),
            self.suppressed,
            self.suppressed_first,
        )
        found = {"": [self.texts.text(tokens) for tokens in written]}
        if "ctc" in self.weights:
            logits = head_of(model, "ctc")(memory, None)
            found["ctc_"] = ctc_texts(logits, batch.targets["positions"].tolist())
        return [
            (dict(zip(found, texts, strict=True)), right)
            for *texts, right in zip(*found.values(), batch.extra["texts"], strict=True)
        ]

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        scores: dict[str, float] = {}
        for kind in answers[0][0]:
            errors = [SpeechErrors.of(right, own[kind], self.normalize) for own, right in answers]
            scores |= {f"{kind}{name}": value for name, value in SpeechErrors.rates(errors).items()}
        return scores


def concatenated(one: RaggedColumn, other: RaggedColumn) -> RaggedColumn:
    """Returns the rows of one column, then those of another."""
    return RaggedColumn(*(np.concatenate(sides) for sides in zip(one, other, strict=True)))


def longest_of(real: Tensor) -> int:
    return int(real.sum(1).max())
