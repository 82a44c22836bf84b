//! Protects the programs that servers run: the command, and the files on its command line that it executes.

use std::path::{Path, PathBuf};

use onetool_packs::file::Guard;
use onetool_proxy::ServerKind;

use crate::config::Resolved;

/// Extensions of files that count as programs on a server's command line.
const SCRIPTS: &[&str] = &["py", "js", "mjs", "cjs", "ts", "sh", "rb", "pl", "php", "jar", "lua", "exe", "bat", "cmd"];
/// Programs that run a file or a folder given on their command line. Their names may end with a version.
const INTERPRETERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "python",
    "pypy",
    "node",
    "nodejs",
    "bun",
    "deno",
    "ruby",
    "perl",
    "php",
    "lua",
    "tsx",
    "ts-node",
    "Rscript",
    "pwsh",
    "powershell",
    "osascript",
    "wish",
    "tclsh",
    "julia",
    "source",
];
/// Programs that run another program given on their command line.
const LAUNCHERS: &[&str] = &[
    "uv", "uvx", "npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "pipx", "env", "exec", "nohup", "nice", "timeout",
    "time", "stdbuf", "sudo", "setsid", "xvfb-run", "dotenv", "direnv", "poetry", "pdm", "hatch", "rye", "make",
    "just",
];
/// Words of launchers that come before the program.
const SUBCOMMANDS: &[&str] = &["run", "exec", "tool", "dlx", "x", "start", "--"];
/// Options of launchers that take no value. After any other, the next word may be its value or the program.
const FLAGS: &[&str] = &[
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "--silent",
    "-v",
    "--verbose",
    "--isolated",
    "--frozen",
    "--locked",
    "--offline",
    "--no-project",
    "--no-sync",
    "--no-cache",
    "--no-config",
    "--no-env-file",
    "--script",
    "-s",
    "--no-install",
    "-i",
];
/// Options, and the shell's command, that name the folder where a program runs.
const FOLDER_OPTIONS: &[&str] = &["--directory", "--project", "--cwd", "--prefix", "--dir", "-C", "cd"];

/// Protects the programs of all servers.
pub(super) fn protect(guard: &mut Guard, settings: &Resolved) {
    for server in &settings.servers {
        let ServerKind::Stdio { command, args, cwd, .. } = &server.kind else { continue };
        let folder = cwd.as_deref().unwrap_or(&settings.folder);
        if command.contains(std::path::MAIN_SEPARATOR) {
            protect_program(guard, &folder.join(command));
        } else if let Ok(found) = settings.search_path.find(command.as_ref()) {
            protect_program(guard, &found);
        }
        for path in programs(folder, command, args) {
            guard.protect(path);
        }
    }
}

/// Protects a program, and its virtual environment.
pub(super) fn protect_program(guard: &mut Guard, program: &Path) {
    guard.protect(program);
    let environment = program.parent().and_then(Path::parent);
    if let Some(environment) = environment.filter(|folder| folder.join("pyvenv.cfg").is_file()) {
        guard.protect(environment);
    }
}

/// Protects the folders where programs are looked up, with the virtual environments they belong to.
pub(super) fn protect_search_path(guard: &mut Guard, settings: &Resolved) {
    let search = &settings.search_path;
    for folder in search.folders() {
        if settings.packs.file.roots.iter().any(|root| root.starts_with(folder)) {
            guard.protect_matching(folder, "*");
        } else {
            protect_program(guard, &folder.join("python3"));
            guard.protect(folder);
        }
    }
}

/// What the next word on a command line may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Argument,
    /// The file that an interpreter runs: the first one that exists.
    Script,
    /// The program that a launcher runs.
    Program,
}

/// The files that run because they are on a command line, and exist.
fn programs<S: AsRef<str>>(folder: &Path, command: &str, arguments: &[S]) -> Vec<PathBuf> {
    let mut line = Line { folders: vec![folder.to_owned()], found: Vec::new(), expected: expected_after(command) };
    let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    line.read(&words);
    line.found
}

struct Line {
    /// Where relative paths may start.
    folders: Vec<PathBuf>,
    found: Vec<PathBuf>,
    expected: Expected,
}

