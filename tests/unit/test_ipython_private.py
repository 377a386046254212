"""Private API of IPython and ipykernel: all of it is in this release, and what happens without each part."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from ipykernel import zmqshell
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelbase import Kernel
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.extensions.autoreload import AutoreloadMagics

from nbdist.ipython_private import (
    TAKE_ERRORS,
    allow_await,
    autoreloader,
    has_failed_to_show,
    is_asked_to_end,
    publish_error,
    show_any_error,
)


class EngineKernel:
    """A kernel without a thread for its shell channel, as an engine's is."""

    _supports_kernel_subshells = True
    shell_channel_thread = None


def test_a_kernel_without_a_shell_thread_gets_one_that_says_where_cells_run() -> None:
    kernel = EngineKernel()
    assert allow_await(kernel)
    assert not kernel.shell_channel_thread
    assert kernel.shell_channel_thread.parent_thread is not None  # type: ignore[attr-defined]
    assert not kernel._supports_kernel_subshells
    assert not allow_await(kernel)  # a second call changes nothing


def test_a_kernel_that_asks_for_no_thread_stays_as_it_is() -> None:
    kernel = SimpleNamespace()
    assert not allow_await(kernel)
    assert vars(kernel) == {}


def test_each_name_is_in_this_release() -> None:
    assert hasattr(IPythonKernel, "shell_channel_thread")
    assert hasattr(IPythonKernel, "_supports_kernel_subshells")
    assert all(hasattr(ZMQInteractiveShell, name) for name in TAKE_ERRORS)
    assert "_last_traceback_during_displayhook" in inspect.getsource(zmqshell)
    assert "self._reloader =" in inspect.getsource(AutoreloadMagics)
    assert Kernel._shutdown_message is None


def test_where_nothing_is_kept_each_question_has_the_harmless_answer() -> None:
    nothing = SimpleNamespace()
    assert not has_failed_to_show(nothing)
    assert not is_asked_to_end(nothing)
    assert autoreloader({}) is None
    assert autoreloader({"AutoreloadMagics": nothing}) is None
    assert show_any_error(nothing, lambda error: error) == ()


def test_what_is_kept_is_found() -> None:
    assert has_failed_to_show(SimpleNamespace(_last_traceback_during_displayhook=True))
    assert is_asked_to_end(SimpleNamespace(_shutdown_message={"content": {}}))
    kept = object()
    assert autoreloader({"AutoreloadMagics": SimpleNamespace(_reloader=kept)}) is kept


def test_a_traceback_is_shown_by_the_shells_own_method() -> None:
    shown: list[Any] = []
    shell = SimpleNamespace(_showtraceback=lambda *given: shown.append(given))
    error = ValueError("no")
    publish_error(shell, ValueError, error, ["line 3"])
    assert shown == [(ValueError, error, ["line 3"])]
