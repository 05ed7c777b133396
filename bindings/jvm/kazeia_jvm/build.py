"""Build libkazeia_tts.so: `python -m kazeia_jvm.build`, with the Python that is to run inside it.

Needs a C compiler, that Python's headers and shared library, and a JDK's jni.h.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
LIBRARY = "libkazeia_tts.so"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic")


class BuildError(Exception):
    """The library cannot be built; the message says what is missing and what to do."""


def find_compiler() -> list[str]:
    """The C compiler: CC, or the first of cc, gcc, clang."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise BuildError("found no C compiler (cc, gcc or clang); install one, or name it in CC")


def find_jdk() -> Path:
    """The JDK's folder: JAVA_HOME, or where `javac` leads."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac")
    places = [Path(home)] if home else []
    if javac:
        places.append(Path(javac).resolve().parents[1])
    for place in places:
        if (place / "include" / "jni.h").is_file():
            return place
    looked = f" (looked in {', '.join(map(str, places))})" if places else ""
    raise BuildError(
        f"found no JDK with include/jni.h{looked}; install one, such as Debian's openjdk-17-jdk-headless, "
        "and set JAVA_HOME to it; or build the C API alone with --no-jni"
    )


def python_flags() -> tuple[list[str], list[str]]:
    """This Python's (compiler, linker) flags."""
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").is_file():
        raise BuildError(
            f"found no Python.h in {include}; install this Python's headers, such as Debian's python3-dev"
        )
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        raise BuildError(
            f"{sys.executable} has no shared libpython, which a library needs to run Python inside another "
            "program; take one that has (Debian's python3-dev, a conda or uv Python, pyenv with "
            "PYTHON_CONFIGURE_OPTS=--enable-shared)"
        )
    name = f"python{sysconfig.get_config_var('LDVERSION')}"
    # A Python that was moved after it was built still names the old place in LIBDIR.
    places = [Path(sys.base_prefix) / "lib", Path(sysconfig.get_config_var("LIBDIR") or sys.base_prefix)]
    places.append(places[-1] / (sysconfig.get_config_var("MULTIARCH") or ""))
    for folder in places:
        if (folder / f"lib{name}.so").exists():
            return [f"-I{include}"], [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{name}"]
    looked = ", ".join(map(str, places))
    raise BuildError(
        f"found no lib{name}.so (looked in {looked}); install it, such as with Debian's python3-dev"
    )


def kazeia_version() -> str:
    """The version of the package that this library is made for."""
    try:
        return version("kazeia")
    except PackageNotFoundError:
        raise BuildError(
            f"{sys.executable} has no package kazeia; install it there, or build with the Python that has it"
        ) from None


def bridge_header() -> str:
    """bridge.py as a C array, so that the library needs no file beside it."""
    data = (HOME / "kazeia_jvm" / "bridge.py").read_bytes() + b"\0"
    rows = (", ".join(map(str, data[i : i + 20])) for i in range(0, len(data), 20))
    return "static const unsigned char KZ_BRIDGE[] = {\n" + ",\n".join(rows) + "};\n"


def build(out: Path, *, jni: bool = True, flags: Sequence[str] = (), verbose: bool = False) -> Path:
    """Build the library into the folder `out`; returns its path.

    jni: with the JVM's functions, which needs a JDK. flags: more for the compiler. The environment's
    CC, CFLAGS and LDFLAGS are heeded. Raises BuildError.
    """
    if sys.platform != "linux":
        raise BuildError(f"this build knows Linux only; found {sys.platform}")
    sources = ["kz_error.c", "kz_find.c", "kz_python.c", "kz_api.c"]
    include, link = python_flags()
    if jni:
        jdk = find_jdk() / "include"
        sources.append("kz_jni.c")
        include += [f"-I{jdk}", f"-I{jdk / 'linux'}"]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        work = Path(folder)
        (work / "kz_bridge.h").write_text(bridge_header(), encoding="utf-8")
        command = [
            *find_compiler(),
            *(
                "-std=c11",
                "-D_GNU_SOURCE",
                "-O2",
                "-fPIC",
                "-shared",
                "-fvisibility=hidden",
                "-pthread",
                *WARNINGS,
            ),
            f"-DKZ_PYTHON={_c_string(sys.executable)}",
            f"-DKZ_VERSION={_c_string(kazeia_version())}",
            *(f"-I{HOME / 'include'}", f"-I{HOME / 'native'}", f"-I{work}", *include),
            *shlex.split(os.environ.get("CFLAGS", "")),
            *flags,
            *("-o", str(work / LIBRARY), f"-Wl,-soname,{LIBRARY}"),
            *(str(HOME / "native" / name) for name in sources),
            *link,
            *shlex.split(os.environ.get("LDFLAGS", "")),
            "-ldl",
        ]
        if verbose:
            print(shlex.join(command), file=sys.stderr)
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise BuildError(f"the C compiler cannot be run: {error}") from error
        if done.returncode != 0:
            raise BuildError(f"the C compiler failed:\n{done.stderr.strip()}")
        # Whole or not at all; a program that runs the old one keeps it.
        os.replace(work / LIBRARY, out / LIBRARY)
    return out / LIBRARY


def _c_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m kazeia_jvm.build", description="Build " + LIBRARY + ".")
    parser.add_argument(
        "--out", type=Path, default=HOME / "build", help="folder of the library (%(default)s)"
    )
    parser.add_argument("--no-jni", action="store_true", help="the C API alone; needs no JDK")
    parser.add_argument("--verbose", action="store_true", help="show the compiler's command")
    given = parser.parse_args(arguments)
    try:
        print(build(given.out, jni=not given.no_jni, verbose=given.verbose))
    except BuildError as error:
        print(f"kazeia_jvm.build: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
