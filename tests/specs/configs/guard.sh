#!/bin/sh
# Blocks every call and tells the model why.
echo "the guard saw $(grep -o readme.md | head -n 1) and said no" >&2
exit 2
