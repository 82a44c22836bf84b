# Modules of the project: `import helpers` finds `helpers.py` in the working folder, read through the `file` pack like
# any other file. Python's own modules and packages take precedence, and only names that the program or project imports
# are sought.

import _ast


class _ProjectModules:
    """The last finder, and the loader of the modules it finds."""

    def __init__(self, files):
        self.files, self.named = files, set()

    def note(self, tree):
        """Records the modules that code of the program, or of the project, imports by name."""
        for node in walk(tree):
            if isinstance(node, _ast.Import):
                self.named |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, _ast.ImportFrom) and node.module and not node.level:
                self.named.add(node.module.partition(".")[0])

    def find_spec(self, name, path=None, target=None):
        if self.files.mode not in ("full", "read") or name.partition(".")[0] not in self.named:
            return None
        from importlib.machinery import ModuleSpec

        folder = _os.path.join(self.files.getcwd(), *name.split("."))
        for place, is_package in ((folder + ".py", False), (_os.path.join(folder, "__init__.py"), True)):
            try:
                if not self.files.exists(place):
                    continue
            except OSError:
                continue  # outside the roots: not a module of the project
            spec = ModuleSpec(name, self, origin=place, is_package=is_package)
            spec.has_location = True
            if is_package:
                spec.submodule_search_locations.append(folder)
            return spec
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from importlib.util import decode_source

        place = module.__spec__.origin
        tree = parse(decode_source(self.files.whole(place)), place)
        self.note(tree)
        exec(compile(tree, place, "exec"), module.__dict__)
