//! HMAC signatures of requests. A declaration or a preset says what is signed, how, and where the signature is added.
//!
//! Entries without the signature are applied first, then the exact bytes to be sent are signed, then the signature is
//! added.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use chrono::{DateTime, SecondsFormat, Utc};
use onetool_sdk::ToolError;
use onetool_state::bundles::{
    ApplyEntry, ApplyPlace, HmacAuth, HmacPreset, NonceRule, SecretEncoding, SignatureAlgorithm, SignatureEncoding,
    TimestampFormat, TimestampOffset, TimestampRule,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac};

use super::PLACEHOLDER;
use super::apply::{Entry, apply_entry};
use super::sign_text::{Part, SignText, from_hex, hex};
use super::sigv4::{canonical_query, host};
use crate::request::Rendered;
use crate::template::{Bindings, Scope, Template, parse};

/// Maximum length of a nonce, in bytes.
const NONCE_BYTES: u8 = 64;

/// A parsed block, with its preset filled in.
#[derive(Debug)]
pub(crate) struct Hmac {
    pub(crate) secret: Template,
    secret_encoding: SecretEncoding,
    pub(crate) key_id: Option<Template>,
    algorithm: SignatureAlgorithm,
    timestamp: TimestampRule,
    nonce: NonceRule,
    to_sign: SignText,
    encoding: SignatureEncoding,
    entries: Vec<Entry>,
}

/// A block with its secrets.
#[derive(Debug, Clone)]
pub(crate) struct ReadyHmac {
    secret: Vec<u8>,
    secret_text: String,
    key_id: String,
    secrets: HashMap<String, String>,
}

/// The inputs that differ from one signature to the next.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) now: DateTime<Utc>,
    pub(crate) nonce: String,
}

struct Preset {
    to_sign: &'static str,
    timestamp: TimestampFormat,
    apply: &'static [(ApplyPlace, &'static str, &'static str)],
}

fn preset(name: HmacPreset) -> Preset {
    use ApplyPlace::{Header, Query};
    match name {
        HmacPreset::Generic => Preset {
            to_sign: "${method}\n${path}\n${query.sorted}\n${timestamp}\n${body|sha256|hex}",
            timestamp: TimestampFormat::UnixS,
            apply: &[(Header, "X-Timestamp", "${timestamp}"), (Header, "X-Signature", "${signature}")],
        },
        HmacPreset::Github => Preset {
            to_sign: "${body}",
            timestamp: TimestampFormat::UnixS,
            apply: &[(Header, "X-Hub-Signature-256", "sha256=${signature}")],
        },
        HmacPreset::Stripe => Preset {
            to_sign: "${timestamp}.${body}",
            timestamp: TimestampFormat::UnixS,
            apply: &[(Header, "Stripe-Signature", "t=${timestamp},v1=${signature}")],
        },
        HmacPreset::Binance => Preset {
            to_sign: "${query.raw}${body}",
            timestamp: TimestampFormat::UnixMs,
            apply: &[
                (Header, "X-MBX-APIKEY", "${keyId}"),
                (Query, "recvWindow", "5000"),
                (Query, "timestamp", "${timestamp}"),
                (Query, "signature", "${signature}"),
            ],
        },
    }
}

