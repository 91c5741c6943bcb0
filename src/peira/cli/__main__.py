"""`python -m peira.cli`: how `run --detach` starts the process that outlives its terminal."""

import sys

from peira.cli.app import main

sys.exit(main())
