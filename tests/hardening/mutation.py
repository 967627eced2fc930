"""Which changes to the formulas of the core no test notices: a mutation run on a random sample.

A mutant is a function of ``sparsegpc/_core`` with one change that may change a number: another
operator, a term or factor less, another constant, a condition turned round, an argument or a
transpose left out. The tests of the core are imported and run once, which tells who calls what and
how long each test takes. Each mutant then is a forked process that replaces the code of its
function and runs the tests that call it, those of its room and the short ones first, up to the
first that fails: it was *killed*. Tools that start Python for each mutant, or run their own
instrumentation, take several times as long.

Not changed: messages, annotations, docstrings, default arguments, constants of modules, what is
about threads of BLAS or a cluster (`rows.threads`, `rows.dask_blocks`, `rows.dask_client`).

From the root, with the extra ``test`` installed::

    python -m tests.hardening.mutation --each 100 --log mutants.jsonl

writes one line of JSON for each mutant and prints a table by rooms. Survivors are run again with
``--again mutants.jsonl``, and shown with their surroundings by ``--show mutants.jsonl``.
Those that were looked at and change nothing that counts are in ``mutation_equivalents.txt``.

Each part of a long run is a command of its own, with ``--rooms`` and the files of ``--tests`` that
belong to them: reading who calls what takes as long as the tests themselves.
"""

import argparse
import ast
import copy
import importlib
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[2]
CORE = ROOT / "sparsegpc" / "_core"
EQUIVALENTS = Path(__file__).with_name("mutation_equivalents.txt")
LEFT_OUT = {"__init__.py", "dask_blocks.py", "dask_client.py", "threads.py"}
# The tests of a room are in the folder of the same name; those of the others come after them.
TESTS = ROOT / "tests" / "core"
ROOMS = sorted(path.name for path in CORE.iterdir() if (path / "__init__.py").exists())

BINARY = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NEGATED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# On real numbers a test of the border hardly ever tells these apart.
SHIFTED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SWAPPED = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}
SWAPPED |= {"argmax": "argmin", "argmin": "argmax", "log1p": "log", "expm1": "exp", "sum": "mean"}
# Keywords that decide about memory, or what is an error, not about numbers.
MEMORY = {"copy", "strict", "stacklevel", "overwrite"}
PEELED = {"sqrt", "log", "exp", "abs", "square", "log1p", "expm1", "float", "cumsum"}


def is_count(node):
    """Whether an expression is an integer by its looks."""
    return (isinstance(node, ast.Constant) and type(node.value) is int) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    )


