"""The daily noise of a company: mail, chat, meetings, tickets and files that no task is about."""

from __future__ import annotations

from datetime import timedelta

from . import clock
from .company import TEAMS
from .stage import Stage
from .world import Row

_COLLEAGUE_MAILS = (
    ("Parking on {day}", "Hi,\n\nthe yard is closed for resurfacing on {day}. Please park on the street.\n\n{name}"),
    ("Cake in the kitchen", "It is my birthday, there is cake on the second floor. First come, first served.\n{name}"),
    (
        "Notes from our last one-to-one",
        "As discussed: you look into the backlog, I talk to {other}. Next time in two weeks.\n\n{name}",
    ),
    (
        "Slides for the all-hands",
        "Hello,\n\nmy three slides are in the shared folder. Shout if a number looks off.\n\nBest,\n{name}",
    ),
    ("Badge photos", "Hi all,\n\nthe photographer is here on {day} from 10 to 12. No need to dress up.\n\n{name}"),
    (
        "Quick thought on onboarding",
        "Two of the new starters asked where the handbook is. Could we link it in the "
        "welcome mail? No hurry.\n\n{name}",
    ),
    (
        "Working from home on {day}",
        "Hi,\n\nI am at home on {day}, the heating is being repaired. Reach me by chat.\n\n{name}",
    ),
    ("Thanks for yesterday", "That went better than I feared. Thank you for jumping in, I owe you a coffee.\n\n{name}"),
    (
        "Old laptops",
        "Anyone who still has an old laptop at home: please bring it back by the end of the month.\n{name}",
    ),
    ("Team dinner", "Hi,\n\nI booked a table for {day} at seven. Tell me by then if you do not eat fish.\n\n{name}"),
)
_OUTSIDE_MAILS = (
    ("digest@trade-weekly.example", "This week in the trade", "Five stories you may have missed. Read them online."),
    ("noreply@trainhub.example", "Your booking is confirmed", "Coach 7, seat 42. Please show this mail on board."),
    ("events@summit-north.example", "Early-bird tickets end soon", "Join 900 practitioners. Save 20 % this week."),
    ("survey@pulse-people.example", "How was your week?", "Two questions, one minute. Your answers stay anonymous."),
    ("security@mailguard.example", "Quarantine summary", "3 messages were held back. No action is needed."),
)
_CHATTER = (
    ("#general", "The coffee machine on the second floor works again."),
    ("#general", "Reminder: fire drill next week, it takes ten minutes."),
    ("#general", "Welcome to everyone who joined this month!"),
    ("#random", "Lunch at twelve at the noodle place?"),
    ("#random", "Whoever left a green umbrella in the lobby, it is at reception."),
    ("#random", "My cat has learned to open the fridge. Send help."),
    ("#random", "Is anyone running the ten kilometres in April?"),
    ("#it-help", "Is the VPN slow for anyone else this morning?"),
    ("#it-help", "The printer near the stairs prints everything twice."),
    ("#it-help", "Please file a ticket, I lose track of things in here."),
    ("#sales", "Signed renewal from the two-site customer. Nice work, all."),
    ("#sales", "Please do not promise delivery dates before you talk to Operations."),
    ("#engineering", "Nightly build is green again, it was the certificate."),
    ("#engineering", "I am rolling out the small fix after lunch, shout if you object."),
    ("#engineering", "Retro notes are in the shared folder."),
)
_TICKETS = (
    ("hardware", "Keyboard loses letters", "The E and the N only work when I hit them hard."),
    ("hardware", "Second screen stays dark", "It worked on Friday. I tried another cable already."),
    ("hardware", "Headset crackles in calls", "Others hear me fine, I hear them badly."),
    ("access", "Cannot open the wiki", "It says that I have no permission since the move."),
    ("access", "Locked out after holiday", "I forgot the password and used up my tries."),
    ("network", "Wi-Fi drops in the corner room", "About every ten minutes, for some seconds."),
    ("network", "Guest network wants a code", "The code on the poster does not work any more."),
    ("facilities", "Blind is stuck", "The left one in the meeting room does not go up."),
    ("facilities", "Desk lamp flickers", "Bulb or socket, I cannot tell."),
    ("payroll", "Payslip shows the old address", "I moved in December and told you in time."),
    ("payroll", "Travel money for last month", "The train to the customer is missing on my slip."),
    ("procurement", "Whiteboard markers", "We are out of black and blue ones."),
)
_FILES = (
    ("/Company/Handbook.md", "People", "# Handbook\n\nWelcome. Core hours are 10:00 to 15:00 local time.\n"),
    ("/Company/Holidays.md", "People", "# Holidays\n\nEach office keeps the public holidays of its city.\n"),
    ("/Company/Office map.md", "Operations", "# Office map\n\nRooms are named after trees, small to large.\n"),
    ("/Company/Travel guide.md", "Finance", "# Travel guide\n\nBook trains early. Flights need a reason.\n"),
    ("/Engineering/Retro notes.md", "Engineering", "# Retro\n\n- fewer hotfixes\n- earlier reviews\n"),
    ("/Engineering/On-call handover.md", "Engineering", "# Handover\n\nQuiet week. One alarm, a full disk.\n"),
    ("/Marketing/Style sheet.md", "Marketing", "# Style sheet\n\nPlain words. No exclamation marks.\n"),
    ("/Sales/Pitch outline.md", "Sales", "# Pitch\n\n1. Their problem\n2. Our answer\n3. A number\n"),
    ("/IT/Printer setup.md", "IT", "# Printers\n\nAdd the printer by its name on the label.\n"),
    ("/Operations/Cleaning rota.md", "Operations", "# Cleaning\n\nKitchens daily, carpets in March.\n"),
)
_MEETINGS = ("Catch-up", "One-to-one", "Planning", "Review", "Interview", "Customer call", "Budget check", "Handover")
_LOCAL_STARTS = ("09:00", "09:30", "10:00", "10:30", "11:00", "12:30", "13:00", "14:00", "14:30", "15:00", "15:30")


