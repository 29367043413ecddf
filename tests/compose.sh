#!/usr/bin/env bash
# Checks Dockerfile and docker-compose.yml as far as that goes where no image can be pulled: the file is well formed, every
# secret and volume that a service uses is declared, and the hub understands every setting that the two files give it.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${EVENKEEL:-target/debug/evenkeel}
if docker compose version >/dev/null 2>&1; then
    mkdir -p secrets
    docker compose config --quiet
fi
/usr/bin/python3 - <<'PYTHON'
import sys
import yaml

compose = yaml.safe_load(open("docker-compose.yml"))
problems = []
for name, service in compose["services"].items():
    if ("image" in service) == ("build" in service):
        problems.append(f"{name} needs either an image or a build")
    for secret in service.get("secrets", []):
        if secret not in compose["secrets"]:
            problems.append(f"{name} uses the undeclared secret {secret}")
    for volume in service.get("volumes", []):
        if volume.split(":")[0] not in compose["volumes"]:
            problems.append(f"{name} uses the undeclared volume {volume}")
    for other in service.get("depends_on", {}):
        if other not in compose["services"]:
            problems.append(f"{name} depends on the unknown service {other}")
print("\n".join(problems) or "docker-compose.yml is consistent")
sys.exit(bool(problems))
PYTHON
help=$("$program" up --help)
for variable in $(grep -oh 'EVENKEEL_[A-Z_]*' Dockerfile docker-compose.yml | sort -u); do
    grep -q "$variable" <<<"$help" || { echo "the hub has no setting $variable" >&2; exit 1; }
done
echo "the hub knows every setting of the container files"
