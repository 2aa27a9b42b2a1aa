"""The hard cases of following files that others write: all of them, each with the tests that hold it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parents[1]


class Case(NamedTuple):
    """One thing that happens to files, and the names of its tests."""

    what: str
    tests: str


CASES = {
    1: Case(
        "a line written byte by byte",
        "test_byte_by_byte_a_line_is_given_once_and_after_its_newline",
    ),
    2: Case(
        "half a line, and nothing more for ever",
        "test_half_a_line_is_never_flushed_but_counts_as_growth",
    ),
    3: Case(
        "half a line, a restart, the rest",
        "test_half_a_line_is_completed_once",
    ),
    4: Case(
        "a character cut in two by a write or a read",
        "test_a_multibyte_character_is_never_cut test_no_cut_changes_the_lines",
    ),
    5: Case(
        "a newline at the edge of a read",
        "test_a_newline_at_the_edge_of_a_piece test_lines_at_the_edge_of_a_read_call",
    ),
    6: Case(
        "CRLF, blank lines, a BOM",
        "test_lines_end_at_newlines_only test_damaged_text_is_mended test_bom_is_not_taken_off_in_the_middle",
    ),
    7: Case(
        "other line separators within strings",
        "test_lines_end_at_newlines_only test_sound_lines_take_no_repair",
    ),
    8: Case(
        "bytes that are no UTF-8, in a field that is read and in one that is not",
        "test_damaged_text_is_mended test_sound_lines_take_no_repair",
    ),
    9: Case(
        "half of a surrogate pair",
        "test_damaged_text_is_mended test_ids_that_are_no_text_do_not_cost_the_batch",
    ),
    10: Case(
        "malformed lines between good ones, values that are no records, wrong types",
        "test_a_broken_line_costs_one_record test_malformed_and_oversized_lines_are_counted_and_stop_nothing",
    ),
    11: Case(
        "a record cut short, the next one on the same line",
        "test_a_record_cut_short_never_takes_the_next_one_along test_whole_records_are_saved_from_a_broken_line",
    ),
    12: Case(
        "several records on a line",
        "test_records_without_a_newline_between_them",
    ),
    13: Case(
        "what looks like a record within a string",
        "test_what_stands_in_a_text_is_no_record test_whole_records_are_saved_from_a_broken_line",
    ),
    14: Case(
        "NULs before, behind and between records, a hole in the file",
        "test_damaged_text_is_mended test_padding_alone_is_no_loss test_a_hole_in_the_file_costs_no_record",
    ),
    15: Case(
        "values nested a hundred thousand deep",
        "test_a_broken_line_costs_one_record test_no_line_raises",
    ),
    16: Case(
        "a message whose shape is broken",
        "test_a_broken_message_leaves_the_envelope_usable",
    ),
    17: Case(
        "a line of 50 MB below the cap",
        "test_a_line_of_50_mb_is_read_whole_under_a_larger_cap",
    ),
    18: Case(
        "a line over the cap",
        "test_an_over_long_line_is_given_up_without_being_kept test_the_cap_is_the_longest_line_kept "
        "test_a_line_over_the_cap_is_counted_and_the_next_one_read "
        "test_a_line_over_the_cap_is_growth_while_it_is_written",
    ),
    19: Case(
        "truncated, and shorter since",
        "test_truncated",
    ),
    20: Case(
        "truncated and grown past the old place between two looks",
        "test_truncated_and_grown_past_the_old_place_between_two_polls",
    ),
    21: Case(
        "copied and truncated, the first thousand bytes the same as before",
        "test_copied_and_truncated_keeps_following_the_name test_truncated "
        "test_a_rewritten_transcript_tells_no_turn_and_no_work_twice",
    ),
    22: Case(
        "rewritten in place with the same size, or its last line only",
        "test_rewritten_in_place_with_the_same_size test_the_last_line_rewritten "
        "test_a_record_told_twice_counts_once test_a_rewriting_that_is_seen_half_done_tells_nothing_twice",
    ),
    23: Case(
        "replaced by renaming another file over it",
        "test_replaced_by_renaming_over_it test_replaced_by_an_identical_copy "
        "test_a_rewritten_transcript_tells_no_turn_and_no_work_twice",
    ),
    24: Case(
        "deleted and made again, with another inode and with the same one",
        "test_deleted_and_made_again_unnoticed test_made_again_with_the_same_inode_wherever_it_lies "
        "test_the_inode_of_a_deleted_read_file_given_to_a_new_one "
        "test_the_inode_of_a_deleted_dormant_file_given_to_a_new_one",
    ),
    25: Case(
        "gone, and later made again with the same bytes",
        "test_vanished_then_made_again_with_the_same_bytes "
        "test_a_deleted_file_is_a_lost_source_and_regained_when_it_is_back",
    ),
    26: Case(
        "deleted with bytes unread",
        "test_a_backlog_outlives_its_name test_the_rest_of_a_deleted_file_is_read_before_it_is_gone",
    ),
    27: Case(
        "touched",
        "test_touching_gives_nothing_and_is_no_growth test_touching_wakes_nothing "
        "test_touching_a_transcript_is_no_sign_of_work",
    ),
    28: Case(
        "moved within the tree, half a line included, and its name given away",
        "test_a_moved_file_is_read_on test_a_hot_file_with_a_backlog_moves_with_its_place "
        "test_adopted_under_another_name_it_goes_on test_a_mark_holds_for_a_file_moved_meanwhile",
    ),
    29: Case(
        "links: to files, to folders, to another target since, in a loop",
        "test_a_link_given_another_target test_links_are_followed_and_each_file_counts_once "
        "test_a_loop_of_links_ends test_a_linked_file_is_polled_for_its_target_grows_unheard",
    ),
    30: Case(
        "a root that is not there yet, a folder made and written into in the same moment",
        "test_a_root_that_appears_later test_a_root_that_is_not_there_is_polled_until_it_is "
        "test_a_file_in_a_directory_made_in_the_same_moment_is_found",
    ),
    31: Case(
        "denied for a while; a fifo, a folder, a socket, a file of the kernel's under the name",
        "test_denied_for_as_long_as_it_lasts_then_read test_fifo_is_refused_unopened "
        "test_directory_is_refused test_socket_is_refused test_a_file_of_the_kernel_without_a_size_is_not_read",
    ),
    32: Case(
        "thousands of old files and three live ones",
        "test_thousands_of_old_files_and_three_live_ones test_an_old_file_costs_a_stat "
        "test_a_file_of_long_ago_costs_a_stat_until_it_grows_or_its_session_lives",
    ),
    33: Case(
        "a new file full of copied records",
        "test_a_history_copied_into_a_new_session_is_no_activity "
        "test_a_copy_beside_a_live_session_tells_nothing_of_it_twice "
        "test_a_session_that_goes_on_in_a_copy_is_neither_lost_nor_told_anew",
    ),
    34: Case(
        "an agent whose clock is hours off",
        "test_silence_counts_from_arrival_whatever_the_agents_clock_says "
        "test_an_arrival_soon_after_its_stamp_counts_at_the_stamp_and_any_other_when_it_came",
    ),
    35: Case(
        "a machine that slept",
        "test_a_frozen_observer_extends_every_bound "
        "test_what_was_unread_while_frozen_is_read_before_anything_is_judged",
    ),
    36: Case(
        "a wall clock that is set",
        "test_a_stepped_wall_clock_moves_no_silence_and_loses_no_line "
        "test_a_step_of_the_wall_clock_is_no_silence_but_reason_to_look_again "
        "test_scans_come_at_their_pace_whatever_the_clock_does "
        "test_it_does_not_stay_hot_for_a_clock_set_back",
    ),
    37: Case(
        "events dropped, no watch left, no instance left",
        "test_a_full_queue_is_told test_dropped_events_call_for_a_look_at_everything "
        "test_no_watch_left_while_running_is_polled_from_then_on test_no_instance_left_is_polled_and_said",
    ),
    38: Case(
        "no descriptor left, a disk's error, a stale handle",
        "test_a_failed_open_is_tried_again test_a_file_in_trouble_holds_up_no_other "
        "test_what_was_read_before_an_error_is_given_and_the_rest_later "
        "test_a_descriptor_gone_stale_is_given_back_for_a_new_one",
    ),
    39: Case(
        "gigabytes unread in one file, others live",
        "test_live_files_come_before_a_backlog test_a_file_that_appears_later_does_not_wait_behind_backlogs "
        "test_slow_turns_end_after_a_piece_and_lose_nothing",
    ),
    40: Case(
        "several writers at once",
        "test_three_writers_at_once_lose_nothing",
    ),
    41: Case(
        "a reader that is slow, an exporter that is stuck",
        "test_what_nobody_takes_waits_in_the_file test_the_oldest_makes_room_and_is_counted",
    ),
    42: Case(
        "ended within a backlog",
        "test_ended_within_a_backlog_it_reads_on_no_further test_in_the_middle_of_a_backlog",
    ),
    43: Case(
        "anything, in any order, against an oracle",
        "FollowedFile FollowedFolder test_nothing_is_lost_and_nothing_comes_twice",
    ),
}


@pytest.fixture(scope="module")
def defined() -> set[str]:
    """What the test modules beside this one define, at their top."""
    names: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__) and "e2e" not in path.parts:
            names |= {getattr(node, "name", "") for node in ast.parse(path.read_text()).body}
    return names


def test_none_is_left_out() -> None:
    assert list(CASES) == list(range(1, 44))


@pytest.mark.parametrize("number", CASES)
def test_the_case_has_its_tests(number: int, defined: set[str]) -> None:
    assert set(CASES[number].tests.split()) <= defined
