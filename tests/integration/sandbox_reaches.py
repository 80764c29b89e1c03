"""Code that reaches for what is outside the sandbox."""

from __future__ import annotations

from typing import NamedTuple

REACHED = "REACHED"


class Reach(NamedTuple):
    """`code` prints REACHED, or the secret, if it gets out."""

    name: str
    code: str


REACHES = (
    Reach("read a file", "print('REACHED', open(PATH).read())"),
    Reach("read a file of the system", "print('REACHED', open('/etc/passwd').read())"),
    Reach("read the process's own memory map", "print('REACHED', open('/proc/self/maps').read())"),
    Reach("read the environment in proc", "print('REACHED', open('/proc/self/environ').read())"),
    Reach("write a file", "open(PATH, 'w').write('x')\nprint('REACHED')"),
    Reach("append to a file", "f = open(PATH, 'a')\nf.write('x')\nprint('REACHED')"),
    Reach(
        "read with pathlib", "from pathlib import Path\nprint('REACHED', Path(PATH).read_text())"
    ),
    Reach(
        "write with pathlib",
        "from pathlib import Path\nPath(PATH).write_text('x')\nprint('REACHED')",
    ),
    Reach("delete with pathlib", "from pathlib import Path\nPath(PATH).unlink()\nprint('REACHED')"),
    Reach("list a folder", "from pathlib import Path\nprint('REACHED', list(Path('/').iterdir()))"),
    Reach("list with os", "import os\nprint('REACHED', os.listdir('/'))"),
    Reach("make a folder", "import os\nos.mkdir(PATH + 'd')\nprint('REACHED')"),
    Reach(
        "whether a file is there",
        "from pathlib import Path\nprint('REACHED' * Path(PATH).exists())",
    ),
    Reach("a relative path", "print('REACHED', open('../../etc/passwd').read())"),
    Reach("an open descriptor", "print('REACHED', open(0).read())"),
    Reach("the environment", "import os\nprint('REACHED', os.environ['TRIAGE_TEST_SECRET'])"),
    Reach("getenv", "import os\nprint('REACHED' * bool(os.getenv('TRIAGE_TEST_SECRET')))"),
    Reach("os.system", "import os\nos.system('id')\nprint('REACHED')"),
    Reach("os.fork", "import os\nos.fork()\nprint('REACHED')"),
    Reach("subprocess", "import subprocess\nprint('REACHED', subprocess.run(['id']))"),
    Reach("socket", "import socket\nsocket.create_connection(('127.0.0.1', 80))\nprint('REACHED')"),
    Reach("urllib", "import urllib.request\nprint('REACHED')"),
    Reach("http client", "from http import client\nprint('REACHED')"),
    Reach("ctypes", "import ctypes\nctypes.string_at(0)\nprint('REACHED')"),
    Reach("importlib", "import importlib\nimportlib.import_module('os')\nprint('REACHED')"),
    Reach("pickle", "import pickle\npickle.loads(b'x')\nprint('REACHED')"),
    Reach("threads", "import threading\nprint('REACHED')"),
    Reach("signals", "import signal\nprint('REACHED')"),
    Reach("our own package", "import triage\nprint('REACHED')"),
    Reach("sys.modules", "import sys\nprint('REACHED', sys.modules)"),
    Reach("frames", "import sys\nprint('REACHED', sys._getframe())"),
    Reach("gc", "import gc\nprint('REACHED', gc.get_objects())"),
    Reach("__import__", "m = __import__('os')\nm.system('id')\nprint('REACHED')"),
    Reach("__builtins__", "print('REACHED', __builtins__)"),
    Reach("globals", "g = globals()\ng['x']\nprint('REACHED')"),
    Reach("eval", "print('REACHED', eval(\"open('/etc/passwd').read()\"))"),
    Reach("exec", "exec(\"import subprocess\\nprint('REACHED')\")"),
    Reach("compile", "exec(compile('1', 'x', 'exec'))\nprint('REACHED')"),
    Reach("classes from a value", "print('REACHED', ().__class__.__mro__)"),
    Reach("subclasses", "print('REACHED', [].__class__.__base__.__subclasses__())"),
    Reach("subclasses of object", "print('REACHED', object.__subclasses__())"),
    Reach("globals of a function", "print('REACHED', (lambda: 1).__globals__)"),
    Reach("globals of a host function", "print('REACHED', ask.__globals__)"),
    Reach("the object behind a host function", "print('REACHED', ask.__self__)"),
    Reach("code of a function", "def f():\n    pass\nprint('REACHED', f.__code__)"),
    Reach("closure of a function", "def f():\n    pass\nprint('REACHED', f.__closure__)"),
    Reach(
        "getattr by a name put together", "print('REACHED', getattr((), '__cl' + 'ass__').__mro__)"
    ),
    Reach("a format string's walk", "print('REACHED', '{0.__class__.__mro__}'.format(()))"),
    Reach("a format string's index", "print('REACHED', '{0[__class__]}'.format(ask))"),
    Reach("format_map", "print('REACHED', '{x.__class__}'.format_map({'x': 1}))"),
    Reach("an f-string's walk", "print('REACHED', f'{().__class__}')"),
    Reach(
        "a traceback's frame",
        "try:\n    1 / 0\nexcept Exception as e:\n    print('REACHED', e.__traceback__.tb_frame)",
    ),
    Reach(
        "an exception's walk",
        "try:\n    1 / 0\nexcept Exception as e:\n    print('REACHED', e.__class__.__mro__)",
    ),
    Reach("a class made by type", "X = type('X', (ask,), {})\nprint('REACHED')"),
    Reach("a metaclass", "class M(type):\n    pass\nprint('REACHED')"),
    Reach("the debugger", "b = breakpoint()\nb.x\nprint('REACHED')"),
    Reach("standard input", "print('REACHED' + input())"),
)

PRINT_NOTHING = ("whether a file is there", "getenv")
"""Those that may end without an error: they ask a question and print REACHED for a yes."""
