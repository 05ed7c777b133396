/* MODEL [PYTHON]: load once, with a Python if one is given; print "ok", or the error's kind and message. */
#include "check.h"

int main(int count, char **arguments) {
    CHECK(count == 2 || count == 3);
    kz_engine engine = kz_load(arguments[1], F32, count == 3 ? arguments[2] : NULL);
    if (engine == 0) {
        printf("%s: %s\n", kz_last_error_kind(), kz_last_error());
        return 2;
    }
    CHECK(kz_load(arguments[1], F32, "/bin/sh") == 0); /* too late for another */
    CHECK_ERROR("PythonError", "already runs");
    if (count == 3) CHECK(kz_load(arguments[1], F32, arguments[2]) > engine);
    CHECK(kz_free(engine) == KZ_OK);
    puts("ok");
    return 0;
}
