"""The rules of judgement a second time, as slowly and as plainly as they can be said.

Nothing is kept but the list of what was seen: every question is answered by reading it from the
beginning. It shares the vocabulary and the numbers with the core and none of its code.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, NamedTuple

from sidecar import signals as g

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.limits import Limit, Rules

RESOLUTION = {"transcript": "record", "host": "delta", "registry": None}
NEVER = float("-inf")


class Judgement(NamedTuple):
    """A deadline: what the table calls it, when it comes and what follows."""

    name: str
    key: str
    since: float
    deadline: float
    action: str


class Opened(NamedTuple):
    """The open turn: its name, where it stands in the list, and when it began."""

    id: str
    place: int
    at: float


class Naive:
    """One session, as a list of what was seen."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.seen: list[g.Signal] = []
        self.said: list[tuple[int, Judgement, str]] = []
        """What was judged, by its place in the list, and how it was to be acted on."""

    # The turn.

    def _walk(self) -> tuple[Opened | None, list[tuple[int, float, str]]]:
        """The open turn, and all that ended: where in the list, when, and which."""
        now: Opened | None = None
        over: list[tuple[int, float, str]] = []
        pending: g.TurnEnded | None = None
        for place, x in enumerate(self.seen):
            names = (
                getattr(x, "turn", None)
                if isinstance(x, g.Progress | g.ToolStarted | g.TurnStarted)
                else None
            )
            past = names in [turn for _, _, turn in over]
            if isinstance(x, g.TurnStarted) and past:
                continue
            if now and isinstance(x, g.TurnStarted) and x.turn != now.id:
                at = pending.at if pending else max(now.at, self._progressed(place))
                over.append((place, at, now.id))
                now = pending = None
            if now is None and names and not past:
                now = Opened(names, place, x.at)
            if self._works(place) and not (isinstance(x, g.Progress) and x.turn is None):
                pending = None
            if now and (ends := self._ends(place, now, pending)) is not None:
                over.append((place, ends, now.id))
                now = pending = None
            if now and isinstance(x, g.TurnEnded) and x.settle:
                pending = x
        return now, over

    def _ends(self, place: int, now: Opened, pending: g.TurnEnded | None) -> float | None:
        """When the turn ended, if what stands there ended it."""
        match self.seen[place]:
            case g.TurnEnded(at=at, settle=0.0):
                return at
            case g.Ticked(at=at) if pending and at >= pending.at + pending.settle:
                return pending.at
            case g.ProcessGone() if pending:
                return pending.at
            case g.Acted(bound="gone"):
                return max(x.at for x in self.seen[:place] if isinstance(x, g.ProcessGone))
            case g.Acted(bound="idle_in_turn"):
                return max(now.at, self._progressed(place))
        return None

    def turn(self, place: int | None = None) -> Opened | None:
        """The turn that is open (or was, when the list had got so far)."""
        if place is None:
            return self._walk()[0]
        return self._before(place)._walk()[0]

    def _before(self, place: int) -> Naive:
        past = Naive(self.rules)
        past.seen = self.seen[:place]
        return past

    def _slate(self) -> int:
        """Where in the list the turn or the rest began that goes on now."""
        now, over = self._walk()
        return now.place if now else (over[-1][0] if over else -1)

    def _since_slate(self, *kinds: type[g.Signal]) -> Iterator[tuple[int, g.Signal]]:
        start = self._slate()
        return ((p, x) for p, x in enumerate(self.seen) if p >= start and isinstance(x, kinds))

    # Progress.

    def _works(self, place: int) -> bool:
        """Whether what stands there is the agent doing its work."""
        x = self.seen[place]
        if isinstance(x, g.TurnStarted):
            return x.turn not in [turn for _, _, turn in self._before(place)._walk()[1]]
        if isinstance(x, g.ChildMoved):
            past = self._before(place)
            return x.progress > past._progressed(place) and (past.turn() is None or past._waits_for_child())
        return isinstance(x, g.Progress | g.ToolStarted | g.ToolEnded)

    def _worked(self, place: int | None = None) -> Iterator[tuple[int, float]]:
        for p, x in enumerate(self.seen[:place]):
            if self._works(p):
                yield p, x.progress if isinstance(x, g.ChildMoved) else x.at

    def _progressed(self, place: int | None = None) -> float:
        """When it last worked."""
        return max((at for _, at in self._worked(place)), default=NEVER)

    # What is open.

    def tools(self) -> list[g.ToolStarted]:
        """The tool calls without a result."""
        if self.turn() is None:
            return []
        found: dict[str, g.ToolStarted] = {}
        for _, x in self._since_slate(g.ToolStarted, g.ToolEnded):
            if isinstance(x, g.ToolStarted):
                found.setdefault(x.call, x)
            elif isinstance(x, g.ToolEnded):
                found.pop(x.call, None)
        return list(found.values())

    def _waits_for_child(self) -> bool:
        return any(tool.delegates for tool in self.tools())

    def wait(self) -> g.WaitStarted | None:
        """The permission or question that is pending in the record."""
        found = None
        for _, x in self._since_slate(g.WaitStarted, g.WaitEnded):
            found = (found or x) if isinstance(x, g.WaitStarted) else None
        return found

    def compaction(self) -> float | None:
        """Since when the context is compacted."""
        found: tuple[int, float] | None = None
        for p, x in self._since_slate(g.CompactionStarted, g.CompactionEnded):
            gone = found and any(q > found[0] and at > found[1] for q, at in self._worked(p))
            found = None if gone else found
            found = (found or (p, x.at)) if isinstance(x, g.CompactionStarted) else None
        if found and any(p > found[0] and at > found[1] for p, at in self._worked()):
            return None
        return found and found[1]

    def retry(self) -> g.Retrying | None:
        """The newest retry since the last work."""
        last = max((p for p, _ in self._worked()), default=-1)
        found = [x for p, x in self._since_slate(g.Retrying) if p > last and isinstance(x, g.Retrying)]
        return found[-1] if found else None

    def limit(self) -> tuple[float, float | None] | None:
        """Since when a usage limit holds, and until when it was told to."""
        found: tuple[float, float | None] | None = None
        for p, x in enumerate(self.seen):
            if self._works(p) or (isinstance(x, g.Judged) and x.bound == "limited"):
                found = None
            elif isinstance(x, g.Limited):
                known = found is not None and (found[1] is None or found[1] > x.at)
                found = found if x.until is None and known else (x.at, x.until)
            elif isinstance(x, g.Retrying) and x.due is not None and x.due > x.at + 15 * 60:
                known_until = found[1] if found and found[1] is not None else NEVER
                found = (x.at, max(x.due, known_until))
        return found

    def background(self) -> bool:
        """Whether background tasks run by the agent's count."""
        counts = [x.count for x in self.seen if isinstance(x, g.Background)]
        return bool(counts and counts[-1])

    def _children(self) -> dict[str, tuple[bool, float | None]]:
        """Of each subagent: whether it runs, and since when it is known to hang."""
        found: dict[str, tuple[bool, float | None]] = {}
        newest: dict[str, float] = {}
        for x in self.seen:
            if isinstance(x, g.ChildMoved):
                moved = x.progress > newest.get(x.child, NEVER)
                found[x.child] = (x.running, None if moved else found[x.child][1])
                newest[x.child] = max(newest.get(x.child, NEVER), x.progress)
            if isinstance(x, g.ChildStuck):
                found[x.child] = (found.get(x.child, (True, None))[0], x.at)
                newest.setdefault(x.child, x.at)
        return found

    # What is said, and by whom.

    def sources(self, place: int | None = None) -> dict[str, bool]:
        """The sources, and whether they can be read."""
        found: dict[str, bool] = {}
        for x in self.seen[:place]:
            if isinstance(x, g.SourceUp):
                found[x.source] = True
            if isinstance(x, g.SourceLost) and x.source in found:
                found[x.source] = False
        return found

    def words(self) -> dict[str, g.Status]:
        """The last word of each source, the newest last; its silence is none."""
        found: dict[str, g.Status] = {}
        for x in self.seen:
            if isinstance(x, g.Status):
                found.pop(x.source, None)
                if x.word is not None:
                    found[x.source] = x
        return found

    def status(self, place: int | None = None) -> g.Status | None:
        """The newest word of a source that can be read."""
        then = self if place is None else self._before(place)
        up = then.sources()
        return next((x for source, x in reversed(then.words().items()) if up.get(source, True)), None)

    def _says(self, *words: str) -> bool:
        status = self.status()
        return status is not None and status.word in words

    def resolution(self, place: int | None = None) -> str | None:
        """How finely progress is seen."""
        fine = {RESOLUTION[source] for source, up in self.sources(place).items() if up}
        return "delta" if "delta" in fine else ("record" if "record" in fine else None)

    def blind(self, place: int | None = None) -> bool:
        """Whether silence proves nothing."""
        return self.sources(place).get("transcript") is False or self.resolution(place) is None

    def gone(self) -> float | None:
        """When the process ended, if nothing has lived since."""
        went: float | None = None
        for p, x in enumerate(self.seen):
            if isinstance(x, g.ProcessGone):
                went = x.at if went is None else went
            elif self._works(p) and went is not None:
                work = x.progress if isinstance(x, g.ChildMoved) else x.at
                went = None if work > went else went
            elif isinstance(x, g.ProcessSeen | g.Registered) and self.turn(p) is None:
                went = None
        return went

    def known_at(self) -> tuple[float | None, float | None]:
        """Since when it is registered, and since when its process runs."""
        registered: float | None = None
        process: float | None = None
        for x in self.seen:
            if isinstance(x, g.Registered) and registered is None:
                registered = x.at
            if isinstance(x, g.ProcessSeen):
                process = x.started
            if isinstance(x, g.ProcessGone):
                registered = process = None
        return registered, process

    # The table.

    def phase(self) -> str:  # noqa: PLR0911 - a list, as the table is
        """The first that holds."""
        turn, status = self.turn(), self.status()
        sources = self.sources()
        if sources and not any(sources.values()):
            return "unknown"
        if self.gone() is not None:
            return "gone"
        if self.limit() is not None:
            return "limited"
        if self.wait() or self._says("waiting"):
            return "waiting"
        if self.compaction() is not None:
            return "compacting"
        left = turn and status and status.word in ("idle", "background") and status.since >= turn.at
        if left and not self._settles():
            return "idle_in_turn"
        return self._working() if turn else self._resting()

    def _working(self) -> str:
        if self._waits_for_child():
            return "delegated"
        if self.tools():
            return "tool"
        return "retrying" if self.retry() else "model"

    def _resting(self) -> str:
        if any(runs and not hangs for runs, hangs in self._children().values()):
            return "delegated"
        if self.background() or self._says("background"):
            return "delegated"
        if self._says("busy"):
            return "model"
        fresh = not self._walk()[1] and self._progressed() == NEVER and self.status() is None
        if fresh and any(x is not None for x in self.known_at()):
            return "unknown" if self.words() else "starting"
        return "idle"

    def _settles(self) -> bool:
        """Whether an end of the turn is pending."""
        last = max((p for p, _ in self._worked() if not self._is_delta(p)), default=-1)
        return any(
            p > last and isinstance(x, g.TurnEnded) and x.settle for p, x in self._since_slate(g.TurnEnded)
        )

    def _is_delta(self, place: int) -> bool:
        x = self.seen[place]
        return isinstance(x, g.Progress) and x.turn is None

    def excused(self) -> float:
        """The latest end of a wait, compaction, limit or blindness."""
        ends = [NEVER]
        for p, x in enumerate(self.seen):
            then, after = self._before(p), self._before(p + 1)
            if isinstance(x, g.WaitEnded) and then.wait():
                ends.append(x.at)
            if isinstance(x, g.CompactionEnded):
                ends.append(x.at)
            if then.limit() and not after.limit():
                ends.append(x.progress if isinstance(x, g.ChildMoved) else x.at)
            if then._says("waiting") and not after._says("waiting"):
                ends.append(x.at)
            if then._says("waiting") and after._says("waiting") and self._other_wait(then, after):
                ends.append(x.at)
            if isinstance(x, g.SourceUp) and self._sees_again(then, after):
                ends.append(x.at)
        return max(ends)

    @staticmethod
    def _other_wait(then: Naive, after: Naive) -> bool:
        before, now = then.status(), after.status()
        return before is not None and now is not None and before.waiting_for != now.waiting_for

    @staticmethod
    def _sees_again(then: Naive, after: Naive) -> bool:
        """Whether blindness ended: a lost source came back, or the first that sees work joined others."""
        nobody = not any(then.sources().values())
        return bool(then.sources()) and (nobody or (then.blind() and not after.blind()))

    def silent_since(self) -> float:
        """The latest of the last progress and what excused silence."""
        first = self.seen[0].at if self.seen else 0.0
        return max(first if self._progressed() == NEVER else self._progressed(), self.excused())

    def rested_since(self) -> float:
        """The later of the turn's and the other work's end; else first sight, 0."""
        ends = []
        for p, x in enumerate(self.seen):
            then, after = self._before(p), self._before(p + 1)
            over, was = after._walk()[1], then._walk()[1]
            status = then.status()
            if len(over) > len(was):
                ends += [at for _, at, _ in over[len(was) :]]
                ends += [status.since] if status and status.word == "idle" else []
            if isinstance(x, g.Background) and then.background() and not x.count:
                ends.append(x.at)
            if isinstance(x, g.ChildMoved) and not x.running:
                ends.append(x.progress)
            if isinstance(x, g.ChildStuck) or (isinstance(x, g.Presence) and x.used):
                ends.append(x.at)
            if isinstance(x, g.Judged) and x.bound == "limited":
                ends.append(x.at)
            ends += self._word_ended(then, after, x)
        if all(known is None for known in self.known_at()):
            ends.append(self._progressed())
            ends += [went] if (went := self.gone()) is not None else []
        return max((at for at in ends if at > NEVER), default=0.0)

    @staticmethod
    def _word_ended(then: Naive, after: Naive, x: g.Signal) -> list[float]:
        before, now = then.status(), after.status()
        if now is not None and now.word == "idle":
            again = before is not None and before.word == "idle"
            return [] if again or after.turn() is not None else [now.since]
        return [x.at] if now is None and before is not None and before.word != "idle" else []

    # Judgement.

    def _late(self, since: float) -> float:
        return sum(x.by for x in self.seen if isinstance(x, g.Late) and x.at > since)

    def deadlines(self) -> list[Judgement]:
        """Every bound that runs, the nearest first."""
        phase = self.phase()
        found = list(getattr(self, f"_{phase}")())
        turn = self.turn()
        if turn and phase not in ("gone", "unknown"):
            found.append(("turn", "turn", turn.at, self.rules.turn))
        listed = [
            Judgement(name, key, since, since + limit.limit + self._late(since), limit.action)
            for name, key, since, limit in found
            if limit.limit is not None
        ]
        return sorted(listed, key=lambda x: x.deadline)

    def _model_limit(self) -> Limit:
        return self.rules.model_delta if self.resolution() == "delta" else self.rules.model_record

    def _unknown(self) -> Iterator[tuple[str, str, float, Limit]]:
        return iter(())

    def _gone(self) -> Iterator[tuple[str, str, float, Limit]]:
        went = self.gone()
        if self.turn() and went is not None:
            yield "gone", "gone", went, _limit(self.rules, 0.0, "report")

    def _limited(self) -> Iterator[tuple[str, str, float, Limit]]:
        limit = self.limit()
        assert limit is not None
        since, until = limit
        lasts = 6 * 3600.0 if until is None else max(0.0, until - since) + 300
        yield "limited", "limited", since, _limit(self.rules, lasts, "report")

    def _waiting(self) -> Iterator[tuple[str, str, float, Limit]]:
        wait, status = self.wait(), self.status()
        if wait and not self.blind():
            yield "waiting", "waiting", wait.at, self.rules.waiting
        if not wait and status:
            yield "waiting", "waiting", status.since, self.rules.waiting

    def _compacting(self) -> Iterator[tuple[str, str, float, Limit]]:
        since = self.compaction()
        if since is not None and not self.blind():
            yield "compacting", "compacting", since, self.rules.compacting

    def _idle_in_turn(self) -> Iterator[tuple[str, str, float, Limit]]:
        status = self.status()
        assert status is not None
        yield "idle_in_turn", "idle_in_turn", max(status.since, self._progressed()), self.rules.idle_in_turn

    def _delegated(self) -> Iterator[tuple[str, str, float, Limit]]:
        turn = self.turn()
        hanging = [since for runs, since in self._children().values() if runs and since is not None]
        hanging = [since for since in hanging if turn and since >= turn.at]
        for since in hanging[:1]:
            yield "delegated", "delegated", since, self.rules.delegated

    def _tool(self) -> Iterator[tuple[str, str, float, Limit]]:
        for pattern, limit in self.rules.tool.items():
            if not self.blind() and any(fnmatch(tool.tool, pattern) for tool in self.tools()):
                yield "tool", f"tool:{pattern}", self.silent_since(), limit

    def _retrying(self) -> Iterator[tuple[str, str, float, Limit]]:
        retry, since = self.retry(), self.silent_since()
        model, ceiling = self._model_limit().limit, self.rules.retrying.limit
        assert retry is not None
        assert model is not None
        assert ceiling is not None
        announced = max(retry.at, retry.due or retry.at, self.excused()) + model
        if not self.blind():
            lasts = min(announced, since + ceiling) - since
            yield "retrying", "retrying", since, _limit(self.rules, lasts, self.rules.retrying.action)

    def _model(self) -> Iterator[tuple[str, str, float, Limit]]:
        if self.turn() and not self.blind() and not self._settles():
            yield "model", "model", self.silent_since(), self._model_limit()
        status = self.status()
        if not self.turn() and status:
            yield "busy", "busy", max(status.since, self.excused()), self.rules.busy

    def _starting(self) -> Iterator[tuple[str, str, float, Limit]]:
        registered, process = self.known_at()
        since = process if registered is None else registered
        assert since is not None
        yield "starting", "starting", since, self.rules.starting

    def _idle(self) -> Iterator[tuple[str, str, float, Limit]]:
        if not all(self.sources().values()) or (self.blind() and not self._says("idle")):
            return
        limit = self.rules.idle
        prompted = self.turn() or self._walk()[1]
        assert limit.limit is not None
        yield (
            "idle",
            "idle",
            self.rested_since(),
            limit if prompted else _limit(self.rules, limit.limit, "report"),
        )

    def _said_before(self) -> list[tuple[int, Judgement, str]]:
        """What was said of this turn. Where none is visible, work after a rest stands for another."""
        start = self.turn()
        begin = start.place if start else max((p for p in self._openings()), default=-1)
        rested = False
        for p in range(len(self.seen)):
            then, after = self._before(p), self._before(p + 1)
            word = after.status().word if after.status() else None  # type: ignore[union-attr]
            spoke = isinstance(self.seen[p], g.Status | g.SourceUp | g.SourceLost)
            if spoke and word in ("busy", "waiting"):
                begin = max(begin, p) if rested and then.turn() is None else begin
                rested = False
            elif spoke and word is not None:
                rested = True
        return [said for said in self.said if said[0] > begin and self._holds(said)]

    def _holds(self, said: tuple[int, Judgement, str]) -> bool:
        """A usage limit that is told anew may be judged anew, and idleness after use."""
        if said[1].name == "idle":
            return not any(isinstance(x, g.Presence) and x.used for x in self.seen[said[0] :])
        if said[1].name != "limited":
            return True
        return not any(
            isinstance(x, g.Limited)
            or (isinstance(x, g.Retrying) and x.due is not None and x.due > x.at + 900)
            for x in self.seen[said[0] :]
        )

    def _openings(self) -> Iterator[int]:
        for p in range(len(self.seen)):
            now, was = self.turn(p + 1), self.turn(p)
            if now is not None and (was is None or was.id != now.id):
                yield p

    def judge(self, now: float) -> list[tuple[str, str]]:
        """What trips now and was not said of this turn: (bound, action)."""
        said = self._said_before()
        spent = any(how == "interrupt" for _, _, how in said)
        found: list[tuple[str, str]] = []
        new: list[tuple[int, Judgement, str]] = []
        for x in self.deadlines():
            if now < x.deadline or x.key in [y.key for _, y, _ in [*said, *new]]:
                continue
            how = x.action
            if how == "interrupt" and (spent or not (self.turn() or self._says("busy", "waiting"))):
                how = "report"
            spent = spent or x.action == "interrupt"
            new.append((len(self.seen), x, how))
            found.append((x.name, how))
        self.said += new
        return found

    def shown(self) -> Judgement | None:
        """The nearest deadline that was not judged, else the nearest."""
        said = [x.key for _, x, _ in self._said_before()]
        running = self.deadlines()
        return next((x for x in running if x.key not in said), running[0] if running else None)


def _limit(rules: Rules, lasts: float, action: g.Action) -> Limit:
    return type(rules.idle)(lasts, action)