impl Line {
    fn read(&mut self, words: &[&str]) {
        self.add_folders(words);
        let mut takes_value = false;
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let is_option = word.starts_with('-') && word != "--";
            // `sh -c "srv/start --fast"`, `bash -lc "…"`
            if self.expected == Expected::Script && is_option && !word.starts_with("--") && word.ends_with('c') {
                if let Some(text) = words.next() {
                    self.read_text(text);
                }
                self.expected = Expected::Argument;
                continue;
            }
            if word == "-m" {
                if let Some(module) = words.next() {
                    self.found.extend(self.folders.iter().flat_map(|folder| module_files(folder, module)));
                }
                self.expected = Expected::Argument;
                continue;
            }
            if is_option {
                takes_value = !FLAGS.contains(&word) && !word.contains('=');
                if let Some((_, value)) = word.split_once('=') {
                    self.add_file(value, Expected::Argument);
                }
                continue;
            }
            self.read_word(word, std::mem::take(&mut takes_value));
        }
    }

    fn read_word(&mut self, word: &str, may_be_value: bool) {
        let next = expected_after(word);
        if self.expected == Expected::Program && next != Expected::Argument {
            self.add_file(word, self.expected);
            self.expected = next;
            return;
        }
        let is_file = self.add_file(word, self.expected);
        match self.expected {
            Expected::Script if is_file => self.expected = Expected::Argument,
            // `node web`: other programs do not run a folder given to them, but work on it.
            Expected::Script => {
                self.found.extend(self.folders.iter().flat_map(|folder| folder_programs(&folder.join(word))));
            }
            Expected::Program if may_be_value || is_before_program(word) => {}
            Expected::Program | Expected::Argument => self.expected = Expected::Argument,
        }
    }

    /// Reads a line for a shell: every word may be a program.
    fn read_text(&mut self, text: &str) {
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || ";&|()<>\"'`$={}".contains(c))
            .filter(|word| !word.is_empty())
            .collect();
        self.add_folders(&words);
        self.expected = Expected::Argument;
        for word in words {
            self.expected = match expected_after(word) {
                Expected::Argument => self.expected,
                other => other,
            };
            if self.add_file(word, self.expected) {
                self.expected = Expected::Argument;
            }
        }
    }

    fn add_folders(&mut self, words: &[&str]) {
        let following = words.windows(2).filter(|pair| FOLDER_OPTIONS.contains(&pair[0])).map(|pair| pair[1]);
        let joined =
            words.iter().filter_map(|word| word.split_once('=').filter(|(name, _)| FOLDER_OPTIONS.contains(name)));
        let named: Vec<&str> = following.chain(joined.map(|(_, value)| value)).collect();
        for name in named {
            let below: Vec<PathBuf> = self.folders.iter().map(|folder| folder.join(name)).collect();
            self.folders.extend(below.into_iter().filter(|folder| folder.is_dir()));
        }
    }

    /// Adds a file that runs, and returns whether there is a file of this name.
    fn add_file(&mut self, word: &str, expected: Expected) -> bool {
        let paths: Vec<PathBuf> =
            self.folders.iter().map(|folder| folder.join(word)).filter(|path| path.is_file()).collect();
        let is_script = |path: &Path| path.extension().is_some_and(|end| SCRIPTS.iter().any(|script| end == *script));
        let is_file = !paths.is_empty();
        let runs = |path: &PathBuf| expected != Expected::Argument || is_script(path) || is_executable(path);
        self.found.extend(paths.into_iter().filter(runs));
        is_file
    }
}

/// `run`, `A=1` of `env`, `30s` of `timeout`.
fn is_before_program(word: &str) -> bool {
    SUBCOMMANDS.contains(&word) || word.contains('=') || word.starts_with(|c: char| c.is_ascii_digit())
}

/// What follows the name of a program.
fn expected_after(program: &str) -> Expected {
    if program == "." {
        // `source`, in a shell.
        return Expected::Script;
    }
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if INTERPRETERS.contains(&plain) {
        Expected::Script
    } else if LAUNCHERS.contains(&name) {
        Expected::Program
    } else {
        Expected::Argument
    }
}

/// The files that Python reads to run a module of this folder: its parent packages and the module itself.
fn module_files(folder: &Path, module: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let mut above = folder.to_owned();
    let mut files = Vec::new();
    for part in module.split('.') {
        above.push(part);
        files.push(above.join("__init__.py"));
    }
    files.into_iter().chain([above.with_extension("py"), above.join("__main__.py")])
}

/// The files that run if a command line names a folder.
fn folder_programs(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    ["__main__.py", "package.json", "index.js"].map(|name| folder.join(name)).into_iter().filter(|path| path.is_file())
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_line_runs_is_found() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("srv")).unwrap();
        for name in ["srv/start", "srv/tool", "srv/main.py", "data.json", "srv/index.js"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path().join("srv/tool"), executable).unwrap();
        for (line, expected) in [
            ("sh srv/start data.json", vec!["srv/start"]),
            ("python3.12 -u srv/start", vec!["srv/start"]),
            ("python3 -m app data.json", vec!["app/__init__.py", "app.py", "app/__main__.py"]),
            ("uv --directory srv run main.py", vec!["srv/main.py"]),
            ("uv run --project=srv python start data.json", vec!["srv/start"]),
            ("npx -y server data.json", vec![]),
            ("npx -y srv/start data.json", vec!["srv/start"]),
            ("env A=1 timeout 30 bash srv/start", vec!["srv/start"]),
            ("server --watch srv/tool --data data.json", vec!["srv/tool"]),
            ("server --watch=srv/tool", vec!["srv/tool"]),
            ("node srv", vec!["srv/index.js"]),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let expected: Vec<PathBuf> = expected.into_iter().map(|name| folder.path().join(name)).collect();
            assert_eq!(programs(folder.path(), words[0], &words[1..]), expected, "{line}");
        }
        for (text, expected) in [
            ("cd srv && exec ./start <../data.json", vec!["srv/./start"]),
            ("cat data.json | srv/tool", vec!["srv/tool"]),
            (". srv/start; server data.json", vec!["srv/start"]),
        ] {
            let expected: Vec<PathBuf> = expected.into_iter().map(|name| folder.path().join(name)).collect();
            assert_eq!(programs(folder.path(), "bash", &["-lc", text]), expected, "{text}");
        }
    }
}
