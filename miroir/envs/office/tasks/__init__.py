"""The office's templates of tasks, and how to add one.

Write a module with a class derived from `template.Template` and list an instance of it in `TEMPLATES` below; the
tests then cover every task of it, once `tests/office_hashes.py` has stored its hashes.

`stage(stage)` sets the situation. `stage.me` is the person whom the agent acts as; `stage.company` has the people
(`someone`, `lead`, `titled`, `namesake`, `hire`); `stage.draw` is the only source of chance; `stage.mail`, `.message`,
`.channel`, `.event`, `.ticket`, `.comment`, `.file` and `.revise` put things into the world, `hours` before now; a
difference of an hour keeps their order. The company is full of other things already (`background.py`). Add what
misleads: an older version, a namesake, a ticket that looks alike, a mail that was overtaken by another.

The situation that it returns says
- `instruction`: what is wanted, as a colleague would write it; whatever has to be found out is not in it;
- `goals`: two or more checks of `goal(name, claim, …)`, each met by a change that the task wants (never by something
  that stays as it was). Claims are `added`, `changed`, `deleted`, `sent`, `told` and `posted` of `grading.py`. A goal
  allows what its claims describe; give `allows=False` to a goal whose claim is wider than what may be done (a word
  in a file, say), and put the exact change into `allowed` then. Every other change is a harm;
- `coworkers`: who knows something that is written nowhere, the words one of which a question must hold, and the reply;
- `wrong`: one target of the solution and a wrong one in its place, which must come out as a harm;
- `brief`: what the instruction says, for the solution.

`solve(act, brief)` calls tools, 3 to 20 of them, and finds out by them everything that is not in the brief. No two
templates may call the same tools in the same order. `calls` is the longest run over all seeds.
"""

from .approval import ChaseApproval
from .correct import CorrectFigure
from .cover import CoverAbsence
from .distribution import CleanDistribution
from .duplicates import MergeDuplicates
from .escalate import EscalateOverdue
from .expenses import ReconcileExpenses
from .handbook import AnswerFromHandbook
from .handover import HandOverProject
from .onboard import OnboardNewcomer
from .reassign import ReassignByRules
from .recall import RecallMistakenShare
from .reschedule import RescheduleByReply
from .rooms import PlanRoomSwap
from .schedule import ScheduleAroundConflicts
from .template import Template
from .triage import TriageByRules
from .votes import CollectVotes

TEMPLATES: tuple[Template, ...] = (
    ScheduleAroundConflicts(),
    TriageByRules(),
    ReassignByRules(),
    CorrectFigure(),
    ChaseApproval(),
    CoverAbsence(),
    MergeDuplicates(),
    CleanDistribution(),
    AnswerFromHandbook(),
    PlanRoomSwap(),
    CollectVotes(),
    EscalateOverdue(),
    RecallMistakenShare(),
    HandOverProject(),
    ReconcileExpenses(),
    RescheduleByReply(),
    OnboardNewcomer(),
)
