# Transforms the syntax tree before it is compiled.
#
# A tool call returns its value at once; where the code awaits it, or passes it to asyncio, it must be a coroutine
# instead, so that several run concurrently. Python decides that at the call, not at the await. So those calls become
# `__onetool_async__(function, ...)` here, which changes nothing for any other function.

import _ast  # `ast` itself would import half of the library

VALUE, RETURN = "__onetool_value__", "__onetool_return__"
ASYNC, SETTLE, SETTLE_ALL = "__onetool_async__", "__onetool_settle__", "__onetool_settle_all__"

_FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.Lambda)
_COMPREHENSIONS = (_ast.ListComp, _ast.SetComp, _ast.GeneratorExp)
_DISPLAYS = (_ast.List, _ast.Tuple, _ast.Set)
_SPAWNING = {"gather", "wait", "wait_for", "create_task", "ensure_future", "shield", "as_completed", "run"}
_SPAWNING_METHODS = {"create_task", "run_until_complete"}
_OF_COLLECTIONS = {"wait", "as_completed"}


def parse(source, name):
    return compile(source, name, "exec", _ast.PyCF_ONLY_AST, True)


def children(node):
    found = []
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, _ast.AST):
            found.append(value)
        elif type(value) is list:
            found.extend(item for item in value if isinstance(item, _ast.AST))
    return found


def walk(node):
    """Yields a node and all its descendants."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(children(node))


def _placed(node, at):
    """Gives a new node the position of an existing one."""
    node.lineno, node.col_offset = at.lineno, at.col_offset
    node.end_lineno, node.end_col_offset = at.end_lineno, at.end_col_offset
    return node


def _call(name, arguments, at):
    function = _placed(_ast.Name(name, _ast.Load()), at)
    return _placed(_ast.Call(function, arguments, []), at)


class _Transformer:
    """Visits a tree; a method `visit_` plus the kind of node returns the node's replacement."""

    def visit(self, node):
        return getattr(self, "visit_" + type(node).__name__, self.generic_visit)(node)

    def generic_visit(self, node):
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, _ast.AST):
                setattr(node, field, self.visit(value))
            elif type(value) is list:
                value[:] = [self.visit(item) if isinstance(item, _ast.AST) else item for item in value]
        return node


