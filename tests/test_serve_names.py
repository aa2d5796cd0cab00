"""What `miroir serve ENV` names."""

from __future__ import annotations

import pytest

from miroir.envs.office import Office
from miroir.errors import InvalidArgument
from miroir.serve import Environment, names


class Begun(Environment):
    """An environment whose author is not done."""

    name = "begun"

    def tasks(self, split):
        return []

    def tools(self, surface):
        return []


def test_environments_have_short_and_full_names() -> None:
    """A bundled one goes by either."""
    assert names.find("office") is names.find("miroir.envs.office:Office") is Office


def test_an_environment_that_lacks_methods_is_told_which() -> None:
    """It is refused before it is served; the base class itself too."""
    with pytest.raises(InvalidArgument) as refused:
        names.find(f"{__name__}:Begun")
    assert refused.value.message == f"the environment '{__name__}:Begun' has no call, grade, reset; define them"
    with pytest.raises(InvalidArgument, match="has no call, grade, reset, tasks, tools; define them"):
        names.find("miroir.serve:Environment")
