#!/bin/sh
# A handler in shell: the payload comes on standard input, the last line of standard output is the result.
#
#   windlass work --queue default --kind hello --exec examples/exec/hello.sh
#   windlass enqueue hello --payload '"Ada"' --wait
set -eu

name=$(cat)
echo "greeting $name, attempt $WINDLASS_ATTEMPT" >&2 # goes to the job's log
printf '{"greeting":"hello","name":%s}\n' "$name"