impl Hmac {
    pub(crate) fn compile(auth: &HmacAuth, scope: &Scope<'_>) -> Result<Self, String> {
        let preset_name = auth.preset.unwrap_or(HmacPreset::Generic);
        let preset = preset(preset_name);
        if auth.secret.is_empty() {
            return Err("auth.secret is missing; name it as ${SIGNING_SECRET}".to_owned());
        }
        if preset_name == HmacPreset::Binance && auth.key_id.is_none() && auth.apply.is_empty() {
            return Err("auth.keyId is missing; the preset binance sends it as X-MBX-APIKEY".to_owned());
        }
        let nonce = auth.nonce.unwrap_or_default();
        if nonce.bytes == 0 || nonce.bytes > NONCE_BYTES {
            return Err(format!("auth.nonce.bytes must be from 1 to {NONCE_BYTES}"));
        }
        let to_sign = SignText::parse(auth.string_to_sign.as_deref().unwrap_or(preset.to_sign))
            .map_err(|error| format!("auth.stringToSign: {error}"))?;
        if to_sign.uses(&Part::Signature) {
            return Err("auth.stringToSign can't hold the signature itself".to_owned());
        }
        let given: Vec<ApplyEntry> = if auth.apply.is_empty() {
            let entry = |&(place, name, value): &(ApplyPlace, &str, &str)| ApplyEntry {
                place,
                name: name.to_owned(),
                value: value.to_owned(),
            };
            preset.apply.iter().map(entry).collect()
        } else {
            auth.apply.clone()
        };
        let entries = given.iter().map(Entry::compile).collect::<Result<Vec<_>, _>>()?;
        if !entries.iter().any(|entry| entry.value.uses(&Part::Signature)) {
            return Err("no entry of auth.apply holds ${signature}".to_owned());
        }
        let compiled = Self {
            secret: parse(&auth.secret, scope)?,
            secret_encoding: auth.secret_encoding.unwrap_or_default(),
            key_id: auth.key_id.as_ref().map(|id| parse(id, scope)).transpose()?,
            algorithm: auth.algorithm.unwrap_or_default(),
            timestamp: auth.timestamp.unwrap_or(TimestampRule { format: preset.timestamp, ..TimestampRule::default() }),
            nonce,
            to_sign,
            encoding: auth.encoding.unwrap_or_default(),
            entries,
        };
        let texts = || compiled.entries.iter().map(|entry| &entry.value).chain([&compiled.to_sign]);
        if compiled.key_id.is_none() && texts().any(|text| text.uses(&Part::KeyId)) {
            return Err("${keyId} is used, but auth.keyId is missing".to_owned());
        }
        if texts().any(|text| text.uses(&Part::Token)) {
            return Err("${token} belongs to auth of the type oauth2".to_owned());
        }
        // A plain digest must include the secret, or it does not sign anything.
        let is_plain = matches!(
            compiled.algorithm,
            SignatureAlgorithm::Sha1 | SignatureAlgorithm::Sha256 | SignatureAlgorithm::Sha512
        );
        if is_plain && !compiled.to_sign.uses(&Part::OwnSecret) {
            return Err("a plain digest needs ${secret} in auth.stringToSign".to_owned());
        }
        Ok(compiled)
    }

    /// Secrets that the texts refer to, besides `secret` and `keyId`.
    pub(crate) fn named_secrets(&self) -> impl Iterator<Item = &str> {
        let texts = self.entries.iter().map(|entry| &entry.value).chain([&self.to_sign]);
        texts.flat_map(SignText::parts).filter_map(|part| match part {
            Part::Secret(name) => Some(name.as_str()),
            _ => None,
        })
    }

