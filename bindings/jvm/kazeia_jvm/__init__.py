"""libkazeia_tts: Kazeia for the JVM and for C. `python -m kazeia_jvm.build` makes the library."""
