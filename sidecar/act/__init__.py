"""Carrying out verdicts: look again, write the reason, call, see what came of it.

A verdict was given on what was known a moment ago, and ending a healthy turn costs a user. So
right before the call everything is read once more, and a turn that changed or moved is left alone
(`superseded`). The reason is on disk and told to every listener before the agent hears of it, and
what an agent promises is no outcome: the effect is seen, or the act was `ineffective`.

Every act runs in a task of its own that nobody cancels, under its own deadline. No turn gets two
interrupts, whoever asks and however often we restart: the journal knows. A refused or unanswered
interrupt is spent too, for nobody can tell whether it arrived.

A held act (a brake, or a journal that cannot be written) waits while its turn lasts, and is judged
anew when the brake lets go; if the turn ends before, `held` is what became of it.
"""

from sidecar.act.acts import Acts
from sidecar.act.brakes import Settings
from sidecar.act.doing import World

__all__ = ["Acts", "Settings", "World"]
