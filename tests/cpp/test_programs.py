"""A test program of client/cpp/tests in a process whose memory is not allocated as the library's is."""

from __future__ import annotations

from tests.cpp import building


def test_meta_in_a_program_with_an_allocator_of_its_own() -> None:
    """AddressSanitizer brings one, and tells where what one allocated is given back to another."""
    source = building.LIBRARY / "tests/meta_test.cc"
    program = building.program(source, "-fsanitize=address")
    assert building.run((str(program),), "127.0.0.1:1") == ""
