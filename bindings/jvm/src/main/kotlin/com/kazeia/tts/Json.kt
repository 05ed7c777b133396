package com.kazeia.tts

/** A JSON object of those fields that are not null: texts, numbers, and samplings. */
internal fun jsonObject(vararg fields: Pair<String, Any?>): String =
    fields.filter { it.second != null }.joinToString(", ", "{", "}") { jsonString(it.first) + ": " + jsonValue(it.second) }

private fun jsonValue(value: Any?): String = when (value) {
    is String -> jsonString(value)
    is Sampling -> value.toJson()
    else -> value.toString() // NaN and Infinity are for the library to refuse, by name
}

private fun jsonString(text: String): String {
    val out = StringBuilder("\"")
    for (char in text) {
        if (char == '"' || char == '\\') out.append('\\')
        if (char < ' ') out.append(String.format("\\u%04x", char - '\u0000')) else out.append(char)
    }
    return out.append('"').toString()
}
