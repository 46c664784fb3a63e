//! Asking people, and waiting for what they decide.

use crate::context::Context;
use crate::value::named;
use futures_util::future::BoxFuture;
use std::future::IntoFuture;
use std::time::Duration;
use windlass_core::WaitFor;
use windlass_engine::{AskedFor, HandlerError};

/// What is asked, of whom, for how long.
#[derive(Debug, Clone)]
struct Question {
    prompt: String,
    approvers: Vec<String>,
    required: i32,
    expires: Option<Duration>,
}

impl Default for Question {
    fn default() -> Self {
        Self { prompt: String::new(), approvers: Vec::new(), required: 1, expires: None }
    }
}

/// Gives a builder with a field `question` what can be said of a question.
macro_rules! question {
    ($builder:ident) => {
        impl<S> $builder<'_, S> {
            /// What people are asked.
            pub fn prompt(mut self, prompt: &str) -> Self {
                prompt.clone_into(&mut self.question.prompt);
                self
            }

            /// A name or role that may vote; call it for each. Without one, anybody with the right to vote may.
            pub fn approver(mut self, name_or_role: &str) -> Self {
                self.question.approvers.push(name_or_role.to_owned());
                self
            }

            /// How many must say yes; one unless said otherwise. One no is enough. Two or more need as many keys or names: a link
            /// has no vote then.
            pub fn required(mut self, votes: u32) -> Self {
                self.question.required = i32::try_from(votes).unwrap_or(i32::MAX);
                self
            }

            /// When silence becomes a no: 24 hours unless said otherwise, at most 7 days.
            pub fn expires(mut self, after: Duration) -> Self {
                self.question.expires = Some(after);
                self
            }
        }
    };
}

impl<S: Send + Sync + 'static> Context<S> {
    /// Asks for an approval when awaited, and gives the secret for a link to be sent. [`Context::approval`] then waits for it.
    ///
    /// Asking again while nothing is decided makes a new link and voids the old one. So ask inside the step that sends the
    /// link: when the step is on record, nobody asks again.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// # async fn mail(link: String) -> Result<(), std::io::Error> { Ok(()) }
    /// async fn handle(ctx: Context) -> Result<(), HandlerError> {
    ///     ctx.step("mail-the-link", || async {
    ///         let asked = ctx.ask("deploy").prompt("deploy to production?").await?;
    ///         if let Some(link) = asked.link {
    ///             mail(format!("https://jobs.example.org/approve#{}.{}", asked.approval.id, link.to_text())).await?;
    ///         }
    ///         Ok::<_, HandlerError>(())
    ///     })
    ///     .await?;
    ///     ctx.approval("deploy").await
    /// }
    /// ```
    pub fn ask<'a>(&'a self, name: &'a str) -> Ask<'a, S> {
        Ask { ctx: self, name, question: Question::default() }
    }

    /// Waits for an approval without a worker. A yes lets the handler go on here, in the job's next attempt; a no, or silence
    /// until it expires, fails the job.
    ///
    /// With a [`prompt`](ApprovalGate::prompt) it asks by itself, and whoever has the right decides with
    /// [`Client::decide`](crate::Client::decide). Without one it waits for what [`Context::ask`] asked.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// async fn handle(ctx: Context) -> Result<(), HandlerError> {
    ///     ctx.approval("refund").prompt("refund 900 €?").approver("accounting").required(2).await
    /// }
    /// ```
    pub fn approval<'a>(&'a self, name: &'a str) -> ApprovalGate<'a, S> {
        ApprovalGate { ctx: self, name, question: Question::default() }
    }
}

/// Asks for an approval when awaited. Made by [`Context::ask`].
#[derive(Debug)]
#[must_use = "nobody is asked before it is awaited"]
pub struct Ask<'a, S> {
    ctx: &'a Context<S>,
    name: &'a str,
    question: Question,
}

question!(Ask);

impl<'a, S: Send + Sync + 'static> IntoFuture for Ask<'a, S> {
    type Output = Result<AskedFor, HandlerError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(ask(self.ctx, self.name, self.question))
    }
}

async fn ask<S>(ctx: &Context<S>, name: &str, question: Question) -> Result<AskedFor, HandlerError> {
    let Question { prompt, approvers, required, expires } = question;
    let name = named("approval", name)?;
    ctx.attempt.ask(&name, &prompt, approvers, required, expires).await
}

/// Waits for an approval when awaited. Made by [`Context::approval`].
#[derive(Debug)]
#[must_use = "nobody waits before it is awaited"]
pub struct ApprovalGate<'a, S> {
    ctx: &'a Context<S>,
    name: &'a str,
    question: Question,
}

question!(ApprovalGate);

impl<'a, S: Send + Sync + 'static> IntoFuture for ApprovalGate<'a, S> {
    type Output = Result<(), HandlerError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { ctx, name, question } = self;
            let checked = named("approval", name)?;
            let is_over = ctx.attempt.ended_wait(WaitFor::Approval, &checked).await?.is_some();
            if !is_over && !question.prompt.is_empty() {
                ask(ctx, name, question).await?;
            }
            ctx.attempt.approval(&checked).await.map(|_| ())
        })
    }
}