    pub(crate) fn ready(&self, bindings: &Bindings<'_>) -> Result<ReadyHmac, ToolError> {
        let secret_text = bindings.fill(&self.secret, str::to_owned)?.unwrap_or_default();
        let broken = |kind: &str| {
            ToolError::unavailable(format!("the signing secret is not {kind}"))
                .with_hint("set the secret again, or change auth.secretEncoding")
        };
        let secret = match self.secret_encoding {
            SecretEncoding::Utf8 => secret_text.clone().into_bytes(),
            SecretEncoding::Hex => from_hex(&secret_text).ok_or_else(|| broken("hexadecimal"))?,
            SecretEncoding::Base64 => {
                let text = secret_text.trim().trim_end_matches('=');
                let decoded = STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text));
                decoded.map_err(|_| broken("Base64"))?
            }
        };
        let key_id = match &self.key_id {
            Some(template) => bindings.fill(template, str::to_owned)?.unwrap_or_default(),
            None => String::new(),
        };
        let secrets = self
            .named_secrets()
            .map(|name| bindings.secret(name).map(|value| (name.to_owned(), value.to_owned())))
            .collect::<Result<_, _>>()?;
        Ok(ReadyHmac { secret, secret_text, key_id, secrets })
    }

    /// Whether to use the host's clock instead of this machine's.
    pub(crate) fn follows_host_clock(&self) -> bool {
        self.timestamp.offset == TimestampOffset::Auto
    }

    pub(crate) fn nonce(&self) -> Result<String, ToolError> {
        let mut bytes = vec![0; usize::from(self.nonce.bytes)];
        SystemRandom::new().fill(&mut bytes).map_err(|_| ToolError::internal("no random bytes"))?;
        Ok(encode(&bytes, self.nonce.encoding))
    }

    /// Signs the request in its current form. Returns the added values, which must be masked.
    pub(crate) fn apply(
        &self,
        ready: &ReadyHmac,
        request: &mut Rendered,
        moment: &Moment,
    ) -> Result<Vec<String>, ToolError> {
        let is_last = |entry: &&Entry| entry.value.uses(&Part::Signature);
        for entry in self.entries.iter().filter(|entry| !is_last(entry)) {
            let value = self.text(ready, &entry.value, request, moment, None)?;
            apply_entry(request, entry, &value)?;
        }
        let signed = self.fill(ready, &self.to_sign, request, moment, None)?;
        let signature = encode(&self.sign(&ready.secret, &signed), self.encoding);
        for entry in self.entries.iter().filter(is_last) {
            let value = self.text(ready, &entry.value, request, moment, Some(&signature))?;
            apply_entry(request, entry, &value)?;
        }
        Ok(vec![signature])
    }

    fn sign(&self, secret: &[u8], bytes: &[u8]) -> Vec<u8> {
        let keyed = |algorithm| hmac::sign(&hmac::Key::new(algorithm, secret), bytes).as_ref().to_vec();
        let plain = |algorithm| digest::digest(algorithm, bytes).as_ref().to_vec();
        match self.algorithm {
            SignatureAlgorithm::HmacSha1 => keyed(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            SignatureAlgorithm::HmacSha256 => keyed(hmac::HMAC_SHA256),
            SignatureAlgorithm::HmacSha384 => keyed(hmac::HMAC_SHA384),
            SignatureAlgorithm::HmacSha512 => keyed(hmac::HMAC_SHA512),
            SignatureAlgorithm::Sha1 => plain(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            SignatureAlgorithm::Sha256 => plain(&digest::SHA256),
            SignatureAlgorithm::Sha512 => plain(&digest::SHA512),
        }
    }

    fn fill(
        &self,
        ready: &ReadyHmac,
        text: &SignText,
        request: &Rendered,
        moment: &Moment,
        signature: Option<&str>,
    ) -> Result<Vec<u8>, ToolError> {
        let url = &request.url;
        text.fill(|part| {
            Ok(match part {
                Part::Method => request.method.as_str().as_bytes().to_vec(),
                Part::Scheme => url.scheme().as_bytes().to_vec(),
                Part::Host => host(url).into_bytes(),
                Part::Path => url.path().as_bytes().to_vec(),
                Part::Url => url.as_str().as_bytes().to_vec(),
                Part::RawQuery => url.query().unwrap_or_default().as_bytes().to_vec(),
                Part::SortedQuery => canonical_query(url).into_bytes(),
                Part::Body => request.body.as_deref().unwrap_or_default().as_bytes().to_vec(),
                Part::Header(name) => {
                    let value = request.headers.get(name.as_str()).map(|value| value.as_bytes().to_vec());
                    value.unwrap_or_default()
                }
                Part::Timestamp => self.stamp(moment.now).into_bytes(),
                Part::Nonce => moment.nonce.clone().into_bytes(),
                Part::Signature => signature.unwrap_or_default().as_bytes().to_vec(),
                Part::KeyId => ready.key_id.clone().into_bytes(),
                Part::OwnSecret => ready.secret_text.clone().into_bytes(),
                Part::Token => Vec::new(),
                Part::Secret(name) => ready.secrets.get(name).cloned().unwrap_or_default().into_bytes(),
            })
        })
    }

    fn text(
        &self,
        ready: &ReadyHmac,
        text: &SignText,
        request: &Rendered,
        moment: &Moment,
        signature: Option<&str>,
    ) -> Result<String, ToolError> {
        let bytes = self.fill(ready, text, request, moment, signature)?;
        String::from_utf8(bytes).map_err(|_| {
            ToolError::unavailable("an entry of auth.apply is not text")
                .with_hint("end it with the filter hex or base64")
        })
    }

    fn stamp(&self, now: DateTime<Utc>) -> String {
        match self.timestamp.format {
            TimestampFormat::UnixS => now.timestamp().to_string(),
            TimestampFormat::UnixMs => now.timestamp_millis().to_string(),
            TimestampFormat::Iso8601 => now.to_rfc3339_opts(SecondsFormat::Secs, true),
            TimestampFormat::HttpDate => now.format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        }
    }

    /// Shows what would be added, with placeholders for values that are computed per call.
    pub(crate) fn show(&self, request: &mut Rendered) -> Result<(), ToolError> {
        for entry in &self.entries {
            let shown = entry.value.shown(|part| match part {
                Part::Signature => "<signature>".to_owned(),
                Part::Timestamp => "<timestamp>".to_owned(),
                Part::Nonce => "<nonce>".to_owned(),
                Part::KeyId | Part::OwnSecret | Part::Secret(_) | Part::Token => PLACEHOLDER.to_owned(),
                other => format!("<{other:?}>").to_lowercase(),
            });
            apply_entry(request, entry, &shown)?;
        }
        Ok(())
    }
}

fn encode(bytes: &[u8], encoding: SignatureEncoding) -> String {
    match encoding {
        SignatureEncoding::Hex => hex(bytes),
        SignatureEncoding::Base64 => STANDARD.encode(bytes),
        SignatureEncoding::Base64url => URL_SAFE_NO_PAD.encode(bytes),
    }
}
