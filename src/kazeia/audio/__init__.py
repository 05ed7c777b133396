"""Audio that leaves the house: WAV files and streams, and playback."""
