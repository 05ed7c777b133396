package com.kazeia.tts;

/** Stands in for TtsException.kt where there is no Kotlin compiler. */
public final class TtsException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String kind;

    public TtsException(String message, String kind) {
        super(message);
        this.kind = kind;
    }

    public String getKind() {
        return kind;
    }
}
