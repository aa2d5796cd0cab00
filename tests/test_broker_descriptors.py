"""What sessions need of the limit of open files."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from miroir.broker import descriptors
from miroir.errors import DescriptorLimit


@pytest.fixture
def _limit() -> Iterator[None]:
    """A soft limit of 256 while the test runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_limit")
def test_enough() -> None:
    """Sessions that fit are no matter."""
    descriptors.require(0, 1)
    descriptors.require(30, 20)

    assert descriptors.PER_SESSION == 4


@pytest.mark.usefixtures("_limit")
def test_too_few() -> None:
    """The error names the limit, the need, and how to raise it."""
    with pytest.raises(
        DescriptorLimit,
        match=r"^DESCRIPTOR_LIMIT: this process may open 256 files, too few for 100 sessions, which need 4 each; "
        r"raise the limit.*: `ulimit -n 4096` before the start, or resource\.setrlimit in the program$",
    ):
        descriptors.require(0, 100)


@pytest.mark.usefixtures("_limit")
def test_what_is_open_besides_counts() -> None:
    """Files of others that are open leave less for sessions."""
    files = [open("/dev/null") for _ in range(150)]  # noqa: SIM115, PTH123
    try:
        with pytest.raises(DescriptorLimit):
            descriptors.require(0, 40)
    finally:
        for file in files:
            file.close()
    descriptors.require(0, 40)
