"""Check the prices, as the tests of a project would."""

import runpy

reduce = runpy.run_path("prices.py")["reduce"]
assert reduce(80, 25) == 60, f"25 percent off 80 is 60, not {reduce(80, 25)}"
print("the prices are right")
