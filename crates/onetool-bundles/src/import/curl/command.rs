//! The options of a `curl` command: those that define the request, those that only configure curl, unsupported ones.

use super::super::Unexpressed;
use super::words::Words;
use crate::template::percent_encode;

/// The parsed options of a command.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) method: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    /// All data, joined as curl does it.
    pub(super) data: Option<String>,
    pub(super) is_json: bool,
    pub(super) as_query: bool,
    /// Pairs of `--url-query`.
    pub(super) query: Vec<String>,
    pub(super) user: Option<String>,
    /// The value of `--aws-sigv4`.
    pub(super) sigv4: Option<String>,
    pub(super) ignored: Vec<Unexpressed>,
}

impl Command {
    pub(super) fn parse(words: Words) -> Result<Self, String> {
        let mut command = Self::default();
        let mut rest = words.words.into_iter().peekable();
        // A shell prompt, as documentation shows it.
        rest.next_if(|word| matches!(word.as_str(), "$" | "%" | ">"));
        match rest.next().as_deref().map(|word| word.rsplit(['/', '\\']).next().unwrap_or(word)) {
            Some("curl" | "curl.exe") => {}
            _ => return Err("the command must start with curl".to_owned()),
        }
        while let Some(word) = rest.next() {
            let (option, attached) = match word.as_str() {
                long if long.starts_with("--") => match long.split_once('=') {
                    Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
                    None => (long.to_owned(), None),
                },
                short if short.starts_with('-') && short.len() > 1 => match command.short(short)? {
                    Some(found) => found,
                    None => continue,
                },
                address => {
                    command.address(address)?;
                    continue;
                }
            };
            if is_switch(&option) {
                command.switch(&option)?;
                continue;
            }
            let value = match attached {
                Some(value) => value,
                None => rest.next().ok_or_else(|| format!("{option} needs a value"))?,
            };
            command.option(&option, value)?;
        }
        if let Some(rest) = words.rest {
            command.ignore(&rest, "it follows the command, and is not part of the request");
        }
        Ok(command)
    }

    fn ignore(&mut self, what: &str, reason: &str) {
        self.ignored.push(Unexpressed { what: what.chars().take(100).collect(), reason: reason.to_owned() });
    }

    fn address(&mut self, address: &str) -> Result<(), String> {
        match self.url.replace(address.to_owned()) {
            Some(_) => Err("the command names several addresses".to_owned()),
            None => Ok(()),
        }
    }

    /// Splits `-sSL` or `-XPOST`: the switches before the last letter, and the option that takes the rest.
    fn short(&mut self, word: &str) -> Result<Option<(String, Option<String>)>, String> {
        let letters: Vec<char> = word.chars().skip(1).collect();
        for (at, letter) in letters.iter().enumerate() {
            let option = format!("-{letter}");
            if is_switch(&option) {
                self.switch(&option)?;
                continue;
            }
            let rest: String = letters[at + 1..].iter().collect();
            return Ok(Some((option, (!rest.is_empty()).then_some(rest))));
        }
        Ok(None)
    }

