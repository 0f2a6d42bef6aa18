"""Code from outside the package: the hash that puts it into the key of a run."""

from __future__ import annotations

import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from engram.core.userfile import OF_OTHERS, SOURCE, UserFile, is_outside_module, read_user_file

SCRIPTS = ("__main__", "__mp_main__")
"""The script that is run, here and in a process that it started."""
MADE_OF = "__engram_made_of__"
"""Where a class that was made of a user's class or function has that, and the text of the values that it captured."""


def hash_code(thing: Any) -> str:
    """A hash of the code of a class or function from outside the package, and of all that it inherits from or uses
    beside it; empty if it is the package's own.

    Code is read when it is first asked for: a process goes on with the code that it has, whatever becomes of the file.
    Values that a script or a notebook may have set anew since then are looked up every time.
    """
    if isinstance(thing, type) and MADE_OF in vars(thing):
        maker, captured = vars(thing)[MADE_OF]
        return hashlib.sha256(f"{hash_code(maker)} {captured}".encode()).hexdigest()[:16]
    parts = thing.__mro__ if isinstance(thing, type) else (thing,)
    texts = [code_text(part, {}) for part in parts if is_outside(part)]
    return hashlib.sha256("".join(dict.fromkeys(texts)).encode()).hexdigest()[:16] if texts else ""


def is_outside(thing: Any) -> bool:
    module = getattr(thing, "__module__", None) or ""
    if module == "builtins":  # what was made by exec in a namespace without a name
        return isinstance(thing, FunctionType) or (isinstance(thing, type) and "__module__" in vars(thing))
    top = module.partition(".")[0]
    return thing is not object and top not in ("torch", "numpy") and (top not in OF_OTHERS or module in SCRIPTS)


def code_text(thing: Any, seen: dict[str, str]) -> str:
    """The text of the module that something comes from, and the values that it was given by others; of a script or a
    notebook, only what the thing itself uses."""
    text = "" if thing.__module__ in SCRIPTS else file_text(thing)
    if not text:
        return json.dumps(used_by(thing, seen), sort_keys=True)
    seen[place_of_code(thing)] = ""  # it may name itself
    values = {name: found for name, found in brought_values(thing, seen).items() if found}
    return f"{text}\n{json.dumps([values, seen], sort_keys=True)}" if values else text


