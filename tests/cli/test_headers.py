"""``headers``: what it writes; tests/cpp compiles and runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aclnn_server.cli.exits import Exit
from aclnn_server.server import Server
from tests.cli.running import Command


def test_a_server_without_operators_of_its_own(
    refusal: Callable[..., str], server: Server, tmp_path: Path
) -> None:
    text = refusal("headers", server.address, tmp_path / "new", code=Exit.NO)
    assert text == f"{server.address} has no operator that is not known here"
    assert not (tmp_path / "new").exists()


def test_a_named_operator(command: Command, server: Server, tmp_path: Path) -> None:
    answer = command("headers", server.address, tmp_path, "aclnnInplaceAdd")
    header, source = tmp_path / "include/aclnnop/aclnn_add.h", tmp_path / "src/served_operators.c"
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[:2] == [str(header), str(source)]
    assert answer.out.splitlines()[2].startswith(f"cc -shared -fPIC -I {tmp_path / 'include'} ")
    declared = header.read_text("utf-8")
    assert f"Written by aclnn-serve headers {server.address}." in declared
    # The header is the vendor's, with all that it declares; only what was asked for is defined.
    for name in ("aclnnInplaceAdd", "aclnnAdd", "aclnnAdds", "aclnnInplaceAdds"):
        assert f"ACLNN_API aclnnStatus {name}(" in declared
    defined = source.read_text("utf-8")
    assert '{"aclnnInplaceAdd", kInplaceAddParameters, 3}' in defined
    assert '"aclnnAdd"' not in defined


def test_refusals(refusal: Callable[..., str], server: Server, tmp_path: Path) -> None:
    assert "aclnnNothing" in refusal("headers", server.address, tmp_path, "aclnnNothing", code=1)
    blocked = tmp_path / "file"
    blocked.write_text("")
    text = refusal("headers", server.address, blocked, "aclnnCat")
    assert text == f"{blocked / 'include/aclnnop/aclnn_cat.h'}: Not a directory"
