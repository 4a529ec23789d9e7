ARG PYTHON_VERSION=3.12

FROM python:${PYTHON_VERSION}-slim AS guide
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements-docs.lock ./
RUN pip install --require-hashes -r requirements-docs.lock
COPY .pre-commit-hooks.yaml CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md mkdocs.yml ./
COPY deploy deploy
COPY docs docs
COPY service service
COPY tests/data/README.md tests/data/
COPY tools tools
RUN python -m tools.guide

FROM python:${PYTHON_VERSION}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# The locked dependencies, with what sends traces, are a layer of their own: a change of the code does not fetch them again.
COPY requirements-otel.lock requirements-build.lock ./
RUN python -m venv --without-pip /opt/trainfit \
    && pip --python /opt/trainfit/bin/python install --require-hashes -r requirements-otel.lock \
    && pip install --require-hashes -r requirements-build.lock
COPY LICENSE README.md pyproject.toml ./
COPY service service
COPY --from=guide /src/service/trainfit/web/site service/trainfit/web/site
RUN pip wheel --no-build-isolation --no-deps --wheel-dir /dist . \
    && pip --python /opt/trainfit/bin/python install --no-deps /dist/*.whl

FROM python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="trainfit" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/trainfit /opt/trainfit
# Nothing is written at run time, so the root file system can be mounted read-only.
ENV PATH="/opt/trainfit/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TRAINFIT_HOST=0.0.0.0 \
    TRAINFIT_PORT=8080
USER 65532:65532
EXPOSE 8080
# http.client and not urllib: a proxy in the environment must not be asked for the loopback. Over TLS the certificate is not
# checked: it names the service, not the loopback.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import http.client, os, ssl, sys; at = ('127.0.0.1', int(os.environ['TRAINFIT_PORT'])); probe = http.client.HTTPSConnection(*at, timeout=2, context=ssl._create_unverified_context()) if os.environ.get('TRAINFIT_TLS_CERT') else http.client.HTTPConnection(*at, timeout=2); probe.request('GET', '/livez'); sys.exit(probe.getresponse().status != 200)"]
ENTRYPOINT ["trainfit"]
CMD ["serve"]
