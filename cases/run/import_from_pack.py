from brave import (
    web_search as found,
    search,
)
[found(q="x")["query"], search("y")]