"""What the metrics say."""

from itertools import pairwise

from sidecar import signals as g
from sidecar.limits import Limit, Rules
from sidecar.session import Process, Session
from sidecar.telemetry import names as n
from sidecar.telemetry.running import CpuTime
from sidecar.telemetry.watched import ControlState, Facts, SourceState
from tests.telemetry.scraped import samples, told, value
from tests.telemetry.world import WALL, World, prompt, sees


def test_silence_is_the_longest_and_progress_the_oldest_of_a_phase() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    world.see(sees(1030), prompt(1030), session="s2")
    world.clock.at = 1100
    assert value(metrics, "ai_agent_silence_seconds", phase="model") == 100
    assert value(metrics, "ai_agent_last_progress_timestamp_seconds", phase="model") == WALL + 1000
    world.see(g.TurnEnded(1101, "completed"), session="s1")
    world.see(g.TurnEnded(1101, "completed"), session="s2")
    assert value(metrics, "ai_agent_silence_seconds", phase="model") is None


def test_the_nearest_bound_is_shown_and_one_that_tripped_is_overdue() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    world.see(sees(1500), prompt(1500), session="s2")
    world.clock.at = 2000
    assert value(metrics, "ai_agent_bound_limit_seconds", bound="model") == 2700
    assert value(metrics, "ai_agent_bound_remaining_seconds", bound="model") == 1700
    world.judge(3700)
    assert value(metrics, "ai_agent_sessions_overdue", bound="model") == 1
    assert value(metrics, "ai_agent_bound_remaining_seconds", bound="model") == 500
    world.clock.at = 5000
    assert value(metrics, "ai_agent_sessions_overdue", bound="model") == 2
    assert value(metrics, "ai_agent_bound_remaining_seconds", bound="model") == -1300


def test_what_is_to_be_ended_and_is_not_is_told_apart_from_what_is_only_reported() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    world.see(sees(1000), g.Described(1000, attended=True), prompt(1000), session="s2")
    world.see(sees(1000), prompt(1000), g.ToolStarted(1000, "c", "Edit"), session="s3")
    world.clock.at = 5000
    for bound, overdue, unended in (("model", 2, 1), ("tool", 1, None)):
        assert value(metrics, "ai_agent_sessions_overdue", bound=bound) == overdue
        assert value(metrics, "ai_agent_sessions_unended", bound=bound) == unended
    world.see(g.Acted(5001, "interrupt", "t1", "model", "ineffective", "model"))
    assert value(metrics, "ai_agent_sessions_unended", bound="model") == 1
    world.see(prompt(5002, "t2"))
    assert value(metrics, "ai_agent_sessions_unended", bound="model") == 0


def test_time_in_a_phase_includes_the_running_one_and_never_goes_back() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000), g.Progress(1010))
    world.clock.at = 1020
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 20
    # The end is recognised at 1020 and dated 1010: ten seconds of `model` turn out to be `idle`.
    world.see(g.TurnEnded(1010, "completed", settle=5.0), g.Ticked(1020))
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 20
    world.see(prompt(1100, "t2"))
    world.clock.at = 1130
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 40


def test_time_before_the_sidecar_started_is_not_counted() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(400), prompt(400))
    world.clock.at = 1005
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 5
    world.see(g.ToolStarted(1006, "c", "Bash"))
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 6


def test_a_process_of_many_sessions_is_counted_once() -> None:
    world = World()
    metrics = told(world)
    for session in ("s1", "s2"):
        world.see(g.ProcessSeen(1001, 7, 1000.5), g.ProcessUsed(1001, 5_000, 2.0), session=session)
    world.see(g.ProcessSeen(1001, 8, 1000.5), g.ProcessUsed(1001, 300, 1.0), session="s3")
    assert value(metrics, "ai_agent_process_resident_memory_bytes") == 5300
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 3.0
    world.see(g.ProcessUsed(1002, 5_000, 4.5), session="s1")
    world.see(g.ProcessUsed(1002, 5_000, 4.5), session="s2")
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 5.5
    world.see(g.ProcessGone(1003), session="s3")
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 5.5


def test_cpu_that_a_process_used_before_is_not_ours() -> None:
    world = World()
    metrics = told(world)
    world.see(g.ProcessSeen(1001, 7, 10.0), g.ProcessUsed(1001, 5_000, 900.0))
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 0
    world.see(g.ProcessUsed(1002, 5_000, 901.0))
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 1


