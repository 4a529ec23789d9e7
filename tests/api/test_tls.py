"""HTTPS, with certificates that are renewed under a running service."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import httpx
import pytest
import trustme
from pydantic import ValidationError

from tests.api.kubernetes.objects import FITS, JOB, annotated, review
from tests.serving import free_port, start, wait_until_ready
from trainfit.api.settings import ServiceSettings


def written(folder: Path, issued: trustme.LeafCert) -> dict[str, str]:
    """The settings of a certificate in the files of a folder, replaced as Kubernetes does it."""
    files = {
        "TLS_CERT": ("tls.crt", b"".join(pem.bytes() for pem in issued.cert_chain_pems)),
        "TLS_KEY": ("tls.key", issued.private_key_pem.bytes()),
    }
    for name, content in files.values():
        fresh = folder / f"{name}.new"
        fresh.write_bytes(content)
        os.replace(fresh, folder / name)
    return {f"TRAINFIT_{setting}": str(folder / name) for setting, (name, _) in files.items()}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_certificate_is_renewed_without_a_restart(tmp_path: Path, host: str) -> None:
    first, second = trustme.CA(), trustme.CA()
    port = free_port()
    url = f"https://{host}:{port}"
    settings = written(tmp_path, first.issue_cert(host))
    process = start({"TRAINFIT_PORT": str(port), "TRAINFIT_LOG_LEVEL": "warning", **settings})
    try:
        wait_until_ready(url, process, trusting(first))
        body = review(annotated(JOB, FITS))
        answer = httpx.post(f"{url}/v1/admission", json=body, verify=trusting(first))
        assert answer.json()["response"]["allowed"]
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/livez", verify=trusting(second))

        Path(settings["TRAINFIT_TLS_KEY"]).write_text("half a renewal")
        assert httpx.get(f"{url}/livez", verify=trusting(first)).status_code == 200
        written(tmp_path, second.issue_cert(host))
        assert httpx.get(f"{url}/livez", verify=trusting(second)).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/livez", verify=trusting(first))
    finally:
        process.terminate()
        _, log = process.communicate(timeout=30)
    assert log.count("certificate not renewed") == 1


@pytest.mark.parametrize("missing", ["TRAINFIT_TLS_CERT", "TRAINFIT_TLS_KEY"])
def test_a_certificate_goes_with_its_key(tmp_path: Path, missing: str) -> None:
    settings = written(tmp_path, trustme.CA().issue_cert("localhost"))
    del settings[missing]
    process = start(settings)
    _, log = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "a certificate and its key are set together" in log


def test_a_key_of_another_certificate_is_refused_at_the_start(tmp_path: Path) -> None:
    other = trustme.CA().issue_cert("localhost")
    settings = written(tmp_path, trustme.CA().issue_cert("localhost"))
    Path(settings["TRAINFIT_TLS_KEY"]).write_bytes(other.private_key_pem.bytes())
    process = start(settings)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 1
    assert log.startswith("TRAINFIT_TLS_CERT, TRAINFIT_TLS_KEY: ")


def test_a_certificate_that_is_not_there_is_told_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFIT_TLS_CERT", "nowhere.pem")
    monkeypatch.setenv("TRAINFIT_TLS_KEY", __file__)
    with pytest.raises(ValidationError) as refused:
        ServiceSettings()
    assert [each["loc"] for each in refused.value.errors()] == [("tls_cert",)]
