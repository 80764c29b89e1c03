"""`make demo` and `make world`."""

import sys

from bench.demo.day import main

if __name__ == "__main__":
    sys.exit(main())
