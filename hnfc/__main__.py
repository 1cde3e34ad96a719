"""`python -m hnfc`: the command line, where the script `hnfc` is not on the path."""

import sys

from hnfc.cli.main import main

sys.exit(main())
