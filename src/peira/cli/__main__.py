"""`python -m peira.cli`, which is how a run is started that outlives its terminal."""

import sys

from peira.cli.entry import main

sys.exit(main())
