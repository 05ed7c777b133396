/* The JVM's face: com.kazeia.tts.TtsJni over the C API. Nothing here knows Python. */
#include <jni.h>
#include <stdlib.h>
#include <string.h>

#include "kz_internal.h"

#define RAW_SPEECH "com/kazeia/tts/TtsJni$RawSpeech"
#define RAW_SPEECH_INIT "([SI[IIJLjava/lang/String;Ljava/lang/String;Ljava/lang/String;[D)V"
#define EXCEPTION "com/kazeia/tts/TtsException"
#define EXCEPTION_INIT "(Ljava/lang/String;Ljava/lang/String;)V"

/* A Java string's UTF-16, for as long as the call lasts. */
typedef struct {
    jstring java;
    const jchar *units;
    kz_string string;
} borrowed;

static int borrow(JNIEnv *env, jstring java, borrowed *out) {
    memset(out, 0, sizeof *out);
    if (java == NULL) return KZ_OK;
    out->java = java;
    out->units = (*env)->GetStringChars(env, java, NULL);
    if (out->units == NULL) return KZ_ERROR; /* an OutOfMemoryError is pending */
    out->string.data = out->units;
    out->string.bytes = (size_t)(*env)->GetStringLength(env, java) * sizeof(jchar);
    out->string.encoding = KZ_UTF16;
    return KZ_OK;
}

static void give_back(JNIEnv *env, borrowed *string) {
    if (string->units != NULL) (*env)->ReleaseStringChars(env, string->java, string->units);
}

/* NewStringUTF takes the JVM's own dialect of UTF-8, in which an emoji is six bytes: let String decode. */
static jstring to_java(JNIEnv *env, const char *text) {
    jsize length = (jsize)strlen(text);
    jclass string = (*env)->FindClass(env, "java/lang/String");
    jbyteArray bytes = (*env)->NewByteArray(env, length);
    jstring encoding = (*env)->NewStringUTF(env, "UTF-8");
    if (string == NULL || bytes == NULL || encoding == NULL) return NULL;
    (*env)->SetByteArrayRegion(env, bytes, 0, length, (const jbyte *)text);
    jmethodID init = (*env)->GetMethodID(env, string, "<init>", "([BLjava/lang/String;)V");
    return init != NULL ? (*env)->NewObject(env, string, init, bytes, encoding) : NULL;
}

/* The path of a Python as UTF-8; NULL with an exception pending when it cannot be had. */
static char *to_path(JNIEnv *env, jstring java) {
    jclass string = (*env)->FindClass(env, "java/lang/String");
    jstring encoding = (*env)->NewStringUTF(env, "UTF-8");
    jmethodID encode = string != NULL && encoding != NULL
                           ? (*env)->GetMethodID(env, string, "getBytes", "(Ljava/lang/String;)[B")
                           : NULL;
    jbyteArray bytes = encode != NULL ? (*env)->CallObjectMethod(env, java, encode, encoding) : NULL;
    if (bytes == NULL || (*env)->ExceptionCheck(env)) return NULL;
    jsize length = (*env)->GetArrayLength(env, bytes);
    char *path = calloc((size_t)length + 1, 1);
    if (path != NULL) (*env)->GetByteArrayRegion(env, bytes, 0, length, (jbyte *)path);
    return path;
}

/* Throw this thread's last error, unless something is on its way already. */
static void throw_last_error(JNIEnv *env) {
    if ((*env)->ExceptionCheck(env)) return;
    jstring message = to_java(env, kz_last_error());
    jstring kind = message != NULL ? to_java(env, kz_last_error_kind()) : NULL;
    jclass exception = kind != NULL ? (*env)->FindClass(env, EXCEPTION) : NULL;
    jmethodID init = exception != NULL ? (*env)->GetMethodID(env, exception, "<init>", EXCEPTION_INIT) : NULL;
    jobject error = init != NULL ? (*env)->NewObject(env, exception, init, message, kind) : NULL;
    if (error != NULL) (*env)->Throw(env, error);
}

static jshortArray to_shorts(JNIEnv *env, const int16_t *pcm, size_t samples) {
    jshortArray array = (*env)->NewShortArray(env, (jsize)samples);
    if (array != NULL) (*env)->SetShortArrayRegion(env, array, 0, (jsize)samples, pcm);
    return array;
}

