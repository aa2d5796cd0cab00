"""An environment's own options: what its constructor takes, from the words of a command line."""

from __future__ import annotations

import pytest
from puppet import Puppet

from miroir.errors import InvalidArgument
from miroir.serve.options import configured


class Tuned(Puppet):
    """A puppet that takes options."""

    def __init__(self, base_url: str, size: int = 1, rate: float | None = None, quick: bool = False) -> None:
        self.told = (base_url, size, rate, quick)


def test_options_become_what_the_constructor_takes() -> None:
    """Dashes for underscores, numbers as numbers, a bool as a flag; what is left out has its default."""
    words = ["--base-url", "http://a", "--size=3", "--rate", "0.5", "--quick"]

    assert configured(Tuned, words, "tuned")().told == ("http://a", 3, 0.5, True)
    assert configured(Tuned, ["--base-url", "u"], "tuned")().told == ("u", 1, None, False)


def test_without_options_it_is_the_class_itself() -> None:
    """An environment that takes none is made as before."""
    assert configured(Puppet, [], "puppet") is Puppet


def test_what_makes_it_has_the_name_of_the_class() -> None:
    """A failing constructor is told under the class's name."""
    assert configured(Tuned, ["--base-url", "u"], "tuned").__name__ == "Tuned"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "tuned: the following arguments are required: --base-url; its own options are --base-url, --size, --rate"),
        (["--base-url", "u", "--sise", "3"], "tuned: unrecognized arguments: --sise 3; its own options are --base-url"),
        (["--base-url", "u", "--size", "three"], "tuned: argument --size: invalid int value: 'three'"),
    ],
)
def test_a_mistake_names_the_options(words: list[str], says: str) -> None:
    """A missing, an unknown and a malformed option."""
    with pytest.raises(InvalidArgument, match=says):
        configured(Tuned, words, "tuned")


def test_an_environment_without_options_says_so() -> None:
    """A word too many is a mistake there too."""
    with pytest.raises(InvalidArgument, match="puppet: unrecognized arguments: --url u; its own options are none"):
        configured(Puppet, ["--url", "u"], "puppet")
