# Debian with systemd as its first process, and no more of what docs/deploy/bare-metal.md needs than Python.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends \
        dbus python3 python3-venv systemd \
    && rm -rf /etc/systemd/system/*.wants /var/lib/apt/lists/*
CMD ["/lib/systemd/systemd"]
