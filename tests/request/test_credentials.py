"""Credentials in a source folder: left out and named, unless a line includes them."""

import pytest

from launcher.client.request import SourceTree, build_bundle
from launcher.client.spec import JobSpec
from launcher.errors import SpecError

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"
ACCOUNT = '{"type": "service_account", "project_id": "p"}'


def packed(source, **fields):
    return {file.path for file in SourceTree(source.spec(**fields)).files}


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.local",
        "src/.env.production",
        ".netrc",
        ".git-credentials",
        ".pypirc",
        "id_rsa",
        "keys/id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "infra/terraform.tfstate",
        "terraform.tfstate.backup",
        "kaggle.json",
        "application_default_credentials.json",
        "cert.p12",
        ".pgpass",
        ".s3cfg",
        ".boto",
        ".vault-token",
        "kubeconfig.yaml",
        "prod-kubeconfig",
        "secrets.toml",
        ".secrets.yaml",
        "conf/prod.env",
        ".env.example.com",
        "credentials",
        "credentials.csv",
        ".cargo/credentials.toml",
        ".claude/.credentials.json",
        "prod.tfvars",
        "token.pickle",
        ".bash_history",
        ".snowflake/connections.toml",
        ".m2/settings.xml",
        "huggingface/stored_tokens",
    ],
)
def test_a_file_of_credentials_is_left_out_by_its_name(source, path):
    source.write_all({path: "secret"})
    assert packed(source) == {"train.py"}
    (warning,) = build_bundle(source.spec()).warnings
    assert f"!/{path}" in warning.splitlines()[1]
    assert str(source.root / ".launcherignore") in warning
    source.write_all({".launcherignore": f"!/{path}\n"})
    assert packed(source) == {"train.py", ".launcherignore", path}
    assert build_bundle(source.spec()).warnings == ()


@pytest.mark.parametrize(
    "path",
    [
        ".ssh/known_hosts",
        ".aws/credentials",
        ".docker/config.json",
        ".kube/config",
        ".kaggle/kaggle.json",
        ".huggingface/token",
        "a/.aws/config",
        ".config/gcloud/credentials.db",
    ],
)
def test_a_folder_of_credentials_is_left_out_and_named_once(source, path):
    folder, _, _ = path.rpartition("/")
    source.write_all({path: "secret", f"{folder}/other/id_rsa": "secret"})
    assert packed(source) == {"train.py"}
    (warning,) = build_bundle(source.spec()).warnings
    assert warning.count("!/") == 1
    assert f"!/{folder}/" in warning
    source.write_all({".launcherignore": f"!/{folder}/\n"})
    assert packed(source) == {"train.py", ".launcherignore", path, f"{folder}/other/id_rsa"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("server.pem", KEY),
        ("both.pem", "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n" + KEY),
        ("server.key", "-----BEGIN EC PRIVATE KEY-----"),
        ("SERVER.PEM", KEY),
        ("deploy_key", "-----BEGIN OPENSSH PRIVATE KEY-----\n"),
        ("service.json", '{"private_key": "-----BEGIN PRIVATE KEY-----\\nMII"}'),
        ("project-1234.json", ACCOUNT),
        ("config.json", '{"auths": {"quay.io": {"auth": "eHg="}}}'),
        ("token.json", '{"refresh_token": "1//x"}'),
        ("keys.txt", "# public key: age1\nAGE-SECRET-KEY-1QQ"),
        ("client.ovpn", f"<key>\n{KEY}</key>"),
        (".npmrc", "//registry.example.com/:_authToken=abc"),
        ("pip.conf", "[global]\nindex-url = https://me:secret@example.com/simple"),
    ],
)
def test_a_file_with_a_key_in_it_is_left_out(source, path, text):
    source.write_all({path: text})
    assert packed(source) == {"train.py"}
    assert f"!/{path}" in build_bundle(source.spec()).warnings[0]


