#!/usr/bin/env python3
"""A handler in Python: adds numbers; bad input fails for good, a missing service is tried later.

    windlass work --queue default --kind sum --exec python3 examples/exec/sum.py
    windlass enqueue sum --payload '[1,2,3]' --wait
"""

import json
import os
import sys

DONE, FOR_GOOD, NOT_NOW = 0, 65, 75

job = os.environ["WINDLASS_JOB_ID"]
try:
    numbers = json.load(sys.stdin)
    total = sum(numbers)
except (json.JSONDecodeError, TypeError) as error:
    # No retry can help: the payload is what it is.
    print(f"job {job}: the payload is no list of numbers: {error}", file=sys.stderr)
    sys.exit(FOR_GOOD)

if os.environ.get("SUM_SERVICE") == "down":
    # Not our fault: again after the backoff, without using a retry.
    sys.exit(NOT_NOW)

print(f"added {len(numbers)} numbers", file=sys.stderr)
print(json.dumps({"sum": total}))
sys.exit(DONE)
