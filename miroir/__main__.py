"""`python -m miroir` is the `miroir` command."""

import sys

from .cli import main

sys.exit(main())
