//! Short ids: any piece of an id that only one has, as the page shows its end and lists show its beginning.

use crate::api_client::{ApiClient, Pairs};
use crate::fail::{Failure, Outcome};
use windlass_core::limits::PAGE_MAX;
use windlass_core::{ApprovalId, Invalid, JobId};
use windlass_engine::archive::{Archive, find_ids};
use windlass_http::wire::approval::ApprovalsPage;
use windlass_http::wire::job::JobsPage;
use windlass_http::wire::operation::OperationsPage;
use windlass_http::wire::paper::MarksPage;

/// The shortest piece that is looked for.
const SHORTEST: usize = 4;
/// How many pages of the newest are looked through.
const PAGES: usize = 20;
/// How many ids are named when a piece is not enough.
const NAMED: usize = 5;

/// The job that a whole id or a piece of one names.
pub async fn job(text: &str, door: &ApiClient) -> Outcome<JobId> {
    let Some(piece) = piece_of(text)? else { return Ok(JobId::parse(text)?) };
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES {
        let page: JobsPage = door.jobs(&Vec::new(), cursor, PAGE_MAX).await?.read()?;
        found.extend(matching(page.jobs.into_iter().map(|job| job.id), &piece));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(JobId::parse(&only(found, &piece, "job", cursor.is_some())?)?)
}

/// The same for a filter by parent.
pub async fn parent(pairs: &mut Pairs, door: &ApiClient) -> Outcome {
    for (_, value) in pairs.iter_mut().filter(|(name, _)| name == "parent_id") {
        *value = job(value, door).await?.to_string();
    }
    Ok(())
}

/// The operation that a whole id or a piece of one names.
pub async fn operation(text: &str, door: &ApiClient) -> Outcome<String> {
    let Some(piece) = piece_of(text)? else { return Ok(text.to_owned()) };
    let page: OperationsPage = door.operations(PAGE_MAX as u16).await?.read()?;
    let found = matching(page.operations.into_iter().map(|one| one.id), &piece);
    only(found, &piece, "operation", page.next_cursor.is_some())
}

/// The mark that a whole id or a piece of one names.
pub async fn mark(text: &str, door: &ApiClient) -> Outcome<String> {
    let Some(piece) = piece_of(text)? else { return Ok(text.to_owned()) };
    let page: MarksPage = door.marks(&Vec::new(), PAGE_MAX as u16).await?.read()?;
    only(matching(page.marks.into_iter().map(|mark| mark.id), &piece), &piece, "mark", false)
}

/// The archived job that a whole id or a piece of one names.
pub async fn archived(text: &str, archive: &dyn Archive) -> Outcome<JobId> {
    let Some(piece) = piece_of(text)? else { return Ok(JobId::parse(text)?) };
    let found = find_ids(archive, &piece).await.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(JobId::parse(&only(found, &piece, "archived job", false)?)?)
}

/// The approval that a whole id or a piece of one names.
pub async fn approval(text: &str, door: &ApiClient) -> Outcome<ApprovalId> {
    let whole = match ApprovalId::parse(text) {
        Ok(id) => return Ok(id),
        Err(invalid) => invalid,
    };
    let piece = piece(text, whole)?;
    let page: ApprovalsPage = door.approvals(None, None, PAGE_MAX).await?.read()?;
    let found = matching(page.approvals.into_iter().map(|approval| approval.id), &piece);
    Ok(ApprovalId::parse(&only(found, &piece, "approval", page.next_cursor.is_some())?)?)
}

/// The piece of an id that a text is; none if it is a whole one.
fn piece_of(text: &str) -> Outcome<Option<String>> {
    match JobId::parse(text) {
        Ok(_) => Ok(None),
        Err(invalid) => piece(text, invalid).map(Some),
    }
}

/// A piece as ids are written, or why it is none.
fn piece(text: &str, whole: Invalid) -> Outcome<String> {
    let piece = text.trim().trim_end_matches('…').trim_start_matches('…').to_ascii_lowercase();
    let is_piece = piece.len() >= SHORTEST && piece.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_piece { Ok(piece) } else { Err(whole.into()) }
}

fn matching(ids: impl Iterator<Item = String>, piece: &str) -> Vec<String> {
    ids.filter(|id| id.contains(piece)).collect()
}

fn only(mut found: Vec<String>, piece: &str, what: &str, is_cut: bool) -> Outcome<String> {
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let among = if is_cut { " among the newest; give the whole id" } else { "" };
            Err(Failure::not_found(format!("no {what} has {piece} in its id{among}")))
        }
        n => {
            found.truncate(NAMED);
            let more = if n > NAMED { " …" } else { "" };
            let named = found.join(" ");
            Err(Failure::usage(format!(
                "{n} {what}s have {piece} in their ids, type more of it: {named}{more}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_names_one_or_says_why_not() {
        let invalid = || Invalid::new("id", "x", "must be a UUID");
        assert_eq!(piece("…A1B2c3", invalid()).unwrap(), "a1b2c3");
        for text in ["abc", "xyzw", "a b c d", ""] {
            assert!(piece(text, invalid()).is_err(), "{text}");
        }
        let ids = |n: usize| (0..n).map(|n| format!("id-{n}")).collect::<Vec<_>>();
        assert_eq!(only(ids(1), "id", "job", false).unwrap(), "id-0");
        assert_eq!(only(ids(0), "id", "job", false).unwrap_err().exit as u8, 3);
        let many = only(ids(9), "id", "job", false).unwrap_err();
        assert!(many.detail.starts_with("9 jobs have") && many.detail.ends_with("id-4 …"), "{}", many.detail);
    }
}
