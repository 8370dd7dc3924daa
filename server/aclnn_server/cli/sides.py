"""The sides of a comparison: servers at addresses, or of this command's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from aclnn.signatures import Signature
from aclnn_client import Context
from aclnn_server.backends import BACKENDS, BackendError
from aclnn_server.cli import catalogue
from aclnn_server.cli.exits import CommandError, Exit
from aclnn_server.cli.remote import Credentials, connect, connection
from aclnn_server.config import ServerConfig
from aclnn_server.operators.products import PRODUCTS, REFERENCE
from aclnn_server.server import Server


@dataclass(frozen=True, slots=True)
class Side:
    """One side, ready to compute."""

    label: str
    context: Context
    known: Credentials
    """What its server knows this command by."""

    def compute_signature(self, name: str) -> Signature:
        """Its own signature of an operator."""
        return self.context.operator(name).signature()


@contextlib.contextmanager
def opened(text: str, timeout: float, known: Credentials) -> Iterator[Side]:
    """Opens a side.

    Args:
        text: ``HOST:PORT`` or ``unix:PATH`` of a server; else a product that a server of its own takes as
            ``--soc``, a backend, or ``BACKEND/PRODUCT``.
        timeout: longest wait for an answer, in seconds.
        known: what a server at an address knows this command by.

    Raises:
        CommandError: it is none of these, or cannot be opened.
    """
    with _address(text) as address:
        mine = known if address == text else Credentials()
        with connect(address, timeout, mine) as context:
            yield Side(text, context, mine)


@contextlib.contextmanager
def _address(text: str) -> Iterator[str]:
    if ":" in text:
        yield text
        return
    backend, soc = own(text)
    try:
        server = Server(ServerConfig(listen="127.0.0.1:0", backend=backend, soc=soc))
    except BackendError as error:
        raise CommandError(str(error), Exit.NO_BACKEND) from None
    with server:
        yield server.address


def own(text: str) -> tuple[str, str]:
    """Backend and product of a side that is no address.

    Raises:
        CommandError: there is no such backend or product.
    """
    backend, slash, soc = text.partition("/")
    if not slash and backend.lower() in PRODUCTS:
        return "numpy", backend.lower()
    soc = soc.lower() or REFERENCE.name
    if backend not in BACKENDS or soc not in PRODUCTS:
        raise CommandError(
            f"{text!r} is no HOST:PORT or unix:PATH, no product ({', '.join(PRODUCTS)}), no backend "
            f"({', '.join(BACKENDS)}) and no BACKEND/PRODUCT"
        )
    return backend, soc


def entry_of(side: Side, name: str, timeout: float) -> catalogue.Entry:
    """An operator as a side's server knows it, by its name with or without the aclnn prefix."""
    with connection(side.context.address, timeout, side.known) as server:
        return catalogue.remote_entry(server, name)
