//! Signed webhooks, as Standard Webhooks has them: who sends one knows a secret, and signs its id, its time and its body.

use crate::limits::Invalid;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// What the text of a secret begins with.
const PREFIX: &str = "whsec_";
/// Most signatures of one webhook that are looked at.
const SIGNATURES_MAX: usize = 8;

/// What signatures are made with. It is kept as it is, because a signature cannot be checked with less.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// A secret of these bytes: 24 to 64 of them.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, Invalid> {
        let bytes = bytes.into();
        if !(24..=64).contains(&bytes.len()) {
            let limit = "must be whsec_ and the base64 of 24 to 64 random bytes";
            return Err(Invalid::new("secret", format!("{} bytes", bytes.len()), limit));
        }
        Ok(Self(bytes))
    }

    /// Parses the text that is shown.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new("secret", "unreadable", "must be whsec_ and base64");
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX).ok_or_else(wrong)?).map_err(|_| wrong())?;
        Self::from_bytes(bytes)
    }

    /// The text that is shown, once.
    pub fn to_text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    fn mac(&self, signed: &Signed<'_>) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in [signed.id.as_bytes(), b".", signed.timestamp.as_bytes(), b".", signed.body] {
            mac.update(part);
        }
        Some(mac)
    }

    /// The signature of a webhook, as its header has it.
    pub fn sign(&self, signed: &Signed<'_>) -> String {
        let mac = self.mac(signed).map(|mac| mac.finalize().into_bytes());
        format!("v1,{}", mac.map(|mac| STANDARD.encode(mac)).unwrap_or_default())
    }
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

impl TryFrom<String> for WebhookSecret {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<WebhookSecret> for String {
    fn from(secret: WebhookSecret) -> String {
        secret.to_text()
    }
}

/// What of a webhook is signed.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The header `webhook-id`.
    pub id: &'a str,
    /// The header `webhook-timestamp`: seconds since 1970.
    pub timestamp: &'a str,
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl Signed<'_> {
    /// Accepts a webhook that is new enough and signed with one of the secrets. `signatures` is the header
    /// `webhook-signature`: several, separated by spaces, of which one must be right.
    pub fn verify(
        &self,
        signatures: &str,
        secrets: &[WebhookSecret],
        tolerance_ms: i64,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let refused = |why: String| Err(Refusal::SignatureRefused(why));
        let Ok(seconds) = self.timestamp.parse::<i64>() else {
            return refused("the header webhook-timestamp must be the seconds since 1970".into());
        };
        let distance_ms = (now.as_micros() / 1_000).saturating_sub(seconds.saturating_mul(1_000));
        if distance_ms.saturating_abs() > tolerance_ms {
            let (away, age) = (distance_ms.saturating_abs() / 1_000, distance_ms >= 0);
            let age = if age { "old" } else { "ahead of this server's clock" };
            return refused(format!(
                "the webhook is {away} s {age} and may be {} s; sign it anew when it is sent again, and check the clocks",
                tolerance_ms / 1_000
            ));
        }
        let given: Vec<Vec<u8>> = signatures
            .split_ascii_whitespace()
            .filter_map(|signature| signature.strip_prefix("v1,"))
            .take(SIGNATURES_MAX)
            .filter_map(|signature| STANDARD.decode(signature).ok())
            .collect();
        if given.is_empty() {
            return refused("the header webhook-signature holds no signature of the form v1,BASE64".into());
        }
        let macs = || secrets.iter().filter_map(|secret| secret.mac(self));
        // `verify_slice` takes as long for any wrong signature.
        let is_right = given.iter().any(|one| macs().any(|mac| mac.verify_slice(one).is_ok()));
        if is_right {
            return Ok(());
        }
        refused(
            "there is no such webhook, or none of the signatures is right; sign id.timestamp.body with its secret"
                .into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R10: the example of the specification.
    #[test]
    fn the_example_of_the_specification_verifies() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let signed = Signed {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: "1614265330",
            body: br#"{"test": 2432232314}"#,
        };
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(secret.sign(&signed), signature);
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let verify = |signatures: &str, now| {
            signed
                .verify(signatures, std::slice::from_ref(&secret), 300_000, at(now))
                .map_err(|r| r.to_string())
        };
        assert_eq!(verify(signature, 1_614_265_330), Ok(()));
        assert_eq!(
            verify(&format!("v1,AAAA v2,x {signature}"), 1_614_265_030),
            Ok(()),
            "300 s ahead, one of several"
        );
        assert_eq!(verify(signature, 1_614_265_630), Ok(()), "300 s old");
        assert!(verify(signature, 1_614_265_631).expect_err("too old").contains("301 s old"));
        assert!(verify(signature, 1_614_265_029).expect_err("too new").contains("ahead of"));
        assert!(verify("v1,AAAA", 1_614_265_330).expect_err("wrong").contains("none of the signatures"));
        assert!(verify("v1a,AAAA", 1_614_265_330).expect_err("no v1").contains("no signature of the form"));
        let body = Signed { body: br#"{"test": 2432232315}"#, ..signed };
        let forged = body.verify(signature, std::slice::from_ref(&secret), 300_000, at(1_614_265_330));
        assert!(forged.is_err(), "another body");
        assert!(signed.verify(signature, &[], 300_000, at(1_614_265_330)).is_err(), "no secret");
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
    }
}