def place_of_code(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


@cache
def file_text(thing: Any) -> str:
    """The text of the file that something comes from, as it was when first asked for: the module may be replaced."""
    module = sys.modules.get(thing.__module__)
    return "" if module is None else str(getattr(module, SOURCE, "")) or module_text(module)


_TEXTS: dict[str, tuple[object, str]] = {}


def module_text(module: ModuleType) -> str:
    """The text of a module's file and of what it imports from beside it; empty if there is no such file.

    It is read again only if the module was imported or reloaded since, which gives it a new spec.
    """
    if module.__name__ not in _TEXTS or _TEXTS[module.__name__][0] is not module.__spec__:
        file = Path(getattr(module, "__file__", None) or "")
        package = getattr(module, "__package__", None) or ""
        read = read_user_file(file, package) if file.suffix == ".py" and file.is_file() else None
        if read:
            refuse_edited(module, read)
        _TEXTS[module.__name__] = (module.__spec__, read.whole if read else "")
    return _TEXTS[module.__name__][1]


def refuse_edited(module: ModuleType, read: UserFile) -> None:
    """Refuses a file whose functions are others by now than those that were imported: its text would not be what runs.

    Only Python's own loader is held to it: others, such as that of pytest, compile something else than the text.
    """
    if type(getattr(module.__spec__, "loader", None)) is not importlib.machinery.SourceFileLoader:
        return
    written = {*codes_in(compile(read.text, str(module.__file__), "exec", dont_inherit=True))}
    own = [v for v in vars(module).values() if getattr(v, "__module__", "") == module.__name__]
    for function in (f for v in own if isinstance(v, type | FunctionType) for f in functions_of(v)):
        code = function.__code__
        if code.co_filename == module.__file__ and code not in written:
            raise ValueError(
                f"{Path(read.path).name} was edited after it was imported: {function.__qualname__} is another one "
                "there than the one that would run; reload the module, or start Python anew"
            )


def used_by(thing: Any, seen: dict[str, str]) -> dict[str, str]:
    """What a class or function consists of, and the functions, classes and values of its script that it names."""
    name = place_of_code(thing)
    if name in seen:
        return seen
    seen[name] = written_source(thing)
    seen |= {f"{name} {of}": text for of, text in brought_values(thing, seen).items()}
    for function in functions_of(thing):
        for word in names_in(function.__code__):
            value = function.__globals__.get(word)
            if word not in function.__globals__:
                continue
            if isinstance(value, ModuleType):
                if is_outside_module(value):
                    seen[value.__name__] = module_text(value)
            elif text := content_text(value, seen):
                seen[f"{function.__module__} {word}"] = text  # no name of code has a space
    return seen


def brought_values(thing: Any, seen: dict[str, str], inside: frozenset[int] = frozenset()) -> dict[str, str]:
    """Values that the text of a class or function does not tell: of its attributes, which may be set from outside, of
    default arguments, and of variables of the functions around it."""
    found: dict[str, Any] = {}
    if isinstance(thing, type):
        found = {n: v for n, v in vars(thing).items() if not n.startswith("__") and is_content(v, thing)}
    for function in functions_of(thing):
        at = function.__qualname__
        found |= {f"{at} default {i}": value for i, value in enumerate(function.__defaults__ or ())}
        found |= {f"{at} {name}": value for name, value in (function.__kwdefaults__ or {}).items()}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        found |= {f"{at} {name}": cell_content(cell) for name, cell in cells if name != "__class__"}
    texts = {name: content_text(value, seen, inside | {id(thing)}) for name, value in found.items()}
    return {name: text for name, text in texts.items() if text}


def cell_content(cell: Any) -> Any:
    """None if it was not filled yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def is_content(value: Any, owner: type) -> bool:
    """Whether an attribute of a class is a value, or a function that was not written in it."""
    if isinstance(value, FunctionType):
        return not value.__qualname__.startswith(owner.__qualname__) and "__create_fn__" not in value.__qualname__
    code = callable(value) or hasattr(value, "__get__") or type(value).__module__.startswith("_abc")
    return not code and not isinstance(value, ModuleType)


def content_text(value: Any, seen: dict[str, str], inside: frozenset[int] = frozenset()) -> str:
    """A value as it enters the hash: what it is written as, the content of arrays and weights, the code of functions
    and classes with the values that they bring, the fields of objects; empty if it has no content that could be told.
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if text := hashed_value(value):
        return text
    if id(value) in inside:
        return "itself"
    inside |= {id(value)}

    def texts(values: Iterable[Any]) -> list[str]:
        return [content_text(one, seen, inside) for one in values]

    if isinstance(value, type | FunctionType):
        return text_of_code(value, seen, inside)
    if isinstance(inner := getattr(value, "__wrapped__", None), FunctionType):  # cached, say
        return content_text(inner, seen, inside)
    if isinstance(value, MethodType):
        return f"{texts([value.__func__, value.__self__])}"
    if isinstance(value, functools.partial):
        return f"partial {texts([value.func, value.args, value.keywords])}"
    if isinstance(value, Mapping):
        return f"{type(value).__name__} {[*zip(texts(value), texts(value.values()), strict=True)]}"
    if isinstance(value, set | frozenset):
        return f"set {sorted(texts(value))}"
    if isinstance(value, Sequence) or type(value) is deque:
        return f"{type(value).__name__} {texts(value)}"
    if isinstance(fingerprint := getattr(value, "fingerprint", None), str):  # a dataset
        return fingerprint
    if callable(state := getattr(value, "state_dict", None)):  # a network
        return f"{type(value).__qualname__} {texts([type(value), state()])}"
    kind = type(value)
    if isinstance(value, Enum | PurePath | range | re.Pattern) or kind.__module__ == "torch":
        return repr(value)
    plain = (
        is_outside(kind) or kind.__module__.startswith("engram.") or kind.__name__ in ("SimpleNamespace", "Namespace")
    )
    if plain and hasattr(value, "__dict__"):
        return f"{kind.__qualname__} {texts([kind, vars(value)])}"
    return ""


def text_of_code(value: Any, seen: dict[str, str], inside: frozenset[int]) -> str:
    """Of a function or class that code names; one of a script is noted with all that it uses."""
    name = place_of_code(value)
    if not is_outside(value):
        return name if isinstance(value, FunctionType) else ""
    if value.__module__ in SCRIPTS:
        used_by(value, seen)
    elif name not in seen:
        seen[name] = ""  # it may name itself
        seen[name] = code_text(value, dict(seen))
    if "<" not in name:
        return name
    code = compiled_text(value.__code__) if isinstance(value, FunctionType) else ""  # several may have that name
    return f"{name} {code} {sorted(brought_values(value, seen, inside).items())}"


@cache
def written_source(thing: Any) -> str:
    """The source of a class or function; if it was typed in at a prompt, what it was compiled to."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return json.dumps([compiled_text(f.__code__) for f in functions_of(thing)])


def hashed_value(value: Any) -> str:
    """Plain values as they are written, arrays and tensors by their content; empty if it is something else."""
    if is_plain(value):
        return repr(value)
    if isinstance(value, type | ModuleType) or not hasattr(value, "__array__") or not hasattr(value, "dtype"):
        return ""
    content = (value.detach().cpu() if hasattr(value, "detach") else value).__array__()
    return f"{content.dtype} {content.shape} {hashlib.sha256(content.tobytes()).hexdigest()}"


def captured_values(thing: Any) -> str:
    """What the text of a class or function does not tell: which of several of that name it is, and the values that it
    took over from the functions around it. A value that has no text of its own is refused."""
    found = {"": thing.__qualname__}
    if "<lambda>" in thing.__qualname__:  # several may stand on one line
        found["lambda"] = compiled_text(thing.__code__)
    for function in functions_of(thing):
        defaults = {f"default {i}": value for i, value in enumerate(function.__defaults__ or ())}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        values = {name: cell.cell_contents for name, cell in cells if name != "__class__"}
        for name, value in {**defaults, **(function.__kwdefaults__ or {}), **values}.items():
            found[f"{function.__qualname__} {name}"] = captured_text(thing, name, value)
    return json.dumps(found, sort_keys=True)


def captured_text(thing: Any, name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type | FunctionType):
        return f"{value.__module__} {captured_values(value)} {hash_code(value)}" if is_outside(value) else repr(value)
    if text := hashed_value(value) or context_text(value):
        return text
    raise ValueError(
        f"{thing.__qualname__} uses {name}, a {type(value).__name__} from the function around it, which has no place "
        "in the key of a run; use numbers, words, arrays, or tuples of them"
    )


def context_text(value: Any) -> str:
    """What a decorator of PyTorch's, such as `@torch.no_grad()`, holds beside the function: a context manager or one of
    its methods; empty for anything else."""
    owner = value.__self__ if isinstance(value, MethodType) else value
    kind = type(owner)
    if kind.__module__.partition(".")[0] != "torch" or not hasattr(kind, "__enter__"):
        return ""
    return f"{kind.__module__} {kind.__qualname__} {sorted((name, repr(one)) for name, one in vars(owner).items())}"


def is_plain(value: Any) -> bool:
    """Whether it is written as what it is: of arrays in a list, only some values would be."""
    if type(value) in (tuple, list):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    return isinstance(value, int | float | str | bytes | None)


def functions_of(thing: Any) -> Iterator[FunctionType]:
    """The functions that a class or function consists of."""
    for value in vars(thing).values() if isinstance(thing, type) else (thing,):
        for part in (getattr(value, name, None) for name in ("__func__", "fget", "fset", "func", "__wrapped__")):
            if inspect.isfunction(part):
                yield from unwrap(part)
        if inspect.isfunction(value):
            yield from unwrap(value)
        elif isinstance(value, type) and isinstance(thing, type) and value.__qualname__.startswith(thing.__qualname__):
            yield from functions_of(value)  # a class inside


def unwrap(function: FunctionType) -> Iterator[FunctionType]:
    """A function and those that it wraps, but no wrapper of the package's own."""
    inner = getattr(function, "__wrapped__", None)
    if inner is None or not str(function.__globals__.get("__name__")).startswith("engram."):
        yield function
    if inspect.isfunction(inner):
        yield from unwrap(inner)


def names_in(code: CodeType) -> Iterator[str]:
    for part in codes_in(code):
        yield from part.co_names


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object and all inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def compiled_text(code: CodeType) -> str:
    """Bytes, names and constants; a set of constants is put in order."""
    constants = [
        compiled_text(c)
        if isinstance(c, CodeType)
        else str(sorted(map(repr, c)))
        if isinstance(c, frozenset)
        else repr(c)
        for c in code.co_consts
    ]
    return " ".join([code.co_code.hex(), *code.co_names, *code.co_varnames, *code.co_freevars, *constants])
