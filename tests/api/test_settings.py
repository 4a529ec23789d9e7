"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from trainfit.api.settings import Settings


def test_defaults_serve_this_machine_only() -> None:
    settings = Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)


def test_every_field_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"HOST": "0.0.0.0", "PORT": "0", "MAX_BODY_BYTES": "1024", "LOG_LEVEL": "debug"}
    given["MAX_CONCURRENT_REQUESTS"] = "7"
    given |= {"TLS_CERT": __file__, "TLS_KEY": __file__}
    of_hub = {
        "HUB_ORGANISATIONS": "acme, other,",
        "HUB_TIMEOUT_SECONDS": "9",
        "HUB_CONNECT_TIMEOUT_SECONDS": "0.5",
        "HUB_TTL_SECONDS": "0",
        "CACHE_DIR": "/var/cache",
        "CACHE_URL": "redis://cache",
    }
    for name, value in {**given, **of_hub}.items():
        monkeypatch.setenv(f"TRAINFIT_{name}", value)
    foreign = {
        "HF_ENDPOINT": "https://mirror.example/hf/",
        "HF_HUB_OFFLINE": "YES",
        "HF_TOKEN": "hf_1",
        "HF_TOKEN_PATH": "/token",
        "HF_HOME": "/home",
        "HF_HUB_CACHE": "/hub",
        "WEB_CONCURRENCY": "3",
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings == Settings.model_construct(
        host="0.0.0.0",
        port=0,
        max_body_bytes=1024,
        max_concurrent_requests=7,
        log_level="debug",
        tls_cert=Path(__file__),
        tls_key=Path(__file__),
        workers=3,
        hf_endpoint="https://mirror.example/hf",
        hf_hub_offline=True,
        hf_token=SecretStr("hf_1"),
        hf_token_path=Path("/token"),
        hf_home=Path("/home"),
        hf_hub_cache=Path("/hub"),
        hub_organisations=("acme", "other"),
        hub_timeout_seconds=9.0,
        hub_connect_timeout_seconds=0.5,
        hub_ttl_seconds=0.0,
        cache_dir="/var/cache",
        cache_url=SecretStr("redis://cache"),
    )
    names = {name.lower() for name in (*given, *of_hub, *foreign)} - {"web_concurrency"}
    assert names | {"workers"} == Settings.model_fields.keys()


@pytest.mark.parametrize("word", ["1", "on", "Yes", "TRUE"])
@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_words_that_huggingface_hub_takes_for_true(
    monkeypatch: pytest.MonkeyPatch, name: str, word: str
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv(name, word)
    assert Settings().hf_hub_offline


@pytest.mark.parametrize("word", ["0", "off", "", "nonsense"])
def test_other_words_are_false(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", word)
    assert not Settings().hf_hub_offline


@pytest.mark.parametrize(
    "url", ["hub", "ftp://hub", "https://", "https://hunter2@hub", "https://hub?a=1", "https://h#a"]
)
def test_an_endpoint_is_a_plain_url(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", url)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "read"),
    [("redis://a", "redis://a"), ("valkeys://a/1", "rediss://a/1"), ("unix:///a", "unix:///a")],
)
def test_a_cache_is_redis_or_valkey(monkeypatch: pytest.MonkeyPatch, url: str, read: str) -> None:
    monkeypatch.setenv("TRAINFIT_CACHE_URL", url)
    assert Settings().cache_url == SecretStr(read)


@pytest.mark.parametrize("url", ["localhost:6379", "http://:hunter2@cache", "memcached://cache"])
def test_another_cache_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("TRAINFIT_CACHE_URL", url)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert "hunter2" not in str(refused.value)


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("TRAINFIT_CACHE_URL", "redis://:hunter2@cache")
    assert "hunter2" not in repr(Settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "65536"),
        ("LOG_LEVEL", "loud"),
        ("MAX_BODY_BYTES", "0"),
        ("TLS_CERT", "nowhere.pem"),
        ("HUB_TTL_SECONDS", "-1"),
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
