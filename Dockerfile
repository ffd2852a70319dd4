# The lab in a container. Not built by us: no Docker daemon ran where this was written; docs/where-it-runs.md says what was tried.
#   docker build --target cpu -t trt-lab .        docker run -p 8888:8888 trt-lab
#   docker build --target gpu -t trt-lab-gpu .    docker run --gpus all -p 8888:8888 trt-lab-gpu
# The log of `docker run` has the address with its token.

FROM python:3.12-slim-bookworm AS cpu
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home student
USER student
WORKDIR /home/student/trt-lab
COPY --chown=student . .
RUN make setup TORCH=cpu
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--LabApp.default_url=/lab/tree/labs/00_start.ipynb"]

# TensorRT's Python packages are the image's own, so the environment sees its packages; pycuda is compiled with its CUDA.
FROM nvcr.io/nvidia/tensorrt:25.05-py3 AS gpu
RUN useradd --create-home student
USER student
WORKDIR /home/student/trt-lab
COPY --chown=student . .
RUN python3 -m venv --system-site-packages .venv && make setup && .venv/bin/python -m pip install -c constraints.txt pycuda
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--LabApp.default_url=/lab/tree/labs/00_start.ipynb"]
