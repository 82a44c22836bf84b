//! What is to be done: a question wants a tool that looks, and nobody wants to delete who did not say so.

/// What a verb does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Look,
    Create,
    Change,
    Delete,
    Act,
}

/// How a tool that does something else than was asked for compares with one that does it.
const UNASKED_CHANGE: f32 = 0.75;
const UNASKED_DELETION: f32 = 0.85;
const ONLY_LOOKS: f32 = 0.92;

const VERBS: &[(&str, Action)] = &[
    ("add", Action::Create),
    ("adjust", Action::Change),
    ("append", Action::Create),
    ("apply", Action::Change),
    ("archive", Action::Delete),
    ("assign", Action::Change),
    ("attach", Action::Create),
    ("ban", Action::Change),
    ("book", Action::Create),
    ("browse", Action::Look),
    ("build", Action::Create),
    ("cancel", Action::Delete),
    ("change", Action::Change),
    ("check", Action::Look),
    ("clear", Action::Delete),
    ("close", Action::Change),
    ("commit", Action::Act),
    ("compare", Action::Look),
    ("complete", Action::Change),
    ("count", Action::Look),
    ("create", Action::Create),
    ("delete", Action::Delete),
    ("deploy", Action::Act),
    ("describe", Action::Look),
    ("destroy", Action::Delete),
    ("disable", Action::Change),
    ("display", Action::Look),
    ("download", Action::Act),
    ("draft", Action::Create),
    ("drop", Action::Delete),
    ("edit", Action::Change),
    ("enable", Action::Change),
    ("erase", Action::Delete),
    ("execute", Action::Act),
    ("explain", Action::Look),
    ("export", Action::Act),
    ("fetch", Action::Look),
    ("find", Action::Look),
    ("follow", Action::Change),
    ("fork", Action::Create),
    ("forward", Action::Act),
    ("generate", Action::Create),
    ("get", Action::Look),
    ("give", Action::Look),
    ("import", Action::Create),
    ("insert", Action::Create),
    ("install", Action::Create),
    ("invite", Action::Create),
    ("kill", Action::Delete),
    ("like", Action::Change),
    ("list", Action::Look),
    ("lock", Action::Change),
    ("lookup", Action::Look),
    ("make", Action::Create),
    ("mark", Action::Change),
    ("merge", Action::Change),
    ("modify", Action::Change),
    ("move", Action::Change),
    ("mute", Action::Change),
    ("new", Action::Create),
    ("open", Action::Act),
    ("patch", Action::Change),
    ("pause", Action::Change),
    ("pin", Action::Change),
    ("post", Action::Create),
    ("publish", Action::Create),
    ("purge", Action::Delete),
    ("push", Action::Create),
    ("put", Action::Create),
    ("query", Action::Look),
    ("read", Action::Look),
    ("recreate", Action::Change),
    ("remove", Action::Delete),
    ("rename", Action::Change),
    ("replace", Action::Change),
    ("reply", Action::Create),
    ("reset", Action::Change),
    ("resolve", Action::Change),
    ("restart", Action::Act),
    ("restore", Action::Change),
    ("resume", Action::Change),
    ("retrieve", Action::Look),
    ("run", Action::Act),
    ("save", Action::Create),
    ("scale", Action::Change),
    ("schedule", Action::Create),
    ("search", Action::Look),
    ("see", Action::Look),
    ("send", Action::Create),
    ("set", Action::Change),
    ("share", Action::Change),
    ("show", Action::Look),
    ("snooze", Action::Change),
    ("star", Action::Change),
    ("start", Action::Act),
    ("stop", Action::Act),
    ("submit", Action::Create),
    ("trash", Action::Delete),
    ("trigger", Action::Act),
    ("uninstall", Action::Delete),
    ("unsubscribe", Action::Delete),
    ("update", Action::Change),
    ("upload", Action::Create),
    ("view", Action::Look),
    ("void", Action::Delete),
    ("write", Action::Create),
];

/// Words that a question begins with.
const QUESTIONS: &[&str] = &[
    "any", "are", "can", "did", "do", "does", "has", "have", "how", "is", "was", "were", "what", "whats", "when",
    "where", "which", "who", "whos", "whose", "why",
];

/// Verbs that say little: whatever is done can be said with them.
const LIGHT: &[&str] = &["do", "give", "go", "have", "keep", "make", "put", "take"];

pub(super) fn is_light(word: &str) -> bool {
    LIGHT.contains(&word)
}

pub(super) fn is_verb(word: &str) -> bool {
    action(word).is_some()
}

fn action(word: &str) -> Option<Action> {
    VERBS.binary_search_by_key(&word, |(verb, _)| verb).ok().map(|at| VERBS[at].1)
}

/// What a tool does by its name: the first verb in it.
pub(super) fn of_name<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Action> {
    words.into_iter().find_map(action)
}

/// What a query asks for.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Intent {
    /// It is a question or asks to be shown something, and names nothing that would change anything.
    looks: bool,
    /// It begins with a verb that changes something.
    changes: bool,
    deletes: bool,
}

impl Intent {
    /// By the words of a query, in lower case.
    pub(super) fn of<'a>(words: impl Iterator<Item = &'a str> + Clone) -> Self {
        let actions = || words.clone().filter_map(action);
        let first = actions().next();
        let asks = words.clone().next().is_some_and(|word| QUESTIONS.binary_search(&word).is_ok());
        let changes = actions().any(|action| matches!(action, Action::Create | Action::Change | Action::Delete));
        Self {
            looks: (asks || first == Some(Action::Look)) && !changes,
            changes: matches!(first, Some(Action::Create | Action::Change | Action::Delete)),
            deletes: actions().any(|action| action == Action::Delete),
        }
    }

    /// How well a tool fits that does this.
    pub(super) fn fit(self, action: Option<Action>) -> f32 {
        match action {
            Some(Action::Delete) if !self.deletes && self.looks => UNASKED_DELETION * UNASKED_CHANGE,
            Some(Action::Delete) if !self.deletes => UNASKED_DELETION,
            Some(Action::Create | Action::Change | Action::Act) if self.looks => UNASKED_CHANGE,
            Some(Action::Look) if self.changes => ONLY_LOOKS,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(VERBS.is_sorted_by_key(|(verb, _)| verb));
        assert!(QUESTIONS.is_sorted());
    }

    #[test]
    fn a_question_prefers_what_looks() {
        let fit = |query: &str, name: &str| Intent::of(query.split(' ')).fit(of_name(name.split('_')));
        assert!(fit("which boards are there", "list_boards") > fit("which boards are there", "create_board"));
        assert!(fit("show my boards", "list_boards") > fit("show my boards", "delete_board"));
        assert!(fit("create a board", "create_board") > fit("create a board", "list_boards"));
        assert!(fit("the board", "get_board") > fit("the board", "delete_board"));
        assert!(fit("can you delete the board", "delete_board") >= fit("can you delete the board", "list_boards"));
    }
}
