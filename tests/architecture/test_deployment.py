"""Images and what runs them: nothing here needs Docker or a cluster."""

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose
from pydantic import SecretStr
from scripts.image_contents import install, targets

from groundwire.cli.app import app
from groundwire.standalone.settings import ServiceName, load_settings
from groundwire.standalone.start_checks import check_stores
from tests.packages import in_checkout

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES = {
    "ingest": "groundwire.api.ingest.v1.IngestService",
    "retrieve": "groundwire.api.retrieve.v1.RetrieveService",
    "answer": "groundwire.api.answer.v1.AnswerService",
}
OURS = set(SERVICES)
FORMATS = {"charset-normalizer", "docutils", "puremagic", "pypdfium2", "python-docx", "selectolax"}
HEAVY = {"chromadb", "onnxruntime", "openvino", "qdrant-client", "qdrant-edge-py", "torch", "transformers"}


def test_each_target_serves_its_service_and_checks_it() -> None:
    assert set(targets()) == OURS | {"all"}
    stages = dict(re.findall(r"^FROM runtime AS (\w+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL))
    assert set(stages) == set(targets())
    for name, stage in stages.items():
        assert f'\nCMD ["serve", "{name}"]\n' in stage
        (checked,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", stage, re.MULTILINE)
        # A process that has one service does not know the others.
        service = [] if name == "all" else ["--service", SERVICES[name]]
        assert json.loads(checked) == ["groundwire", "health", *service]


def test_every_extra_of_an_image_is_one_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {extra for extras, _ in targets().values() for extra in extras.split(",")}
    assert len(named) > len(targets())
    assert named - set(project["optional-dependencies"]) == set()


def given(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of a service in the composition, with its defaults filled in, and in the cluster."""
    composed = {key: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for key, value in compose()[name]["environment"].items()}
    (pod,) = pods("Deployment")[name]["containers"]
    return composed, {each["name"]: each["value"] for each in pod["env"]}


def parsed(command: list[str]) -> dict[str, Any]:
    """Return what the command line understands of a command."""
    name, *arguments = command
    return app.commands[name].make_context(name, arguments).params


def test_images_have_what_the_addresses_of_their_stores_need() -> None:
    extras = {"postgresql": "postgres", "qdrant": "qdrant", "chroma+http": "chroma"}
    for name in sorted(OURS):
        installed = set(targets()[name][0].split(","))
        for variables in given(name):
            schemes = {value.partition("://")[0] for value in variables.values() if "://" in value} - {"dns"}
            assert schemes == ({"postgresql"} if name == "answer" else {"postgresql", "qdrant"})
            assert {extras[scheme] for scheme in schemes} <= installed


@pytest.mark.parametrize("name", sorted(OURS))
def test_services_start_as_composition_and_cluster_tell_them(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands = [json.loads(each) for each in re.findall(r"CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)]
    (served,) = [command for command in commands if command[-1] == name]
    (checked,) = [command for command in commands if command[-1] == SERVICES[name]]
    assert parsed(checked[1:])["service"] == SERVICES[name]
    flags = parsed(served)
    secrets = set(mounted_secrets(name)) - {"api_keys"}
    for file in secrets:
        (tmp_path / file).write_text("secret", encoding="utf-8")
    of_image = dict(re.findall(r"^ +(GROUNDWIRE_\w+)=(\S+)", DOCKERFILE.partition("\nENV PATH")[2], re.MULTILINE))
    assert of_image["GROUNDWIRE_DATA"] == "/data"
    for variables in given(name):
        with monkeypatch.context() as patched:
            for variable, value in (of_image | variables | {"GROUNDWIRE_SECRETS": str(tmp_path)}).items():
                patched.setenv(variable, value)
            settings = load_settings(**{key: value for key, value in flags.items() if key != "service"})
        check_stores(ServiceName(flags["service"]), settings.server)
        read = {f"groundwire_{key}" for key, value in settings.server if isinstance(value, SecretStr)}
        assert read == secrets
        assert settings.server.has_credentials


def test_images_run_as_a_normal_user() -> None:
    runtime = DOCKERFILE.partition(" AS runtime\n")[2].partition("\nFROM ")[0]
    assert re.search(r"^USER 10001:10001$", runtime, re.MULTILINE)
    # No later stage takes that back.
    later = DOCKERFILE.partition(" AS runtime\n")[2].partition("\nFROM ")[2]
    assert not re.search(r"^(USER|RUN)", later, re.MULTILINE)


@in_checkout
def test_the_builder_gets_what_the_wheel_is_made_of_and_nothing_else(tmp_path: Path) -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert rules[0] == "*"
    allowed = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    for path in allowed:
        for found in ROOT.glob(path):
            target = tmp_path / found.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if found.is_dir() else shutil.copy
            copy(found, target)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert len(packages) == 6
    assert [package for package in packages if not (tmp_path / package).is_dir()] == []
    assert not {"tests", "docs", ".git", ".venv"} & {path.name for path in tmp_path.iterdir()}


COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
KUBERNETES = ROOT / "deploy" / "kubernetes"
KUBERNETES_VERSION = "1.34"
STORES = {"postgres", "qdrant", "chroma"}


def compose() -> dict[str, dict[str, Any]]:
    """Return the services of the composition, with what they share filled in."""
    services: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
    return services


def mounted_secrets(name: str) -> dict[str, str]:
    """Return the secrets of a service of the composition by the name of their file in it."""
    secrets = compose()[name].get("secrets", [])
    described = [each if isinstance(each, dict) else {"source": each, "target": each} for each in secrets]
    return {each["target"]: each["source"] for each in described}


def resources() -> list[dict[str, Any]]:
    """Return everything that the kustomization puts into the cluster."""
    named = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [each for name in named for each in yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8"))]


def pods(*kinds: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in resources() if each["kind"] in kinds}


def test_the_composition_is_one() -> None:
    PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(COMPOSE))).validate()  # with the merged parts filled in
    assert set(compose()) == OURS | STORES
    for service in compose().values():
        assert set(service.get("depends_on", ())) <= set(compose())
    profiles = {name: service["profiles"] for name, service in compose().items() if "profiles" in service}
    assert profiles == {"qdrant": ["qdrant"], "chroma": ["chroma"]}
    assert "COMPOSE_PROFILES=qdrant\n" in (ROOT / ".env").read_text(encoding="utf-8")


def test_the_database_is_ready_once_others_reach_it() -> None:
    command = compose()["postgres"]["healthcheck"]["test"]
    assert command[command.index("--host") + 1] == "127.0.0.1"


def test_nobody_outside_reaches_a_store_of_the_composition() -> None:
    document = yaml.safe_load(COMPOSE)
    published = {name: service.get("ports", []) for name, service in compose().items()}
    assert {name for name, ports in published.items() if ports} == OURS
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    internal = {name for name, network in document["networks"].items() if (network or {}).get("internal")}
    assert {name for name, service in compose().items() if set(service["networks"]) <= internal} == STORES


def test_services_of_the_composition_are_confined() -> None:
    for name in sorted(OURS):
        service = compose()[name]
        assert service["build"]["target"] == name
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
    for service in compose().values():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    # Start follows health, of what can tell it.
    assert compose()["answer"]["depends_on"]["retrieve"] == {"condition": "service_healthy"}
    assert compose()["retrieve"]["depends_on"]["postgres"] == {"condition": "service_healthy"}


def test_secrets_are_files() -> None:
    document = yaml.safe_load(COMPOSE)
    assert set(document["secrets"]) == {source for name in compose() for source in mounted_secrets(name).values()}
    assert {path["file"].rpartition("/")[0] for path in document["secrets"].values()} == {"deploy/secrets"}
    assert "deploy/**/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert not re.search(r"://[^/\s\"']+:[^/\s\"']+@|PASSWORD[:=]", COMPOSE)


def test_every_variable_of_images_composition_and_cluster_is_a_setting() -> None:
    texts = [DOCKERFILE, COMPOSE, *(path.read_text(encoding="utf-8") for path in KUBERNETES.glob("*.yaml"))]
    named = {name for text in texts for name in re.findall(r"\bGROUNDWIRE_[A-Z_]+\b", text)}
    settings = set(load_settings().shown()) | {"GROUNDWIRE_SECRETS"}
    assert {"GROUNDWIRE_KEYS", "GROUNDWIRE_VECTORS", "GROUNDWIRE_RETRIEVE"} <= named
    assert named - settings == set()
    # Files of a folder of secrets are named after settings, and each database has its password.
    for name in OURS:
        files = {file.upper() for file in mounted_secrets(name)} - {"API_KEYS"}
        assert files <= settings
        (volume,) = [each for each in pods("Deployment")[name]["volumes"] if each["name"] == "settings"]
        assert {item["path"].upper() for item in volume["secret"]["items"]} == files
        databases = {each for each, value in compose()[name]["environment"].items() if value.startswith("postgresql:")}
        assert databases
        assert {f"{each}_PASSWORD" for each in databases} <= files


def test_the_cluster_is_described_by_its_schema() -> None:
    everything = resources()
    for resource in everything:
        kubernetes_validate.validate(resource, KUBERNETES_VERSION, strict=True)
    assert len(everything) > 15
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert {path.name for path in KUBERNETES.glob("*.yaml")} == {*listed, "kustomization.yaml"}


def test_every_service_of_the_cluster_has_what_keeps_it_up() -> None:
    names: dict[str, set[str]] = {}
    for resource in resources():
        names.setdefault(resource["kind"], set()).add(resource["metadata"]["name"])
    assert names["Deployment"] == names["HorizontalPodAutoscaler"] == OURS
    assert names["StatefulSet"] == {"qdrant"}
    assert names["PodDisruptionBudget"] == OURS | {"qdrant"}
    assert names["NetworkPolicy"] == OURS | {"qdrant", "nothing-else"}


def test_probes_ask_for_services_that_exist() -> None:
    for name, pod in pods("Deployment").items():
        (container,) = pod["containers"]
        assert container["readinessProbe"]["grpc"]["service"] == SERVICES[name]
        assert (
            container["livenessProbe"]["grpc"]["service"] == container["startupProbe"]["grpc"]["service"] == "liveness"
        )


def test_pods_have_no_rights_that_they_do_not_need() -> None:
    everything = pods("Deployment", "StatefulSet")
    assert set(everything) == OURS | {"qdrant"}
    for pod in everything.values():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= set(container["resources"])
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        claimed = {"storage"} if container["name"] == "qdrant" else set()
        assert mounted == {volume["name"] for volume in pod["volumes"]} | claimed


@pytest.mark.slow
@in_checkout
def test_images_hold_what_their_service_needs_and_no_more(tmp_path: Path) -> None:
    answer = install("answer", tmp_path)
    assert HEAVY & set(answer.packages) == set()
    assert answer.size_bytes < 120_000_000
    ingest = install("ingest", tmp_path)
    assert set(ingest.packages) >= FORMATS | {"openvino", "qdrant-client"}
    assert "torch" not in ingest.packages