def called(node):
    """Return the last part of the name of a call's function."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def changes(node):
    """Yield pairs of a kind and the node that takes the place of `node`."""

    def with_(**fields):
        new = copy.deepcopy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        return new

    match node:
        case ast.BinOp(left=left, op=op):
            if type(op) in BINARY:
                yield "operator", with_(op=BINARY[type(op)]())
                yield "operand dropped", left
        case ast.AugAssign(op=op):
            if type(op) in BINARY:
                yield "operator", with_(op=BINARY[type(op)]())
            yield "statement dropped", ast.Pass()
        case ast.Expr(value=ast.Call()):
            yield "statement dropped", ast.Pass()
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield "sign", operand
        case ast.BoolOp(op=op, values=values):
            yield "condition", with_(op=ast.And() if isinstance(op, ast.Or) else ast.Or())
            yield "condition", with_(values=values[:-1]) if len(values) > 2 else values[0]
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield "condition", with_(ops=[NEGATED[type(op)]()])
            if type(op) in SHIFTED and (is_count(left) or is_count(right)):
                yield "border", with_(ops=[SHIFTED[type(op)]()])
        case ast.Constant(value=bool()):
            yield "flag", ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield "constant", ast.Constant(node.value + 1)
        case ast.Constant(value=float()):
            yield "constant", ast.Constant(2.0 * node.value if node.value else 1.0)
        case ast.Attribute(value=value, attr="T", ctx=ast.Load()):
            yield "transpose", value
        case ast.IfExp(body=body, orelse=orelse):
            yield "branch", body
            yield "branch", orelse
        case ast.Call(func=func, args=args, keywords=keywords):
            if called(node) in SWAPPED:
                name = SWAPPED[called(node)]
                if isinstance(func, ast.Attribute):
                    yield "function", with_(func=ast.Attribute(func.value, name, ast.Load()))
                elif name != "mean":
                    yield "function", with_(func=ast.Name(name, ast.Load()))
            if called(node) in PEELED and len(args) == 1:
                yield "function dropped", args[0]
            for k, keyword in enumerate(keywords):
                if keyword.arg in MEMORY:
                    continue
                yield "keyword dropped", with_(keywords=keywords[:k] + keywords[k + 1 :])


def enumerate_changes(tree):
    """Yield (name of the function, line, kind, old node, new node, and how to make it so)."""

    def visit(node, name):
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            return
        if isinstance(node, ast.keyword) and node.arg in MEMORY:
            return
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list", "args"} and isinstance(
                node, ast.FunctionDef | ast.AnnAssign | ast.Lambda
            ):
                continue
            children = value if isinstance(value, list) else [value]
            for k, child in enumerate(children):
                if not isinstance(child, ast.AST):
                    continue
                inner = name
                if isinstance(child, ast.ClassDef) or (
                    # A function within a function is part of the outer one's code.
                    isinstance(child, ast.FunctionDef) and (name is None or not name[1])
                ):
                    outer = "" if name is None else name[0] + "."
                    inner = (outer + child.name, isinstance(child, ast.FunctionDef))
                if name is not None and name[1]:
                    for kind, new in changes(child):
                        yield name[0], child.lineno, kind, child, new, (node, field, k)
                yield from visit(child, inner)

    yield from visit(tree, None)


def put(place, new):
    """Put a node where another one is, within its tree."""
    node, field, k = place
    if isinstance(getattr(node, field), list):
        getattr(node, field)[k] = new
    else:
        setattr(node, field, new)


def mutants_of(path):
    """Return the mutants of a file, as dictionaries without the trees."""
    found, seen = [], Counter()
    for index, (name, line, kind, old, new, _) in enumerate(
        enumerate_changes(ast.parse(path.read_text()))
    ):
        before, after = ast.unparse(old), ast.unparse(new)
        file = path.relative_to(CORE).as_posix()
        key = f"{file}::{name}: {before} -> {after}".replace("\n", " ")
        seen[key] += 1
        key += f" #{seen[key]}" if seen[key] > 1 else ""
        found.append({"key": key, "file": file, "index": index, "function": name, "line": line})
        found[-1] |= {"kind": kind, "room": file.split("/")[0]}
    return found


def module_of(path):
    """Return the module of a file of the core."""
    name = path.relative_to(CORE).with_suffix("").as_posix().replace("/", ".")
    return importlib.import_module(f"sparsegpc._core.{name}")


def clear_caches():
    """Forget what functions of the core have made and keep."""
    for name, module in list(sys.modules.items()):
        # What rows keep are controls of BLAS.
        if name.startswith("sparsegpc._core.") and ".rows." not in name:
            for value in vars(module).values():
                getattr(value, "cache_clear", lambda: None)()


def mutate(mutant):
    """Give the mutant's function its code, and the module constants that are made by it."""
    path = CORE / mutant["file"]
    tree = ast.parse(path.read_text())
    *_, new, place = list(enumerate_changes(tree))[mutant["index"]]
    put(place, new)
    whole = code = compile(ast.fix_missing_locations(tree), str(path), "exec")
    for part in mutant["function"].split("."):
        code = next(c for c in code.co_consts if getattr(c, "co_name", None) == part)
    function, module = function_of(mutant), module_of(path)
    function.__code__ = code
    clear_caches()
    if mutant["at_import"]:
        fresh = {"__name__": module.__name__}
        exec(whole, fresh)
        constants = {k: v for k, v in fresh.items() if not (k.startswith("__") or callable(v))}
        vars(module).update(constants)


def function_of(mutant):
    """Return the function object that the mutant changes."""
    found = module_of(CORE / mutant["file"])
    for part in mutant["function"].split("."):
        found = vars(found)[part]
    while not hasattr(found, "__code__") or hasattr(found, "__wrapped__"):
        found = (
            getattr(found, "fget", None) or getattr(found, "__func__", None) or found.__wrapped__
        )
    return found


