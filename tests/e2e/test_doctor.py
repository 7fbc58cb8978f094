"""What the server says about the host's protections: `sandbroker doctor`, and its log at start."""
import json
import os
import pathlib
import subprocess

import pytest
import yaml

from harness import walls
from harness.server import program, run_program

NAMES = ["isolation", "host_uid", "system_calls", "apparmor", "memory", "processes", "disk",
         "kernel_pointers"]


def doctor(*arguments, prefix=()):
    return subprocess.run([*prefix, program("sandbroker"), "doctor", *arguments],
                          capture_output=True, text=True, timeout=60)


def by_name(done):
    report = json.loads(done.stdout)
    return report, {one["name"]: one for one in report["protections"]}


def test_report_names_every_protection_and_what_would_enable_the_rest():
    done = doctor("--json")
    assert done.returncode == 0, done.stderr
    report, found = by_name(done)
    assert report["fit"] and list(found) == NAMES
    assert found["isolation"]["state"] == found["system_calls"]["state"] == "active"
    for one in found.values():
        assert (one["remedy"] == "") == (one["state"] == "active"), one


def test_report_is_readable_without_json():
    done = doctor()
    assert done.returncode == 0
    for name in NAMES:
        assert f" {name}: " in done.stdout


@pytest.mark.skipif(not walls.is_root(), reason="compares root with an ordinary user")
def test_ordinary_user_is_told_what_root_would_add():
    _, as_root = by_name(doctor("--json"))
    _, as_user = by_name(doctor("--json", prefix=walls.become(walls.ORDINARY_UID)))
    assert as_root["host_uid"]["state"] == "active"
    assert as_user["host_uid"]["state"] == "partly" and "root" in as_user["host_uid"]["remedy"]
    assert as_user["isolation"]["state"] == "active"


def test_unfit_host_is_refused_with_the_remedy():
    done = subprocess.run([program("sandbrokerd"), "--doctor", "--json", "--bwrap", "/no/bwrap"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    report, found = by_name(done)
    assert not report["fit"]
    assert found["isolation"]["state"] == "missing"
    assert "install bubblewrap" in found["isolation"]["remedy"]


def test_limit_that_cannot_be_kept_is_named(tmp_path):
    config = tmp_path / "broker.yaml"
    body = {"local": {"cgroup": "/no/such/cgroup"}, "templates": {"big": {"memory": "64MiB"}}}
    config.write_text(yaml.safe_dump(body))
    done = doctor("--json", "--config", str(config))
    assert done.returncode == 3
    report, _ = by_name(done)
    assert len(report["refused"]) == 1 and "templates.big.memory" in report["refused"][0]
    body["templates"]["big"]["limits"] = "advisory"
    config.write_text(yaml.safe_dump(body))
    report, _ = by_name(doctor("--json", "--config", str(config)))
    assert report["fit"] and report["refused"] == [] and len(report["warned"]) == 1


def test_doctor_starts_and_leaves_nothing(tmp_path):
    state = tmp_path / "state"
    done = run_program("sandbrokerd", "--doctor", "--state-dir", str(state))
    assert done.returncode == 0 and not state.exists()


def test_missing_server_program_is_said():
    done = doctor("--server", "/no/such/sandbrokerd")
    assert done.returncode == 125 and "--server" in done.stderr


def test_server_reports_its_protections_at_start(make_server):
    server = make_server(config={"log": {"format": "json"}})
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    found = [line["name"] for line in lines if line["message"] == "protection"]
    assert found == NAMES


def test_found_through_the_path_when_not_beside(tmp_path):
    """The server is looked for beside the command and then in PATH."""
    lone = tmp_path / "sandbroker"
    lone.write_bytes(pathlib.Path(program("sandbroker")).read_bytes())
    lone.chmod(0o755)
    environment = {**os.environ, "PATH": f"{os.environ['SANDBROKER_BIN_DIR']}:/usr/bin"}
    done = subprocess.run([str(lone), "doctor", "--json"], capture_output=True, text=True,
                          env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