def _own_nodes(scope):
    """Yields the nodes of a scope, without those of the functions in it."""
    waiting = list(children(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            waiting.extend(children(node))


class _Rewriter(_Transformer):
    def __init__(self, tree):
        self.modules, self.functions = {"asyncio"}, set()
        for node in walk(tree):
            if isinstance(node, _ast.Import):
                self.modules |= {name.asname for name in node.names if name.name == "asyncio" and name.asname}
            elif isinstance(node, _ast.ImportFrom) and node.module == "asyncio":
                self.functions |= {name.asname or name.name for name in node.names if name.name in _SPAWNING}
        self.awaited = [self.awaited_in(tree)]

    def spawning(self, call):
        """Returns the name of the asyncio function that this call uses to start its arguments, or None."""
        function = call.func
        if isinstance(function, _ast.Name) and function.id in self.functions:
            return function.id
        if not isinstance(function, _ast.Attribute):
            return None
        of_module = isinstance(function.value, _ast.Name) and function.value.id in self.modules
        known = _SPAWNING if of_module else _SPAWNING_METHODS
        return function.attr if function.attr in known else None

    def awaited_in(self, scope):
        """Returns the names in this scope whose values or items are awaited somewhere in it."""
        names, loops = set(), []

        def note(node):
            if isinstance(node, _ast.Starred):
                node = node.value
            if isinstance(node, _ast.Call) and isinstance(node.func, _ast.Attribute) and node.func.attr == "values":
                node = node.func.value
            if isinstance(node, _ast.Name):
                names.add(node.id)

        for node in _own_nodes(scope):
            if isinstance(node, _ast.Await):
                note(node.value)
            elif isinstance(node, _ast.Call) and self.spawning(node):
                for argument in node.args:
                    note(argument)
            elif isinstance(node, (_ast.For, _ast.comprehension)):
                loops.append((node.target, node.iter))
        for target, iterated in loops:
            inner = {name.id for name in walk(target) if isinstance(name, _ast.Name)}
            if inner & names:
                for name in walk(iterated):
                    note(name)
        return names

    def in_scope(self, node):
        self.awaited.append(self.awaited_in(node))
        try:
            return self.generic_visit(node)
        finally:
            self.awaited.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = in_scope

    def later(self, node):
        """Makes the value or the items of an expression awaitable. Its children are visited already."""
        if isinstance(node, _ast.Call):
            known = isinstance(node.func, _ast.Name) and node.func.id == ASYNC
            if not known:
                function = _placed(_ast.Name(ASYNC, _ast.Load()), node)
                node.args.insert(0, node.func)
                node.func = function
        elif isinstance(node, _ast.IfExp):
            node.body, node.orelse = self.later(node.body), self.later(node.orelse)
        elif isinstance(node, _DISPLAYS):
            node.elts = [self.later(item) for item in node.elts]
        elif isinstance(node, _COMPREHENSIONS):
            node.elt = self.later(node.elt)
        elif isinstance(node, _ast.DictComp):
            node.value = self.later(node.value)
        elif isinstance(node, _ast.Dict):
            node.values = [self.later(item) for item in node.values]
        return node

    def visit_Await(self, node):
        self.generic_visit(node)
        if isinstance(node.value, (_ast.Call, _ast.IfExp)):
            node.value = self.later(node.value)
        else:
            node.value = _call(SETTLE, [node.value], node.value)
        return node

    def visit_Call(self, node):
        spawning = self.spawning(node)
        target = node.func.value if isinstance(node.func, _ast.Attribute) else None
        collects = (
            isinstance(target, _ast.Name)
            and target.id in self.awaited[-1]
            and node.func.attr in ("append", "add", "extend")
        )
        self.generic_visit(node)
        if spawning:
            node.args = [self.started(argument, spawning) for argument in node.args]
        elif collects:
            node.args = [self.later(argument) for argument in node.args]
        return node

    def started(self, argument, spawning):
        if isinstance(argument, _ast.Starred):
            if isinstance(argument.value, _DISPLAYS + _COMPREHENSIONS):
                argument.value = self.later(argument.value)
            else:
                argument.value = _call(SETTLE_ALL, [argument.value], argument)
            return argument
        if isinstance(argument, _ast.Name) and spawning not in _OF_COLLECTIONS:
            return _call(SETTLE, [argument], argument)
        return self.later(argument)

    def visit_Assign(self, node):
        targets = {target.id for target in node.targets if isinstance(target, _ast.Name)}
        self.generic_visit(node)
        if targets & self.awaited[-1]:
            node.value = self.later(node.value)
        return node

    def visit_AnnAssign(self, node):
        self.generic_visit(node)
        if node.value and isinstance(node.target, _ast.Name) and node.target.id in self.awaited[-1]:
            node.value = self.later(node.value)
        return node


class _Returns(_Transformer):
    """`return` outside a function ends the program with that value."""

    def leave(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = leave

    def visit_Return(self, node):
        value = node.value or _placed(_ast.Constant(None), node)
        return _placed(_ast.Raise(_call(RETURN, [value], node), None), node)


def names_read(tree):
    """Returns the names that the program reads before its own top level has bound them."""
    bound, read = set(), set()
    for statement in tree.body:
        for node in walk(statement):
            if isinstance(node, _ast.Name) and isinstance(node.ctx, (_ast.Load, _ast.Del)) and node.id not in bound:
                read.add(node.id)
            elif isinstance(node, _ast.AugAssign) and isinstance(node.target, _ast.Name):
                read.add(node.target.id)
        if isinstance(statement, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)):
            bound.add(statement.name)
        elif isinstance(statement, (_ast.Import, _ast.ImportFrom)):
            bound |= {(name.asname or name.name).partition(".")[0] for name in statement.names}
        elif isinstance(statement, _ast.Assign):
            for target in statement.targets:
                bound |= {name.id for name in walk(target) if isinstance(name, _ast.Name)}
    return read


def rewrite(tree, source):
    """Returns the tree to run, which keeps its last expression in VALUE."""
    if "await" in source or "asyncio" in source:
        tree = _Rewriter(tree).visit(tree)
    if "return" in source:
        tree = _Returns().visit(tree)
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        last = tree.body[-1]
        target = _placed(_ast.Name(VALUE, _ast.Store()), last)
        tree.body[-1] = _placed(_ast.Assign([target], last.value), last)
    return tree
