import brave
brave.search("x")