# One image, three uses: the pipeline's Python steps, a replica of a training job, the prediction
# server. Whoever runs it gives the command. `make image` builds it; what changes least comes first.
ARG BASE=debian:bookworm-slim
FROM ${BASE}

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

# cpu or gpu. TensorFlow's C++ headers, 430 MB, serve only to compile operations.
ARG ACCELERATOR=cpu
COPY requirements.lock requirements-gpu.lock /opt/trainyard/
RUN case ${ACCELERATOR} in \
        cpu) locks="-r /opt/trainyard/requirements.lock" ;; \
        gpu) locks="-r /opt/trainyard/requirements.lock -r /opt/trainyard/requirements-gpu.lock" ;; \
        *) echo "ACCELERATOR is ${ACCELERATOR}; it must be cpu or gpu" >&2; exit 2 ;; \
    esac \
    && python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps $locks \
    && rm -rf /opt/venv/lib/python3*/site-packages/tensorflow/include
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/trainyard \
    PYTHONUNBUFFERED=1

# root only where a mounted folder leaves no other way.
ARG RUN_AS=trainyard
RUN useradd --create-home --uid 1000 trainyard

COPY trainyard /opt/trainyard/trainyard
COPY trainer /opt/trainyard/trainer
COPY components /opt/trainyard/components
RUN python -m compileall -q /opt/trainyard

USER ${RUN_AS}
WORKDIR /home/trainyard
CMD ["python", "-m", "trainer.task", "--help"]
