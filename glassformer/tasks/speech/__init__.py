"""Parts of speech recognition: audio windows, voice activity, decoding, word times, formats."""
