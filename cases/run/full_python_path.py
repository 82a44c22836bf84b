import textwrap
type(proj.onetool / 'src').__name__