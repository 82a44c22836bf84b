//! Reads the labelled set in `bench/search/` (see the README there) and scores an index on it.

use std::path::Path;

use onetool_run::search::{Field, Index, IndexBuilder, Match};

pub struct LabelledTool {
    pub pack: String,
    about_pack: String,
    pub name: String,
    description: String,
    /// Name, description and values of each parameter.
    parameters: Vec<(String, String, String)>,
}

pub struct Prompt {
    pub text: String,
    pub part: Part,
    /// The indexes of the intended tools.
    pub tools: Vec<usize>,
    pub style: Style,
}

/// The style of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// By people who know what they want.
    Plain,
    /// In colloquial words, which the tool's description mostly lacks.
    Colloquial,
    /// By people who know which services there are but have not read the tools' descriptions.
    Office,
    /// The same, for tools chosen at random: sentences, keywords and typos.
    Drawn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Tuning,
    HeldOut,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Score {
    pub prompts: usize,
    pub first: usize,
    pub first_3: usize,
    pub first_5: usize,
}

#[derive(Default)]
pub struct LabelledSet {
    pub tools: Vec<LabelledTool>,
    pub prompts: Vec<Prompt>,
}

impl LabelledSet {
    pub fn load() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/search");
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
            .collect();
        // Tools are read before the prompts that name them.
        files.sort_by_key(|path| (!path.to_string_lossy().contains("tools_"), path.clone()));
        let mut set = Self::default();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            match file.file_stem().and_then(|name| name.to_str()) {
                Some("prompts_tuning") => set.read_prompts(&text, Part::Tuning, Style::Office),
                Some("prompts_unseen") => set.read_prompts(&text, Part::HeldOut, Style::Office),
                Some("prompts_drawn_tuning") => set.read_prompts(&text, Part::Tuning, Style::Drawn),
                Some("prompts_drawn") => set.read_prompts(&text, Part::HeldOut, Style::Drawn),
                _ => set.read(&text),
            }
        }
        set
    }

    fn read(&mut self, text: &str) {
        let (mut pack, mut about_pack) = ("", "");
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(header) = line.strip_prefix("= ") {
                (pack, about_pack) = header.split_once(": ").unwrap();
            } else if let Some((mark @ ("?" | "~"), prompt)) = line.split_once(' ') {
                let style = if mark == "?" { Style::Plain } else { Style::Colloquial };
                let tools = vec![self.tools.len() - 1];
                self.prompts.push(Prompt { text: prompt.to_owned(), part: part_of(prompt), tools, style });
            } else {
                let (name, rest) = line.split_once('(').unwrap();
                let (parameters, description) = rest.split_once(") ").unwrap();
                let parameters = parameters.split("; ").filter(|text| !text.is_empty()).map(parameter).collect();
                self.tools.push(LabelledTool {
                    pack: pack.to_owned(),
                    about_pack: about_pack.to_owned(),
                    name: name.to_owned(),
                    description: description.to_owned(),
                    parameters,
                });
            }
        }
    }

    /// `pack.function|pack.function | prompt`
    fn read_prompts(&mut self, text: &str, part: Part, style: Style) {
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (names, prompt) = line.rsplit_once(" | ").unwrap();
            let at = |name: &str| {
                let is_meant = |tool: &LabelledTool| name == format!("{}.{}", tool.pack, tool.name);
                self.tools.iter().position(is_meant).unwrap_or_else(|| panic!("no tool is called {name}"))
            };
            let tools = names.split('|').map(str::trim).map(at).collect();
            self.prompts.push(Prompt { text: prompt.to_owned(), part, tools, style });
        }
    }

    pub fn packs(&self) -> usize {
        let mut packs: Vec<&str> = self.tools.iter().map(|tool| tool.pack.as_str()).collect();
        packs.dedup();
        packs.len()
    }

    /// An index of this many tools: the set's own, repeated.
    pub fn index(&self, tools: usize) -> Index {
        let mut builder = IndexBuilder::default();
        for number in 0..tools {
            let tool = &self.tools[number % self.tools.len()];
            builder.document();
            builder.text(Field::Name, &tool.name);
            builder.text(Field::Pack, &tool.pack);
            builder.text(Field::PackText, &tool.about_pack);
            if number >= self.tools.len() {
                // Copies have words of their own, as other tools would.
                builder.text(Field::Name, &format!("copy{} of{number}", number / self.tools.len()));
            }
            let summary = tool.description.split_once(". ").map_or(tool.description.as_str(), |(first, _)| first);
            builder.text(Field::Summary, summary);
            builder.text(Field::Description, &tool.description[summary.len()..]);
            for (name, text, values) in &tool.parameters {
                builder.text(Field::ParameterName, name);
                builder.text(Field::ParameterText, text);
                builder.text(Field::Value, values);
            }
        }
        builder.build()
    }

    pub fn score(&self, style: Style, part: Part, search: impl Fn(&str) -> Vec<Match>) -> Score {
        let mut score = Score::default();
        let chosen = |prompt: &&Prompt| prompt.style == style && prompt.part == part;
        for prompt in self.prompts.iter().filter(chosen) {
            let rank = search(&prompt.text).iter().position(|found| prompt.tools.contains(&found.document));
            score.prompts += 1;
            score.first += usize::from(rank == Some(0));
            score.first_3 += usize::from(rank.is_some_and(|rank| rank < 3));
            score.first_5 += usize::from(rank.is_some_and(|rank| rank < 5));
        }
        score
    }

    /// Prompts of the tuning part whose tool is not among the first hits, with what was found instead.
    pub fn misses(&self, index: &Index, style: Style, first: usize) -> Vec<(String, String)> {
        let named = |at: usize| format!("{}.{}", self.tools[at].pack, self.tools[at].name);
        let mut misses = Vec::new();
        let chosen = |prompt: &&Prompt| prompt.style == style && prompt.part == Part::Tuning;
        for prompt in self.prompts.iter().filter(chosen) {
            let found = index.search(&prompt.text);
            let rank = found.iter().position(|found| prompt.tools.contains(&found.document));
            if rank.is_none_or(|rank| rank >= first) {
                let shown: Vec<String> =
                    found.iter().take(5).map(|hit| format!("{} {:.1}", named(hit.document), hit.score)).collect();
                let rank = rank.map_or("not found".to_owned(), |rank| format!("at {}", rank + 1));
                misses.push((prompt.text.clone(), format!("{} {rank}; {}", named(prompt.tools[0]), shown.join(", "))));
            }
        }
        misses
    }
}

/// `name {a|b}: description`
fn parameter(text: &str) -> (String, String, String) {
    let (head, description) = text.split_once(": ").unwrap_or((text, ""));
    let (name, values) = head.split_once(" {").unwrap_or((head, ""));
    (name.to_owned(), description.to_owned(), values.trim_end_matches('}').replace('|', " "))
}

/// Assigns prompts to the halves by a hash, so that nobody chooses what is held out.
fn part_of(prompt: &str) -> Part {
    let hash = prompt
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    if (hash >> 32) % 2 == 0 { Part::Tuning } else { Part::HeldOut }
}
