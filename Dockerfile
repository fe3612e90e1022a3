# gristmill with what clusters need: Java for Spark, and the extras for object stores and the hub.
FROM python:3.12-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
COPY . /opt/gristmill/source
COPY examples/submit.py /opt/gristmill/submit.py
RUN pip install --no-cache-dir "/opt/gristmill/source[hub,spark,stores,trafilatura]" \
    && rm -rf /opt/gristmill/source
# All kernels are compiled once, into the image, for this processor. Another user than root compiles
# them again: machine code is loaded only from a folder that belongs to the user. A wheel of
# `make wheel` in place of the sources serves all users.
ENV GRISTMILL_KERNELS=/opt/gristmill/kernels
RUN python -c "from gristmill.kernels.jit.compile import import_all; import_all()" \
    && gristmill demo /tmp/demo && rm -rf /tmp/demo
WORKDIR /work
ENTRYPOINT ["tini", "--"]
CMD ["gristmill", "--help"]