def test_a_key_in_utf_16_is_one(source):
    (source.root / "key.json").write_bytes(ACCOUNT.encode("utf-16"))
    assert packed(source) == {"train.py"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".env.example", "KEY="),
        (".env.production.example", "KEY="),
        ("example.env", "KEY="),
        ("secrets.example.toml", "key = 1"),
        (".secrets.baseline", "{}"),
        ("secrets.py", ""),
        ("credentials.py", ""),
        ("token.json", '{"token": 1}'),
        ("labels.txt", "cat"),
        ("m2/settings.xml", ""),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nMIIC\n"),
        ("public.key", "-----BEGIN PUBLIC KEY-----\n"),
        ("id_rsa.pub", "ssh-rsa AAAA"),
        ("id_map.json", '{"a": 1}'),
        ("config.json", '{"key": "value", "type": "model"}'),
        ("tokenizer.json", '{"vocab": {"private": 1, "key": 2}}'),
        ("environment.py", ""),
        (".npmrc", "registry=https://registry.example.com"),
        ("docker/Dockerfile", ""),
        ("aws/main.py", ""),
    ],
)
def test_what_only_looks_like_one_is_sent(source, path, text):
    source.write_all({path: text})
    assert packed(source) == {"train.py", path}
    assert build_bundle(source.spec()).warnings == ()


@pytest.mark.parametrize("line", ["!*", "!**", "!/data/", "!data/**", "!/data/*", "!*/"])
def test_a_line_that_includes_everything_includes_no_credentials(source, line):
    source.write_all({".launcherignore": f"{line}\n", "data/.env": "s", "data/x": ""})
    assert packed(source) == {"train.py", ".launcherignore", "data/x"}


@pytest.mark.parametrize("line", ["!.env", "!/data/.env", "!data/.e*", "!.env*"])
def test_a_line_that_names_them_includes_them(source, line):
    source.write_all({".launcherignore": f"{line}\n", "data/.env": "s"})
    assert "data/.env" in packed(source)


def test_what_git_includes_is_not_sent_for_that(source):
    source.write_all({".gitignore": "!.env\n", ".env": "s"})
    assert packed(source) == {"train.py", ".gitignore"}


def test_what_is_ignored_is_not_named(source):
    source.write_all({".gitignore": ".env\nkeys/\n", ".env": "s", "keys/id_rsa": "s"})
    assert build_bundle(source.spec()).warnings == ()


def test_a_link_to_credentials_under_another_name(source):
    source.write_all({".env": "s"})
    (source.root / "settings").symlink_to(".env")
    assert packed(source) == {"train.py"}


def test_many_are_counted(source):
    source.write_all({f"{n:02}/.env": "s" for n in range(13)})
    (warning,) = build_bundle(source.spec()).warnings
    assert warning.count("!/") == 10
    assert "and 3 more" in warning


def test_the_line_of_a_name_with_signs_of_patterns_includes_it(source):
    source.write_all({"a[1]/b*/.env": "s"})
    (warning,) = build_bundle(source.spec()).warnings
    line = warning.splitlines()[1].strip()
    source.write_all({".launcherignore": line})
    assert "a[1]/b*/.env" in packed(source)


def test_credentials_in_a_dependency_are_left_out(source, tmp_path):
    near = tmp_path / "near"
    near.mkdir()
    (near / "code.py").write_text("")
    (near / ".env").write_text("s")
    fields = {"dependencies": [str(near)]}
    assert packed(source, **fields) == {"train.py", "near/code.py"}
    assert str(near / ".launcherignore") in build_bundle(source.spec(**fields)).warnings[0]


@pytest.mark.parametrize("name", [".env", "server.pem", ".aws"])
def test_a_dependency_that_holds_credentials_is_refused(source, tmp_path, name):
    path = tmp_path / "near" / name
    path.parent.mkdir()
    path.mkdir() if name == ".aws" else path.write_text(KEY)
    with pytest.raises(SpecError, match="it holds credentials") as caught:
        packed(source, dependencies=[str(path)])
    assert f"!/{name}" in str(caught.value)
    (tmp_path / "near" / ".launcherignore").write_text(f"!/{name}\n")
    assert "train.py" in packed(source, dependencies=[str(path)])


def test_a_lone_script_travels_without_what_is_beside_it(source):
    source.write_all({".env": "s"})
    tree = SourceTree(JobSpec(entry_point=str(source.root / "train.py"), instance_type="local"))
    assert [file.path for file in tree.files] == ["train.py"]
