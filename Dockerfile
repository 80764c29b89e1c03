# syntax=docker/dockerfile:1
# NOT BUILT BY CI: no container engine runs there. It is kept small and linted (`make lint`);
# build it with `docker build -t triage .` and tell us if that fails.
#
#   docker run --rm -p 8080:8080 \
#     -v "$PWD/my-procedure:/etc/triage:ro" -v triage-data:/data triage
#
# /etc/triage holds triage.toml, sop.yaml, sites.yaml and tools_lib/ (`triage init DIR` makes
# them); [store] in triage.toml should name a file below /data, the only place that is written, or
# a PostgreSQL: then `data = "/data"`, and each replica has a /data of its own.
# The container listens on every address, and `serve` does that only with a token configured.
# Several replicas with what they need: deploy/compose.yaml, deploy/kubernetes.

FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/triage
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY triage ./triage
# Wheels only: a package without one would need a compiler, which this stage does not have either.
RUN /opt/triage/bin/pip install --no-cache-dir --only-binary :all: --no-binary triage \
    --constraint constraints.txt '.[redis,nats,postgres]' \
    && /opt/triage/bin/pip uninstall --yes pip

FROM python:3.13-slim
# Numeric, so that Kubernetes' runAsNonRoot can verify it without reading /etc/passwd.
RUN python -m pip uninstall --yes --root-user-action=ignore pip \
    && install -d -o 65532 -g 65532 /data /etc/triage
COPY --from=build /opt/triage /opt/triage
ENV PATH=/opt/triage/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TRIAGE_HEALTH_URL=http://127.0.0.1:8080/-/healthy
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 8080
# SIGTERM drains: give `docker stop -t` at least the drain limit of triage.toml.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(os.environ['TRIAGE_HEALTH_URL'], timeout=2)"]
ENTRYPOINT ["triage"]
CMD ["serve", "--config", "/etc/triage/triage.toml", "--listen", "0.0.0.0:8080"]
