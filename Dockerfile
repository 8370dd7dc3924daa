# An image of the server. For an NPU, build on an image that holds CANN and Python 3.11 or newer:
#
#   docker build -t aclnn-serve .
#   docker build -t aclnn-serve --build-arg BASE=your/cann:tag .
#
# Runs with a read-only root and no capabilities:
#
#   docker run --read-only --cap-drop ALL -p 127.0.0.1:50051:50051 aclnn-serve

ARG BASE=python:3.12-slim

# ---- the wheel ------------------------------------------------------------------------------------
FROM python:3.12-slim AS wheel
WORKDIR /source
COPY . .
RUN python3 -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# ---- the server -----------------------------------------------------------------------------------
FROM ${BASE}
COPY --from=wheel /wheels /wheels
RUN python3 -m venv /opt/aclnn-serve \
    && /opt/aclnn-serve/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[server]" \
    && rm -rf /wheels
ENV PATH="/opt/aclnn-serve/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /
EXPOSE 50051
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["aclnn-serve", "health", "127.0.0.1:50051"]

# Inside a container the port is reached only as far as it is published; give TLS and tokens where that
# is further than this machine, and drop the flag.
ENTRYPOINT ["aclnn-serve"]
CMD ["serve", "--listen", "0.0.0.0:50051", "--allow-insecure"]
