"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from trainfit.api.settings import Settings


def test_defaults_serve_this_machine_only() -> None:
    settings = Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)


def test_every_field_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"HOST": "0.0.0.0", "PORT": "0", "MAX_BODY_BYTES": "1024", "LOG_LEVEL": "debug"}
    given["MAX_CONCURRENT_REQUESTS"] = "7"
    given |= {"TLS_CERT": __file__, "TLS_KEY": __file__}
    for name, value in given.items():
        monkeypatch.setenv(f"TRAINFIT_{name}", value)
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    assert Settings() == Settings.model_construct(
        host="0.0.0.0",
        port=0,
        max_body_bytes=1024,
        max_concurrent_requests=7,
        log_level="debug",
        tls_cert=Path(__file__),
        tls_key=Path(__file__),
        workers=3,
    )
    assert {f"{name.lower()}" for name in given} | {"workers"} == Settings.model_fields.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "65536"),
        ("LOG_LEVEL", "loud"),
        ("MAX_BODY_BYTES", "0"),
        ("TLS_CERT", "nowhere.pem"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"TRAINFIT_{name}", value)
    with pytest.raises(ValidationError):
        Settings()


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())
