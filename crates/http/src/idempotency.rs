//! `Idempotency-Key`: a caller's promise that the same key means the same request. The answer is kept for 24 hours.

use crate::app::known;
use crate::call::Call;
use crate::problem::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use windlass_core::lease::hex;
use windlass_core::{Invalid, JobId, Key};
use windlass_store::{Idempotency, Remember, fresh};

/// The header that carries the key.
const HEADER: &str = "idempotency-key";
/// The longest key.
const LONGEST: usize = 255;

impl Call {
    /// The caller's promise, if it made one. Two callers' keys never meet, and a key never meets another route's.
    pub(crate) fn idempotency(&self) -> Result<Option<Idempotency>, Invalid> {
        let Some(value) = self.headers.get(HEADER) else { return Ok(None) };
        let bytes = value.as_bytes();
        if bytes.is_empty() || bytes.len() > LONGEST || !bytes.iter().all(|b| (0x20..0x7f).contains(b)) {
            let limit = format!("must be 1 to {LONGEST} visible ASCII characters");
            return Err(Invalid::new(HEADER, String::from_utf8_lossy(bytes), limit));
        }
        let mut key = Sha256::new();
        key.update(self.who.name());
        key.update([0]);
        key.update(bytes);
        let mut request = Sha256::new();
        for part in [self.method.as_str().as_bytes(), self.path.as_bytes(), &self.body] {
            request.update((part.len() as u64).to_be_bytes());
            request.update(part);
        }
        let key = Key::parse(HEADER, format!("http:{}", hex(&key.finalize())))?;
        Ok(Some(Idempotency { key, request_hash: request.finalize().into() }))
    }
}

/// Acts once per idempotency key, and answers whether this was a repeat.
///
/// `act` is given the key to write under: derived from the caller's, so that a repeat is recognised also when the process
/// died before the answer was remembered; or a fresh one. What it answers is kept, so it must hold no secret.
pub(crate) async fn once<T, A>(call: &Call, act: A) -> Result<(T, bool), Problem>
where
    T: Serialize + DeserializeOwned,
    A: AsyncFnOnce(Key) -> Result<T, Problem>,
{
    let Some(idempotency) = call.idempotency()? else {
        return Ok((act(fresh_key()?).await?, false));
    };
    let store = &call.app.store;
    if let Some(body) = store.recall(idempotency.clone(), None).await??
        && let Ok(first) = serde_json::from_slice(&body)
    {
        return Ok((first, true));
    }
    let answer = act(idempotency.key.clone()).await?;
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    // It is done, whether it is remembered or not: a repeat is recognised by the key it was written under.
    if let Err(error) = store.remember(Remember { idempotency, body }, None).await {
        tracing::warn!(%error, "an answer could not be remembered");
    }
    Ok((answer, false))
}

/// An id of now for what is made under a key of [`once`], and the same for every repeat: it is kept before it is used.
pub(crate) async fn reserved_id(call: &Call, key: &Key) -> Result<JobId, Problem> {
    let fresh = fresh::job_id();
    let Some(idempotency) = call.idempotency()? else { return Ok(fresh) };
    let key = Key::parse("key", format!("{key}:id"))?;
    let remember =
        Remember { idempotency: Idempotency { key, ..idempotency }, body: fresh.to_string().into() };
    let first = known(|| call.app.store.remember(remember.clone(), None)).await??;
    let kept = std::str::from_utf8(&first).ok().and_then(|text| JobId::parse(text).ok());
    Ok(kept.unwrap_or(fresh))
}

/// A key that nobody else uses.
fn fresh_key() -> Result<Key, Invalid> {
    Key::parse("key", format!("http:{}", hex(&fresh::random::<16>())))
}