def fill(stage: Stage) -> None:
    """Fill the company with its daily noise."""
    _mails(stage)
    _chatter(stage)
    _meetings(stage)
    _tickets(stage)
    for path, team, content in stage.draw.shuffled(_FILES):
        author = stage.company.someone(team)
        stage.file(path, author, content, hours=stage.draw.between(200, 3000))


def _mails(stage: Stage) -> None:
    draw, company = stage.draw, stage.company
    for subject, body in draw.sample(_COLLEAGUE_MAILS, 8):
        sender = company.someone(but=[stage.me])
        words = {"name": _first(sender), "other": _first(company.someone(but=[stage.me, sender]))}
        words["day"] = clock.weekday(stage.day(draw.between(1, 5)))
        hours = draw.between(20, 150)
        stage.mail(sender, subject.format(**words), body.format(**words), hours=hours, read=draw.chance(0.9))
    for sender_address, subject, body in draw.sample(_OUTSIDE_MAILS, 4):
        stage.mail(sender_address, subject, body, hours=draw.between(10, 150), read=True)


def _chatter(stage: Stage) -> None:
    for channel, text in stage.draw.shuffled(_CHATTER):
        stage.message(channel, stage.company.someone(but=[stage.me]), text, hours=stage.draw.between(2, 120))


def _meetings(stage: Stage) -> None:
    draw, company = stage.draw, stage.company
    for ahead in range(5):
        for team, _, _ in draw.sample(TEAMS, 3):
            _meeting(stage, company.lead(team), company.members(team)[1:], f"{team} sync", ahead, 30)
        for _ in range(6):
            organizer = company.someone()
            guests = [company.someone(but=[organizer])]
            _meeting(stage, organizer, guests, draw.pick(_MEETINGS), ahead, draw.pick((30, 30, 60)))


def _meeting(stage: Stage, organizer: Row, guests: list[Row], title: str, ahead: int, minutes: int) -> None:
    local = stage.draw.pick(_LOCAL_STARTS)
    start = clock.at(stage.day(ahead), local, organizer["utc_offset"])
    room = stage.draw.pick(["Alder", "Birch", "Cedar", None])
    booked = f"{organizer['office']} {room}" if room else None
    span = clock.stamp(start), clock.stamp(start + timedelta(minutes=minutes))
    if booked and any(
        event["starts_at"] < span[1] and span[0] < event["ends_at"] for event in stage.world.all("events", room=booked)
    ):
        booked = None
    stage.event(title, organizer, guests, start, minutes, room=booked)


def _tickets(stage: Stage) -> None:
    draw, company = stage.draw, stage.company
    for queue, title, body in draw.shuffled(_TICKETS):
        requester = company.someone()
        worker = company.someone("Operations" if queue in ("facilities", "procurement") else "IT")
        stage.ticket(
            title,
            body,
            requester,
            queue,
            hours=draw.between(30, 400),
            assignee=worker if draw.chance(0.7) else None,
            priority=draw.pick(("low", "normal", "normal", "high")),
            status=draw.pick(("open", "open", "in_progress", "waiting", "resolved", "closed")),
        )


def _first(person: Row) -> str:
    name: str = person["name"]
    return name.split(" ", 1)[0]
