"""launcher check --schema: what editors read."""

import json
import re

import jsonschema

from launcher.client.spec import read_value


def test_schema_prints_a_json_schema(terminal):
    result = terminal("check", "--schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_first_job_names_the_schema_beside_it(terminal):
    terminal("init", terminal.folder)
    text = (terminal.folder / "job.yaml").read_text()
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert named
    schema = json.loads((terminal.folder / named[1]).read_text())
    assert schema == json.loads(terminal("check", "--schema").stdout)
    jsonschema.Draft202012Validator(schema).validate(read_value(text))


def test_the_schema_is_not_sent_with_the_job(terminal):
    terminal("init", terminal.folder)
    assert ".job.schema.json" in (terminal.folder / ".launcherignore").read_text().splitlines()
