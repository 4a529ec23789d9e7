"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from tools.docs.service import environment_variables
from trainfit.api.api_keys import ApiKey
from trainfit.api.settings import ServiceSettings, unknown_variables


def test_defaults_serve_this_machine_only() -> None:
    settings = ServiceSettings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)


KEY = ApiKey("ci", "0" * 64)
GIVEN: dict[str, tuple[str, object]] = {
    "TRAINFIT_SERVE": ("admission", "admission"),
    "TRAINFIT_HOST": ("0.0.0.0", "0.0.0.0"),
    "TRAINFIT_PORT": ("0", 0),
    "TRAINFIT_MAX_BODY_BYTES": ("1024", 1024),
    "TRAINFIT_MAX_CONCURRENT_REQUESTS": ("7", 7),
    "TRAINFIT_TLS_CERT": (__file__, Path(__file__)),
    "TRAINFIT_TLS_KEY": (__file__, Path(__file__)),
    "TRAINFIT_BODY_TIMEOUT_SECONDS": ("0.5", 0.5),
    "TRAINFIT_REQUEST_TIMEOUT_SECONDS": ("5", 5),
    "TRAINFIT_MAX_ANSWER_BYTES": ("1000", 1000),
    "TRAINFIT_WORKER_PROCESSES": ("4", 4),
    "TRAINFIT_WORKER_MEMORY_BYTES": ("100000000", 100_000_000),
    "TRAINFIT_WORKER_CPU_SECONDS": ("3", 3),
    "TRAINFIT_API_KEYS": (f"{KEY}, {KEY}", (KEY, KEY)),
    "TRAINFIT_METRICS_NEED_KEY": ("true", True),
    "TRAINFIT_RATE_LIMIT": ("600", 600),
    "TRAINFIT_RATE_LIMIT_WINDOW_SECONDS": ("10", 10),
    "TRAINFIT_ANSWER_CACHE_BYTES": ("0", 0),
    "TRAINFIT_CORS_ORIGINS": ("https://a.example, http://b:1", ("https://a.example", "http://b:1")),
    "FORWARDED_ALLOW_IPS": ("10.0.0.0/8", "10.0.0.0/8"),
    "TRAINFIT_SHUTDOWN_DELAY_SECONDS": ("5", 5),
    "TRAINFIT_SHUTDOWN_GRACE_SECONDS": ("7", 7),
    "TRAINFIT_LOG_FORMAT": ("console", "console"),
    "TRAINFIT_LOG_LEVEL": ("debug", "debug"),
    "WEB_CONCURRENCY": ("3", 3),
    "TRAINFIT_HUB_ORGANISATIONS": ("acme, other,", ("acme", "other")),
    "TRAINFIT_HUB_TIMEOUT_SECONDS": ("9", 9.0),
    "TRAINFIT_HUB_CONNECT_TIMEOUT_SECONDS": ("0.5", 0.5),
    "TRAINFIT_HUB_TTL_SECONDS": ("0", 0.0),
    "TRAINFIT_CACHE_DIR": ("/var/cache", "/var/cache"),
    "TRAINFIT_CACHE_URL": ("redis://cache", SecretStr("redis://cache")),
    "HF_ENDPOINT": ("https://mirror.example/hf/", "https://mirror.example/hf"),
    "HF_HUB_OFFLINE": ("YES", True),
    "HF_TOKEN": ("hf_1", SecretStr("hf_1")),
    "HF_TOKEN_PATH": ("/token", Path("/token")),
    "HF_HOME": ("/home", Path("/home")),
    "HF_HUB_CACHE": ("/hub", Path("/hub")),
}
"""A value for every variable, and what is made of it."""


def test_every_setting_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (text, _) in GIVEN.items():
        monkeypatch.setenv(name, text)
    settings = ServiceSettings()
    variables = environment_variables()
    assert set(variables.values()) == GIVEN.keys()
    assert {variables[name]: value for name, value in settings} == {
        variable: value for variable, (_, value) in GIVEN.items()
    }


@pytest.mark.parametrize("word", ["1", "on", "Yes", "TRUE"])
@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_words_that_huggingface_hub_takes_for_true(
    monkeypatch: pytest.MonkeyPatch, name: str, word: str
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv(name, word)
    assert ServiceSettings().hf_hub_offline


@pytest.mark.parametrize("word", ["0", "off", "", "nonsense"])
def test_other_words_are_false(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", word)
    assert not ServiceSettings().hf_hub_offline


@pytest.mark.parametrize(
    "url", ["hub", "ftp://hub", "https://", "https://hunter2@hub", "https://hub?a=1", "https://h#a"]
)
def test_an_endpoint_is_a_plain_url(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", url)
    with pytest.raises(ValidationError) as refused:
        ServiceSettings()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "read"),
    [("redis://a", "redis://a"), ("valkeys://a/1", "rediss://a/1"), ("unix:///a", "unix:///a")],
)
def test_a_cache_is_redis_or_valkey(monkeypatch: pytest.MonkeyPatch, url: str, read: str) -> None:
    monkeypatch.setenv("TRAINFIT_CACHE_URL", url)
    assert ServiceSettings().cache_url == SecretStr(read)


@pytest.mark.parametrize("url", ["localhost:6379", "http://:hunter2@cache", "memcached://cache"])
def test_another_cache_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("TRAINFIT_CACHE_URL", url)
    with pytest.raises(ValidationError) as refused:
        ServiceSettings()
    assert "hunter2" not in str(refused.value)


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("TRAINFIT_CACHE_URL", "redis://:hunter2@cache")
    assert "hunter2" not in repr(ServiceSettings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "65536"),
        ("LOG_LEVEL", "loud"),
        ("MAX_BODY_BYTES", "0"),
        ("TLS_CERT", "nowhere.pem"),
        ("HUB_TTL_SECONDS", "-1"),
        ("API_KEYS", "ci"),
        ("API_KEYS", "trainfit_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ("API_KEYS", f"ci={'A' * 64}"),
        ("RATE_LIMIT", "-1"),
        ("CORS_ORIGINS", "other.example.net"),
        ("CORS_ORIGINS", "https://other.example.net/"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"TRAINFIT_{name}", value)
    with pytest.raises(ValidationError) as refused:
        ServiceSettings()
    assert value not in str(refused.value)


def test_every_setting_is_described() -> None:
    assert all(field.description for field in ServiceSettings.model_fields.values())


def test_what_kubernetes_sets_beside_a_service_is_told_from_a_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRAINFIT_PORT", "tcp://10.0.0.1:8080")
    with pytest.raises(ValidationError, match="enableServiceLinks: false"):
        ServiceSettings()


def test_a_variable_that_no_setting_is_read_from_is_noticed() -> None:
    environ = dict.fromkeys(
        [
            *GIVEN,
            "TRAINFIT_API_KEY",
            "TRAINFIT_COLOUR",
            "TRAINFIT_HF_HUB_OFFLINE",
            "TRAINFIT_PORT_8080_TCP_ADDR",
            "TRAINFIT_SERVICE_HOST",
            "HOME",
        ],
        "",
    )
    assert list(unknown_variables(environ)) == [
        ("TRAINFIT_API_KEY", "TRAINFIT_API_KEYS"),
        ("TRAINFIT_COLOUR", None),
        ("TRAINFIT_HF_HUB_OFFLINE", None),
    ]
