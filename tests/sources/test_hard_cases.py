"""The hard cases of following files that are written by others, each with the tests that hold it.

Those without a test here are held elsewhere or not at all: `ELSEWHERE` says which.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CASES = {
    "written byte by byte": "test_byte_by_byte_a_line_is_given_once_and_after_its_newline",
    "half a line for ever": "test_half_a_line_is_never_flushed_but_counts_as_growth",
    "half a line, restart, the rest": "test_half_a_line_is_completed_once",
    "a character split across reads": "test_a_multibyte_character_is_never_cut",
    "a newline at the edge of a read": "test_a_newline_at_the_edge_of_a_piece test_lines_at_the_edge_of_a_read_call",
    "CRLF, blanks, BOM": "test_lines_end_at_newlines_only test_damaged_text_is_mended",
    "raw U+2028 in strings": "test_lines_end_at_newlines_only",
    "bad UTF-8, lone surrogates": "test_damaged_text_is_mended",
    "malformed between good": "test_a_broken_line_costs_one_record",
    "truncated splice, }{": "test_a_record_cut_short_never_takes_the_next_one_along "
    "test_records_without_a_newline_between_them",
    "JSON inside a string": "test_what_stands_in_a_text_is_no_record test_whole_records_are_saved_from_a_broken_line",
    "NUL runs": "test_padding_alone_is_no_loss",
    "no line raises, deep nesting": "test_no_line_raises",
    "a broken message": "test_a_broken_message_leaves_the_envelope_usable",
    "50 MB below the cap": "test_a_line_of_50_mb_is_read_whole_under_a_larger_cap",
    "over the cap": "test_a_line_over_the_cap_is_counted_and_the_next_one_read",
    "truncated": "test_truncated",
    "truncated and grown past the place": "test_truncated_and_grown_past_the_old_place_between_two_polls",
    "copytruncate, same head": "test_copied_and_truncated_keeps_following_the_name",
    "rewritten in place": "test_rewritten_in_place_with_the_same_size test_the_last_line_rewritten",
    "renamed over": "test_replaced_by_renaming_over_it",
    "made again, same inode too": "test_deleted_and_made_again_unnoticed",
    "made again with the same bytes": "test_vanished_then_made_again_with_the_same_bytes",
    "deleted with a backlog": "test_the_rest_of_a_deleted_file_is_read_before_it_is_gone",
    "touched": "test_touching_gives_nothing_and_is_no_growth",
    "moved, and its name given away": "test_a_moved_file_is_read_on test_nothing_is_lost_and_nothing_comes_twice",
    "links, another target, loops": "test_a_link_given_another_target test_a_loop_of_links_ends "
    "test_a_linked_file_is_polled_for_its_target_grows_unheard",
    "an absent root, a directory made in the same moment": "test_a_root_that_appears_later "
    "test_a_file_in_a_directory_made_in_the_same_moment_is_found",
    "denied, fifo, socket": "test_denied_for_as_long_as_it_lasts_then_read test_fifo_is_refused_unopened "
    "test_socket_is_refused",
    "5,000 old files": "test_thousands_of_old_files_and_three_live_ones",
    "overflow, ENOSPC, EMFILE": "test_dropped_events_call_for_a_look_at_everything "
    "test_no_watch_left_while_running_is_polled_from_then_on test_no_instance_left_is_polled_and_said",
    "EMFILE on open, EIO": "test_a_failed_open_is_tried_again "
    "test_what_was_read_before_an_error_is_given_and_the_rest_later",
    "a backlog and live files": "test_live_files_come_before_a_backlog",
    "several writers": "test_three_writers_at_once_lose_nothing",
    "stopped within a backlog": "test_in_the_middle_of_a_backlog",
    "a whole life against an oracle": "FollowedFile",
}

ELSEWHERE = {
    "a copied history is no activity": "what lies in a file at first sight counts at its stamps",
    "clock skew, suspension, a stepped clock": "the watch's and the fold's tests: silence is on the core's clock",
    "a slow reader": "reading is pulled, a bounded round at a time; nothing is queued",
}


@pytest.mark.parametrize("case", CASES)
def test_the_case_has_its_tests(case: str) -> None:
    tests = Path(__file__).parents[1]
    text = "\n".join(
        p.read_text()
        for part in ("sources", "agents/claude_code")
        for p in (tests / part).glob("test_*.py")
        if p != Path(__file__)
    )
    for name in CASES[case].split():
        assert re.search(rf"^(async )?(def|class) {name}\b", text, re.MULTILINE), name
