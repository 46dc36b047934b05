import pytest

from vertex_local.processes.log_times import LineTimes, LogClock

pytestmark = pytest.mark.fast


def test_a_line_has_the_time_of_the_first_record_after_it(tmp_path, monkeypatch):
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\n")
    clock = LogClock([log])
    for moment, text in (("t1", "three\n"), ("t2", ""), ("t3", "four\n")):
        monkeypatch.setattr(
            "vertex_local.processes.log_times.now", lambda moment=moment, **_: moment
        )
        with log.open("a") as file:
            file.write(text)
        clock.record()

    times = LineTimes(log)
    assert [times.at(offset) for offset in (8, 14)] == ["t1", "t3"]
    assert times.at(19).startswith("20")  # not recorded yet: the time of the last write
