import itertools
itertools.count()