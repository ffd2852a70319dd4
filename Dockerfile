# JupyterLab on the lab, as a user without rights. Not built by us; docs/where-it-runs.md has the commands and says what was tried.

# Without a GPU: the CPU engine.
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
RUN TORCH=cpu python3 install.py && .venv/bin/python -m pip cache purge
ENV TRT_LAB_DATA=/home/student/data
VOLUME /home/student/data
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--LabApp.default_url=/lab/tree/labs/00_start.ipynb"]

# With an NVIDIA GPU: TensorRT is the image's. 26.05 is the last with 10.x, 10.16.1.11, the version of the `gpu` extra; 26.06 has
# 11, which was not run. .venv sees the image's packages, so only cuda-bindings is added. A build sees no GPU, hence TORCH=cuda.
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
    && TORCH=cuda python3 install.py \
    && .venv/bin/python -m pip install --no-cache-dir -c constraints.txt 'cuda-bindings>=13.0,<14' \
    && .venv/bin/python -m pip cache purge
ENV TRT_LAB_DATA=/home/student/data
VOLUME /home/student/data
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--LabApp.default_url=/lab/tree/labs/00_start.ipynb"]
