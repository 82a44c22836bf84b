# Converts values of packages to plain ones: frames to records, arrays to nested lists, figures and images to PNG.
#
# Nothing here imports a package: its values can exist only after the program has imported it.

import sys as _sys


def _frame_records(frame):
    """Returns the rows of a pandas frame. An index other than the default one is included."""
    index = frame.index
    is_default = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1 and index.name is None
    if not is_default:
        try:
            frame = frame.reset_index()
        except ValueError:
            pass  # a column has the name of the index
    names, seen = [], set()
    for column in frame.columns:
        name = " ".join(str(part) for part in column if part != "") if isinstance(column, tuple) else str(column)
        while name in seen:
            name += "_"
        seen.add(name)
        names.append(name)
    columns = [frame.iloc[:, place].tolist() for place in range(len(names))]
    return [dict(zip(names, row)) for row in zip(*columns)]


def _pandas(value, kind):
    name = kind.__name__
    if name in ("NaTType", "NAType"):
        return None
    if name == "Timestamp":
        return value.to_pydatetime(warn=False)
    if name == "Timedelta":
        return value.to_pytimedelta()
    pandas = _sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        return _frame_records(value)
    if isinstance(value, pandas.Series):
        index = value.index
        if type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1:
            return value.tolist()
        if index.is_unique:
            return {_label(key): item for key, item in zip(index.tolist(), value.tolist())}
        return [[_label(key), item] for key, item in zip(index.tolist(), value.tolist())]
    if isinstance(value, (pandas.Index, pandas.Categorical)) or name.endswith("Array"):
        return value.tolist()
    return str(value)


def _label(key):
    if isinstance(key, tuple):
        return " ".join(map(str, key))
    return key if isinstance(key, (str, int, float, bool)) else str(key)


def _numpy(value, kind):
    numpy = _sys.modules["numpy"]
    if isinstance(value, numpy.ndarray):
        if value.dtype.kind in "Mm":
            return value.astype(str).tolist()
        if value.dtype.names and value.ndim == 1:
            return [dict(zip(value.dtype.names, row)) for row in value.tolist()]
        return value.tolist()
    if isinstance(value, numpy.generic):
        return str(value) if value.dtype.kind in "Mm" else value.item()
    return str(value)


def _polars(value, kind):
    if kind.__name__ == "DataFrame":
        return value.to_dicts()
    return value.to_list() if kind.__name__ == "Series" else str(value)


def _png(save):
    import io

    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _figure_of(value):
    """Returns the figure that a matplotlib value is or belongs to, or None."""
    if hasattr(value, "savefig"):
        return value
    figure = getattr(value, "figure", None)
    return figure if hasattr(figure, "savefig") else None


def _matplotlib(value, kind):
    figure = _figure_of(value)
    return str(value) if figure is None else _png(lambda buffer: figure.savefig(buffer, format="png"))


def _picture(value, kind):
    if not hasattr(value, "save") or not hasattr(value, "mode"):
        return str(value)
    known = value if value.mode in ("1", "L", "LA", "I", "P", "RGB", "RGBA") else value.convert("RGB")
    return _png(lambda buffer: known.save(buffer, format="PNG"))


_OF_PACKAGES = {"pandas": _pandas, "numpy": _numpy, "polars": _polars, "matplotlib": _matplotlib, "PIL": _picture}


def of_package(value, kind):
    """Returns the plain value of a package's object in a list, or an empty list."""
    for base in kind.__mro__[:-1]:
        convert = _OF_PACKAGES.get(base.__module__.partition(".")[0])
        if convert is not None:
            return [convert(value, kind)]
    return []


_MAX_DRAWN_DEPTH = 4  # levels of lists and dicts that are searched for images


def _drawn(value, depth=0):
    """Converts figures and images to bytes. Drawing may need files, which are unavailable while a value is written."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in ("matplotlib", "PIL"):
        return of_package(value, kind)[0]
    if depth < _MAX_DRAWN_DEPTH and kind in (list, tuple):
        return kind(_drawn(item, depth + 1) for item in value)
    if depth < _MAX_DRAWN_DEPTH and kind is dict:
        return {key: _drawn(item, depth + 1) for key, item in value.items()}
    return value


def shown_figures(value, source):
    """Returns a value with its images drawn. If it is empty, returns what `plt.show()` or a plotting function drew."""
    if "matplotlib.pyplot" in _sys.modules:
        value = _shown_by_pyplot(value, source)
    return _drawn(value) if "matplotlib" in _sys.modules or "PIL" in _sys.modules else value


def _shown_by_pyplot(value, source):
    if value is None:
        if "show" not in source:
            return None
        pyplot = _sys.modules["matplotlib.pyplot"]
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        pngs = [_matplotlib(figure, type(figure)) for figure in figures]
        pyplot.close("all")
        return None if not pngs else pngs[0] if len(pngs) == 1 else pngs
    first = value
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if first is not value and type(first).__module__.startswith("matplotlib"):
        return _figure_of(first) or value
    return value
