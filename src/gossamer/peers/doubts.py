"""What a learner does when a neighbour says that this learner's journal is old: it draws nothing new, and waits.

A journal that was put back knows less than what was sent. Each round that it draws anew is a state's second release, so
whoever says that we are behind must be heeded. But it is one neighbour's word: it cannot be proved, and a liar can say
it, in a hello of a round that needs messages that we have not sent, or in a refusal. So a claim neither ends the
learner nor is it passed over:

    held     the link of who claims it. Nothing of it is used, and it is sent nothing but hellos.
    halted   as long as any claim stands that the owner has not told us to disbelieve: no round is drawn, and no message
             of any round is sent to anybody. The process goes on, waits, and tells its owner.

**This is as safe as to end.** Suppose that the claim is true, and the journal is of round t0 while rounds to t1 were
sent. What a learner does from the claim on is to say hello, to acknowledge what it used, and to tell settings, refusals
and its end. None of these depends on a record. It sends no message of a round, neither one that was drawn in this life
before the claim came nor one from the journal, and `Party.advance` alone draws; it is not called. Ending the process
could do no more. What was sent before the claim came cannot be called back in either case. That is little: after a
restart nothing new is drawn before every listener has taken this learner's hello (`Party.unheard`), which it says by an
acknowledgement, and what is sent until then is what the journal has, the same bytes as the first time. A listener that
knows of a later life or round does not take that hello, and says so. One of a release that does not say that it has
taken a hello counts as soon as it has said its own; a claim that it can only make by refusing, where a life is missing
or no more rounds than may be gone without, may then come after a draw. What no rule of ours can find out are a
listener that hides what it has used, and rounds that no listener has used yet.

**A liar gains no more than by silence.** Whoever is a neighbour can stop this learner by saying nothing; what `late`
allows without it, it can stop by a claim. It cannot make the process exit, nor anything be drawn or spent.

**How it ends.** A hello's claim ends when that neighbour says a hello that is in order: then its word is gone that
anything is missing here. A refusal's claim lasts for the life of the process, because a neighbour that refuses us still
says hello. The owner decides the rest, who alone knows whether the journal was put back: if it was, or nobody can tell,
the party joins a new run. If it was not, `[neighbours.N] believe = false` says so; then N's link alone is held, and the
learner goes on with the others as without a neighbour that is away.
"""

from __future__ import annotations

from collections.abc import Collection


class Doubts:
    """The claims that stand, by neighbour; `disbelieved` are those whose word the owner does not take."""

    def __init__(self, disbelieved: Collection[int] = ()) -> None:
        self._disbelieved = frozenset(disbelieved)
        self._hellos: dict[int, str] = {}
        self._refusals: dict[int, str] = {}

    @property
    def held(self) -> dict[int, str]:
        """Whose links are held, and why, in a sentence for the owner."""
        return {j: f"{why}; {self._remedy(j)}." for j, why in sorted((self._hellos | self._refusals).items())}

    @property
    def halting(self) -> list[int]:
        """Those whose claims keep this learner from drawing and sending anything; asked many times a round."""
        return sorted(j for j in {*self._hellos, *self._refusals} if j not in self._disbelieved)

    def hello_claims(self, neighbour: int, why: str) -> None:
        self._hellos[neighbour] = why

    def hello_in_order(self, neighbour: int) -> None:
        self._hellos.pop(neighbour, None)

    def refusal_claims(self, neighbour: int, why: str) -> None:
        self._refusals[neighbour] = why

    def _remedy(self, neighbour: int) -> str:
        if neighbour in self._disbelieved:
            return f"[neighbours.{neighbour}] believe = false: its link alone is held"
        return (
            "nothing more is drawn or sent; if the journal was put back or copied, join a new run; if it surely was "
            f"not, write believe = false under [neighbours.{neighbour}] and start again"
        )
