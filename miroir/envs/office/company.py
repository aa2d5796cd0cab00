"""A company from a seed: its name, offices, teams, people, rooms and channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .draw import Draw
from .world import Row, Rows, World

COMPANIES = ("Larkfield", "Northgate", "Brightwater", "Osterholm", "Kestrel", "Quillon", "Tarnwood", "Halden")
# Winter offsets: a task's day lies in January or February.
OFFICES = (("Berlin", "+01:00"), ("London", "+00:00"), ("New York", "-05:00"))
TEAMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Engineering", "Head of Engineering", ("Backend Engineer", "Frontend Engineer", "Data Engineer", "QA Engineer")),
    ("IT", "IT Manager", ("Systems Administrator", "Support Technician", "Network Engineer", "Support Technician")),
    ("Finance", "Finance Director", ("Financial Controller", "Accounts Payable Clerk", "Payroll Accountant")),
    ("Sales", "Head of Sales", ("Account Manager", "Account Manager", "Sales Engineer", "Sales Operations Analyst")),
    ("Marketing", "Head of Marketing", ("Content Editor", "Press Officer", "Event Manager")),
    ("People", "Head of People", ("Recruiter", "HR Partner", "Office Assistant")),
    ("Operations", "Head of Operations", ("Facilities Manager", "Procurement Specialist", "Project Manager")),
)
# First names, each with one that is easily taken for it.
SIMILAR = {
    "Maya": "Mayra", "Jonas": "Jonah", "Priya": "Priyanka", "Tomas": "Thomas", "Elena": "Helena", "Kwame": "Kwabena",
    "Ingrid": "Inga", "Diego": "Dieter", "Aisha": "Alisha", "Lukas": "Luca", "Noor": "Nora", "Felix": "Felicia",
    "Hannah": "Hanna", "Mateo": "Matteo", "Yuki": "Yukio", "Oskar": "Oscar", "Leila": "Layla", "Rafael": "Raphael",
    "Greta": "Gretchen", "Samir": "Samira", "Clara": "Klara", "Henrik": "Henry", "Zofia": "Sofia", "Omar": "Omari",
    "Beatrix": "Beatrice", "Callum": "Colum", "Deepa": "Deepak", "Emil": "Emilia", "Fatima": "Fatou",
    "Gareth": "Garth", "Helga": "Helge", "Ivan": "Ivana", "Judith": "Judy", "Kenji": "Kenjiro", "Lorena": "Lorna",
    "Milan": "Milana",
}  # fmt: skip
LAST_NAMES = (
    *("Olsen", "Brandt", "Nair", "Novak", "Rossi", "Mensah", "Lindqvist", "Alvarez", "Khan", "Weber", "Haddad"),
    *("Moreau", "Fischer", "Costa", "Tanaka", "Larsson", "Farahani", "Silva", "Hoffmann", "Aziz", "Bauer", "Dahl"),
    *("Kowalska", "Rahman", "Castellan", "Reid", "Iyer", "Sorensen", "Okafor", "Vaughan", "Keller", "Petrov"),
    *("Stein", "Mori", "Duarte", "Horvat"),
)
ROOMS = (("Alder", 4), ("Birch", 6), ("Cedar", 10), ("Dogwood", 14))
CHANNELS = (
    ("#general", "Announcements for everyone"),
    ("#it-help", "Quick questions to IT"),
    ("#random", "Lunch, pets, weekend"),
    ("#sales", "Deals and customers"),
    ("#engineering", "Builds, releases, incidents"),
)


class Company:
    """Who works where; people are added to the world as they are made."""

    def __init__(self, world: World, draw: Draw) -> None:
        self._world = world
        self._draw = draw
        self._firsts = iter(draw.shuffled(tuple(SIMILAR)))
        self._lasts = iter(draw.shuffled(LAST_NAMES))
        self.name = draw.pick(COMPANIES)
        self.domain = self.name.lower() + ".example"
        self.people: Rows = []
        self._hire_everyone()
        for office, _ in OFFICES:
            for room, capacity in ROOMS:
                equipment = "screen" if draw.chance(0.5) else "screen, video"
                world.insert("rooms", f"{office} {room}", office=office, capacity=capacity, equipment=equipment)
        for channel, topic in CHANNELS:
            world.insert("channels", channel, topic=topic, members=[], private=0)

    def hire(self, first: str, last: str, **columns: Any) -> Row:
        """Add a person; the address is made from the name, a missing office and its hours are drawn."""
        office, utc_offset = self._draw.pick(OFFICES)
        hours = self._draw.pick((("08:00", "16:00"), ("09:00", "17:00"), ("09:00", "17:00"), ("09:30", "17:30")))
        drawn = {"office": office, "utc_offset": utc_offset, "work_start": hours[0], "work_end": hours[1]}
        address = f"{first}.{last}@{self.domain}".lower()
        person = self._world.insert("people", address, name=f"{first} {last}", **(drawn | columns))
        self.people.append(person)
        return person

    def members(self, team: str) -> Rows:
        """The people of a team, its lead first."""
        return [person for person in self.people if person["team"] == team]

    def lead(self, team: str) -> Row:
        """The head of a team."""
        return self.members(team)[0]

    def titled(self, title: str) -> Row:
        """The first person with this title."""
        return next(person for person in self.people if person["title"] == title)

    def someone(self, *teams: str, but: Sequence[Row] = (), offices: Sequence[str] = ()) -> Row:
        """A drawn person who leads no team: of one of the teams and offices, where given, and none of `but`."""
        taken = {person["id"] for person in but}
        fitting = [
            person
            for person in self.people
            if person["manager"] not in (None, self.people[0]["id"])
            and person["id"] not in taken
            and (not teams or person["team"] in teams)
            and (not offices or person["office"] in offices)
        ]
        return self._draw.pick(fitting)

    def namesake(self, person: Row, team: str, title: str) -> Row:
        """A new person whose name is easily taken for this one's."""
        first, last = person["name"].split(" ", 1)
        return self.hire(SIMILAR[first], last, team=team, title=title, manager=self.lead(team)["id"])

    def update(self, person: Row, **columns: Any) -> Row:
        """Change a person's card, and the row that everyone here holds of it."""
        person.update(self._world.update("people", person["id"], **columns))
        return person

    def _hire_everyone(self) -> None:
        chief = self._hire_next(title="Chief Executive", team="Management", manager=None)
        for team, head, titles in TEAMS:
            lead = self._hire_next(title=head, team=team, manager=chief["id"])
            for title in titles:
                self._hire_next(title=title, team=team, manager=lead["id"])

    def _hire_next(self, **columns: Any) -> Row:
        return self.hire(next(self._firsts), next(self._lasts), **columns)
