# An image of the server, built from a clone with nothing else: docs/deploy/docker.md.
#
#   docker build -t aclnn-serve .                                      the CPU
#   docker build -t aclnn-serve --build-arg BASE=your/cann:tag .       NPUs, on an image with CANN and Python
#
# BASE must have Python 3.11 or newer with venv, and bash.
ARG BASE=python:3.11-slim-bookworm

# ---- everything that is installed, in one folder --------------------------------------------------
FROM ${BASE} AS build
WORKDIR /source
COPY . .
# The same base in both stages: the folder's Python is a link to that of the base.
# For another package index, or certificates of one's own: --secret id=pip,src=pip.conf --secret id=ca,src=ca.pem
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
    && python3 -m venv /opt/aclnn-serve \
    && /opt/aclnn-serve/bin/pip install --no-cache-dir --disable-pip-version-check ".[server]" \
    && /opt/aclnn-serve/bin/pip uninstall --yes pip setuptools \
    && find /opt/aclnn-serve/lib -type d -name tests -prune -exec rm -r {} + \
    && install -m 755 deploy/container/entrypoint.sh /opt/aclnn-serve/bin/entrypoint

# ---- the image ------------------------------------------------------------------------------------
FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="aclnn-serve" \
      org.opencontainers.image.description="Serves the two-phase aclnn operator API over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/aclnn-serve /opt/aclnn-serve

# The folder of temporary files is the only one that CANN writes to; the server itself writes nothing.
ENV PATH="/opt/aclnn-serve/bin:${PATH}" \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ACLNN_SERVE_LISTEN=0.0.0.0:50051 \
    ACLNN_SERVE_DATA_PORT=50052

# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /tmp
EXPOSE 50051 50052 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["aclnn-serve", "health"]
ENTRYPOINT ["entrypoint"]
CMD ["serve"]
