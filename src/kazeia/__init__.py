"""Kazeia: speech from Qwen3-TTS on an ordinary CPU."""
