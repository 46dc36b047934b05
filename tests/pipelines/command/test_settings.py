import re

import pytest

from pipelines.cli import main


@pytest.mark.timeout(120)
def test_the_settings_of_a_workload_are_listed_with_value_and_meaning(capsys):
    assert main(["settings", "taxi"]) == 0
    usual = capsys.readouterr().out.splitlines()
    assert {"train.epochs = 12", "model.embedding_size = 8"} <= set(usual)
    assert len(usual) < 80
    assert re.fullmatch(r"\d+ more settings have their defaults: --all lists them", usual[-1])
    assert main(["settings", "taxi", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "train.epochs = 12" in lines
    assert lines[lines.index("train.epochs = 12") + 1].startswith("    passes over the training")
    assert "model.hidden_units = 64,32" in lines
    assert "thresholds.auc = 0.94" in lines
    assert any(line.startswith("train.stall_seconds") for line in lines)
