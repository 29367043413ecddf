#!/usr/bin/env bash
# Renews src/agent_order.ld, the order in which the linker of a release build lays out functions: those that an agent runs come
# first, so that it keeps few pages of the program in memory. Takes a release build, and an agent with one service under valgrind.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is not installed" >&2; exit 1; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
scratch=$(mktemp -d)
chmod 711 "$scratch"
trap 'rm -rf "$scratch"' EXIT
# Symbols stay in, so that valgrind can name functions; the map tells which object each of them comes from, and its size.
cargo rustc --profile dist --locked --bin evenkeel -- -C strip=none -C "link-arg=-Wl,-Map=$scratch/map"
valgrind -q --vgdb=no --tool=callgrind --demangle=no --callgrind-out-file="$scratch/run.%p" --trace-children=yes \
    --trace-children-skip='/bin/*,/usr/*' --trace-children-skip-by-arg=up,migrate,bench-hello,demo-service \
    "$target/dist/evenkeel" bench memory --short >/dev/null
run=$(grep -l '^cmd:.* agent --hub ' "$scratch"/run.*)
python3 - "$scratch/map" "$run" >"$scratch/order" <<'PYTHON'
import re
import sys

# A group of functions is taken as a whole when the agent runs this share of its bytes, otherwise part by part.
SHARE = 0.2
# Line of a function in the map of lld: size, file, section.
LINE = re.compile(r" *[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+) +\d+ +(?:\S*/)?(\S+):\((\.text\.(?:unlikely\.)?)(\S+)\)")


class Group:
    def __init__(self):
        self.parts, self.size, self.run = {}, 0, 0

    def share(self):
        return self.run / self.size


def path(name):
    """A mangled name as path of prefixes, without what changes with compiler, dependencies and settings."""
    if not name.startswith("_ZN"):
        name = re.sub(r"\.llvm\.\d+$", "", name)
        return [re.sub(r"_\d+_\d+_\d+_", "_*_", re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name))]
    parts, at = [], 3
    while length := re.match(r"\d+", name[at:]):
        end = at + length.end() + int(length[0])
        parts.append(name[at:end])
        at = end
    parts[0] = "_ZN" + parts[0]
    if re.fullmatch("17h[0-9a-f]{16}", parts[-1]):
        parts[-1] = "17h"
    return parts


def crate(file):
    """The crate that an object file was made of: program-hash.crate-hash.crate.hash-cgu.0.rcgu.o.rcgu.o, shorter for the program."""
    fields = file.split(".")
    if len(fields) < 6 or fields[-1] != "o":
        return None
    return fields[2] if re.fullmatch(r".*-[0-9a-f]{16}", fields[1]) else fields[1]


def chosen(group, prefix):
    for part, inner in sorted(group.parts.items()):
        if inner.run == 0:
            continue
        if not inner.parts or inner.share() >= SHARE:
            yield inner.share(), prefix + part + "*"
        else:
            yield from chosen(inner, prefix + part)


run = {match[1].split("'")[0] for match in re.finditer(r"^c?fn=\(\d+\) (.*)", open(sys.argv[2]).read(), re.M)}
crates = {}
for line in open(sys.argv[1]):
    if not (match := LINE.match(line)):
        continue
    size, file, section, name = match.groups()
    group = crates.setdefault(crate(file), {}).setdefault(section, Group())
    for part in [None, *path(name)]:
        if part is not None:
            group = group.parts.setdefault(part, Group())
        group.size += int(size, 16)
        group.run += int(size, 16) * (name in run)

if not any(group.run for sections in crates.values() for group in sections.values()):
    sys.exit("the map and the run have no function in common: was the program linked with lld?")
dense, sparse = [], []
for name, sections in sorted(crates.items(), key=lambda entry: entry[0] or ""):
    files = f"*.{name}.*.rcgu.o" if name else "*"
    found = [pattern for section, group in sections.items() for pattern in chosen(group, section)]
    for lines, wanted in [(dense, True), (sparse, False)]:
        patterns = sorted(pattern for share, pattern in found if (share >= 0.5) == wanted)
        if patterns:
            lines += [f"    {files}(", *(f"      {pattern}" for pattern in patterns), "    )"]
print("/* Functions that an agent runs, to lie together in a release build: written by tests/agent_order.sh. */")
print("SECTIONS {\n  .text.agent : {", *dense, *sparse, "  }\n}\nINSERT BEFORE .text;", sep="\n")
PYTHON
cp "$scratch/order" src/agent_order.ld
echo "src/agent_order.ld is renewed; the next release build uses it" >&2
