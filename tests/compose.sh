#!/usr/bin/env bash
# Checks Dockerfile and docker-compose.yml as far as that goes where no image can be pulled: the file is well formed, every
# secret and volume that a service uses is declared, the hub understands every setting that the two files give it, and the image does not listen in
# plain text.
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
image = open("Dockerfile").read().split("\nFROM ")[-1]
settings = dict(word.split("=", 1) for line in image.splitlines() if line.startswith("ENV ") for word in line[4:].split())
listen, tls = settings.get("EVENKEEL_LISTEN", "127.0.0.1:8080"), settings.get("EVENKEEL_TLS", "off")
environment = compose["services"]["hub"].get("environment", {})
tls = environment.get("EVENKEEL_TLS", tls)
if not listen.startswith("127.") and tls == "off":
    problems.append(f"the image listens on {listen} in plain text")
port = listen.rsplit(":", 1)[-1]
if f"EXPOSE {port}" not in image.splitlines():
    problems.append(f"the image listens on port {port}, but exposes another one")
for mapping in compose["services"]["hub"].get("ports", []):
    if not mapping.startswith("127.0.0.1:") or mapping.rsplit(":", 1)[-1] != port:
        problems.append(f"the hub's port {mapping} is not 127.0.0.1 and {port}")
print("\n".join(problems) or "docker-compose.yml is consistent")
sys.exit(bool(problems))
PYTHON
help=$("$program" up --help)
for variable in $(grep -oh 'EVENKEEL_[A-Z_]*' Dockerfile docker-compose.yml | sort -u); do
    grep -q "$variable" <<<"$help" || { echo "the hub has no setting $variable" >&2; exit 1; }
done
echo "the hub knows every setting of the container files"
