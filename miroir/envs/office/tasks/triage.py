"""Sort a mailbox by written rules: forward, answer, or throw away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..grading import changed, contains, goal, sent
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_RULES = """# Mailroom rules

- Invoices up to EUR {limit:,} go to the {small}; invoices above that go to the {large}. Forward them.
- Questions of journalists go to the Press Officer. Forward them, do not answer.
- Complaints of customers are answered with exactly this sentence: "We have received your complaint and will answer \
within {days} working days."
- Offers that nobody asked for go to the trash, unanswered.
"""
_OUTLETS = ("Harbour Post", "Morning Ledger", "Circuit Review")
_GOODS = ("office chairs", "network cables", "printed brochures", "cleaning in January")


class TriageByRules(Template):
    """The rules exist in a current and an outdated file; one invoice is only dressed as one."""

    name, level, team, calls = "triage-by-rules", 3, "People", 13

    def stage(self, stage: Stage) -> Situation:
        """Four mails from outside, one of each kind."""
        company, draw = stage.company, stage.draw
        clerk, controller = company.titled("Accounts Payable Clerk"), company.titled("Financial Controller")
        press = company.titled("Press Officer")
        limit, days = draw.pick((2000, 5000, 8000)), draw.between(3, 9)
        titles = {"small": clerk["title"], "large": controller["title"]}
        rules = _RULES.format(limit=limit, days=days, **titles)
        stage.file("/Company/Mailroom rules.md", company.lead("Operations"), rules, hours=300)
        older = _RULES.format(limit=limit * 10, days=days + 5, **titles)
        stage.file("/Company/Archive/Mailroom rules (2023).md", company.lead("Operations"), older, hours=9000)
        number, outlet = f"R-{draw.between(20000, 89999)}", draw.pick(_OUTLETS)
        large = draw.chance(0.5)
        amount = limit + draw.between(40, 900) if large else limit - draw.between(40, 900)
        payer, other = (controller, clerk) if large else (clerk, controller)
        customer, offer = _mails(stage, number, amount, outlet)
        promise = f"We have received your complaint and will answer within {days} working days."
        return Situation(
            "Four mails from outside our company came into my inbox since yesterday evening, all unread. Please handle "
            "each of them as our mailroom rules say. The rules are among the shared files; take those that hold now.",
            goals=[
                goal("invoice forwarded by its amount", sent(payer["id"], body=contains(number))),
                goal("journalist forwarded to the Press Officer", sent(press["id"], body=contains(outlet))),
                goal("complaint answered with the sentence of the rules", sent(customer, body=contains(promise))),
                goal("offer thrown away", changed("mails", offer["id"], folder="trash")),
            ],
            wrong=Swap("mail_forward", "to", payer["id"], other["id"]),
            brief={"domain": company.domain},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the rules and the unread mails from outside, then do what the rules say for each."""
        files = act("files_search", query="mailroom rules")["files"]
        current = max(files, key=lambda file: file["updated_at"])
        rules = act("files_read", path=current["path"])["content"]
        unread = act("mail_list", unread_only=True)["mails"]
        outside = [mail["mail_id"] for mail in unread if not mail["from"].endswith("@" + brief["domain"])]
        for mail in [act("mail_read", mail_id=mail_id) for mail_id in outside]:
            if "Amount due" in mail["body"]:
                act("mail_forward", mail_id=mail["mail_id"], to=[_holder(act, _payer(rules, mail["body"]))])
            elif "I write for" in mail["body"]:
                act("mail_forward", mail_id=mail["mail_id"], to=[_holder(act, "Press Officer")])
            elif "delivery" in mail["body"]:
                act("mail_reply", mail_id=mail["mail_id"], body=rules.split('"')[1])
            else:
                act("mail_move", mail_id=mail["mail_id"], folder="trash")


def _mails(stage: Stage, number: str, amount: int, outlet: str) -> tuple[str, Row]:
    """An invoice, a journalist's question, a complaint and an offer: the customer's address, and the offer."""
    draw = stage.draw
    goods = draw.pick(_GOODS)
    customer = f"{draw.pick(('h.albers', 'm.quist', 'r.tanner'))}@hillside-stores.example"
    stage.mail(
        "billing@nordstern-supply.example",
        f"Invoice {number}",
        f"Please find our invoice {number} for {goods}.\n\nAmount due: EUR {amount:,}\nPayable within 30 days.",
        hours=draw.between(3, 15),
    )
    stage.mail(
        f"newsroom@{outlet.lower().replace(' ', '-')}.example",
        "Question before Thursday",
        f"I write for the {outlet} about working hours in the region. May I quote somebody from your company?",
        hours=draw.between(3, 15),
    )
    stage.mail(
        customer,
        "Not what we ordered",
        "Half of the delivery was damaged and nobody picks up the phone. I am not happy and expect an answer.",
        hours=draw.between(3, 15),
    )
    offer = stage.mail(
        "grow@invoice-wizard.example",
        "Your invoice problem, solved",
        "Never chase an invoice again! Book a free demo of Invoice Wizard this week and save 40 %.",
        hours=draw.between(3, 15),
    )
    return customer, offer


def _payer(rules: str, body: str) -> str:
    """The title of the person who gets an invoice of this amount."""
    limit, small, large = re.findall(
        r"up to EUR ([\d,]+) go to the (.+?); invoices above that go to the (.+?)\.", rules
    )[0]
    (amount,) = re.findall(r"Amount due: EUR ([\d,]+)", body)
    title: str = small if int(amount.replace(",", "")) <= int(limit.replace(",", "")) else large
    return title


def _holder(act: Act, title: str) -> str:
    """The address of the person with this title."""
    address: str = act("directory_search", query=title)["people"][0]["email"]
    return address
