// The page of an approval link: one question, for somebody who is not signed in. What stands behind the # is the vote: it goes
// to this server when the page asks and when a button is pressed, and into no log and no address.

import { signal } from "@preact/signals";
import { render, type ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { asProblem, post, type Problem, type Question } from "./base/api.ts";
import { Ago, ProblemBox } from "./base/parts.tsx";

const ENDS: Record<string, [string, string]> = {
  approved: ["It is approved", "Nothing is left to do here."],
  denied: ["It is denied", "Nothing is left to do here."],
  expired: ["It is too late", "Nobody decided in time, which counts as no."],
  void: ["The question is gone", "The job that asked it has ended."],
};

const shown = signal<ComponentChildren>(null);

const Card = ({ children }: { children: ComponentChildren }) => <section class="sign question">{children}</section>;

const over = (title: string, text: string) =>
  (shown.value = (
    <Card>
      <h1>{title}</h1>
      <p class="muted">{text}</p>
    </Card>
  ));

const ended = (status: string) => over(...ENDS[status]!);

// A refusal in words for somebody who knows nothing of this program.
function refused(problem: Problem, again: () => void) {
  if (problem.code === "approval_forbidden") return over("This link was replaced", "A newer one was sent. Use that.");
  if (problem.code === "approval_not_found" || problem.code === "token_malformed") return over("This link is not whole", "Copy all of it, from its beginning to its end.");
  if (problem.code === "approval_decided") return over("It is decided", "This link was used, or somebody else decided before.");
  if (problem.code === "approval_expired") return ended("expired");
  shown.value = (
    <Card>
      <h1>It did not work</h1>
      <ProblemBox problem={problem} again={again} />
    </Card>
  );
}

async function show() {
  const token = location.hash.slice(1);
  shown.value = <p class="empty">One moment …</p>;
  try {
    const question = await post<Question>("v1/approvals/by-token", { token });
    if (question.status !== "pending") return ended(question.status);
    put(question, token);
  } catch (error) {
    refused(asProblem(error), show);
  }
}

const put = (question: Question, token: string) => (shown.value = <Ask question={question} token={token} />);

function Ask({ question, token }: { question: Question; token: string }) {
  const reason = useRef<HTMLInputElement>(null);
  const answers = useRef<HTMLFieldSetElement>(null);
  const vote = (decision: string) => async () => {
    answers.current!.disabled = true;
    const said = reason.current!.value.trim();
    try {
      const [, secret] = token.split(".");
      const answer = await post<{ status: string }>(`v1/approvals/${question.id}/decide`, { decision, token: secret, ...(said && { reason: said }) });
      ended(answer.status);
    } catch (error) {
      refused(asProblem(error), () => put(question, token));
    }
  };
  return (
    <Card>
      <p class="muted">You are asked</p>
      <h1 class="prompt">{question.prompt}</h1>
      <p class="muted">
        No answer means no, <Ago at={question.expires_at} />.
      </p>
      <label class="field" for="reason">
        <span>Why, if you like; it is kept</span>
      </label>
      <input ref={reason} id="reason" name="reason" maxLength={1000} autocomplete="off" />
      <fieldset ref={answers} class="answers">
        <legend class="hidden">answer</legend>
        <button type="button" class="main" onClick={vote("approve")}>
          Yes
        </button>
        <button type="button" class="danger" onClick={vote("deny")}>
          No
        </button>
      </fieldset>
    </Card>
  );
}

const Shown = () => <>{shown.value}</>;

const root = document.getElementById("view")!;
root.replaceChildren();
render(<Shown />, root);
addEventListener("hashchange", show);
show();
