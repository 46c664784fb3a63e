//! Two votes are two people: a link is nobody in particular, and a job does not vote on what it asks.

mod bed;

use bed::{Answer, Bed, beds, until};
use reqwest::Method;
use serde_json::{Value, json};
use windlass_core::wait::ApprovalStatus;
use windlass_core::{ApprovalId, JobId, Name, Role, Token};
use windlass_store::{Ask, fresh};

async fn keyed(bed: &Bed) {
    until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
}

async fn post_as(bed: &Bed, bearer: &str, path: &str, body: &Value) -> Answer {
    let request = bed.running.request(Method::POST, path).bearer_auth(bearer).json(body);
    Answer::of(request.send().await.expect("an answer")).await
}

fn decide_path(approval: &str) -> String {
    format!("/v1/approvals/{approval}/decide")
}

async fn status(bed: &Bed, approval: &str) -> ApprovalStatus {
    let id = ApprovalId::parse(approval).expect("an id");
    bed.store().approval(id, None).await.expect("the store").expect("there").approval.status
}

/// (votes) Where two people are needed there is no link, and one that is had all the same does not vote, with or without a key.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_none_of_two_people() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?", "required": 2 });
        let asked = bed.post_once("ask", &format!("/v1/jobs/{id}/approvals"), &ask).await.is(201);
        assert_eq!((&asked["token"], &asked["link"]), (&Value::Null, &Value::Null));
        let again = bed.post_once("ask", &format!("/v1/jobs/{id}/approvals"), &ask).await.is(201);
        assert_eq!(again["token"], Value::Null, "nor does a repeat get one");
        // Whoever has the store itself knows a link.
        let link = fresh::link_token();
        let request = Ask {
            job: JobId::parse(&id).unwrap(),
            token: Token::parse(&token).unwrap(),
            id: fresh::approval_id(),
            name: Name::parse("name", "a").unwrap(),
            prompt: "?".into(),
            approvers: Vec::new(),
            required: 2,
            expires_ms: 60_000,
            link_hash: link.hash(),
            asker: None,
        };
        bed.store().ask(request, None).await.unwrap().unwrap();
        let approval = asked["approval"]["id"].as_str().unwrap().to_owned();
        let (path, by_link) =
            (decide_path(&approval), json!({ "decision": "approve", "token": link.to_text() }));
        let said = bed.post(&path, by_link.clone()).await.refused(403, "approval_forbidden");
        assert!(said["detail"].as_str().unwrap().contains("needs 2 people"), "{said}");
        // Without keys everybody is one caller.
        let by_key = json!({ "decision": "approve" });
        bed.post(&path, by_key.clone()).await.is(200);
        bed.post(&path, by_key.clone()).await.refused(409, "approval_decided");
        let ann = bed.make_key("ann", &[Role::Approver], None).await;
        let eve = bed.make_key("eve", &[Role::Viewer], None).await;
        keyed(&bed).await;
        bed.post(&path, by_link.clone()).await.refused(403, "approval_forbidden");
        post_as(&bed, &eve, &path, &by_link).await.refused(403, "approval_forbidden");
        post_as(&bed, &ann, &path, &by_link).await.refused(403, "approval_forbidden");
        assert_eq!(status(&bed, &approval).await, ApprovalStatus::Pending);
        assert_eq!(post_as(&bed, &ann, &path, &by_key).await.is(200)["status"], "approved");
    }
}

/// (votes) The key with which a worker claimed does not vote on what its job asks, also when the job asks with its lease alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_not_vote_for_its_job() {
    for bed in beds().await {
        let ids = [bed.put_job(json!({})).await, bed.put_job(json!({})).await];
        let bot = bed.make_key("bot", &[Role::Worker, Role::Approver], None).await;
        let (ann, bob) = (
            bed.make_key("ann", &[Role::Approver], None).await,
            bed.make_key("bob", &[Role::Approver], None).await,
        );
        keyed(&bed).await;
        let claim = json!({ "queues": ["default"], "worker_id": "many", "max": 1 });
        let claimed = post_as(&bed, &bot, "/v1/claim", &claim).await.is(200);
        let job = &claimed["jobs"][0];
        let many =
            (job["id"].as_str().unwrap().to_owned(), job["lease"]["token"].as_str().unwrap().to_owned());
        let other = ids.into_iter().find(|id| *id != many.0).unwrap();
        let path = format!("/v1/jobs/{other}/claim");
        let claimed = post_as(&bed, &bot, &path, &json!({ "worker_id": "one" })).await.is(200);
        let one = (other, claimed["job"]["lease"]["token"].as_str().unwrap().to_owned());
        for (id, token) in [many, one] {
            let ask = json!({ "name": "a", "prompt": "?", "required": 2 });
            let asked = post_as(&bed, &token, &format!("/v1/jobs/{id}/approvals"), &ask).await.is(201);
            let approval = asked["approval"]["id"].as_str().unwrap();
            let (path, vote) = (decide_path(approval), json!({ "decision": "approve" }));
            post_as(&bed, &ann, &path, &vote).await.is(200);
            post_as(&bed, &bot, &path, &vote).await.refused(403, "approval_forbidden");
            post_as(&bed, &token, &path, &vote).await.refused(403, "forbidden");
            assert_eq!(status(&bed, approval).await, ApprovalStatus::Pending);
            assert_eq!(post_as(&bed, &bob, &path, &vote).await.is(200)["status"], "approved");
        }
    }
}
