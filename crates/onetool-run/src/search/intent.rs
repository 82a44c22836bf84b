//! The intent of a query: a question prefers tools that read, and nothing suggests deletion unless the query asks for
//! it.

/// The effect of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Look,
    Create,
    Change,
    Delete,
    Act,
}

/// Factors for a tool that does something other than what was asked for.
const UNASKED_CHANGE: f32 = 0.5;
const UNASKED_DELETION: f32 = 0.7;
const ONLY_LOOKS: f32 = 0.55;
/// A query that names a thing but no action usually wants to see it.
const CHANGES_WHAT_IS_NAMED: f32 = 0.85;
/// A tool that changes something where something new is wanted, or vice versa.
const OTHER_CHANGE: f32 = 0.8;

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
    ("resolve", Action::Act),
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

/// Further verbs that begin a request, sorted; elsewhere most of them have another meaning.
const REQUESTS: &[(&str, Action)] = &[
    ("accept", Action::Change),
    ("ack", Action::Change),
    ("acknowledge", Action::Change),
    ("analyse", Action::Look),
    ("analyze", Action::Look),
    ("announce", Action::Create),
    ("approve", Action::Change),
    ("ask", Action::Act),
    ("bill", Action::Create),
    ("block", Action::Change),
    ("boot", Action::Act),
    ("bring", Action::Act),
    ("burn", Action::Change),
    ("buy", Action::Create),
    ("calculate", Action::Look),
    ("call", Action::Act),
    ("charge", Action::Create),
    ("clean", Action::Delete),
    ("click", Action::Act),
    ("clone", Action::Create),
    ("combine", Action::Change),
    ("comment", Action::Create),
    ("compose", Action::Create),
    ("compress", Action::Change),
    ("convert", Action::Act),
    ("copy", Action::Create),
    ("crop", Action::Change),
    ("cut", Action::Change),
    ("decline", Action::Change),
    ("define", Action::Look),
    ("design", Action::Create),
    ("detect", Action::Look),
    ("dim", Action::Change),
    ("discard", Action::Delete),
    ("drag", Action::Act),
    ("draw", Action::Create),
    ("duplicate", Action::Create),
    ("email", Action::Create),
    ("empty", Action::Delete),
    ("end", Action::Change),
    ("enrol", Action::Create),
    ("enroll", Action::Create),
    ("enter", Action::Act),
    ("escalate", Action::Change),
    ("estimate", Action::Look),
    ("file", Action::Create),
    ("fill", Action::Change),
    ("finish", Action::Change),
    ("forecast", Action::Look),
    ("forget", Action::Delete),
    ("format", Action::Change),
    ("google", Action::Look),
    ("grep", Action::Look),
    ("hire", Action::Create),
    ("hover", Action::Act),
    ("increase", Action::Change),
    ("index", Action::Create),
    ("inspect", Action::Look),
    ("invoice", Action::Create),
    ("invoke", Action::Act),
    ("join", Action::Change),
    ("kick", Action::Delete),
    ("launch", Action::Act),
    ("leave", Action::Act),
    ("link", Action::Create),
    ("load", Action::Look),
    ("log", Action::Create),
    ("look", Action::Look),
    ("lower", Action::Change),
    ("mail", Action::Create),
    ("measure", Action::Look),
    ("message", Action::Create),
    ("migrate", Action::Act),
    ("monitor", Action::Look),
    ("navigate", Action::Act),
    ("note", Action::Create),
    ("notify", Action::Create),
    ("onboard", Action::Create),
    ("order", Action::Create),
    ("paint", Action::Create),
    ("pay", Action::Create),
    ("phone", Action::Act),
    ("ping", Action::Look),
    ("plan", Action::Create),
    ("play", Action::Act),
    ("plot", Action::Create),
    ("postpone", Action::Change),
    ("power", Action::Act),
    ("prepare", Action::Create),
    ("press", Action::Act),
    ("print", Action::Act),
    ("proofread", Action::Look),
    ("protect", Action::Change),
    ("raise", Action::Change),
    ("rank", Action::Look),
    ("react", Action::Create),
    ("reassign", Action::Change),
    ("rebase", Action::Change),
    ("rebuild", Action::Change),
    ("record", Action::Create),
    ("reduce", Action::Change),
    ("refund", Action::Create),
    ("register", Action::Create),
    ("remember", Action::Create),
    ("remind", Action::Create),
    ("render", Action::Create),
    ("reopen", Action::Change),
    ("report", Action::Create),
    ("rerun", Action::Act),
    ("reschedule", Action::Change),
    ("reserve", Action::Create),
    ("resize", Action::Change),
    ("respond", Action::Create),
    ("retry", Action::Act),
    ("revert", Action::Change),
    ("review", Action::Look),
    ("ring", Action::Act),
    ("roll", Action::Act),
    ("rollback", Action::Change),
    ("rotate", Action::Change),
    ("scan", Action::Look),
    ("scroll", Action::Act),
    ("ship", Action::Act),
    ("shorten", Action::Change),
    ("shut", Action::Act),
    ("silence", Action::Change),
    ("sketch", Action::Create),
    ("solve", Action::Look),
    ("sort", Action::Change),
    ("split", Action::Change),
    ("squash", Action::Change),
    ("stage", Action::Create),
    ("store", Action::Create),
    ("subscribe", Action::Create),
    ("sum", Action::Look),
    ("summarise", Action::Look),
    ("summarize", Action::Look),
    ("swap", Action::Change),
    ("switch", Action::Change),
    ("sync", Action::Act),
    ("tag", Action::Change),
    ("test", Action::Look),
    ("text", Action::Create),
    ("tidy", Action::Change),
    ("total", Action::Look),
    ("trace", Action::Look),
    ("track", Action::Look),
    ("transcribe", Action::Act),
    ("transfer", Action::Act),
    ("translate", Action::Act),
    ("turn", Action::Change),
    ("tweet", Action::Create),
    ("type", Action::Act),
    ("unblock", Action::Change),
    ("undeploy", Action::Delete),
    ("undo", Action::Change),
    ("unmute", Action::Change),
    ("validate", Action::Look),
    ("verify", Action::Look),
    ("visit", Action::Act),
    ("wait", Action::Act),
    ("wipe", Action::Delete),
    ("withdraw", Action::Delete),
    ("zip", Action::Act),
];

