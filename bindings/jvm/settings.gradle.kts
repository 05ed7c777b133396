rootProject.name = "kazeia-tts"
