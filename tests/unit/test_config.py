"""Settings: what is given in code wins, the environment fills gaps, the rest has a default."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.config import EngineConfig, from_environment
from perdure.errors import ConfigurationError

ENVIRONMENT = {
    "DBOS_SYSTEM_DATABASE_URL": "postgresql://there/db",
    "DBOS__APPVERSION": "v-environment",
    "DBOS__VMID": "executor-environment",
    "DBOS__APPID": "id-environment",
}


def config(environ: dict[str, str] | None = None, **given: Any) -> EngineConfig:
    return from_environment({"url": "memory:", **given}, environ or {})


def test_without_anything_there_are_defaults() -> None:
    """The version is a constant, so that a redeploy goes on with the work of the one before."""
    bare = config()
    assert (bare.name, bare.version, bare.executor_id) == ("app", "app@default", "local")
    assert (bare.application_id, bare.schema, bare.migrate) == ("", "dbos", True)
    assert config(name="shop").version == "shop@default"


def test_the_environment_fills_what_is_not_given() -> None:
    found = from_environment({"url": None}, ENVIRONMENT)
    assert found.url == "postgresql://there/db"
    assert (found.version, found.executor_id) == ("v-environment", "executor-environment")
    assert found.application_id == "id-environment"


def test_what_is_given_in_code_wins() -> None:
    found = config(ENVIRONMENT, version="v1", executor_id="mine")
    assert (found.url, found.version, found.executor_id) == ("memory:", "v1", "mine")


def test_an_empty_variable_counts_as_unset() -> None:
    found = config(dict.fromkeys(ENVIRONMENT, ""))
    assert (found.version, found.executor_id) == ("app@default", "local")


def test_a_cloud_is_unknown_and_changes_nothing() -> None:
    """Code wins everywhere, and no name is taken from the environment."""
    cloud = {**ENVIRONMENT, "DBOS__CLOUD": "true", "DBOS_APP_NAME": "cloud"}
    found = config(cloud, version="v1", executor_id="mine")
    assert (found.name, found.version, found.executor_id) == ("app", "v1", "mine")


def test_no_database_at_all_names_both_ways() -> None:
    with pytest.raises(ConfigurationError, match=r"Engine\('sqlite:.*DBOS_SYSTEM_DATABASE_URL"):
        from_environment({"url": None}, {})


def test_what_the_environment_brings_is_checked_like_everything_else() -> None:
    with pytest.raises(ConfigurationError, match="executor_id"):
        config({"DBOS__VMID": "a/b"})


@pytest.mark.parametrize("name", ["app", "abc", "a-b_c-9", "x" * 256])
def test_names_of_applications(name: str) -> None:
    assert config(name=name).name == name


@pytest.mark.parametrize("name", ["", "ab", "App", "ünï", "a b", "x" * 257, "a/b", "a\n"])
def test_what_is_no_name_of_an_application(name: str) -> None:
    with pytest.raises(ConfigurationError, match="lower-case"):
        config(name=name)


def test_which_queues_are_served_and_how_many_workflows_run() -> None:
    """Every queue, unless some are named."""
    assert (config().listen, config().max_running) == (None, 1000)
    assert config(listen=("a", "b"), max_running=3).listen == ("a", "b")
    assert config(listen=()).listen == ()


@pytest.mark.parametrize("listen", [("",), (" ",), (3,)])
def test_what_is_no_queue_to_serve(listen: Any) -> None:
    with pytest.raises(ConfigurationError, match="listen"):
        config(listen=listen)


@pytest.mark.parametrize(
    "setting", ["url", "name", "version", "executor_id", "application_id", "schema"]
)
@pytest.mark.parametrize("value", [3, b"x", "a\x00b", ["x"]])
def test_what_is_no_text(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{setting}=.* a text"):
        config(**{setting: value})


@pytest.mark.parametrize("setting", ["max_value_bytes", "pool_size", "threads", "max_running"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "3"])
def test_what_is_no_number_of_anything(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{setting}=.* whole number"):
        config(**{setting: value})
