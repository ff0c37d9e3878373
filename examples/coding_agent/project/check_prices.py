"""Check the prices, as the tests of a project would."""

import runpy
import sys

reduced = runpy.run_path("prices.py")["reduce"](80, 25)
sys.exit(0 if reduced == 60 else f"25 percent off 80 is 60, not {reduced}")
