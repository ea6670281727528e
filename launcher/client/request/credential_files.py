"""Files and folders that hold credentials: by their names, and some by what is in them."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDERS = frozenset(
    {
        ".aws",
        ".azure",
        ".docker",
        ".gcloud",
        ".gnupg",
        ".huggingface",
        ".kaggle",
        ".kube",
        ".oci",
        ".password-store",
        ".ssh",
    }
)
#: Folders and files of tools that keep their state in folders of all tools.
_BELOW = frozenset(
    {
        (".config", "gcloud"),
        (".config", "gh"),
        (".config", "hub"),
        (".config", "op"),
        (".config", "rclone"),
        (".duckdb", "stored_secrets"),
        (".fly", "config.yml"),
        (".m2", "settings.xml"),
        (".mc", "config.json"),
        (".ngc", "config"),
        (".snowflake", "connections.toml"),
        ("huggingface", "stored_tokens"),
        ("huggingface", "token"),
    }
)
_FILES = re.compile(
    r"""(?!(.*[._-])?(example|sample|template|dist|baseline)(\.(csv|env|ini|json|toml|ya?ml))?$)
      ( .*\.env | \.env\..+ | .+\.tfvars(\.json)?
      | \.?(credentials|secrets?)(\.(csv|db|ini|json|tfrc\.json|toml|xml|ya?ml))? )
      | \.envrc | [._]netrc | \.git-credentials | \.pypirc | \.pgpass | \.my(login)?\.cnf
      | \.boto | \.s3cfg | \.dockercfg | \.vault-token | \.vault_pass(word)?(\..+)? | \.htpasswd
      | \.databrickscfg | \.terraformrc | \.comet\.config | \.modal\.toml | \.renviron | hf_token
      | \.(bash|mysql|psql|python|sh|zsh)_history | history\.sqlite | token\.pickle | rootkey\.csv
      | id_(rsa|dsa|ecdsa|ed25519)(_sk)? | kaggle\.json | (.+[._-])?kubeconfig([._-].+)?
      | \.?rclone\.conf | application_default_credentials\.json | .+\.tfstate(\..+)?
      | .+\.(ppk|p12|pfx|jks|keystore|kdb|kdbx)""",
    re.VERBOSE | re.IGNORECASE,
)
#: What may hold a key; a certificate without one is public. "": a name without an ending.
_MAY_HOLD_KEY = frozenset({".pem", ".key", ".json", ".crt", ".cer", ".p8", ".asc", ".ovpn"})
_MAY_BE_SHORT_KEY = frozenset({"", ".txt"})
_KEY = re.compile(rb"BEGIN [A-Z0-9 ]*PRIVATE KEY|AGE-SECRET-KEY-1")
_JSON_KEY = re.compile(
    rb"""BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY
      | "type"\s*:\s*"(service_account|authorized_user)"
      | "(private_key|client_?secret|(aws_?)?secret_?access_?key|refresh_?token)"\s*:\s*"[^"]
      | "(auths|http-basic)"\s*:\s*\{\s*"|AccountKey=""",
    re.VERBOSE | re.IGNORECASE,
)
#: Configuration of package managers, which may have a token or an address with a password.
_MAY_HOLD_TOKEN = frozenset({".npmrc", ".yarnrc.yml", "pip.conf", "pip.ini", ".condarc"})
_TOKEN = re.compile(rb"_auth|_password|npmAuthToken|://[^/\s:@]+:[^/\s@]+@")
#: Bytes that are searched, and of a bare file that is; a key has a few thousand.
_SEARCHED, _LARGEST_BARE = 1 << 20, 1 << 16


def is_credential(path: Path, *, is_folder: bool) -> bool:
    """Return whether a folder or a regular file holds credentials."""
    name = path.name.lower()
    if name in _FOLDERS or (path.parent.name.lower(), name) in _BELOW:
        return is_folder or name not in _FOLDERS
    return not is_folder and (_FILES.fullmatch(name) is not None or _holds_secret(path, name))


def _holds_secret(path: Path, name: str) -> bool:
    suffix = Path(name).suffix
    if name in _MAY_HOLD_TOKEN:
        return _finds(_TOKEN, path)
    is_short = suffix in _MAY_BE_SHORT_KEY and path.stat().st_size <= _LARGEST_BARE
    if suffix in _MAY_HOLD_KEY or is_short:
        return _finds(_JSON_KEY if suffix == ".json" else _KEY, path)
    return False


def _finds(pattern: re.Pattern[bytes], path: Path) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(_SEARCHED)
    except OSError:
        return False  # it cannot be sent, which is a problem of its own
    return pattern.search(start.replace(b"\0", b"")) is not None  # UTF-16 has a zero in each letter