/* A RawSpeech with the speech's contents, which are let go of. NULL with an exception pending. */
static jobject to_raw(JNIEnv *env, kz_speech *s) {
    const double times[] = {s->timings.prefill_s,     s->timings.talker_s, s->timings.predictor_s,
                            s->timings.decoder_s,     s->timings.first_audio_s,
                            s->timings.total_s,       s->timings.audio_s};
    const jsize time_count = sizeof times / sizeof *times, code_count = (jsize)(s->frames * s->codebooks);
    jobject raw = NULL;
    jshortArray pcm = to_shorts(env, s->pcm, s->samples);
    jintArray codes = pcm != NULL ? (*env)->NewIntArray(env, code_count) : NULL;
    jdoubleArray seconds = codes != NULL ? (*env)->NewDoubleArray(env, time_count) : NULL;
    jstring voice = seconds != NULL ? to_java(env, s->voice) : NULL;
    jstring language = voice != NULL ? to_java(env, s->language) : NULL;
    jstring reason = language != NULL ? to_java(env, s->finish_reason) : NULL;
    jclass type = reason != NULL ? (*env)->FindClass(env, RAW_SPEECH) : NULL;
    jmethodID init = type != NULL ? (*env)->GetMethodID(env, type, "<init>", RAW_SPEECH_INIT) : NULL;
    if (init != NULL) {
        (*env)->SetIntArrayRegion(env, codes, 0, code_count, s->codes);
        (*env)->SetDoubleArrayRegion(env, seconds, 0, time_count, times);
        raw = (*env)->NewObject(env, type, init, pcm, (jint)s->sample_rate, codes, (jint)s->codebooks,
                                (jlong)s->seed, voice, language, reason, seconds);
    }
    kz_speech_free(s);
    return raw;
}

/* A stream's way back into the JVM. */
typedef struct {
    JNIEnv *env;
    jobject sink;
    jmethodID on_chunk;
} listener;

static int on_chunk(const int16_t *pcm, size_t samples, int32_t sample_rate, void *user) {
    listener *to = user;
    JNIEnv *env = to->env;
    if ((*env)->PushLocalFrame(env, 4) != 0) return 0;
    jshortArray array = to_shorts(env, pcm, samples);
    jboolean more = JNI_FALSE;
    if (array != NULL) more = (*env)->CallBooleanMethod(env, to->sink, to->on_chunk, array, (jint)sample_rate);
    int thrown = (*env)->ExceptionCheck(env); /* it stays pending, and ends the stream */
    (*env)->PopLocalFrame(env, NULL);
    return more && !thrown;
}

JNIEXPORT jlong JNICALL Java_com_kazeia_tts_TtsJni_nativeLoad(JNIEnv *env, jclass type, jstring model,
                                                              jstring options, jstring python) {
    (void)type;
    borrowed name, settings;
    kz_engine engine = 0;
    char *path = python != NULL ? to_path(env, python) : NULL;
    if (python != NULL && path == NULL) {
        kz_fail("MemoryError", "out of memory");
    } else if (borrow(env, model, &name) == KZ_OK) {
        if (borrow(env, options, &settings) == KZ_OK) {
            engine = kz_load_string(name.string, settings.string, path);
            give_back(env, &settings);
        }
        give_back(env, &name);
    }
    free(path);
    if (engine == 0) throw_last_error(env);
    return engine;
}

JNIEXPORT jobject JNICALL Java_com_kazeia_tts_TtsJni_nativeSynthesize(JNIEnv *env, jclass type, jlong engine,
                                                                      jstring text, jstring options) {
    (void)type;
    borrowed words, settings;
    kz_speech speech;
    int done = KZ_ERROR;
    if (borrow(env, text, &words) == KZ_OK) {
        if (borrow(env, options, &settings) == KZ_OK) {
            done = kz_synthesize_string(engine, words.string, settings.string, &speech);
            give_back(env, &settings);
        }
        give_back(env, &words);
    }
    if (done == KZ_OK) return to_raw(env, &speech);
    throw_last_error(env);
    return NULL;
}

JNIEXPORT jobject JNICALL Java_com_kazeia_tts_TtsJni_nativeStream(JNIEnv *env, jclass type, jlong engine,
                                                                  jstring text, jstring options, jobject sink) {
    (void)type;
    borrowed words, settings;
    kz_speech speech;
    listener to = {env, sink, NULL};
    int done = KZ_ERROR;
    if (sink == NULL) {
        kz_fail("OptionError", "the sink is null; expected a TtsJni.Sink");
    } else {
        to.on_chunk = (*env)->GetMethodID(env, (*env)->GetObjectClass(env, sink), "onChunk", "([SI)Z");
        if (to.on_chunk != NULL && borrow(env, text, &words) == KZ_OK) {
            if (borrow(env, options, &settings) == KZ_OK) {
                done = kz_stream_string(engine, words.string, settings.string, on_chunk, &to, &speech);
                give_back(env, &settings);
            }
            give_back(env, &words);
        }
    }
    if (done == KZ_OK) return to_raw(env, &speech);
    if (done == KZ_ERROR) throw_last_error(env);
    return NULL;
}

JNIEXPORT void JNICALL Java_com_kazeia_tts_TtsJni_nativeFree(JNIEnv *env, jclass type, jlong engine) {
    (void)type;
    if (kz_free(engine) != KZ_OK) throw_last_error(env);
}

JNIEXPORT jstring JNICALL Java_com_kazeia_tts_TtsJni_nativeVersion(JNIEnv *env, jclass type) {
    (void)type;
    return to_java(env, kz_version());
}
