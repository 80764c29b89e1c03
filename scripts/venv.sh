#!/usr/bin/env bash
# venv.sh DIRECTORY REQUIREMENT — a virtual environment with the project in it, as pinned.
#
# PYTHON is the interpreter to try first; when it is too old, newer ones on the PATH are looked
# for. CONSTRAINTS is the file of pins.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
venv="$1"
requirement="$2"
constraints="${CONSTRAINTS:-constraints.txt}"

suits() {
    # Run it: a pyenv shim is on the PATH even for versions that are not selected.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=
for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if suits "$candidate"; then
        python="$candidate"
        break
    fi
done
if [ -z "$python" ]; then
    found="$("${PYTHON:-python3}" --version 2>/dev/null || echo 'not there')"
    {
        echo "setup: Python 3.11 or newer is needed; ${PYTHON:-python3} is $found"
        echo 'setup: install one and name it: make PYTHON=/path/to/python3.12 …'
    } >&2
    exit 1
fi

# `venv` and `ensurepip` are packages of their own on Debian.
if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    echo "setup: installing $package"
    if ! "$here/apt-install.sh" "$package"; then
        echo "setup: $python has no venv module; install $package, then run make again" >&2
        exit 1
    fi
fi

if ! suits "$venv/bin/python"; then
    echo "setup: $venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$venv"
fi
echo "setup: installing into $venv (a minute or two the first time)"
# Twice quiet: pip's warnings are about the machine's own configuration.
"$venv/bin/python" -m pip install -qq --constraint "$constraints" --editable "$requirement"
