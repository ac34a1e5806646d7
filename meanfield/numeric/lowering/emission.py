"""Object code of a Numba function, for `machine`.

Numba compiles the function as a C callback, whose intermediate code it shows. Of that the native function is kept, and
what it calls; an entry is put before it that takes the arguments from one row of fields. The callback itself, with all
that serves its errors, is left out: the native function returns a status, which the entry hands on.
"""

from __future__ import annotations

import math
import re
from typing import Any

Code = str | tuple[str, int]  # of an argument; `machine.Function` says which there are
ENTRY = "meanfield_entry"  # the symbol that is called: status = entry(fields)
#: what the C library brings into every process: of what Numba calls, it is in `math` under the same name
LIBRARY = frozenset(dir(math)) | {"tgamma", "rint", "nearbyint", "memset", "memcpy", "memmove"}
_FREED = "NRT_MemInfo_call_dtor"  # called for the owner of an array that nobody needs any more; here none has one
_NAME = re.compile(r'@(?:"([^"]*)"|([-\w$.]+))')


def emitted(function: Any, signature: tuple[Code, ...], result: str | None) -> tuple[bytes, list[str]] | None:
    """(object code with the symbol `ENTRY`, the symbols it needs) of a Numba function; None if it cannot stand alone:
    it allocates, or calls what Numba alone brings."""
    import llvmlite.binding as llvm
    from numba import cfunc, types

    if not hasattr(function, "py_func"):  # no compiler
        return None
    options = {k: v for k, v in function.targetoptions.items() if k in ("error_model", "fastmath")}
    returned = types.float64 if result else types.void
    callback = cfunc(returned(*(_type(types, code) for code in signature)), **options)(function.py_func)
    whole = callback.inspect_llvm()
    native = callback.native_name.removeprefix("cfunc.")
    if (kept := _needed(whole, native)) is None:
        return None
    try:
        leaves = [str(a.type) for a in llvm.parse_assembly(whole).get_function(native).arguments]
    except (NameError, RuntimeError):
        return None
    if (entry := _entry(native, leaves, [f for code in signature for f in _fields(code)])) is None:
        return None
    text, needs = kept
    module = llvm.parse_assembly(text + entry)
    module.verify()
    return target_machine(llvm).emit_object(module), needs


def target_machine(llvm: Any) -> Any:
    """This machine, with the choices that Numba makes for code that runs where it is made."""
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


def _type(types: Any, code: Code) -> Any:
    """Numba's type of an argument."""
    if not isinstance(code, str):
        one, count = _type(types, code[0]), code[1]
        return types.UniTuple(one, count) if count else types.Tuple(())
    kind, _, axes = code.partition("[")
    names = {"i8": types.int64, "f8": types.float64, "f4": types.float32, "b1": types.boolean, "u1": types.uint8}
    return types.Array(names[kind], axes.count(":"), "C") if axes else names[kind]


def _fields(code: Code) -> list[str]:
    """The types of the fields of an argument, as Numba's native functions take them."""
    if not isinstance(code, str):
        return _fields(code[0]) * code[1]
    kind, _, axes = code.partition("[")
    if not axes:
        return ["double" if kind == "f8" else "i64" if kind == "i8" else "bit"]
    return ["ptr", "ptr", "i64", "i64", "ptr", *["i64"] * (2 * axes.count(":"))]


def _entry(native: str, leaves: list[str], fields: list[str]) -> str | None:
    """Text of the entry; None if the native function does not take the place of its result, that of an error, and then
    the fields."""
    takes = ["bit" if t in ("i1", "i8") else t for t in leaves]
    if takes != ["ptr", "ptr", *fields]:
        return None
    lines, given = [], []
    for i, (leaf, field) in enumerate(zip([*leaves[2:], "", ""], [*fields, "", ""])):
        lines.append(f"%p{i} = getelementptr i8, ptr %fields, i64 {8 * i}")
        if not leaf:
            continue
        lines.append(f"%v{i} = load {'i64' if field == 'bit' else leaf}, ptr %p{i}, align 1")
        if field == "bit":
            lines.append(f"%b{i} = trunc i64 %v{i} to {leaf}")
        given.append(f"{leaf} %{'b' if field == 'bit' else 'v'}{i}")
    call = ", ".join([f"ptr %p{len(fields)}", f"ptr %p{len(fields) + 1}", *given])
    body = "".join(f"  {line}\n" for line in [*lines, f'%s = call i32 @"{native}"({call})', "ret i32 %s"])
    return f"\ndefine i32 @{ENTRY}(ptr %fields) {{\n{body}}}\n"


def _needed(text: str, native: str) -> tuple[str, list[str]] | None:
    """(a module's text without what `native` does not reach, the symbols it needs from outside); None if these are not
    the C library's."""
    named: dict[str, str] = {}
    rest: list[str] = []
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        if not line.startswith(("define ", "declare ", "@")):
            rest.append(line)
            continue
        found = _NAME.search(line)
        assert found is not None
        if line.startswith("define "):
            for more in lines:
                line += more
                if more.startswith("}"):
                    break
        named[found[1] or found[2]] = line
    todo, kept = [native], dict[str, str]()
    while todo:
        name = todo.pop()
        if name in named and name not in kept:
            kept[name] = named[name]
            todo += [a or b for a, b in _NAME.findall(named[name])]
    needs: set[str] = set()
    for name, part in kept.items():
        inside = not part.startswith("declare ") and " external " not in part.partition("\n")[0]
        if name == _FREED:
            kept[name] = f"define internal void @{_FREED}(ptr %owner) {{\n  ret void\n}}\n"
        elif name.startswith("llvm."):
            needs |= LIBRARY & {name.split(".")[1]}
        elif not inside:
            if name not in LIBRARY:
                return None
            needs.add(name)
    return "".join([*rest, *kept.values()]), sorted(needs)
