#!/usr/bin/env bash
# Measures the import of many nodes, each with a policy: time and the program's peak memory. Argument: how many (default 100000).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

nodes=${1:-100000}
program=${EVENKEEL:-target/dist/evenkeel}
make_scratch
start_postgres "$scratch/postgres" max_wal_size=4GB
"$programs/psql" -X -q -d "$server/postgres" -c 'CREATE DATABASE source' -c 'CREATE DATABASE target'
"$programs/psql" -X -q -v ON_ERROR_STOP=1 -d "$server/source" -f tests/fixtures/reference_exchange.sql >/dev/null
"$programs/psql" -X -q -v ON_ERROR_STOP=1 -d "$server/source" <<SQL
INSERT INTO nodes (id, orgid, token, name, owner, nodetype, pattern, regservices, userinput, msgendpoint, swversions, publickey,
                   lastheartbeat, arch, heartbeatintervals, lastupdated)
SELECT 'plant/many-' || number, 'plant', token, 'node ' || number, owner, nodetype, pattern, regservices, userinput, msgendpoint, swversions,
       publickey, lastheartbeat, arch, heartbeatintervals, lastupdated
FROM nodes CROSS JOIN generate_series(1, $nodes) AS number
WHERE id = 'plant/edge-1';
INSERT INTO nodepolicies
SELECT 'plant/many-' || number, label, description, properties, constraints, deployment, management, nodepolicyversion, "lastUpdated"
FROM nodepolicies CROSS JOIN generate_series(1, $nodes) AS number
WHERE nodeid = 'plant/edge-1';
ANALYZE;
SQL
"$program" migrate --database-url "$server/target" >/dev/null
for run in first second; do
    echo "-- $run import of $nodes nodes"
    python3 - "$program" import --from "$server/source" --database-url "$server/target" <<'PYTHON'
import resource
import subprocess
import sys

run = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
print("\n".join(line for line in run.stdout.splitlines() if not line.startswith("not taken")))
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print("peak memory %.1f MiB, processor time %.1f s" % (usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime))
# 11: the rows of the fixture that cannot be taken.
sys.exit(0 if run.returncode in (0, 11) else run.stderr)
PYTHON
done
