import collections
type(proj.onetool / 'src').__name__