/// Further verbs that begin tool names, sorted; in a query some of them have another meaning.
const NAME_VERBS: &[(&str, Action)] = &[
    ("acknowledge", Action::Change),
    ("activate", Action::Act),
    ("analyze", Action::Look),
    ("approve", Action::Change),
    ("ask", Action::Look),
    ("calculate", Action::Look),
    ("click", Action::Act),
    ("clone", Action::Create),
    ("compose", Action::Create),
    ("compress", Action::Change),
    ("convert", Action::Act),
    ("detect", Action::Look),
    ("drag", Action::Act),
    ("exec", Action::Act),
    ("fill", Action::Change),
    ("finalize", Action::Change),
    ("format", Action::Change),
    ("fulfill", Action::Change),
    ("handle", Action::Act),
    ("invoke", Action::Act),
    ("isolate", Action::Act),
    ("navigate", Action::Act),
    ("overwrite", Action::Change),
    ("play", Action::Act),
    ("press", Action::Act),
    ("protect", Action::Change),
    ("refresh", Action::Act),
    ("resize", Action::Change),
    ("respond", Action::Create),
    ("scan", Action::Look),
    ("select", Action::Act),
    ("skip", Action::Act),
    ("solve", Action::Look),
    ("split", Action::Change),
    ("store", Action::Create),
    ("summarize", Action::Look),
    ("track", Action::Look),
    ("transcribe", Action::Act),
    ("transition", Action::Change),
    ("translate", Action::Look),
    ("trim", Action::Change),
    ("turn", Action::Change),
    ("upscale", Action::Change),
    ("validate", Action::Look),
    ("wait", Action::Act),
];

/// Words that may precede the verb of a request.
const POLITE: &[&str] = &["can", "could", "i", "just", "lets", "need", "please", "to", "want", "would", "you"];

/// Words that begin a question for information, regardless of its verbs.
const QUESTIONS: &[&str] = &[
    "any", "are", "did", "does", "has", "is", "was", "were", "what", "whats", "when", "where", "which", "who", "whos",
    "whose", "why",
];

/// Words that begin a question or a polite request.
const OPEN_QUESTIONS: &[&str] = &["can", "do", "have", "how"];

/// After "how", these ask how to do something; other words ask for information: "how many".
const HOW_TO: &[&str] = &["can", "could", "do", "i", "should", "to"];

/// After "do" or "have", an article marks a request: "do a backup".
const ARTICLES: &[&str] = &["a", "an", "some", "the"];

/// Words that precede a verb.
const BEFORE_VERBS: &[&str] =
    &["and", "can", "could", "i", "must", "not", "please", "should", "t", "then", "to", "we", "will", "would", "you"];

/// HTTP methods, with which names derived from URLs begin.
const METHODS: &[&str] = &["patch", "post", "put"];

/// Verbs with little meaning of their own.
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

fn request(word: &str) -> Option<Action> {
    REQUESTS.binary_search_by_key(&word, |(verb, _)| verb).ok().map(|at| REQUESTS[at].1).or(action(word))
}

