"""What `glassformer train transcribe` learns from: the columns of a file of recordings."""

from __future__ import annotations

from glassformer.tasks.registry import TrainingData

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
