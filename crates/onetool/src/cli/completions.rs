//! `onetool completions <shell>`: prints a completion script.
//!
//! The scripts for bash, zsh and fish call `onetool __complete`, so they know the packs, functions and parameters of
//! the current project; those for other shells know only the commands.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, table};

const EXAMPLES: &str = "\
Examples:
  onetool completions bash > ~/.local/share/bash-completion/completions/onetool
  onetool completions zsh > ~/.zfunc/_onetool
  onetool completions fish > ~/.config/fish/completions/onetool.fish";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell to write for
    #[arg(value_enum)]
    shell: Shell,
}

const BASH: &str = r#"# Completion of onetool for bash.
_onetool() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <("${COMP_WORDS[0]}" __complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    # After a pack or a parameter the word goes on.
    if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *[.=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _onetool onetool
"#;

const ZSH: &str = r#"#compdef onetool
# Completion of onetool for zsh.
_onetool() {
    local line value shown
    local -a plain open plain_shown open_shown
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        shown=$value
        if [[ $line == *$'\t'* ]]; then shown="$value  -- ${line#*$'\t'}"; fi
        # After a pack or a parameter the word goes on.
        if [[ $value == *[.=] ]]; then
            open+=("$value"); open_shown+=("$shown")
        else
            plain+=("$value"); plain_shown+=("$shown")
        fi
    done < <("$words[1]" __complete zsh "${(j: :)words[1,CURRENT]}" 2>/dev/null)
    (( $#open )) && compadd -S '' -l -d open_shown -- $open
    (( $#plain )) && compadd -l -d plain_shown -- $plain
    (( $#open + $#plain )) || _files
}
if [ "$funcstack[1]" = "_onetool" ]; then _onetool "$@"; else compdef _onetool onetool; fi
"#;

const FISH: &str = r#"# Completion of onetool for fish.
complete -c onetool -f -n 'test (count (onetool __complete fish (commandline -cp) 2>/dev/null)) -gt 0' -a '(onetool __complete fish (commandline -cp) 2>/dev/null)'
"#;

pub fn main(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let script = match args.shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => FISH.to_owned(),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Cli::command(), "onetool", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    table::print(&script)?;
    Ok(ExitCode::SUCCESS)
}
