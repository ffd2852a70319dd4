# JupyterLab on the lab, as a user without rights. Not built by us: no Docker daemon runs where this project is tested.
# docs/where-it-runs.md has the commands to build and to run it, and says what was tried of them and where.

# Without a GPU: the CPU engine. Debian 12 and Python 3.11 are what the commands below were tried on.
FROM python:3.11-slim-bookworm AS cpu
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1001 --create-home student \
    && install --directory --owner student /home/student/trt-lab /home/student/data
USER 1001
WORKDIR /home/student/trt-lab
COPY --chown=1001 . .
RUN make setup TORCH=cpu && .venv/bin/python -m pip cache purge
ENV TRT_LAB_DATA=/home/student/data
VOLUME /home/student/data
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--LabApp.default_url=/lab/tree/labs/00_start.ipynb"]

# With an NVIDIA GPU: TensorRT is the image's. 26.05 is the last with 10.x, 10.16.1.11, the version of the `gpu` extra; since
# 26.06 they have 11, which the lab was not run on. .venv sees the image's Python packages, so that only cuda-bindings is added.
FROM nvcr.io/nvidia/tensorrt:26.05-py3 AS gpu
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1001 --create-home student \
    && install --directory --owner student /home/student/trt-lab /home/student/data
USER 1001
WORKDIR /home/student/trt-lab
COPY --chown=1001 . .
RUN python3 -m venv --system-site-packages .venv \
    && make setup \
    && .venv/bin/python -m pip install --no-cache-dir -c constraints.txt 'cuda-bindings>=13.0,<14' \
    && .venv/bin/python -m pip cache purge
ENV TRT_LAB_DATA=/home/student/data
VOLUME /home/student/data
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--LabApp.default_url=/lab/tree/labs/00_start.ipynb"]
