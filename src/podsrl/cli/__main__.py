"""`python -m podsrl.cli`, as `pods`."""

import sys

from podsrl.cli import main

sys.exit(main())
