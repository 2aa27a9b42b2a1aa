"""Put the host and a Python for it into one directory that can be copied anywhere.

    python runtime.py DIRECTORY HOST.PY

Run in the image's build. The agent's image may have no Python, an older C library or another one (musl,
none): so the interpreter comes with every shared library that it and its modules need, the C library and its
loader included, and is started through that loader. Only a kernel is asked for, and for the script `host` a
/bin/sh. Nothing of it reaches the agent: no variable is set, and it is started as it would have been.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

UNUSED = {
    *("__pycache__", "config", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test"),
    *("tests", "tkinter", "turtledemo", "unittest", "venv", "distutils", "asyncio", "concurrent", "curses"),
    *("dbm", "email", "html", "msilib", "multiprocessing", "sqlite3", "wsgiref", "xml", "xmlrpc", "pydoc.py"),
    *("turtle.py", "doctest.py", "tarfile.py", "zipfile.py", "pdb.py", "pickletools.py", "statistics.py"),
}
# Extension modules that bring large libraries, and that the host does without.
UNUSED_MODULES = re.compile(
    r"(_ssl|_hashlib|_sqlite3|_tkinter|_curses|_curses_panel|readline|_dbm|_gdbm|_bz2|_lzma|_asyncio"
    r"|_multiprocessing|_test\w*|_xxtestfuzz|_xx\w+|xx\w+|_ctypes_test|nis|ossaudiodev|_uuid|pyexpat|_elementtree)\."
)
LIBRARY = re.compile(r"(?:=>\s*|^\s*)(/\S+) \(0x")
LAUNCHER = """\
#!/bin/sh
# Starts the host with the Python beside it. Nothing of this is seen by the agent.
here=$(cd "${0%/*}" && pwd) || exit 127
exec "$here/lib/loader" --library-path "$here/lib" "$here/bin/python3" -IS "$here/host.py" "$@"
"""


def libraries(*binaries: Path) -> dict[str, Path]:
    """Every shared library that these need, by the name they ask for."""
    found: dict[str, Path] = {}
    for binary in binaries:
        told = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
        for match in filter(None, map(LIBRARY.search, told.splitlines())):
            found[Path(match[1]).name] = Path(match[1])
    # The C library opens this one by itself, to end a thread; no binary names it.
    beside = found["libc.so.6"].with_name("libgcc_s.so.1")
    return found | {beside.name: beside}


def unneeded(_folder: str, names: list[str]) -> set[str]:
    """What of the standard library stays behind."""
    return {
        name
        for name in names
        if name in UNUSED or name.startswith("config-") or UNUSED_MODULES.match(name) or name.endswith(".a")
    }


def build(place: Path, host: Path) -> None:
    """Lay everything out below `place`."""
    version = f"python{sysconfig.get_python_version()}"
    standard = Path(sysconfig.get_path("stdlib"))
    (place / "bin").mkdir(parents=True)
    (place / "lib").mkdir()
    shutil.copytree(standard, place / "lib" / version, ignore=unneeded, symlinks=True)
    interpreter = place / "bin" / "python3"
    shutil.copy(Path(sys.executable).resolve(), interpreter)
    modules = (place / "lib" / version / "lib-dynload").glob("*.so")
    for name, path in libraries(Path(sys.executable).resolve(), *modules).items():
        shutil.copy(path, place / "lib" / ("loader" if name.startswith("ld-") else name))
    shutil.copy(host, place / "host.py")
    launcher = place / "host"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    for path in place.rglob("*"):
        path.chmod(path.stat().st_mode | 0o444)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