def test_processes_out_of_sight_are_remembered_but_not_for_ever() -> None:
    cpu = CpuTime(started=0.0)

    def total(pid: int, seconds: float) -> float:
        session = Session("a", "s", 0.0, process=Process(pid, 1.0), cpu=seconds)
        return cpu.values([session])["a",]

    assert total(1, 5.0) == 5
    assert cpu.values([]) == {("a",): 5}
    assert total(1, 6.0) == 6
    for pid in range(2, 6000):
        total(pid, 0.0)
    assert len(cpu._last) == 4096


def test_sources_control_caps_and_versions() -> None:
    world = World()
    world.states = [
        SourceState("claude-code", "transcripts", up=True, last_read=WALL + 7),
        SourceState("claude-code", "status", up=False),
    ]
    world.now_true = Facts(
        "1",
        "enforce",
        "h",
        loop_lag=0.25,
        reload_ok=False,
        caps={"claude-code": 4},
        controls=(ControlState("claude-code", "host", up=False),),
    )
    metrics = told(world)
    for number in range(8):
        world.see(g.Described(1000, version=f"2.{number}"), session=f"s{number}")
    found = samples(metrics)
    assert value(metrics, "agent_sidecar_source_up", source="transcripts") == 1
    assert value(metrics, "agent_sidecar_source_up", source="status") == 0
    assert (
        value(metrics, "agent_sidecar_source_last_read_timestamp_seconds", source="transcripts") == WALL + 7
    )
    assert value(metrics, "agent_sidecar_source_last_read_timestamp_seconds", source="status") is None
    assert value(metrics, "agent_sidecar_control_up", source="host") == 0
    assert value(metrics, "ai_agent_sessions_limit") == 4
    assert found["agent_sidecar_loop_lag_seconds", frozenset()] == 0.25
    assert found["agent_sidecar_config_last_reload_successful", frozenset()] == 0
    info = frozenset({("version", "1"), ("mode", "enforce"), ("config_hash", "h")})
    assert found["agent_sidecar_info", info] == 1
    versions = {dict(key)["version"] for name, key in found if name == "ai_agent_info"}
    assert versions == {"2.0", "2.1", "2.2", "2.3", "2.4", "other"}


def test_acts_verdicts_and_recoveries_are_counted() -> None:
    world = World()
    world.limits = Rules(model_record=Limit(60))
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    world.judge(1060)
    world.see(g.Acted(1060, "interrupt", "t1", "model", "observed", "model"), g.Progress(1065))
    model = {"bound": "model", "evidence": "transcript"}
    assert value(metrics, "ai_agent_verdicts_total", **model) == 1
    assert value(metrics, "ai_agent_verdicts_recovered_total", **model) == 1
    assert value(metrics, "ai_agent_actions_total", action="interrupt", outcome="observed") == 1


def test_histograms_are_cumulative_and_bounded_in_buckets() -> None:
    assert all(len(metric.buckets) + 1 <= 8 for metric in n.METRICS)
    for metric in (n.TURN_DURATION, n.SILENCE_GAP, n.TOOL_DURATION):
        assert all(a < b for a, b in pairwise(metric.buckets))
    assert (n.TURN_DURATION.buckets[0], n.TURN_DURATION.buckets[-1]) == (1, 8 * 3600)
    assert (n.SILENCE_GAP.buckets[0], n.SILENCE_GAP.buckets[-1]) == (1, 3600)
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000), g.Progress(1010), g.Progress(1310), g.Progress(1315))
    for bound, count in {"1.0": 0, "10.0": 2, "60.0": 2, "300.0": 3, "3600.0": 3, "+Inf": 3}.items():
        assert value(metrics, "ai_agent_silence_gap_seconds_bucket", phase="model", le=bound) == count
    assert value(metrics, "ai_agent_silence_gap_seconds_sum", phase="model") == 315


def test_a_tool_without_a_result_counts_but_has_no_duration() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000), g.ToolStarted(1001, "c", "Bash"), g.TurnEnded(1002, "interrupted"))
    assert value(metrics, "ai_agent_tool_calls_total", tool="Bash") == 1
    assert value(metrics, "ai_agent_tool_duration_seconds_count") == 0