    fn switch(&mut self, option: &str) -> Result<(), String> {
        match option {
            "-G" | "--get" => self.as_query = true,
            "-I" | "--head" => self.method = Some("HEAD".to_owned()),
            "-k" | "--insecure" => self.ignore(option, "certificates are always checked"),
            "--digest" | "--ntlm" | "--negotiate" | "--anyauth" => {
                return Err(format!("the authentication of {option} is not supported: use basic, a key or a token"));
            }
            "-n" | "--netrc" | "--netrc-optional" => {
                return Err(format!("{option} reads a file; put the credentials into the command"));
            }
            "-:" | "--next" => return Err("the command makes several requests (--next); give one alone".to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn data(&mut self, piece: &str, separator: &str) {
        match &mut self.data {
            Some(data) => {
                data.push_str(separator);
                data.push_str(piece);
            }
            None => self.data = Some(piece.to_owned()),
        }
    }

    fn option(&mut self, option: &str, value: String) -> Result<(), String> {
        match option {
            "-X" | "--request" => self.method = Some(value),
            "-H" | "--header" => self.header(&value)?,
            "-d" | "--data" | "--data-ascii" | "--data-binary" | "--data-raw" | "--json" => {
                if value.starts_with('@') && option != "--data-raw" {
                    return Err(format!("{option} {value} reads a file; put the data into the command"));
                }
                self.is_json |= option == "--json";
                self.data(&value, if option == "--json" { "" } else { "&" });
            }
            "--data-urlencode" => {
                let pair = encoded_pair(option, &value)?;
                self.data(&pair, "&");
            }
            "--url-query" => {
                let pair = match value.strip_prefix('+') {
                    Some(raw) => raw.to_owned(),
                    None => encoded_pair(option, &value)?,
                };
                self.query.push(pair);
            }
            "-F" | "--form" | "--form-string" => {
                return Err("multipart forms (-F) are not supported: a tool's body is JSON, a form or text".to_owned());
            }
            "-T" | "--upload-file" => return Err("uploads of files (-T) are not supported".to_owned()),
            "-u" | "--user" => self.user = Some(value),
            "--aws-sigv4" => self.sigv4 = Some(value),
            "-A" | "--user-agent" => self.headers.push(("User-Agent".to_owned(), value)),
            "-e" | "--referer" => {
                let value = value.split(";auto").next().unwrap_or_default().to_owned();
                self.headers.push(("Referer".to_owned(), value));
            }
            "-b" | "--cookie" if value.contains('=') => self.headers.push(("Cookie".to_owned(), value)),
            "-b" | "--cookie" => {
                return Err(format!("{option} {value} reads a file; put the cookies into the command"));
            }
            "-r" | "--range" => self.headers.push(("Range".to_owned(), format!("bytes={value}"))),
            "--oauth2-bearer" => self.headers.push(("Authorization".to_owned(), format!("Bearer {value}"))),
            "--url" => self.address(&value)?,
            "-E" | "--cert" | "--key" | "--pass" | "--cert-type" => {
                return Err(format!("{option}: client certificates are not supported"));
            }
            "-x" | "--proxy" | "-U" | "--proxy-user" | "--proxy-header" | "--preproxy" | "--socks5"
            | "--socks5-hostname" | "--socks4" => {
                return Err(format!("{option}: requests go to their host, not through a proxy"));
            }
            "-K" | "--config" => return Err(format!("{option} reads a file; put its options into the command")),
            "--unix-socket" | "--abstract-unix-socket" => {
                return Err(format!("{option}: requests go to hosts, not to sockets"));
            }
            other if is_behaviour(other) => self.ignore(other, "it says how curl behaves, not what is sent"),
            other => return Err(format!("the option {other} is not supported")),
        }
        Ok(())
    }

    fn header(&mut self, text: &str) -> Result<(), String> {
        if text.starts_with('@') {
            return Err(format!("-H {text} reads a file; put the headers into the command"));
        }
        // Older commands contain HTTP/2 pseudo-headers: `:method: GET`.
        if text.starts_with(':') {
            return Ok(());
        }
        match text.split_once(':') {
            // An empty value removes one of curl's own headers.
            Some((_, value)) if value.trim().is_empty() => {}
            Some((name, value)) => self.headers.push((name.trim().to_owned(), value.trim().to_owned())),
            None => match text.trim_end().strip_suffix(';') {
                Some(name) => self.headers.push((name.trim().to_owned(), String::new())),
                None => self.ignore(&format!("-H '{text}'"), "it is not a header: it has no colon"),
            },
        }
        Ok(())
    }
}

/// Encodes the content of `name=content`; `content` and `=content` are values without a name.
fn encoded_pair(option: &str, value: &str) -> Result<String, String> {
    let (name, content) = match value.find(['=', '@']) {
        Some(at) if value[at..].starts_with('=') => (&value[..at], &value[at + 1..]),
        Some(_) => return Err(format!("{option} {value} reads a file; put the data into the command")),
        None => ("", value),
    };
    let content = encoded(content);
    Ok(if name.is_empty() { content } else { format!("{name}={content}") })
}

/// Percent-encodes everything except shell variables.
fn encoded(text: &str) -> String {
    use super::words::{CLOSE, OPEN};
    text.split_inclusive([OPEN, CLOSE])
        .map(|part| match part.strip_suffix([OPEN, CLOSE]) {
            Some(before) => format!("{}{}", percent_encode(before), &part[before.len()..]),
            None => percent_encode(part),
        })
        .collect()
}

/// Options without a value.
fn is_switch(option: &str) -> bool {
    const LETTERS: &str = "GIkLsSvifN46gO#0123nZJqajR:";
    const LONG: &str = "\
        get head insecure location location-trusted silent show-error verbose include show-headers \
        compressed fail fail-with-body fail-early http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 \
        http3-only ipv4 ipv6 globoff remote-name remote-name-all remote-header-name remote-time progress-bar \
        basic digest ntlm negotiate anyauth netrc netrc-optional tcp-nodelay tcp-fastopen path-as-is raw \
        tr-encoding compressed-ssh disable ssl ssl-reqd remove-on-error create-dirs parallel post301 post302 \
        post303 next junk-session-cookies append retry-connrefused retry-all-errors sslv2 sslv3 trace-time \
        trace-ids proxy-insecure cert-status ca-native xattr skip-existing styled-output";
    match option.strip_prefix("--") {
        Some(name) => is_among(LONG, name) || name.starts_with("no-") || name.starts_with("tlsv1"),
        None => option.strip_prefix('-').is_some_and(|letter| LETTERS.contains(letter)),
    }
}

/// Options with a value that do not affect the request.
fn is_behaviour(option: &str) -> bool {
    const SHORT: &[&str] = &["-m", "-o", "-w", "-c", "-D", "-y", "-Y", "-C", "-h"];
    const LONG: &str = "\
        max-time connect-timeout output output-dir write-out retry retry-delay retry-max-time cookie-jar \
        dump-header max-redirs limit-rate speed-limit speed-time cacert capath ciphers tls13-ciphers curves \
        pinnedpubkey resolve connect-to interface dns-servers dns-interface doh-url stderr trace trace-ascii \
        trace-config keepalive-time proto proto-default proto-redir max-filesize tls-max noproxy local-port \
        continue-at expect100-timeout happy-eyeballs-timeout-ms parallel-max rate etag-save hsts alt-svc \
        create-file-mode libcurl";
    SHORT.contains(&option) || option.strip_prefix("--").is_some_and(|name| is_among(LONG, name))
}

fn is_among(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|one| one == name)
}
