# syntax=docker/dockerfile:1
# ptxinspect with a ptxas in it: `docker build -t ptxinspect .`, then `docker run --rm -v "$PWD:/work" ptxinspect kernel.ptx --arch sm_90a`.
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo install --locked --path . --features mcp,shared-cache --root /out

# pip fetches ptxas.
FROM python:3.13-slim-bookworm
COPY --from=build /out/bin/ptxinspect /usr/local/bin/ptxinspect
RUN useradd --create-home --uid 1000 inspector
USER 1000
ARG PTXAS=13.4
RUN ptxinspect toolchain install --quiet "$PTXAS" \
    && ptxinspect --version
WORKDIR /work
ENTRYPOINT ["ptxinspect"]
