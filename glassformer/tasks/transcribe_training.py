"""How speech recognition is trained on a user's recordings: `glassformer train transcribe`."""

from __future__ import annotations

from glassformer.spec import AudioFramesSpec
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.registry import TASKS, TaskDeclaration, TrainingData

TRAINING = TrainingData(
    columns={
        "audio": ("path", "file", "file_name", "filename", "wav", "audio_path", "audio_filepath"),
        "text": ("sentence", "transcript", "transcription", "transcript_text"),
    },
    optional={
        "speaker": ("client_id", "speaker_id", "user_id"),
        "language": ("locale", "lang"),
        "segments": (),
    },
    metric="wer",
    evaluation="speech-recognition",
)


def hears(model: TaskModel) -> bool:
    """Returns whether a model writes texts about sounds."""
    encoder = model.spec.encoder
    both = encoder is not None and model.spec.decoder is not None
    return both and encoder is not None and isinstance(encoder.embed, AudioFramesSpec)


TASKS.register(
    "transcribe",
    TaskDeclaration(head="lm", objective="speech-recognition", fits=hears, training=TRAINING),
)
