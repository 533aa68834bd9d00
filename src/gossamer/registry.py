"""Things by name: those of one of our packages, each declared in its own file, and a user's own.

A package's modules are imported when a name is first asked for, so that a new one is one new file and no list of names
has to be kept. A user's own is `package.module:name`, found from the folder where the command is run, unless somebody
else has given the name: then only what is installed counts.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Collection
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from gossamer.errors import BadValue, GossamerError, near


class Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)
Made = TypeVar("Made", bound=Callable[..., Any])
Said = ParamSpec("Said")


def digest_source(function: Callable[..., Any]) -> str:
    """Of the module that a function is in: another source may give other numbers."""
    module = inspect.getmodule(function)
    try:
        return "" if module is None else hashlib.sha256(inspect.getsource(module).encode()).hexdigest()
    except (TypeError, OSError):  # it is built in, or its file is away
        name = getattr(function, "__qualname__", repr(function))
        raise GossamerError(
            f"the source of {name} cannot be read, and it decides the numbers: give a function of a module in Python."
        ) from None


class Registry(Generic[Entry]):
    """`argument` is what users call the thing; `adopt` makes an entry of an object that nobody has declared.

    Modules in `heavy` declare nothing, and are not imported to look for names. `order` sorts what is listed.
    """

    def __init__(
        self,
        argument: str,
        package: str,
        adopt: Callable[[str, Any], Entry],
        *,
        heavy: Collection[str] = (),
        order: Callable[[Entry], int] = lambda entry: 0,
    ) -> None:
        self._argument, self._package, self._adopt = argument, package, adopt
        self._heavy, self._order = heavy, order
        self._entries: dict[str, Entry] = {}
        self._objects: dict[int, Entry] = {}  # by identity of what was declared
        self._complete = False

    def decorator(
        self, describe: Callable[Concatenate[Callable[..., Any], Said], Entry]
    ) -> Callable[Said, Callable[[Made], Made]]:
        """A decorator that declares functions: `describe` makes the entry, from the function and its own arguments.

        A function from outside the package is known by module:name alone, so it clashes with no name of ours.
        """

        def decorate(*said: Said.args, **more: Said.kwargs) -> Callable[[Made], Made]:
            def declare(made: Made) -> Made:
                entry = self._objects[id(made)] = describe(made, *said, **more)
                if made.__module__.startswith(f"{self._package}."):
                    self._entries[entry.name] = entry
                return made

            return declare

        return decorate

    def of(self, made: Any) -> Entry:
        """The entry of a function that was declared."""
        return self._objects[id(made)]

    def entries(self) -> dict[str, Entry]:
        """All that the package declares, by name."""
        if not self._complete:
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                if module.name not in self._heavy:
                    importlib.import_module(f"{self._package}.{module.name}")
            self._complete = True
        return dict(sorted(self._entries.items(), key=lambda pair: (self._order(pair[1]), pair[0])))

    def find(self, name: str) -> Entry:
        """The entry of a name; a user's own by package.module:name."""
        if ":" in name:
            return self._own(name)
        known = self.entries()
        if name not in known:
            remedy = near(name, known) or "or package.module:name of your own"
            raise BadValue(self._argument, name, f"it is not one of {', '.join(known)}", remedy)
        return known[name]

    def find_installed(self, name: str) -> Entry:
        """The same for a name that somebody else has given, who may have given the folder, too: whatever lies where
        the command is run must not be run by it."""
        return self._own(name, here=False) if ":" in name else self.find(name)

    def _own(self, name: str, here: bool = True) -> Entry:
        module_name, _, attribute = name.partition(":")
        folder = os.getcwd()
        hidden = [] if here else [place for place in sys.path if place in ("", folder)]  # as `python -m` puts it there
        sys.path[:] = [folder, *sys.path] if here else [place for place in sys.path if place not in hidden]
        try:
            made = getattr(importlib.import_module(module_name), attribute)
        except Exception as error:  # whatever importing a user's module may raise
            remedy = "give package.module:name" if here else "install its package; nothing of this folder is imported"
            raise BadValue(self._argument, name, f"it cannot be imported ({error})", remedy) from error
        finally:
            if here:
                sys.path.remove(folder)
            sys.path[:0] = hidden
        if not callable(made):
            raise BadValue(self._argument, name, f"it is {made!r}", "give a function that makes one")
        try:
            return self._objects.get(id(made)) or self._adopt(name, made)
        except (TypeError, ValueError) as error:  # it has no signature that could be looked at
            raise BadValue(self._argument, name, f"it cannot be used ({error})", "give a function") from error

    def call(self, name: str, make: Callable[..., Any], *given: Any, member: str, **more: Any) -> Any:
        """What a named function makes; of a user's own, refused where it is no such thing: it has no such `member`."""
        if ":" not in name:
            return make(*given, **more)
        try:
            made = make(*given, **more)
        except TypeError as error:
            raise BadValue(self._argument, name, f"it cannot be called as a {self._argument} is ({error})") from error
        if not hasattr(made, member):
            raise BadValue(self._argument, name, f"it makes {type(made).__name__}, which is no {self._argument}")
        return made
