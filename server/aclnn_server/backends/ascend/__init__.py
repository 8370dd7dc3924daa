"""The backend that runs operators on Ascend NPUs, through an installed CANN.

``loader`` finds the libraries, ``headers`` reads what they offer, ``acl`` declares the functions, ``handles``
own what they hand out, ``two_phase`` makes the calls, ``device`` and ``backend`` put it together.
"""

from aclnn_server.backends.ascend.backend import AscendBackend

__all__ = ["AscendBackend"]