/// Whether a word describes what was done to something: "created", "sent".
pub(super) fn is_participle(word: &str) -> bool {
    let regular = |ending: &str| word.strip_suffix(ending).is_some_and(is_verb);
    regular("d") || regular("ed") || matches!(word, "built" | "made" | "sent" | "written")
}

/// The action that a tool's name expresses: that of its first verb, unless the name joins several (`create_or_update`)
/// or begins with an HTTP method (`post_search`).
pub(super) fn of_name(words: &[&str]) -> Option<Action> {
    let of_tools =
        |word: &&str| NAME_VERBS.binary_search_by_key(word, |(verb, _)| verb).ok().map(|at| NAME_VERBS[at].1);
    let verbs: Vec<&str> = words.iter().copied().filter(|word| is_verb(word)).collect();
    if verbs.len() > 1 && words.iter().any(|word| matches!(*word, "and" | "or")) {
        return None;
    }
    let said = verbs.iter().find(|word| !METHODS.contains(word)).filter(|_| METHODS.contains(&verbs[0]));
    said.or(verbs.first()).and_then(|verb| action(verb)).or_else(|| words.iter().find_map(of_tools))
}

/// The intent of a query.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Intent {
    /// The action of its first verb.
    first: Option<Action>,
    /// Whether it is a question or asks to see something, and mentions no change.
    looks: bool,
    deletes: bool,
}

impl Intent {
    /// Determines the intent from the words of a query, in lower case.
    pub(super) fn of<'a>(words: impl Iterator<Item = &'a str> + Clone) -> Self {
        let begins_with = |table: &[&str]| words.clone().next().is_some_and(|word| table.contains(&word));
        let before = std::iter::once("").chain(words.clone());
        let begun = words.clone().take_while(|word| POLITE.contains(word)).count();
        // A verb is at the beginning or follows words such as "to" and "you"; elsewhere it is a noun: "my merge
        // requests".
        let is_said = |(at, (before, _)): &(usize, (&str, &str))| *at == begun || BEFORE_VERBS.contains(before);
        let said = || before.clone().zip(words.clone()).enumerate().filter(is_said).map(|(at, (_, word))| (at, word));
        let actions = || said().filter_map(|(at, word)| if at == begun { request(word) } else { action(word) });
        let first = actions().next();
        let changes = actions().any(|action| matches!(action, Action::Create | Action::Change | Action::Delete));
        let asks_how = begins_with(&["how"]) && !words.clone().nth(1).is_some_and(|word| HOW_TO.contains(&word));
        let asks = begins_with(QUESTIONS) || asks_how;
        let is_open = begins_with(OPEN_QUESTIONS) && !words.clone().nth(1).is_some_and(|word| ARTICLES.contains(&word));
        // "tickets created today"
        let is_described = first.is_none() && words.clone().any(is_participle);
        Self {
            first: if asks { Some(Action::Look) } else { first },
            looks: asks || is_described || (is_open || first == Some(Action::Look)) && !changes,
            deletes: actions().any(|action| action == Action::Delete),
        }
    }

    /// How well a tool with this action fits.
    pub(super) fn fit(self, action: Option<Action>) -> f32 {
        use Action::{Act, Change, Create, Delete, Look};
        match (self.first, action) {
            (_, Some(Delete)) if !self.deletes && self.looks => UNASKED_DELETION * UNASKED_CHANGE,
            (_, Some(Delete)) if !self.deletes => UNASKED_DELETION,
            (_, Some(Create | Change | Act)) if self.looks => UNASKED_CHANGE,
            (None, Some(Create | Change | Act)) => CHANGES_WHAT_IS_NAMED,
            (Some(Create | Change | Delete), Some(Look)) => ONLY_LOOKS,
            (Some(Create | Delete), Some(Change)) | (Some(Change | Delete), Some(Create)) => OTHER_CHANGE,
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
        assert!(NAME_VERBS.is_sorted_by_key(|(verb, _)| verb));
        assert!(REQUESTS.is_sorted_by_key(|(verb, _)| verb));
    }

    #[test]
    fn a_question_prefers_what_looks() {
        let fit =
            |query: &str, name: &str| Intent::of(query.split(' ')).fit(of_name(&name.split('_').collect::<Vec<_>>()));
        assert!(fit("which boards are there", "list_boards") > fit("which boards are there", "create_board"));
        assert!(fit("show my boards", "list_boards") > fit("show my boards", "delete_board"));
        assert!(fit("create a board", "create_board") > fit("create a board", "list_boards"));
        assert!(fit("the board", "get_board") > fit("the board", "delete_board"));
        assert!(fit("find the board", "post_search") > fit("find the board", "post_board"));
        assert!(fit("change the board", "create_or_update_board") > fit("change the board", "create_board"));
        assert!(fit("can you delete the board", "delete_board") >= fit("can you delete the board", "list_boards"));
    }
}
