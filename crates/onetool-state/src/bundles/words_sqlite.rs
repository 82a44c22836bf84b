//! Maps words to the tools that contain them, in an in-memory SQLite full-text index.
//!
//! Everything here is derived: when SQLite fails, the index counts as broken, `find` returns `None`, and the caller
//! checks every tool instead.

use std::cell::OnceCell;

use rusqlite::{Connection, params};

use super::search::Expansion;

const SCHEMA: &str = "
    CREATE VIRTUAL TABLE words USING fts5(
        text, content = '', contentless_delete = 1, detail = none, prefix = '1 2 3 4 5 6',
        tokenize = \"unicode61 remove_diacritics 0\"
    );
    CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, 'row');
";

pub(crate) struct Words {
    /// `None` after any failure.
    connection: Option<Connection>,
    /// Every word, in order, as last listed; emptied by changes.
    listed: OnceCell<Vec<String>>,
}

impl Default for Words {
    fn default() -> Self {
        let open = || {
            let connection = Connection::open_in_memory()?;
            connection.execute_batch(SCHEMA)?;
            Ok::<_, rusqlite::Error>(connection)
        };
        let connection = open().inspect_err(|error| tracing::warn!(%error, "no full-text index")).ok();
        Self { connection, listed: OnceCell::new() }
    }
}

impl Words {
    fn attempt<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) {
        if let Some(connection) = &self.connection
            && let Err(error) = work(connection)
        {
            tracing::warn!(%error, "the full-text index is dropped");
            self.connection = None;
        }
    }

    pub(crate) fn begin(&mut self) {
        self.attempt(|connection| connection.execute_batch("BEGIN"));
    }

    pub(crate) fn commit(&mut self) {
        self.attempt(|connection| connection.execute_batch("COMMIT"));
    }

    pub(crate) fn insert(&mut self, slot: i64, words: &[String]) {
        self.listed.take();
        self.attempt(|connection| {
            let mut statement = connection.prepare_cached("INSERT INTO words(rowid, text) VALUES (?1, ?2)")?;
            statement.execute(params![slot, words.join(" ")])
        });
    }

    pub(crate) fn remove(&mut self, slot: i64, _: &[String]) {
        self.listed.take();
        self.attempt(|connection| {
            connection.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute(params![slot])
        });
    }

    /// Every word, in order.
    pub(crate) fn vocabulary(&self, visit: &mut dyn FnMut(&str)) {
        let words = self.listed.get_or_init(|| {
            let listed = self.connection.as_ref().map(list);
            listed
                .transpose()
                .inspect_err(|error| tracing::warn!(%error, "the full-text index can't list its words"))
                .ok()
                .flatten()
                .unwrap_or_default()
        });
        for word in words {
            visit(word);
        }
    }

    /// The slots that contain at least one word of every expansion.
    pub(crate) fn find(&self, expansions: &[Expansion]) -> Option<Vec<i64>> {
        let connection = self.connection.as_ref()?;
        let expression = expansions.iter().map(group).collect::<Vec<_>>().join(" AND ");
        let read = || {
            let mut statement = connection.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1")?;
            statement.query_map(params![expression], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()
        };
        read().inspect_err(|error| tracing::warn!(%error, "the full-text index can't answer")).ok()
    }
}

fn list(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached("SELECT term FROM vocabulary")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Words contain only letters and digits, so quoting them is enough.
fn group(expansion: &Expansion) -> String {
    let mut alternatives = vec![format!("\"{}\" *", expansion.prefix)];
    alternatives.extend(expansion.near.iter().map(|word| format!("\"{word}\"")));
    format!("({})", alternatives.join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::super::words_map;
    use super::*;

    #[test]
    fn both_indices_answer_alike() {
        let texts = ["weather city", "größe 天気 city", "wether storm", "stormy river", "x1 city storm"];
        let (mut sqlite, mut map) = (Words::default(), words_map::Words::default());
        sqlite.begin();
        map.begin();
        for (slot, text) in (0..).zip(texts) {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            sqlite.insert(slot, &words);
            map.insert(slot, &words);
        }
        sqlite.commit();
        map.commit();
        let (mut listed, mut known) = (Vec::new(), Vec::new());
        sqlite.vocabulary(&mut |word| listed.push(word.to_owned()));
        map.vocabulary(&mut |word| known.push(word.to_owned()));
        assert_eq!(listed, known);
        let gone = ["stormy".to_owned(), "river".to_owned()];
        sqlite.remove(3, &gone);
        map.remove(3, &gone);
        for (prefixes, near) in
            [(vec!["storm"], "weather"), (vec!["c", "x"], ""), (vec!["grö"], ""), (vec!["天"], ""), (vec!["none"], "")]
        {
            let expand = |prefix: &&str| Expansion {
                prefix: (*prefix).to_owned(),
                near: if near.is_empty() { Vec::new() } else { vec![near.to_owned()] },
            };
            let expansions: Vec<Expansion> = prefixes.iter().map(expand).collect();
            let sorted = |slots: Option<Vec<i64>>| {
                let mut slots = slots.unwrap();
                slots.sort_unstable();
                slots
            };
            assert_eq!(sorted(sqlite.find(&expansions)), sorted(map.find(&expansions)), "{prefixes:?}");
        }
    }
}
