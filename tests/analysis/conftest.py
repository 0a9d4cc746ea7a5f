import json

import pytest
from event_files import packed, write

from analysis.notebooks.demo_data import demo_settings, write_run


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test sees copies of event files that another one left."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def make_run(tmp_path):
    """Write a run folder as acx leaves it: config.gin, status.json and one event file."""

    def make(name, config, returns, state="finished", steps=None, tag="eval/mean_reward", **status):
        folder = tmp_path / "runs" / name
        steps = steps or [1000 * (index + 1) for index in range(len(returns))]
        points = zip(steps, returns, strict=True)
        write(folder / "events.out.tfevents.1000.host", [packed(s, {tag: r}) for s, r in points])
        lines = "".join(f"{key} = {value!r}\n" for key, value in config.items())
        (folder / "config.gin").write_text(lines)
        content = {
            "state": state,
            "experiment": "pendulum",
            "seed": config.get("seed"),
            "env_steps": steps[-1] if steps else 0,
            "total_steps": 5000,
            "message": "",
        }
        (folder / "status.json").write_text(json.dumps(content | status))
        return folder

    return make


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The runs of the notebooks: two experiments of five seeds and a sweep of 27 x 3."""
    root = tmp_path_factory.mktemp("demo runs")
    for folder, setting, seed in demo_settings():
        write_run(root / folder, setting, seed)
    return root