class Run:
    """A plugin of pytest that runs the tests, and then the mutants, in place of its own loop.

    Parameters
    ----------
    mutants : list of dict
        They receive ``result``, ``test`` and ``seconds``.
    budget : float
        Seconds of tests, as long as they take without a change, for each mutant.
    log : file
        A line of JSON for each mutant.
    """

    def __init__(self, mutants, budget, log):
        self.mutants, self.budget, self.log = mutants, budget, log
        self.failures = []

    def pytest_runtest_logreport(self, report):
        """Note what fails."""
        if report.failed:
            self.failures.append(report.longreprtext)

    def pytest_collection(self):
        """Set what Hypothesis does, after the profile of the tests and before they are read."""
        settings.register_profile(
            "mutation",
            settings.get_profile("sparsegpc"),
            max_examples=10,
            database=None,
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session):
        """Run all tests once, then each mutant."""
        callers, seconds = self.survey(session.items)
        if self.failures:
            print("not all tests pass without a change:", *self.failures, sep="\n  ")
            return True
        for number, mutant in enumerate([{"key": "no change"}, *self.mutants]):
            control = mutant["key"] == "no change"
            items = session.items[::10] if control else self.chosen(mutant, callers, seconds)
            begin = time.monotonic()
            limit = 5.0 + 3.0 * sum(seconds[item] for item in items)
            result, test = self.fork(mutant, items, limit)
            if control and result != "survived":
                print(f"the tests fail in a forked process: {test}")
                return True
            mutant |= {"result": result, "test": test, "n_tests": len(items)}
            mutant["seconds"] = round(time.monotonic() - begin, 2)
            if not control:
                print(json.dumps(mutant), file=self.log, flush=True)
            print(f"{number:4d} {mutant['seconds']:6.1f} s {result:9} {mutant['key']}", flush=True)
        return True

    def survey(self, items):
        """Return which tests call each code of the core, and how long each test takes."""
        callers, seconds, current, root = defaultdict(set), {}, ["import"], str(CORE)

        # Called for calls only, since it returns no function to follow the lines with.
        def notice(frame, event, argument):
            code = frame.f_code
            if code.co_filename.startswith(root):
                callers[code.co_filename, code.co_firstlineno].add(current[-1])

        for path in sorted(CORE.rglob("*.py")):
            code = compile(path.read_text(), str(path), "exec")
            sys.settrace(notice)
            exec(code, {"__name__": module_of(path).__name__})
            sys.settrace(None)
        for item, following in zip(items, [*items[1:], None], strict=True):
            current.append(item)
            # Or only the first test would be seen to call what makes it.
            clear_caches()
            begin = time.process_time()
            threading.settrace(notice)
            sys.settrace(notice)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            threading.settrace(None)
            seconds[item] = time.process_time() - begin
        return callers, seconds

    def chosen(self, mutant, callers, seconds):
        """Return the tests for a mutant: its room's first, in each part the short ones first."""
        function = function_of(mutant)
        code = function.__code__
        items = callers[code.co_filename, code.co_firstlineno]
        mutant["at_import"] = "import" in items
        if mutant["at_import"]:
            # Whoever uses the file may use what was made when it was imported.
            users = [found for (name, _), found in callers.items() if name == code.co_filename]
            items = set().union(*users) - {"import"}
        own = TESTS / mutant["room"]
        order = sorted(items, key=lambda item: (item.path.parent != own, seconds[item]))
        taken, total = [], 0.0
        for item in order:
            total += seconds[item]
            if total > self.budget and taken:
                break
            taken.append(item)
        return taken

    def fork(self, mutant, items, limit):
        """Return "killed" and by which test, "timeout", "no tests" or "survived"."""
        if not items:
            return "no tests", None
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            # What runs away is stopped by its own clocks: of the processor, and of the wall.
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 1))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(10 * limit))
            resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            os.write(writer, self.first_failure(mutant, items).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        if not text:
            return "timeout", None
        return ("survived", None) if text == "survived" else ("killed", text)

    def first_failure(self, mutant, items):
        try:
            if "file" in mutant:
                mutate(mutant)
        except Exception as error:
            return f"the import: {error}"
        for item, following in zip(items, [*items[1:], None], strict=True):
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except BaseException:
                return item.nodeid
            if self.failures:
                return item.nodeid
        return "survived"


def sample(each, seed, rooms):
    """Return up to `each` mutants of every room, of each file in proportion to its mutants."""
    chosen = []
    for room in rooms:
        files = sorted(p for p in (CORE / room).glob("*.py") if p.name not in LEFT_OUT)
        by_file = [mutants_of(path) for path in files]
        total = sum(map(len, by_file))
        for path, mutants in zip(files, by_file, strict=True):
            size = min(len(mutants), round(each * len(mutants) / total))
            chooser = random.Random(f"{seed} {room} {path.name}")
            chosen += sorted(chooser.sample(mutants, size), key=lambda m: m["index"])
    return chosen


def equivalents():
    """Return the mutants that were looked at and change nothing that counts, and why."""
    kinds, kind = {}, None
    for line in EQUIVALENTS.read_text().splitlines() if EQUIVALENTS.exists() else []:
        if line.startswith("# "):
            kind = line[2:]
        elif line:
            kinds[line] = kind
    return kinds


def table(mutants):
    """Print how many mutants of each room were killed, survived and are equivalent."""
    known = equivalents()
    rooms = defaultdict(Counter)
    for mutant in mutants:
        dead = mutant["result"] in {"killed", "timeout"}
        kind = "killed" if dead else "equivalent" if mutant["key"] in known else "survived"
        for room in (mutant["room"], "all"):
            rooms[room][kind] += 1
    print(
        f"{'room':12} {'mutants':>8} {'killed':>8} {'survived':>9} {'equivalent':>11} {'score':>7}"
    )
    for room, c in sorted(rooms.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        score = c["killed"] / max(1, c["killed"] + c["survived"])
        print(
            f"{room:12} {c.total():8} {c['killed']:8} {c['survived']:9} {c['equivalent']:11} "
            f"{score:7.1%}"
        )


def show(mutants):
    """Print the survivors that are not known as equivalent, with their lines."""
    known = equivalents()
    for mutant in mutants:
        if mutant["result"] in {"survived", "no tests"} and mutant["key"] not in known:
            line = (CORE / mutant["file"]).read_text().splitlines()[mutant["line"] - 1]
            print(f"{mutant['result']}, {mutant['n_tests']} tests, line {mutant['line']}")
            print(f"  {mutant['key']}\n  {line.strip()}\n")


def read(path):
    """Return the mutants of a log; of those that were run twice the later result."""
    by_key = {m["key"]: m for m in map(json.loads, Path(path).read_text().splitlines())}
    return list(by_key.values())


def main():
    """Sample mutants, or take the survivors of a log; run them; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--each", type=int, default=100, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS)
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of tests for a mutant")
    parser.add_argument("--log", default="mutants.jsonl", help="results are added to this file")
    parser.add_argument("--again", metavar="LOG", help="run the survivors of this log again")
    parser.add_argument("--show", metavar="LOG", help="only print the survivors of this log")
    parser.add_argument("--tests", nargs="+", default=[str(TESTS)], help="tests to choose from")
    parser.add_argument("--deselect", nargs="+", default=[], help="tests to leave out")
    options = parser.parse_args()
    if options.show:
        mutants = [m for m in read(options.show) if m["room"] in options.rooms]
        show(mutants)
        table(mutants)
        return 0
    if options.again:
        known, old = equivalents(), read(options.again)
        keys = {m["key"] for m in old if m["result"] in {"survived", "no tests"}} - set(known)
        # Found again by what they change: lines may have moved.
        files = sorted({m["file"] for m in old})
        mutants = [m for file in files for m in mutants_of(CORE / file) if m["key"] in keys]
        mutants = [m for m in mutants if m["room"] in options.rooms]
    else:
        mutants = sample(options.each, options.seed, options.rooms)
    # The tests are imported below: one thread of BLAS, and the same examples at every run.
    os.environ |= {"CI": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    left_out = [path for path in TESTS.rglob("test_*.py") if path.name[5:] in LEFT_OUT]
    ignored = [f"--ignore={path}" for path in left_out]
    ignored += [f"--deselect={name}" for name in options.deselect]
    arguments = [*options.tests, *ignored, "--assert=plain"]
    arguments += ["-p", "no:cacheprovider", "-p", "no:terminal"]
    with open(options.log, "a") as log:
        pytest.main(arguments, plugins=[Run(mutants, options.budget, log)])
    if any("result" not in mutant for mutant in mutants):
        return 1
    table(read(options.log))
    return 0


if __name__ == "__main__":
    sys.exit(main())
