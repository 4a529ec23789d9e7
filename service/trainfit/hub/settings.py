"""What the Hub needs to know, from environment variables. Those that begin with HF_ mean what they
mean to huggingface_hub.
"""

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

HUGGING_FACE = "https://huggingface.co"


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be without user, password, query and fragment")
    return url.rstrip("/")


def _cache_url(url: SecretStr) -> SecretStr:
    """Valkey speaks as Redis does, under names of its own."""
    scheme, separator, rest = url.get_secret_value().partition("://")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme)
    if not separator or scheme not in ("redis", "rediss", "unix"):
        raise ValueError("must be a redis, rediss, valkey, valkeys or unix URL")
    return SecretStr(f"{scheme}{separator}{rest}")


def _names(value: Any) -> Any:
    """Names from a list with commas."""
    if isinstance(value, str):
        return tuple(filter(None, map(str.strip, value.split(","))))
    return value


def _switch(value: Any) -> Any:
    """huggingface_hub takes these words for true and all others for false."""
    return value.upper() in ("1", "ON", "YES", "TRUE") if isinstance(value, str) else value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


Endpoint = Annotated[str, AfterValidator(_endpoint)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]
Seconds = Annotated[float, Field(gt=0, le=300)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Folder = Annotated[Path | None, BeforeValidator(_none_if_empty)]
Secret = Annotated[SecretStr | None, BeforeValidator(_none_if_empty)]
CacheUrl = Annotated[
    Annotated[SecretStr, AfterValidator(_cache_url)] | None, BeforeValidator(_none_if_empty)
]


def variable_of(name: str) -> str:
    """The environment variable of a field, which errors name by itself or by the variable."""
    return name if name.isupper() else f"TRAINFIT_{name.upper()}"


class HubSettings(BaseSettings):
    """How models are looked up on the Hub and where what was found is kept."""

    model_config = SettingsConfigDict(
        env_prefix="TRAINFIT_", frozen=True, hide_input_in_errors=True, validate_by_name=True
    )

    hf_endpoint: Endpoint = Field(
        HUGGING_FACE,
        validation_alias="HF_ENDPOINT",
        description="The Hub, or a mirror of it.",
    )
    hf_hub_offline: Switch = Field(
        False,
        validation_alias=AliasChoices("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
        description="1: nothing is fetched; models are answered from caches and the package.",
    )
    hf_token: Secret = Field(
        None,
        validation_alias="HF_TOKEN",
        description="Token with which the service itself reads gated and private models.",
    )
    hf_token_path: Folder = Field(
        None, validation_alias="HF_TOKEN_PATH", description="File that holds such a token."
    )
    hf_home: Folder = Field(
        None,
        validation_alias="HF_HOME",
        description="Folder whose hub/ is a cache of huggingface_hub; it is read where it is named "
        "here or by HF_HUB_CACHE, and shown to every caller.",
    )
    hf_hub_cache: Folder = Field(
        None, validation_alias="HF_HUB_CACHE", description="The cache itself, in place of HF_HOME."
    )
    hub_organisations: Names = Field(
        (),
        description="Organisations whose models are looked up, with commas between them. "
        "Unset: all.",
    )
    hub_timeout_seconds: Seconds = Field(
        5.0, description="Longest wait for a model that is not known yet, retries included."
    )
    hub_connect_timeout_seconds: Seconds = Field(
        1.0,
        description="Longest wait for a connection to the Hub, and for its whole answer where the "
        "package has a config of the model.",
    )
    hub_ttl_seconds: Annotated[float, Field(ge=0)] = Field(
        3600.0,
        description="How long the commit that a branch or tag names is taken for granted. After "
        "that it is answered once more and looked up anew.",
    )
    cache_dir: str = Field(
        "~/.cache/trainfit",
        description="Folder in which configs outlive a restart. Empty: none is kept on disk.",
    )
    cache_url: CacheUrl = Field(
        None,
        description="Redis or Valkey (redis://, rediss:// or unix://) in which replicas share "
        "what is public and how often each caller has asked.",
    )

    def cache_folder(self) -> Path | None:
        """Where configs are kept on disk; None where they are not."""
        if not self.cache_dir:
            return None
        try:
            return Path(self.cache_dir).expanduser()
        except RuntimeError:  # nobody's home
            return None

    @property
    def has_token(self) -> bool:
        """Whether the operator names a token."""
        return self.hf_token is not None or self.hf_token_path is not None

    def own_token(self, *, personal: bool) -> str | None:
        """The token of the operator. `personal`: of the person at this terminal, who may have
        logged in with huggingface_hub.

        Raises OSError where a file that is named cannot be read.
        """
        if self.hf_token is not None:
            return self.hf_token.get_secret_value().strip() or None
        if self.hf_token_path is not None:
            return self.hf_token_path.expanduser().read_text("utf-8").strip() or None
        if personal:
            try:
                return (self._home() / "token").read_text("utf-8").strip() or None
            except (OSError, RuntimeError):
                return None
        return None

    def foreign_cache(self, *, personal: bool) -> Path | None:
        """The cache of huggingface_hub. A service reads one that is named; a person, also the one
        that is there without being named.
        """
        if self.hf_hub_cache is not None:
            return self.hf_hub_cache.expanduser()
        if self.hf_home is None and not personal:
            return None
        try:
            return self._home() / "hub"
        except RuntimeError:
            return None

    def _home(self) -> Path:
        if self.hf_home is not None:
            return self.hf_home.expanduser()
        cache = os.environ.get("XDG_CACHE_HOME")
        return (Path(cache) if cache else Path.home() / ".cache") / "huggingface"
