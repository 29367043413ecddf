# The hub as an image: built from this folder, run as an unprivileged user.
FROM rust:1-bookworm AS build
WORKDIR /source
COPY . .
ENV SQLX_OFFLINE=true
RUN cargo build --profile dist --locked --bin evenkeel

FROM debian:bookworm-slim
RUN useradd --system --create-home --home-dir /var/lib/evenkeel --uid 10001 evenkeel
COPY --from=build /source/target/dist/evenkeel /usr/local/bin/evenkeel
RUN ln -s evenkeel /usr/local/bin/hzn
USER evenkeel
# TLS with a certificate authority of its own, in the volume; name the host under which clients reach the hub by EVENKEEL_TLS_NAMES.
ENV EVENKEEL_DATA_DIR=/var/lib/evenkeel/hub EVENKEEL_LISTEN=0.0.0.0:8443 EVENKEEL_TLS=auto
VOLUME /var/lib/evenkeel
EXPOSE 8443
ENTRYPOINT ["evenkeel"]
CMD ["up"]
