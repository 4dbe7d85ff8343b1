"""`python -m toolhost_build`."""

import sys

from toolhost_build import main

sys.exit(main())
