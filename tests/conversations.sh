# shellcheck shell=bash
# Sourced: where the recorded conversations are, and how they are replayed.
#
# The cases named in tests/conformance_expected.txt differ on purpose; each must differ, and nothing else may.
# CONFORMANCE_DIR names the directory with conformance.py and cases (default: beside the project).

conformance=${CONFORMANCE_DIR:-../shared/conformance}
if [ ! -d "$conformance/cases" ]; then
    echo "no recorded conversations in $conformance" >&2
    exit 1
fi

# Replays all: replay URL PASSWORD_FILE [--reversed | --shuffled=SEED].
replay() {
    python3 tests/conformance_compare.py "$conformance" "$1/v1" "$2" tests/conformance_expected.txt "${@:3}"
}

# Replays all with agbots that an administrator approved: replay_approved URL PASSWORD_FILE DIRECTORY.
replay_approved() {
    python3 tests/conformance_approve.py "$conformance" tests/conformance_expected.txt "$3"
    python3 tests/conformance_compare.py "$3" "$1/v1" "$2" "$3/expected.txt"
}
