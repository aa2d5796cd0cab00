"""What the AppWorld pool must do: each requirement, R1 to R104, names a test that proves it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
POOL, SESSION, SERVER, DATA = (f"test_appworld_{name}" for name in ("pool", "session", "server", "data"))
CONTAINERS = "test_pool_containers"
PEER = "peers/test_appworld"

# Number, what is required in a few words, and the test.
TABLE = f"""
1 the whole chain needs no model | {SESSION} test_a_world_is_opened_and_closed
2 appworld is never imported | {POOL} test_appworld_is_never_imported
3 one task at a time in a server | {POOL} test_sessions_have_a_server_each
4 the container pool knows nothing of AppWorld | {CONTAINERS} test_a_container_runs_with_its_own_port_and_arguments
5 public names | {POOL} test_the_public_names_are_these
6 default image | {POOL} test_constants_and_defaults_are_these
7 default ports | {POOL} test_constants_and_defaults_are_these
8 names are Miroir's own | {POOL} test_constants_and_defaults_are_these
9 any 2xx of its own is ready | {POOL} test_a_port_of_someone_else_is_not_ours
10 mount modes | {CONTAINERS} test_an_unknown_mode_is_refused
11 defaults are Miroir's own | {POOL} test_constants_and_defaults_are_these
12 time limits and lengths of texts | {SERVER} test_a_body_without_output_is_an_appworld_error
13 a mount is a value | {CONTAINERS} test_a_mount_is_a_value_with_a_mode_of_its_own
14 an unknown mode is refused | {CONTAINERS} test_an_unknown_mode_is_refused
15 the mode is a field | {CONTAINERS} test_a_mount_is_a_value_with_a_mode_of_its_own
16 two mounts, the data read-only | {POOL} test_a_container_sees_the_data_read_only_and_the_outputs
17 making a pool starts nothing | {CONTAINERS} test_making_a_pool_starts_nothing
18 size | {CONTAINERS} test_what_cannot_work_is_refused
19 ports | {CONTAINERS} test_what_cannot_work_is_refused
20 time to start | {CONTAINERS} test_what_cannot_work_is_refused
21 ports are known before the start | {CONTAINERS} test_making_a_pool_starts_nothing
22 started once | {CONTAINERS} test_it_is_started_once
23 not after stop | {CONTAINERS} test_it_is_started_once
24 told apart | {CONTAINERS} test_it_is_started_once
25 only what a provably dead owner left is removed | {CONTAINERS} test_only_leftovers_of_the_provably_dead_are_swept
26 all start at once | {CONTAINERS} test_containers_start_at_once_and_are_leased_when_all_are_ready
27 the first failure ends the other starts | {CONTAINERS} test_a_start_that_fails_half_way_leaves_nothing
28 nothing is left of a failed start | {CONTAINERS} test_a_start_that_fails_half_way_leaves_nothing
29 one error is raised, the others are logged | {CONTAINERS} test_the_other_failures_are_logged
30 the error keeps its cause | {CONTAINERS} test_a_start_that_fails_half_way_leaves_nothing
31 an interrupted start removes everything | {CONTAINERS} test_ctrl_c_removes_everything_and_passes_unchanged
32 leased once all are ready | {CONTAINERS} test_containers_start_at_once_and_are_leased_when_all_are_ready
33 a failed start may be tried again | {CONTAINERS} test_a_failed_start_may_be_tried_again
34 the command of a container | {CONTAINERS} test_a_container_runs_with_its_own_port_and_arguments
35 the arguments of AppWorld's image | {POOL} test_the_arguments_of_a_container_are_a_function_of_its_port
36 docker's words when it cannot run one | {CONTAINERS} test_a_name_that_is_anothers_is_not_taken
37 logs are read before removal | {CONTAINERS} test_a_start_that_fails_half_way_leaves_nothing
38 a timeout is told from another failure | {POOL} test_a_server_that_never_listens_is_given_up
39 an interrupt is never made a pool's error | {CONTAINERS} test_ctrl_c_removes_everything_and_passes_unchanged
40 what is waited for | {CONTAINERS} test_a_container_that_is_not_ready_in_time_says_so
41 no proxy | {POOL} test_proxies_are_ignored
42 loopback | {POOL} test_sessions_have_a_server_each
43 a deadline for each | {CONTAINERS} test_a_container_that_is_not_ready_in_time_says_so
44 logs are never silent | {CONTAINERS} test_logs_that_cannot_be_had_are_said_to_be
45 a removal that fails is logged | {CONTAINERS} test_one_that_cannot_be_removed_is_logged
46 stop may be repeated | {CONTAINERS} test_stop_removes_everything_and_may_be_repeated
47 leases in use are counted when it stops | {CONTAINERS} test_leases_in_use_are_told
48 the state is true though removal raises | {CONTAINERS} test_a_removal_that_fails_still_ends_the_pool
49 stop before start | {CONTAINERS} test_stop_removes_everything_and_may_be_repeated
50 waiters are woken, late returns dropped | {CONTAINERS} test_whoever_waits_is_woken
51 a lease is exclusive and always returned | {CONTAINERS} test_a_lease_is_exclusive_and_always_returned
52 a full pool is waited for | {CONTAINERS} test_a_full_pool_is_waited_for_in_order
53 stopped comes before not started | {CONTAINERS} test_a_pool_that_was_not_started_says_what_to_do
54 not started | {CONTAINERS} test_a_pool_that_was_not_started_says_what_to_do
55 leases are counted | {CONTAINERS} test_a_lease_is_exclusive_and_always_returned
56 state is the lessee's | {CONTAINERS} test_a_lease_is_exclusive_and_always_returned
57 a with block | {CONTAINERS} test_stop_removes_everything_and_may_be_repeated
58 making it opens nothing, the root is resolved | {DATA} test_a_root_may_be_relative
59 a second start changes nothing | {POOL} test_a_pool_starts_once
60 the data's layout is looked at first | {DATA} test_a_root_that_is_not_laid_out_says_how_to_fill_it
61 the outputs' folder is made | {POOL} test_outputs_are_kept
62 a call outlasts the code's time limit | {SESSION} test_the_deadline_outlasts_the_codes_own
63 a failed start is no start | {POOL} test_a_start_that_fails_leaves_nothing
64 stop leaves nothing open | {POOL} test_a_pool_starts_once
65 no session before start | {POOL} test_a_pool_starts_once
66 outputs are never removed | {POOL} test_outputs_are_kept
67 the experiment's name is the outputs' folder | {SESSION} test_each_session_writes_to_a_folder_of_its_own
68 task ids of a split | {DATA} test_ids_are_read_in_their_order_without_tags
69 open, use, close | {SESSION} test_a_world_is_opened_and_closed
70 what an opening must answer | {SESSION} test_an_opening_that_lacks_a_key_is_an_error_and_is_closed
71 a close is always sent | {SESSION} test_an_unknown_task_is_the_tasks_fault
72 a session belongs to its block | {SESSION} test_a_closed_session_refuses_every_call
73 parameters, the experiment's name unique | {SESSION} test_each_session_writes_to_a_folder_of_its_own
74 every switch is sent | {SESSION} test_exactly_these_parameters_are_sent
75 none of the testing ones | {SESSION} test_exactly_these_parameters_are_sent
76 no ground_truth_mode | {SESSION} test_exactly_these_parameters_are_sent
77 the seed is constant | {SESSION} test_exactly_these_parameters_are_sent
78 a limit of interactions besides the caller's | {SESSION} test_exactly_these_parameters_are_sent
79 properties | {SESSION} test_the_supervisor_is_a_copy
80 errors of code are text | {SESSION} test_errors_of_the_code_are_text
81 executions are counted once answered | {SESSION} test_executions_count_once_they_were_answered
82 an output is text | {SESSION} test_executions_count_once_they_were_answered
83 the interpreter keeps its state | {PEER} test_t1_sessions_share_servers_and_are_scored
84 whether it is done | {SESSION} test_is_done_is_a_bool
85 evaluate suppresses errors | {SESSION} test_a_score_holds_the_whole_answer
86 the verdict's keys | {SESSION} test_an_answer_without_a_verdict_is_no_failed_score
87 the detail is all there | {SESSION} test_a_score_holds_the_whole_answer
88 a score cannot change | {SESSION} test_a_score_holds_the_whole_answer
89 close | {SESSION} test_a_world_is_opened_and_closed
90 JSON is posted | {SERVER} test_a_call_posts_json_and_returns_the_output
91 faults of the network are mapped | {SERVER} test_an_answer_that_does_not_come_whole_is_the_servers_fault
92 a status that is no success | {SERVER} test_a_status_that_is_no_success_is_told_with_its_body
93 the envelope | {SERVER} test_a_body_without_output_is_an_appworld_error
94 a body that is no JSON | {SERVER} test_a_body_without_output_is_an_appworld_error
95 an interrupt is never mapped | {SERVER} test_an_interrupt_is_not_mapped
96 a late answer is a fault of the network | {SERVER} test_an_answer_that_does_not_come_whole_is_the_servers_fault
97 a failed close is logged and not raised | {SESSION} test_a_close_that_fails_is_logged_and_not_raised
98 one server's failures are its own | {POOL} test_a_wedged_server_is_out_before_its_third_failure
99 it is out before its third failure | {POOL} test_a_wedged_server_is_out_before_its_third_failure
100 an interrupted close is not counted | {SESSION} test_an_interrupted_close_passes_through
101 the block's error comes first | {SESSION} test_the_error_of_the_block_is_the_one_that_is_raised
102 the lease is returned whatever happens | {POOL} test_a_server_that_cannot_be_replaced_is_leased_no_more
103 a leak does not show by itself | {SESSION} test_a_close_that_fails_is_logged_and_not_raised
104 how docker is run | {CONTAINERS} test_a_command_is_told_as_it_ended
"""
ROW = re.compile(r"(?P<number>\d+) (?P<what>.+) \| (?P<file>\S+) (?P<test>test_\w+)")
ROWS = [ROW.fullmatch(line) for line in TABLE.strip().splitlines()]


def docstring(file: str, test: str) -> str:
    """What a test says of itself; KeyError when there is no such test."""
    tree = ast.parse((HERE / f"{file}.py").read_text())
    tests = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return ast.get_docstring(tests[test]) or ""


def test_the_table_is_complete() -> None:
    """Each number once, in order."""
    assert [int(row["number"]) for row in ROWS if row] == list(range(1, 105))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"R{row['number']}" if row else "bad")
def test_a_requirement_is_proven_by_its_test(row: re.Match[str]) -> None:
    """The test exists, and names the requirement."""
    named = docstring(row["file"], row["test"]).partition(":")[0]

    assert f"R{row['number']}" in named.split(", ")
